"""Yes or no: a Bernoulli rate with a Beta prior."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import betaln

from troth.model import Array, Generator, Support
from troth.models.family import Family, scalar_parameters
from troth.models.predictive import expected_log_evidence_of_counts
from troth.models.second_difference import dirichlet_log_pmi

if TYPE_CHECKING:
    from troth.models.predictive import Exact


@dataclass(frozen=True)
class Bernoulli(Family):
    """Rows of 0 and 1 with rate θ ~ Beta(alpha, beta).

    Statistic: (ones, zeros). Λ(t) = ln B(α + t₁, β + t₀).

    Parameters
    ----------
    alpha, beta
        The prior's pseudo-counts of ones and of zeros, above 0.

    Examples
    --------
    >>> model = Bernoulli(alpha=1, beta=1)
    >>> model.statistics([1, 0, 1, 1])
    array([3., 1.])
    """

    alpha: float
    beta: float

    def __post_init__(self) -> None:
        self._positive("alpha")
        self._positive("beta")

    @property
    def support(self) -> Support:
        """Zero and one."""
        return Support(0, 1, integer=True)

    def statistics(self, data: Any, /) -> Array:
        """Count ones and zeros along the last axis."""
        x = self.support.check(data)
        ones = x.sum(axis=-1)
        return np.stack([ones, x.shape[-1] - ones], axis=-1)

    def log_evidence(self, statistics: Array, /) -> Array:
        """Ln B(α + ones, β + zeros)."""
        t = np.asarray(statistics)
        return np.asarray(betaln(self.alpha + t[..., 0], self.beta + t[..., 1]))

    def log_pmi(self, own: Array, peers: Array, both: Array | None = None, /) -> Array:
        """Log PMI in a form that keeps its digits at any number of rows."""
        return dirichlet_log_pmi(np.array([self.alpha, self.beta]), own, peers, both)

    def rows(self, statistics: Array, /) -> Array:
        """Ones plus zeros."""
        return np.asarray(np.sum(statistics, axis=-1), dtype=np.float64)

    def draw_parameters(self, rng: Generator, shape: tuple[int, ...] = (), /) -> Array:
        """Draw rates from the prior, shape ``(*shape, 1)``."""
        return rng.beta(self.alpha, self.beta, size=(*shape, 1))

    def draw_data(self, rng: Generator, parameters: Array, rows: int, /) -> Array:
        """Draw rows of 0 and 1 for each rate."""
        return (rng.random((*parameters.shape[:-1], rows)) < parameters).astype(np.float64)

    def draw_statistics(self, rng: Generator, parameters: Array, design: Array, /) -> Array:
        """Draw (ones, zeros) for each rate and number of rows."""
        rate, rows = scalar_parameters(parameters, design)
        ones = np.asarray(rng.binomial(rows.astype(np.int64), rate), dtype=np.float64)
        return np.stack([ones, rows - ones], axis=-1)

    def expected_log_evidence(self, design: Array, /) -> Exact:
        """E[Λ] over the Beta-binomial counts of that many rows."""
        return expected_log_evidence_of_counts(np.array([self.alpha, self.beta]), design)
