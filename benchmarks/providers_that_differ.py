"""What lies earn where providers differ: ``python -m benchmarks providers_that_differ``.

Ten providers have 100 yes/no rows each. Their rates differ with a given intra-class correlation, or with one drawn from
the prior of `VaryingBernoulli`. The table shows shares of the cap under a line-up with four rivals, for
`VaryingBernoulli` and the textbook `Bernoulli`: what honest providers are paid, and what each lie gains over the truth,
with its standard error. With ``--one-round``, each provider of a round lies in turn, and the output shows how the mean
gain over the ten providers varies between rounds. ``--simulations=300`` sets the number of rounds, and ``--panels=1``
the number of panels of peers; any split will do, because providers are exchangeable.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from troth import models
from troth.core.information import line_log_pmi
from troth.mechanisms.line import on_grid, rank_share

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from troth.core.contract import Array, Generator

    Counts: TypeAlias = NDArray[np.int64]

PROVIDERS, ROWS, DECOYS, RIVALS, SIMULATIONS = 10, 100, 49, 4, 300
LIES = ("a tenth", "half", "twice", "nothing", "flip 10%", "made up")
MODELS: tuple[Any, ...] = (models.VaryingBernoulli(2, 2), models.Bernoulli(2, 2))
CORRELATIONS: dict[str, float | None] = {"0": 0.0, "0.02": 0.02, "0.1": 0.1, "prior": None}


def draw_rates(rng: Generator, correlation: float | None, simulations: int) -> Array:
    """Draw rates, ``(simulation, provider)``."""
    common, spread = np.split(MODELS[0].draw_parameters(rng, (simulations, 1)), 2, axis=-1)
    if correlation is not None:
        spread = np.full_like(spread, np.sqrt(correlation / (1 - correlation)))
    strength = np.maximum(spread, 1e-6)[..., 0] ** -2.0
    ones, zeros = (np.maximum(rate * strength, 1e-300) for rate in (common[..., 0], 1 - common[..., 0]))
    own = rng.beta(ones, zeros, size=(simulations, PROVIDERS))
    return np.where(spread[..., 0] > 0, own, common[..., 0])


def draw_reports(rng: Generator, ones: Counts) -> Array:
    """Return counts of zeros and ones of the truth and of each lie, ``(report, simulation, 2)``."""
    tenth, half = (rng.hypergeometric(ones, ROWS - ones, size) for size in (ROWS // 10, ROWS // 2))
    flipped = ones - rng.binomial(ones, 0.1) + rng.binomial(ROWS - ones, 0.1)
    made_up = rng.binomial(ROWS, rng.beta(2, 2, ones.shape))
    parts = [(ones, ROWS), (tenth, ROWS // 10), (half, ROWS // 2), (2 * ones, 2 * ROWS), (0 * ones, 0)]
    parts += [(flipped, ROWS), (made_up, ROWS)]
    return np.array([np.stack([rows - k, k], axis=-1) for k, rows in parts], dtype=np.float64)


def shares(rng: Generator, model: Any, reports: Array, peers: Counts, panels: int = 1) -> Array:
    """Return each report's share under a line-up, averaged over panels, ``(report, simulation)``."""
    simulations, own = len(peers), model.from_summary(reports)
    theta = model.draw_parameters(rng, (DECOYS, simulations, 1))
    decoys = model.draw_statistics(rng, theta, np.full((PROVIDERS - 1, 1), float(ROWS)))
    real = model.from_summary(np.stack([ROWS - peers, peers], axis=-1).astype(np.float64))
    members = np.concatenate([real[None], decoys])
    by_panel = []
    for panel in range(panels):
        line = members[:, :, panel::panels].sum(axis=-2)[:, None]
        v = on_grid(line_log_pmi(model, own, line))
        by_panel.append(rank_share((v[1:] > v[0]).sum(axis=0), (v[1:] == v[0]).sum(axis=0), DECOYS, RIVALS))
    return np.asarray(np.mean(by_panel, axis=0))


def simulate(correlation: float | None, simulations: int, seed: int = 1, panels: int = 1) -> list[Array]:
    """Return for each model the shares of the truth and of each lie, ``(report, simulation)``."""
    rng = np.random.default_rng([seed, int(1000 * (correlation if correlation is not None else 9))])
    ones = rng.binomial(ROWS, draw_rates(rng, correlation, simulations))
    reports = draw_reports(rng, ones[:, 0])
    blocks = [slice(start, start + 25) for start in range(0, simulations, 25)]
    return [
        np.concatenate([shares(rng, model, reports[:, block], ones[block, 1:], panels) for block in blocks], axis=1)
        for model in MODELS
    ]


def simulate_one_round(simulations: int, seed: int = 3, panels: int = 1) -> Array:
    """Return each round's mean share over providers of the truth and of each lie, ``(report, simulation)``."""
    rng, means = np.random.default_rng(seed), []
    for _ in range(simulations):
        ones = rng.binomial(ROWS, draw_rates(rng, None, 1))[0]
        peers = np.array([np.delete(ones, provider) for provider in range(PROVIDERS)])
        means.append(shares(rng, MODELS[0], draw_reports(rng, ones), peers, panels).mean(axis=1))
    return np.array(means).T


def print_one_round(simulations: int, panels: int) -> None:
    """Print the mean and standard deviation of a round's mean gain, and how often it exceeds 1% of the cap."""
    share = 100 * simulate_one_round(simulations, panels=panels)
    for lie, gain in zip(LIES, share[1:] - share[0], strict=True):
        print(
            f"{lie:>10}: {gain.mean():+6.1f}, spread {gain.std():4.1f}, above 1% in {(gain > 1).mean():.0%} of simulations"
        )


def number_option(name: str, default: int) -> int:
    """Return the value of a numeric option of the command line."""
    values = [argument.partition("=")[2] for argument in sys.argv if argument.startswith(f"--{name}=")]
    return int(values[0]) if values else default


def main() -> None:
    """Print what honest providers earn and what lies gain."""
    simulations, panels = number_option("simulations", SIMULATIONS), number_option("panels", 1)
    if "--one-round" in sys.argv:
        print_one_round(simulations, panels)
        return
    split = "" if panels == 1 else f", {panels} panels"
    print(
        f"{PROVIDERS} providers × {ROWS} yes/no rows, {simulations} simulations{split}; shares of the cap, gains in thousandths"
    )
    print(f"{'correlation':12} {'model':17} {'honest':>7}  " + "".join(f"{lie:>13}" for lie in LIES))
    for name, correlation in CORRELATIONS.items():
        for model, share in zip(MODELS, simulate(correlation, simulations, panels=panels), strict=True):
            gains = 1000 * (share[1:] - share[0])
            error = gains.std(axis=1) / np.sqrt(simulations)
            cells = [f"{mean:+.0f} ± {se:.0f}" for mean, se in zip(gains.mean(axis=1), error, strict=True)]
            print(f"{name:12} {type(model).__name__:17} {share[0].mean():7.3f}  " + "".join(f"{c:>13}" for c in cells))


if __name__ == "__main__":
    main()
