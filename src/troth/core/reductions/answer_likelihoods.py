"""Likelihoods of answers given linear predictors: yes-or-no labels, labels of several classes, counts.

Each kind of `Answer` computes, for rows with predictors η and answers y, the log-likelihood, its slope y − μ and its
curvature W, both for arrays and for Ibis columns. Arrays of predictors are ``(predictor, ...)``. It also declares

- ``predictors``: the number of linear predictors of a row, each with its own coefficients;
- ``labels``: the number of labels, or None if answers are numbers;
- ``support``: the possible answers;
- ``max_weight``: the largest curvature of a row for one predictor;
- ``max_log_likelihood``: the largest log-likelihood of a row;
- ``predicts``: what a linear predictor predicts, with {} for the answer's name; empty if there are several.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from troth.core.support import Array, Support


class Expanded(NamedTuple):
    """The log-likelihood of rows, its slope for each predictor, and its curvature.

    For one predictor, weights are W; for several, −W for each pair of them, in order. Adding the same number to all
    predictors changes no probability, so each row of W sums to 0, and the diagonal follows from the pairs.
    """

    log_likelihood: Any
    slopes: Sequence[Any]
    weights: Sequence[Any]


@dataclass(frozen=True)
class YesNo:
    """Labels 0 and 1 with μ = 1/(1 + e^−η) and W = μ(1 − μ)."""

    predictors = 1
    labels = 2
    support = Support(0, 1, integer=True)
    max_weight = 0.25
    max_log_likelihood = 0.0
    predicts = "log-odds of {}"

    def means(self, eta: Array, /) -> Array:
        """Return the probability of 1."""
        return np.asarray(0.5 * (1 + np.tanh(0.5 * eta)))

    def expand(self, eta: Array, y: Array, /) -> Expanded:
        """Return yη − ln(1 + e^η), y − μ and μ(1 − μ), without overflow; all rows may share one predictor."""
        x = eta[0]
        small = np.exp(-np.abs(x))
        mean = np.where(x > 0, 1.0, small) / (1 + small)
        log_likelihood = y * x - np.maximum(x, 0.0) - np.log1p(small)
        return Expanded(log_likelihood, (y - mean,), (small / (1 + small) ** 2,))

    def expand_columns(self, eta: Sequence[Any], y: Any, labels: Sequence[Any] | None, /) -> Expanded:
        """Return the same for Ibis columns; ``labels`` are the values of the codes 0, 1, … in the table."""
        x = eta[0]
        is_one = y.cast("float64") if labels is None else (y == labels[1]).ifelse(1.0, 0.0)
        small = (-x.abs()).exp()
        mean = (x > 0).ifelse(1.0, small) / (1 + small)
        log_likelihood = is_one * x - (x > 0).ifelse(x, 0.0) - (1 + small).ln()
        return Expanded(log_likelihood, (is_one - mean,), (small / ((1 + small) * (1 + small)),))

    def draw(self, rng: np.random.Generator, eta: Array, /) -> Array:
        """Draw labels."""
        return (rng.random(eta.shape[1:]) < self.means(eta[0])).astype(np.float64)

    def draw_sums(self, rng: np.random.Generator, eta: Array, counts: Array | None, /) -> Array:
        """Draw the number of ones among ``counts`` labels; by default, among one label."""
        drawn = self.draw(rng, eta) if counts is None else rng.binomial(counts.astype(np.int64), self.means(eta[0]))
        return np.asarray(drawn, dtype=np.float64)[None]


@dataclass(frozen=True)
class Classes:
    """Labels 0 … count−1 with μ_c = e^η_c / Σ e^η and W = diag(μ) − μμᵀ."""

    count: int

    max_weight = 0.25
    max_log_likelihood = 0.0
    predicts = ""

    @property
    def predictors(self) -> int:
        """The number of predictors: one for each class."""
        return self.count

    labels = predictors

    @property
    def support(self) -> Support:
        """The codes of the classes."""
        return Support(0, self.count - 1, integer=True)

    def means(self, eta: Array, /) -> Array:
        """Return the probabilities of the classes."""
        weights = np.exp(eta - eta.max(axis=0))
        return np.asarray(weights / weights.sum(axis=0))

    def expand(self, eta: Array, y: Array, /) -> Expanded:
        """Return ln μ_y, 1[y = c] − μ_c and μ_c μ_k."""
        top = eta.max(axis=0)
        weights = np.exp(eta - top)
        total = weights.sum(axis=0)
        mean = weights / total
        is_class = y == np.arange(self.count)[:, None]
        log_likelihood = (eta * is_class).sum(axis=0) - top - np.log(total)
        products = [mean[a] * mean[b] for a, b in combinations(range(self.count), 2)]
        return Expanded(log_likelihood, tuple(is_class - mean), products)

    def expand_columns(self, eta: Sequence[Any], y: Any, labels: Sequence[Any] | None, /) -> Expanded:
        """Return the same for Ibis columns."""
        names = range(self.count) if labels is None else labels
        is_class = [(y == name).ifelse(1.0, 0.0) for name in names]
        top = eta[0]
        for x in eta[1:]:
            top = (x > top).ifelse(x, top)
        weights = [(x - top).exp() for x in eta]
        total = sum(weights[1:], weights[0])
        mean = [weight / total for weight in weights]
        own = sum((indicator * x for indicator, x in zip(is_class[1:], eta[1:], strict=True)), is_class[0] * eta[0])
        products = [mean[a] * mean[b] for a, b in combinations(range(self.count), 2)]
        slopes = [indicator - mu for indicator, mu in zip(is_class, mean, strict=True)]
        return Expanded(own - top - total.ln(), slopes, products)

    def draw(self, rng: np.random.Generator, eta: Array, /) -> Array:
        """Draw labels: the class with the largest predictor after adding Gumbel noise."""
        return np.asarray((eta + rng.gumbel(size=eta.shape)).argmax(axis=0).astype(np.float64))

    def draw_sums(self, rng: np.random.Generator, eta: Array, counts: Array | None, /) -> Array:
        """Draw the number of labels of each class."""
        if counts is None:
            labels = self.draw(rng, eta)
            return np.stack([labels == label for label in range(self.count)]).astype(np.float64)
        drawn = rng.multinomial(counts.astype(np.int64), np.moveaxis(self.means(eta), 0, -1))
        return np.moveaxis(drawn, -1, 0).astype(np.float64)


@dataclass(frozen=True)
class CountAnswers:
    """Counts with μ = W = e^η. The log-likelihood omits −ln y!, which does not depend on the coefficients."""

    predictors = 1
    labels = None
    support = Support(0, integer=True)
    max_weight = np.inf
    max_log_likelihood = np.inf
    predicts = "logarithm of the mean {}"

    def means(self, eta: Array, /) -> Array:
        """Return e^η, at most e^40."""
        return np.exp(np.minimum(eta, _MAX_LOG_MEAN))

    def expand(self, eta: Array, y: Array, /) -> Expanded:
        """Return yη − μ, y − μ and μ."""
        with np.errstate(over="ignore"):  # infinite sums are rejected later
            mean = np.exp(eta[0])
        return Expanded(y * eta[0] - mean, (y - mean,), (mean,))

    def expand_columns(self, eta: Sequence[Any], y: Any, _: Sequence[Any] | None, /) -> Expanded:
        """Return the same for Ibis columns."""
        mean, count = eta[0].exp(), y.cast("float64")
        return Expanded(count * eta[0] - mean, (count - mean,), (mean,))

    def draw(self, rng: np.random.Generator, eta: Array, /) -> Array:
        """Draw counts."""
        return rng.poisson(self.means(eta[0])).astype(np.float64)

    def draw_sums(self, rng: np.random.Generator, eta: Array, counts: Array | None, /) -> Array:
        """Draw the sum of ``counts`` counts, which is Poisson as well; by default, of one count."""
        means = self.means(eta[0]) if counts is None else self.means(eta[0]) * counts
        return rng.poisson(means).astype(np.float64)[None]


_MAX_LOG_MEAN = 40.0  # of the means that draws use

Answer: TypeAlias = YesNo | Classes | CountAnswers
