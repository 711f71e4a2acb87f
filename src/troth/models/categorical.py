"""Labels, whose probabilities have a Dirichlet prior."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy.special import gammaln

from troth.core.contract import Array, Extremes, Generator, Mask
from troth.core.reductions import Counts, Reduction
from troth.core.sensitivity import Peers, Sensitivity
from troth.models.family import CompleteEvidence, Example, ReducesRows, Vector
from troth.models.first_guess import Column, FirstGuess
from troth.models.fitting.initial_parameters import FreeParameters, Positive, dirichlet_moments
from troth.models.numerics.dispersed import draw_codes, draw_counts
from troth.models.numerics.extremes import dirichlet_extremes
from troth.models.numerics.identification import dirichlet_sensitivity
from troth.models.numerics.possible_statistics import none_negative
from troth.models.numerics.predictive import MAX_TERMS, log_gamma_excess
from troth.models.numerics.second_difference import dirichlet_log_pmi
from troth.models.parameters import parameter, pseudo_counts
from troth.models.shared.conjugate import Conjugate


@dataclass(frozen=True)
class DirichletCounts(CompleteEvidence, ReducesRows):
    """A family whose statistic is the count of each label, with a Dirichlet prior on their probabilities."""

    @property
    def _pseudo_counts(self) -> Array:
        """The prior's pseudo-counts, in the order of the statistic."""
        raise NotImplementedError

    def log_pmi(self, own: Array, peers: Array, both: Array | None = None, /) -> Array:
        """Log PMI in a form that stays accurate for any number of rows."""
        return dirichlet_log_pmi(self._pseudo_counts, own, peers, both)

    def rows(self, statistics: Array, /) -> Array:
        """Sum the counts."""
        return np.asarray(np.sum(statistics, axis=-1), dtype=np.float64)

    possible_statistics: ClassVar[str] = "counts are at least 0"

    def possible(self, statistics: Array, /) -> Mask:
        """Return where no count is negative."""
        return none_negative(np.asarray(statistics))

    def log_pmi_extremes(self, rows: int, peers: Peers, _: tuple[float, float] | None = None, /) -> Extremes:
        """Extremes over every report of up to ``rows`` rows."""
        peer_rows = sum(count for _, count in self._in_one_space(peers))
        return Extremes(*dirichlet_extremes(self._pseudo_counts, rows, peer_rows))

    def expected_log_evidence(self, design: Array, /) -> Array | None:
        """E[Σ_k S(α_k + t_k)] − S(Σα + n): each count is Beta-binomial, so one sum per label is exact."""
        from scipy.stats import betabinom  # slow to import

        rows, total = int(np.asarray(design)[..., 0].item()), self._pseudo_counts.sum()
        if rows > MAX_TERMS:
            return None
        counts = np.arange(rows + 1)
        expectation = -log_gamma_excess(total + rows)
        for alpha in self._pseudo_counts:
            weights = betabinom.pmf(counts, rows, alpha, total - alpha)
            expectation += float(weights @ log_gamma_excess(alpha + counts)) / float(weights.sum())
        return np.asarray(expectation)

    def sensitivity(self, rows: int, peers: Peers, /) -> Sensitivity:
        """Two peer rows suffice.

        Proof. With posterior counts x and N = Σx, one row has the predictive x_k/N. Two rows both in category k have
        x_k(x_k + 1)/(N(N + 1)); divided by the former, (x_k + 1)/(N + 1). From r = x_k/N and s = (x_k + 1)/(N + 1)
        follows N = (1 − s)/(s − r), where s > r because N > x_k, and then x. With one row only the ratios x_k/N show,
        so reports with proportional counts collide (erratum E3). ∎
        """
        return dirichlet_sensitivity(self, self._pseudo_counts, rows, peers)


@dataclass(frozen=True)
class Categorical(Conjugate, DirichletCounts):
    """Rows that are codes 0 … K−1 with probabilities θ ~ Dirichlet(alpha).

    Statistic: counts of each code. Λ(t) = Σ_k lnΓ(α_k + t_k) − lnΓ(Σ_k (α_k + t_k)).

    Examples
    --------
    >>> Categorical(alpha=[1, 1, 2]).statistics([0, 2, 2, 1])
    array([1., 1., 2.])
    """

    alpha: Vector = field(metadata=parameter("pseudo-counts of the labels", pseudo_counts, [1.0, 1.0, 1.0]))

    description: ClassVar[str] = "one of several labels"
    example: ClassVar[Example] = Example(
        "how annotators label pictures", ("label",), "annotator", labels=("cat", "dog", "other")
    )

    @classmethod
    def suits(cls, column: Column, /) -> bool:
        """Return whether any value is text."""
        return column.has_text

    @classmethod
    def first_guess(cls, column: Column, /) -> FirstGuess:
        """Guess a uniform prior."""
        return FirstGuess({"alpha": [1.0] * column.codes}, column.labels)

    def parameter_names(self, _: Sequence[str | None], labels: Sequence[str] | None = None, /) -> list[str]:
        """Name the probability of each label."""
        return [f"probability of {label!r}" for label in labels or map(str, range(len(self.alpha)))]

    @cached_property
    def _pseudo_counts(self) -> Array:
        return np.array(self.alpha)

    @property
    def reduction(self) -> Reduction:
        """Counts of each code."""
        return Counts(len(self.alpha))

    def _posterior_parameters(self, statistics: Array) -> dict[str, Array]:
        """Dirichlet(α + counts)."""
        return {"alpha": self._pseudo_counts + statistics}

    @staticmethod
    def _log_integral(*, alpha: Array) -> Array:
        """Σ_k lnΓ(α_k) − lnΓ(Σ_k α_k)."""
        return np.asarray(gammaln(alpha).sum(axis=-1) - gammaln(alpha.sum(axis=-1)))

    @staticmethod
    def _draw(rng: Generator, *, alpha: Array) -> Array:
        weights = np.maximum(rng.standard_gamma(alpha), np.finfo(float).tiny)
        return np.asarray(weights / weights.sum(axis=-1, keepdims=True))

    def draw_parameters(self, rng: Generator, shape: tuple[int, ...] = (), /) -> Array:
        """Draw probabilities from the prior, shape ``(*shape, K)``."""
        return np.asarray(rng.dirichlet(self._pseudo_counts, size=shape))

    def draw_data(self, rng: Generator, parameters: Array, rows: int, /) -> Array:
        """Draw rows of codes for each vector of probabilities."""
        return draw_codes(rng, parameters, rows)

    def draw_statistics(self, rng: Generator, parameters: Array, design: Array, /) -> Array:
        """Draw counts for each vector of probabilities and number of rows."""
        return draw_counts(rng, parameters, design[..., 0])

    @classmethod
    def suits_reduction(cls, reduction: Reduction, /) -> bool:
        """Return whether reports count codes, other than two."""
        return isinstance(reduction, Counts) and reduction.labels != 2

    @classmethod
    def initial_parameters(cls, summaries: Array, reduction: Reduction, _: Mapping[str, Any], /) -> FreeParameters:
        return {"alpha": Positive(dirichlet_moments(cls.__name__, summaries, reduction))}
