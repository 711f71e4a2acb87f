"""How often each verdict on a model's fit appears: ``python -m benchmarks verdicts``.

Ten providers with 100 rows each. The model is right, or providers differ by a correlation of rows: the part of the
variance of a row that is the provider's. What differs is drawn as the families that let providers differ have it.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

import troth
from troth import models

if TYPE_CHECKING:
    from collections.abc import Callable

    from troth.core.contract import Array, Generator

PROVIDERS, ROWS, SIMULATIONS = 10, 100, 400
CORRELATIONS = (0.0, 0.005, 0.02, 0.1)
WORDS = ("fits", "doubtful", "does not fit")


def yes_no(rng: Generator, correlation: float) -> Array:
    """Draw yes and no, with a rate that is uniform: beta-binomial."""
    mean = rng.random()
    rates = np.full(PROVIDERS, mean)
    if correlation:
        rates = rng.beta(mean * (1 / correlation - 1), (1 - mean) * (1 / correlation - 1), PROVIDERS)
    return (rng.random((PROVIDERS, ROWS)) < rates[:, None]).astype(float)


def counts(rng: Generator, correlation: float) -> Array:
    """Draw counts with a mean of about 4: gamma-Poisson."""
    mean = rng.gamma(4.0)
    spread = correlation / (1 - correlation) / mean
    means = mean * (rng.gamma(1 / spread, spread, PROVIDERS) if correlation else np.ones(PROVIDERS))
    return rng.poisson(means[:, None], (PROVIDERS, ROWS)).astype(float)


def values(rng: Generator, correlation: float) -> Array:
    """Draw values with standard deviation 1 around a mean of 0 ± 1."""
    offsets = rng.normal(0, np.sqrt(correlation / (1 - correlation)), PROVIDERS)
    return rng.normal(rng.normal() + offsets[:, None], 1.0, (PROVIDERS, ROWS))


CASES: dict[str, tuple[Any, Callable[[Generator, float], Array]]] = {
    "Bernoulli": (models.Bernoulli(1, 1), yes_no),
    "Poisson": (models.Poisson(4, 1), counts),
    "Normal": (models.Normal(0, 1, 1), values),
    "VaryingBernoulli": (models.VaryingBernoulli(), yes_no),
    "VaryingPoisson": (models.VaryingPoisson(4, 4), counts),
    "VaryingNormal": (models.VaryingNormal(0, 1, 1), values),
}


def shares(name: str, correlation: float, worlds: int, seed: int = 20201206) -> dict[str, float]:
    """Return how often each verdict appears."""
    model, draw = CASES[name]
    rng = np.random.default_rng([seed, int(1000 * correlation)])
    verdicts: Counter[str] = Counter()
    for _ in range(worlds):
        statistics = np.stack([model.statistics(rows) for rows in draw(rng, correlation)])
        verdicts[troth.check_fit(model, statistics, simulations=SIMULATIONS, rng=rng).verdict] += 1
    return {word: verdicts[word] / worlds for word in WORDS}


def main() -> None:
    """Print a table: fits / doubtful / does not fit, in percent."""
    print(f"{PROVIDERS} providers with {ROWS} rows: fits / doubtful / does not fit, in percent of simulations")
    print(f"{'model':<18}" + "".join(f"{f'correlation {c:g}':>20}" for c in CORRELATIONS))
    for name in CASES:
        worlds = 40 if name.startswith("Varying") else 200
        cells = [" / ".join(f"{100 * each:.0f}" for each in shares(name, c, worlds).values()) for c in CORRELATIONS]
        print(f"{name:<18}" + "".join(f"{cell:>20}" for cell in cells) + f"   {worlds:,} simulations", flush=True)
