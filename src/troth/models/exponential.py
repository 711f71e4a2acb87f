"""Waiting times: exponential, and gamma with a known shape, with a Gamma prior on the rate."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import gammaln, psi

from troth.model import Array, Extremes, Generator, Model, Support
from troth.models.extremes import ray_extremes
from troth.models.family import Family, scalar_parameters
from troth.models.geometric import count_and_sum
from troth.models.second_difference import gamma_log_pmi

if TYPE_CHECKING:
    from collections.abc import Sequence

    from troth.models.predictive import Exact


@dataclass(frozen=True)
class Gamma(Family):
    """Positive values that are Gamma(known_shape, θ) with rate θ ~ Gamma(shape, rate).

    Statistic: (n, Σx). Λ(t) = lnΓ(a + k·n) − (a + k·n) ln(b + Σx).

    Parameters
    ----------
    known_shape
        The known shape k of one value, above 0.
    shape, rate
        The prior's shape and rate, above 0.

    Examples
    --------
    >>> Gamma(known_shape=2, shape=3, rate=1).statistics([0.5, 1.5])
    array([2., 2.])
    """

    known_shape: float
    shape: float
    rate: float

    def __post_init__(self) -> None:
        for name in ("known_shape", "shape", "rate"):
            self._positive(name)

    @property
    def support(self) -> Support:
        """Above 0."""
        return Support(0, open=True)

    def statistics(self, data: Any, /) -> Array:
        """Count the rows and sum the values along the last axis."""
        return count_and_sum(self.support.check(data))

    def log_evidence(self, statistics: Array, /) -> Array:
        """lnΓ(a + k·n) − (a + k·n) ln(b + Σx)."""
        t = np.asarray(statistics)
        a = self.shape + self.known_shape * t[..., 0]
        return np.asarray(gammaln(a) - a * np.log(self.rate + t[..., 1]))

    def log_pmi(self, own: Array, peers: Array, both: Array | None = None, /) -> Array:
        """Log PMI in a form that keeps its digits at any number of rows."""
        scale = np.array([self.known_shape, 1.0])
        total = None if both is None else both * scale
        return gamma_log_pmi(np.array([self.shape, self.rate]), own * scale, peers * scale, total)

    def log_pmi_extremes(
        self, rows: int, peers: Sequence[tuple[Model, int]], values: tuple[float, float] | None = None, /
    ) -> Extremes:
        """Extremes over every report of up to so many rows within the declared values."""
        bounds, others = self._declared(values), self._peer_rows(peers)
        k, scale = self.known_shape, np.array([1 / self.known_shape, 1.0])
        own, peer = ((k * np.arange(n + 1.0), bounds[0] / k, bounds[1] / k) for n in (rows, others))
        return Extremes(
            *ray_extremes(
                lambda a, b: self.log_pmi(a * scale, b * scale), (self.shape, self.rate), own, peer, integer=False
            )
        )

    def draw_parameters(self, rng: Generator, shape: tuple[int, ...] = (), /) -> Array:
        """Draw rates from the prior, shape ``(*shape, 1)``."""
        return rng.gamma(self.shape, 1 / self.rate, size=(*shape, 1))

    def draw_data(self, rng: Generator, parameters: Array, rows: int, /) -> Array:
        """Draw rows of positive values for each rate."""
        values = rng.standard_gamma(self.known_shape, size=(*parameters.shape[:-1], rows)) / parameters
        return np.maximum(values, np.finfo(float).tiny)

    def draw_statistics(self, rng: Generator, parameters: Array, design: Array, /) -> Array:
        """Draw (n, Σx): the sum of n values is Gamma(k·n, θ)."""
        rate, rows = scalar_parameters(parameters, design)
        return np.stack([rows, rng.standard_gamma(self.known_shape * rows) / rate], axis=-1)

    def expected_log_evidence(self, design: Array, /) -> Exact:
        """E[Λ]: b / (b + Σx) is Beta(a, k·n), so E ln(b + Σx) = ln b + ψ(a + k·n) − ψ(a)."""
        a = self.shape + self.known_shape * design[..., 0]
        return np.asarray(gammaln(a) - a * (np.log(self.rate) + psi(a) - psi(self.shape)))


@dataclass(frozen=True)
class Exponential(Gamma):
    """Waiting times with rate θ ~ Gamma(shape, rate).

    Statistic: (n, Σx). Λ(t) = lnΓ(a + n) − (a + n) ln(b + Σx): the gamma with a known shape of 1.

    Parameters
    ----------
    shape, rate
        The prior's pseudo-count of events and of waiting time, above 0.

    Examples
    --------
    >>> Exponential(shape=2, rate=1).statistics([0.5, 1.5])
    array([2., 2.])
    """

    known_shape: float = field(default=1.0, init=False, repr=False)

    @property
    def support(self) -> Support:
        """Zero and above: a clock that rounds may show no wait at all."""
        return Support(0)
