"""What lies about values earn where providers differ: ``python -m benchmarks values_that_differ [--simulations=300]``.

Ten providers have 100 normal values each. Their means differ with a given intra-class correlation, or with a spread
drawn from the prior of `VaryingNormal`. The table shows shares of the cap under a line-up with four rivals, for
`VaryingNormal` and the textbook `Normal`. *A tenth* and *half* are the first rows; *chosen* rows have the mean of all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.providers_that_differ import (
    CORRELATIONS,
    DECOYS,
    PROVIDERS,
    RIVALS,
    ROWS,
    SIMULATIONS,
    number_option,
)
from troth import models
from troth.core.information import line_log_pmi
from troth.mechanisms.line import on_grid, rank_share

if TYPE_CHECKING:
    from troth.core.contract import Array, Generator

CENTRE, SCALE, NOISE = 30.0, 5.0, 5.0
LIES = ("a tenth", "half", "twice", "nothing", "shift", "made up", "chosen tenth", "chosen half")
MODELS: tuple[Any, ...] = (models.VaryingNormal(CENTRE, SCALE, NOISE), models.Normal(CENTRE, SCALE, NOISE))


def sums(rows: Array) -> Array:
    """Return n, Σx and Σx² of rows ``(..., row)``, relative to the centre."""
    x = rows - CENTRE
    return np.stack([np.full(x.shape[:-1], float(x.shape[-1])), x.sum(axis=-1), (x**2).sum(axis=-1)], axis=-1)


def draw_rows(rng: Generator, correlation: float | None, simulations: int) -> Array:
    """Draw values, ``(simulation, provider, row)``."""
    common, spread = np.moveaxis(MODELS[0].draw_parameters(rng, (simulations,)), -1, 0)
    if correlation is not None:
        spread = np.full(simulations, NOISE * np.sqrt(correlation / (1 - correlation)))
    means = common[:, None] + spread[:, None] * rng.standard_normal((simulations, PROVIDERS))
    return np.asarray(means[..., None] + NOISE * rng.standard_normal((simulations, PROVIDERS, ROWS)))


def draw_reports(rng: Generator, rows: Array) -> Array:
    """Return sums of the truth and of each lie, ``(report, simulation, sum)``."""
    truth, (tenth, half) = sums(rows), (sums(rows[:, : ROWS // parts]) for parts in (10, 2))
    made_up = rng.normal(CENTRE, SCALE, (len(rows), 1)) + NOISE * rng.standard_normal(rows.shape)
    shifted = sums(rows + NOISE / 2)
    return np.stack([truth, tenth, half, 2 * truth, 0 * truth, shifted, sums(made_up), truth / 10, truth / 2])


def statistics(model: Any, summaries: Array) -> Array:
    """Return a model's statistics, given sums relative to the centre."""
    n, total, squares = np.moveaxis(summaries, -1, 0)
    (centre,) = model.reduction.centre or (0.0,)
    moved = np.stack([n, total + (CENTRE - centre) * n, squares], axis=-1)[..., : model.reduction.width]
    return np.asarray(model.from_summary(moved))


def shares(rng: Generator, model: Any, reports: Array, peers: Array) -> Array:
    """Return each report's share under a line-up, ``(report, simulation)``."""
    theta = model.draw_parameters(rng, (DECOYS, len(peers), 1))
    real = statistics(model, peers)
    decoys = model.draw_statistics(rng, theta, model.design(real)[:1, :]).sum(axis=-2)
    line = np.concatenate([real.sum(axis=-2)[None], decoys])[:, None]
    v = on_grid(line_log_pmi(model, statistics(model, reports), line))
    return rank_share((v[1:] > v[0]).sum(axis=0), (v[1:] == v[0]).sum(axis=0), DECOYS, RIVALS)


def main() -> None:
    """Print what honest providers earn and what lies gain."""
    simulations = number_option("simulations", SIMULATIONS)
    print(f"{PROVIDERS} providers × {ROWS} values, {simulations} simulations; shares of the cap and gains in percent")
    print(f"{'correlation':12} {'model':14} {'honest':>7}  " + "".join(f"{lie:>13}" for lie in LIES))
    for name, correlation in CORRELATIONS.items():
        for model in MODELS:
            rng = np.random.default_rng([1, int(1000 * (9 if correlation is None else correlation))])
            rows = draw_rows(rng, correlation, simulations)
            reports, peers = draw_reports(rng, rows[:, 0]), sums(rows[:, 1:])
            blocks = [slice(start, start + 20) for start in range(0, simulations, 20)]
            share = np.concatenate([shares(rng, model, reports[:, b], peers[b]) for b in blocks], axis=1)
            gains = 100 * (share[1:] - share[0])
            error = gains.std(axis=1) / np.sqrt(simulations)
            cells = [f"{mean:+.1f} ± {se:.1f}" for mean, se in zip(gains.mean(axis=1), error, strict=True)]
            honest = f"{100 * share[0].mean():7.1f}"
            print(f"{name:12} {type(model).__name__:14} {honest}  " + "".join(f"{c:>13}" for c in cells), flush=True)


if __name__ == "__main__":
    main()
