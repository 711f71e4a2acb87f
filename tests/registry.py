"""The registry of example models: every law and every test of all families runs on it."""

from __future__ import annotations

import os

import numpy as np

from troth import models

SOAK = os.environ.get("TROTH_SOAK") == "1"
"""`make soak` runs the same tests with more seeds and examples."""

EXAMPLES: dict[str, models.Family] = {
    "finite": models.Finite([0.2, 0.5, 0.3], [[0.2, 0.3, 0.5], [0.6, 0.3, 0.1], [0.1, 0.8, 0.1]]),
    "finite with zeros": models.Finite([0.3, 0.7], [[0.2, 0.3, 0.5], [0.6, 0.4, 0.0]]),
    "bernoulli": models.Bernoulli(1, 2),
    "categorical": models.Categorical([1, 0.5, 2]),
    "geometric": models.Geometric(3, 2),
    "negative binomial": models.NegativeBinomial(2.5, 3, 2),
    "poisson": models.Poisson(2, 1),
    "exponential": models.Exponential(3, 1),
    "gamma": models.Gamma(2, 3, 1.5),
    "normal": models.Normal(3, 2, 1.5),
    "normal, weighted": models.Normal(3, 2, 1.5, reference=0.5),
    "normal, unknown variance": models.NormalUnknownVariance(3, 0.5, 3, 2),
    "multivariate normal": models.MultivariateNormal([1, 2], [[2, 0.5], [0.5, 1]], [[1, 0.2], [0.2, 3]]),
    "multivariate normal, unknown covariance": models.MultivariateNormalUnknownCovariance(
        [1, 2], 2, 4, [[2, 0.5], [0.5, 1]]
    ),
    "regression": models.LinearRegression([1, -2], [[2, 0.5], [0.5, 1]], 0.7),
    "regression, unknown noise": models.LinearRegressionUnknownNoise([1, -2], [[2, 0.5], [0.5, 1]], 3, 2),
    "day types, binary": models.LatentClass([0.3, 0.3, 0.4], "binary", [0.15, 0.45, 0.8], 0.08),
    "day types, binary, no dispersion": models.LatentClass([0.4, 0.6], "binary", [0.2, 0.6]),
    "day types, categorical": models.LatentClass(
        [0.2, 0.5, 0.3], "categorical", [[0.2, 0.3, 0.5], [0.6, 0.3, 0.1], [0.1, 0.8, 0.1]], 0.15
    ),
    "day types, count": models.LatentClass([0.5, 0.3, 0.2], "count", [1.5, 4.0, 9.0], 0.2),
    "day types, real": models.LatentClass([0.3, 0.5, 0.2], "real", [2.0, 3.5, 6.0], 0.6, 1.2, centre=3.0),
    "provider normal": models.ProviderNormal(3, 2, 1.5, offset=0.4, dispersion=0.7),
}

VARYING: dict[str, models.Family] = {
    "varying bernoulli": models.VaryingBernoulli(1, 2),
    "varying categorical": models.VaryingCategorical([1, 0.5, 2]),
    "varying poisson": models.VaryingPoisson(3, 2),
    "varying normal": models.VaryingNormal(3, 2, 1.5),
    "regression, varying": models.VaryingLinearRegression([1, -2], [[2, 0.5], [0.5, 1]], 0.7),
}
"""Models whose log evidence is an integral; without `make soak` only the laws and their own tests run on them."""

MISSING: dict[str, set[str]] = {
    "expected evidence": {"geometric", "negative binomial"},
    "posterior": {*VARYING},
    "proof of sensitivity": set(),
}
"""Capabilities that examples lack; for these, tests expect the fallback. A new family has them or is listed here."""

if SOAK:
    EXAMPLES |= VARYING


def generator(*seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)
