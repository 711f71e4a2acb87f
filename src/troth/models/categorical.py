"""One of K kinds: category probabilities with a Dirichlet prior."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import gammaln

from troth.core.contract import Array, Extremes, Generator, Model
from troth.core.errors import ParameterError
from troth.core.reductions import Counts, Reduction
from troth.core.support import Support
from troth.models.family import Family
from troth.models.fitting.free_parameters import Positive
from troth.models.fitting.moments import dirichlet_moments
from troth.models.numerics.extremes import dirichlet_extremes
from troth.models.numerics.identification import dirichlet_sensitivity
from troth.models.numerics.predictive import expected_log_evidence_of_counts
from troth.models.numerics.second_difference import dirichlet_log_pmi

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from troth.core.reductions import Reduction
    from troth.core.sensitivity import Peers, Sensitivity
    from troth.models.family import Vector
    from troth.models.fitting.free_parameters import FreeParameter
    from troth.models.numerics.predictive import Exact


@dataclass(frozen=True)
class Categorical(Family):
    """Rows that are codes 0 … K−1 with probabilities θ ~ Dirichlet(alpha).

    Statistic: counts of each code. Λ(t) = Σ_k lnΓ(α_k + t_k) − lnΓ(Σ_k (α_k + t_k)).

    Parameters
    ----------
    alpha
        The prior's pseudo-counts, one per category, above 0.

    Examples
    --------
    >>> Categorical(alpha=[1, 1, 2]).statistics([0, 2, 2, 1])
    array([1., 1., 2.])
    """

    alpha: Vector

    def __post_init__(self) -> None:
        alpha = self._vector("alpha")
        if len(alpha) < 2:
            raise ParameterError("Categorical: alpha must have at least two entries, one per category")
        if not (alpha > 0).all():
            raise ParameterError(f"Categorical: alpha[{int(np.argmin(alpha))}] must be above 0, not {alpha.min()}")

    @property
    def support(self) -> Support:
        """Codes 0 … K−1."""
        return Support(0, len(self.alpha) - 1, integer=True)

    @cached_property
    def _prior(self) -> Array:
        return np.array(self.alpha)

    def statistics(self, data: Any, /) -> Array:
        """Count each code along the last axis."""
        codes = self.support.check(data, "code")
        return count_codes(codes, len(self.alpha))

    @property
    def reduction(self) -> Reduction:
        """Codes are counted."""
        return Counts(len(self.alpha))

    def log_evidence(self, statistics: Array, /) -> Array:
        """Σ_k lnΓ(α_k + t_k) − lnΓ(Σ_k (α_k + t_k))."""
        x = self._prior + statistics
        return np.asarray(gammaln(x).sum(axis=-1) - gammaln(x.sum(axis=-1)))

    def log_pmi(self, own: Array, peers: Array, both: Array | None = None, /) -> Array:
        """Log PMI in a form that keeps its digits at any number of rows."""
        return dirichlet_log_pmi(self._prior, own, peers, both)

    def rows(self, statistics: Array, /) -> Array:
        """Sum the counts."""
        return np.asarray(np.sum(statistics, axis=-1), dtype=np.float64)

    def log_pmi_extremes(
        self, rows: int, peers: Sequence[tuple[Model, int]], _: tuple[float, float] | None = None, /
    ) -> Extremes:
        """Extremes over every report of up to so many rows."""
        return Extremes(*dirichlet_extremes(self._prior, rows, self._peer_rows(peers)))

    def draw_parameters(self, rng: Generator, shape: tuple[int, ...] = (), /) -> Array:
        """Draw probabilities from the prior, shape ``(*shape, K)``."""
        return np.asarray(rng.dirichlet(self._prior, size=shape))

    def draw_posterior(self, rng: Generator, statistics: Array, /) -> Array:
        """Draw probabilities given statistics."""
        weights = np.maximum(rng.standard_gamma(self._prior + statistics), np.finfo(float).tiny)
        return np.asarray(weights / weights.sum(axis=-1, keepdims=True))

    def draw_data(self, rng: Generator, parameters: Array, rows: int, /) -> Array:
        """Draw rows of codes for each vector of probabilities."""
        return draw_codes(rng, parameters, rows)

    def draw_statistics(self, rng: Generator, parameters: Array, design: Array, /) -> Array:
        """Draw counts for each vector of probabilities and number of rows."""
        return draw_counts(rng, parameters, design[..., 0])

    def expected_log_evidence(self, design: Array, /) -> Exact:
        """E[Λ], up to a linear part: Λ is a sum over categories, and each count is Beta-binomial."""
        return expected_log_evidence_of_counts(self._prior, design)

    def sensitivity(self, rows: int, peers: Peers, /) -> Sensitivity:
        """Two peer rows suffice.

        Proof. With posterior counts x and N = Σx, one row has the predictive x_k/N. Two rows both in category k have
        x_k(x_k + 1)/(N(N + 1)); divided by the former, (x_k + 1)/(N + 1). From r = x_k/N and s = (x_k + 1)/(N + 1)
        follows N = (1 − s)/(s − r), where s > r because N > x_k, and then x. With one row only the ratios x_k/N show,
        so reports with proportional counts collide (erratum E3). ∎
        """
        return dirichlet_sensitivity(self, self._prior, rows, peers)

    def base_measure(self, summaries: Array, _: Reduction, /) -> Array:
        """Return zeros: the likelihood of codes is a function of their counts."""
        return np.zeros(summaries.shape[:-1])

    @classmethod
    def suits_reduction(cls, reduction: Reduction, /) -> bool:
        """Codes, of which there are not just two."""
        return reduction.labels not in (None, 2)

    @classmethod
    def initial_parameters(
        cls, summaries: Array, reduction: Reduction, _: Mapping[str, Any], /
    ) -> dict[str, FreeParameter]:
        """Match how the days' shares of each code vary."""
        return {"alpha": Positive(dirichlet_moments(cls.__name__, summaries, reduction))}


def count_codes(codes: Array, categories: int) -> Array:
    """Count each code along the last axis, shape ``(..., categories)``."""
    datasets = prod(codes.shape[:-1])
    flat = codes.reshape(datasets, codes.shape[-1]).astype(np.intp)
    offsets = np.arange(datasets)[:, None] * categories
    counts = np.bincount((flat + offsets).ravel(), minlength=datasets * categories)
    return counts.reshape(*codes.shape[:-1], categories).astype(np.float64)


def draw_codes(rng: Generator, probabilities: Array, rows: int) -> Array:
    """Draw codes by inversion, shape ``(..., rows)``."""
    steps = np.cumsum(probabilities, axis=-1)[..., None, :-1]
    uniform = rng.random((*probabilities.shape[:-1], rows, 1)) * np.sum(probabilities, axis=-1)[..., None, None]
    return np.asarray((uniform >= steps).sum(axis=-1), dtype=np.float64)


def draw_counts(rng: Generator, probabilities: Array, rows: Array) -> Array:
    """Draw multinomial counts, with leading axes of both broadcast."""
    shape = np.broadcast_shapes(probabilities.shape[:-1], rows.shape)
    p = np.broadcast_to(probabilities, (*shape, probabilities.shape[-1]))
    return np.asarray(rng.multinomial(np.broadcast_to(rows, shape).astype(np.int64), p), dtype=np.float64)
