"""How an answer depends on linear predictors: labels yes and no, labels of several classes, counts.

Each kind of `Answer` expands, for rows with predictors η and answers y, the log-likelihood, its slope y − μ, and its
curvature W, of arrays and of Ibis columns alike. Arrays of predictors are ``(predictor, ...)``. Each also says how many
linear ``predictors``, with coefficients of their own, a row has; how many ``labels`` there are, or None if answers are
numbers; the ``support`` of an answer; the largest curvature of one row for one predictor (``max_weight``) and the
largest log-likelihood of a row (``best``); and what a linear predictor ``predicts``, with {} for the answer's name, or
nothing if there are several.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from troth.core.support import Array, Support


class Expanded(NamedTuple):
    """Log-likelihood of rows, its slope for each predictor, and its curvature.

    Weights are W of one predictor, and of several −W for each pair of them, in their order. As a number that is added
    to all predictors changes no probability, each row of W adds up to 0, and the diagonal follows from the pairs.
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
    best = 0.0
    predicts = "log-odds of {}"

    def means(self, eta: Array, /) -> Array:
        """Return the probability of 1."""
        return np.asarray(0.5 * (1 + np.tanh(0.5 * eta)))

    def expand(self, eta: Array, y: Array, /) -> Expanded:
        """Return yη − ln(1 + e^η), y − μ and μ(1 − μ), without overflow; the predictor may be one for all rows."""
        x = eta[0]
        small = np.exp(-np.abs(x))
        mean = np.where(x > 0, 1.0, small) / (1 + small)
        log_likelihood = y * x - np.maximum(x, 0.0) - np.log1p(small)
        return Expanded(log_likelihood, (y - mean,), (small / (1 + small) ** 2,))

    def expand_columns(self, eta: Sequence[Any], y: Any, labels: Sequence[Any] | None, /) -> Expanded:
        """Return the same of columns; ``labels`` are what the codes 0, 1, … are called in the table."""
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
        """Draw how many of ``counts`` labels, or of one, are 1."""
        drawn = self.draw(rng, eta) if counts is None else rng.binomial(counts.astype(np.int64), self.means(eta[0]))
        return np.asarray(drawn, dtype=np.float64)[None]


@dataclass(frozen=True)
class Classes:
    """Labels 0 … count−1 with μ_c = e^η_c / Σ e^η and W = diag(μ) − μμᵀ."""

    count: int

    max_weight = 0.25
    best = 0.0
    predicts = ""

    @property
    def predictors(self) -> int:
        """One for each class."""
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
        """Return the same of columns."""
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
        """Draw labels: the largest of predictors with Gumbel noise."""
        return np.asarray((eta + rng.gumbel(size=eta.shape)).argmax(axis=0).astype(np.float64))

    def draw_sums(self, rng: np.random.Generator, eta: Array, counts: Array | None, /) -> Array:
        """Draw how many labels are of each class."""
        if counts is None:
            labels = self.draw(rng, eta)
            return np.stack([labels == label for label in range(self.count)]).astype(np.float64)
        drawn = rng.multinomial(counts.astype(np.int64), np.moveaxis(self.means(eta), 0, -1))
        return np.moveaxis(drawn, -1, 0).astype(np.float64)


@dataclass(frozen=True)
class CountAnswers:
    """Counts with μ = W = e^η. The log-likelihood leaves out −ln y!, which no coefficient changes."""

    predictors = 1
    labels = None
    support = Support(0, integer=True)
    max_weight = np.inf
    best = np.inf
    predicts = "logarithm of the mean {}"

    def means(self, eta: Array, /) -> Array:
        """Return e^η, as far as doubles go."""
        return np.exp(np.minimum(eta, _MAX_LOG_MEAN))

    def expand(self, eta: Array, y: Array, /) -> Expanded:
        """Return yη − μ, y − μ and μ."""
        with np.errstate(over="ignore"):  # it shows in the sums
            mean = np.exp(eta[0])
        return Expanded(y * eta[0] - mean, (y - mean,), (mean,))

    def expand_columns(self, eta: Sequence[Any], y: Any, _: Sequence[Any] | None, /) -> Expanded:
        """Return the same of columns."""
        mean, count = eta[0].exp(), y.cast("float64")
        return Expanded(count * eta[0] - mean, (count - mean,), (mean,))

    def draw(self, rng: np.random.Generator, eta: Array, /) -> Array:
        """Draw counts."""
        return rng.poisson(self.means(eta[0])).astype(np.float64)

    def draw_sums(self, rng: np.random.Generator, eta: Array, counts: Array | None, /) -> Array:
        """Draw sums of counts, which are counts."""
        means = self.means(eta[0]) if counts is None else self.means(eta[0]) * counts
        return rng.poisson(means).astype(np.float64)[None]


_MAX_LOG_MEAN = 40.0  # e^40 is the largest mean that is drawn

Answer: TypeAlias = YesNo | Classes | CountAnswers
