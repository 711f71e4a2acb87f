"""Yes or no: a Bernoulli rate with a Beta prior."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy.special import gammaln

from troth.core.contract import Array, Forecast, Generator, Model
from troth.core.errors import DataError, MissingCapabilityError
from troth.core.reductions import Counts, Reduction
from troth.models.categorical import DirichletCounts
from troth.models.family import Example, scalar_parameters
from troth.models.first_guess import Column, FirstGuess
from troth.models.fitting.initial_parameters import FreeParameters, Positive, dirichlet_moments
from troth.models.parameters import parameter, positive
from troth.models.shared.conjugate import BetaPrior

_END_TERMS = 2000  # at each end of a long sum, which are added one by one


@dataclass(frozen=True)
class Bernoulli(BetaPrior, DirichletCounts):
    """Rows of 0 and 1 with rate θ ~ Beta(alpha, beta).

    Statistic: (ones, zeros). Λ(t) = ln B(α + t₁, β + t₀).

    Examples
    --------
    >>> model = Bernoulli(alpha=1, beta=1)
    >>> model.statistics([1, 0, 1, 1])
    array([3., 1.])
    """

    alpha: float = field(metadata=parameter("pseudo-count of ones", positive, 1.0))
    beta: float = field(metadata=parameter("pseudo-count of zeros", positive, 1.0))

    description: ClassVar[str] = "yes or no, with an unknown rate"
    example: ClassVar[Example] = Example("did the patient improve?", ("improved",), "clinic")
    theta: ClassVar[tuple[str, ...]] = ("rate of {column}",)

    @classmethod
    def suits(cls, column: Column, /) -> bool:
        """Return whether all values are 0 or 1."""
        return not column.has_text and bool(np.isin(column.numbers, (0.0, 1.0)).all())

    @classmethod
    def first_guess(cls, column: Column, /) -> FirstGuess:
        """Guess a uniform prior."""
        return FirstGuess({"alpha": 1.0, "beta": 1.0}, column.labels)

    _value_word = "value"
    reduction = Counts(2)

    @cached_property
    def _pseudo_counts(self) -> Array:
        return np.array([self.alpha, self.beta])

    def from_summary(self, summary: Array, /) -> Array:
        """Swap (zeros, ones) to (ones, zeros)."""
        return np.asarray(summary, dtype=np.float64)[..., ::-1]

    def _posterior_parameters(self, statistics: Array) -> dict[str, Array]:
        """Beta(α + ones, β + zeros)."""
        return {"alpha": self.alpha + statistics[..., 0], "beta": self.beta + statistics[..., 1]}

    def peer_order(self, statistics: Array, /) -> Array:
        """Return the number of ones."""
        return np.asarray(statistics, dtype=np.float64)[..., 0]

    def counts(self, statistics: Array, _: Array | None = None, /) -> Array:
        """Ones and zeros: the statistic itself."""
        return np.asarray(statistics, dtype=np.float64)

    def forecast(self, own: Array, peers: Sequence[tuple[Model, Array]], unordered: bool, /) -> Forecast:
        """Predict peers' data: given a provider's own report, their number of ones is Beta-binomial."""
        ((model, counts),) = peers
        if model != self:
            raise MissingCapabilityError(f"{self!r} cannot predict the data of {model!r}")
        rows = counts.sum(axis=-1)
        log_orders = gammaln(rows + 1) - gammaln(counts + 1).sum(axis=-1)
        log_probability = self.log_evidence(own + counts) - self.log_evidence(own) + (log_orders if unordered else 0.0)
        cases = np.stack([*np.moveaxis(own, -1, 0), rows], axis=-1).reshape(-1, 3)
        distinct, inverse = np.unique(cases, axis=0, return_inverse=True)
        collisions = [
            self._collision_probability(ones, zeros, size, unordered) for ones, zeros, size in distinct.tolist()
        ]
        log_outcomes = np.log(rows + 1) if unordered else rows * np.log(2)
        collision_probability = np.array(collisions)[inverse.ravel()].reshape(rows.shape)
        return Forecast(np.exp(log_probability), collision_probability, log_outcomes)

    def _collision_probability(self, ones: float, zeros: float, rows: float, unordered: bool) -> float:
        """Σ p² over all reports of peers with ``rows`` rows, given a provider's own ones and zeros.

        Beyond 4,000 rows p is a smooth function of the count, and the sum is an integral (Euler–Maclaurin) over
        intervals that grow from both ends; the terms next to the ends are added one by one.
        """

        def squared_probability(count: Array) -> Array:
            return self._squared_probability(count, ones, zeros, rows, unordered)

        if rows <= 2 * _END_TERMS:
            return float(squared_probability(np.arange(rows + 1)).sum())
        ends = np.concatenate([np.arange(_END_TERMS), rows - np.arange(_END_TERMS)])
        first, last = _END_TERMS - 0.5, rows - _END_TERMS + 0.5
        half = np.geomspace(first, rows / 2, 200)
        edges = np.concatenate([half[:-1], [rows / 2], rows - half[:-1][::-1]])
        edges[0], edges[-1] = first, last
        nodes, weights = np.polynomial.legendre.leggauss(12)
        middle, width = (edges[1:] + edges[:-1]) / 2, np.diff(edges) / 2
        inner = (squared_probability(middle[:, None] + width[:, None] * nodes) * weights).sum(axis=1) @ width
        slopes = np.diff(squared_probability(np.array([[first], [last]]) + np.array([-0.5, 0.5])))
        return float(squared_probability(ends).sum() + inner - (slopes[1, 0] - slopes[0, 0]) / 24)

    def _squared_probability(self, count: Array, ones: float, zeros: float, rows: float, unordered: bool) -> Array:
        """Return each count's squared probability if ``unordered``, else the sum of p² over the orders of its rows."""
        counts = np.stack([count, rows - count], axis=-1)
        log_orders = gammaln(rows + 1) - gammaln(counts + 1).sum(axis=-1)
        own = np.array([ones, zeros])
        log_probability = self.log_evidence(own + counts) - self.log_evidence(own)
        return np.asarray(np.exp(2 * log_probability + (2 if unordered else 1) * log_orders))

    def draw_data(self, rng: Generator, parameters: Array, rows: int, /) -> Array:
        """Draw rows of 0 and 1 for each rate."""
        return (rng.random((*parameters.shape[:-1], rows)) < parameters).astype(np.float64)

    def draw_statistics(self, rng: Generator, parameters: Array, design: Array, /) -> Array:
        """Draw (ones, zeros) for each rate and number of rows."""
        rate, rows = scalar_parameters(parameters, design)
        ones = np.asarray(rng.binomial(rows.astype(np.int64), rate), dtype=np.float64)
        return np.stack([ones, rows - ones], axis=-1)

    @classmethod
    def suits_reduction(cls, reduction: Reduction, /) -> bool:
        """Return whether reports count two codes."""
        return isinstance(reduction, Counts) and reduction.labels == 2

    @classmethod
    def initial_parameters(cls, summaries: Array, reduction: Reduction, _: Mapping[str, Any], /) -> FreeParameters:
        if reduction.labels not in (None, 2):
            raise DataError(f"Bernoulli needs two codes, but the history has {reduction.labels}: use Categorical")
        zeros, ones = dirichlet_moments(cls.__name__, summaries, reduction)
        return {"alpha": Positive(ones), "beta": Positive(zeros)}
