"""How often each verdict on a model's fit appears: ``python -m benchmarks verdicts [--models=Categorical,…]``.

Ten providers have 100 rows each. The model is correct, or providers differ by an intra-class correlation: the fraction
of the variance of a row (in a regression, of an answer given its features) that is between providers. Differences are
drawn from the distributions that the ``Varying`` families assume.
"""

from __future__ import annotations

import sys
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


def labels(rng: Generator, correlation: float) -> Array:
    """Draw three labels, with frequencies that are uniform: Dirichlet-multinomial."""
    mean = rng.dirichlet(np.ones(3))
    chances = np.tile(mean, (PROVIDERS, 1))
    if correlation:
        chances = rng.dirichlet(np.maximum(mean * (1 / correlation - 1), 1e-3), PROVIDERS)
    return np.stack([rng.choice(3, ROWS, p=probabilities) for probabilities in chances]).astype(float)


def regression(rng: Generator, correlation: float) -> list[tuple[Array, Array]]:
    """Draw answers with noise 1 around an intercept and a slope of 0 ± 1, both of which differ."""
    z = np.stack([np.ones((PROVIDERS, ROWS)), rng.normal(size=(PROVIDERS, ROWS))], axis=-1)
    spread = np.sqrt(correlation / (1 - correlation) / 2)  # two coefficients, each of a column with variance 1
    coefficients = rng.normal(size=2) + rng.normal(0, spread, (PROVIDERS, 2))
    y = rng.normal(np.einsum("prc,pc->pr", z, coefficients), 1.0)
    return list(zip(z, y, strict=True))


CASES: dict[str, tuple[Any, Callable[[Generator, float], Any]]] = {
    "Bernoulli": (models.Bernoulli(1, 1), yes_no),
    "Poisson": (models.Poisson(4, 1), counts),
    "Normal": (models.Normal(0, 1, 1), values),
    "Categorical": (models.Categorical([1, 1, 1]), labels),
    "LinearRegression": (models.LinearRegression([0, 0], [[1, 0], [0, 1]], 1), regression),
    "VaryingBernoulli": (models.VaryingBernoulli(), yes_no),
    "VaryingPoisson": (models.VaryingPoisson(4, 4), counts),
    "VaryingNormal": (models.VaryingNormal(0, 1, 1), values),
    "VaryingCategorical": (models.VaryingCategorical([1, 1, 1]), labels),
    "VaryingLinearRegression": (models.VaryingLinearRegression([0, 0], [[1, 0], [0, 1]], 1), regression),
}


def shares(name: str, correlation: float, simulations: int, seed: int = 20201206) -> dict[str, float]:
    """Return the fraction of simulations with each verdict."""
    model, draw = CASES[name]
    rng = np.random.default_rng([seed, int(1000 * correlation)])
    verdicts: Counter[str] = Counter()
    for _ in range(simulations):
        statistics = np.stack([model.statistics(rows) for rows in draw(rng, correlation)])
        verdicts[troth.check_fit(model, statistics, simulations=SIMULATIONS, rng=rng).verdict] += 1
    return {word: verdicts[word] / simulations for word in WORDS}


def main() -> None:
    """Print a table of all models, or of those named: fits / doubtful / does not fit, in percent."""
    values = [argument.removeprefix("--models=") for argument in sys.argv if argument.startswith("--models=")]
    names = values[0].split(",") if values else list(CASES)
    print(f"{PROVIDERS} providers with {ROWS} rows: fits / doubtful / does not fit, in percent of simulations")
    print(f"{'model':<25}" + "".join(f"{f'correlation {c:g}':>20}" for c in CORRELATIONS))
    for name in names:
        simulations = 40 if name.startswith("Varying") else 200
        cells = [
            " / ".join(f"{100 * value:.0f}" for value in shares(name, c, simulations).values()) for c in CORRELATIONS
        ]
        print(f"{name:<25}" + "".join(f"{cell:>20}" for cell in cells) + f"   {simulations:,} simulations", flush=True)
