"""Counts of events: a Poisson rate with a Gamma prior."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from troth.core.contract import Array, Generator
from troth.core.reductions import Moments, Reduction
from troth.core.support import Support
from troth.models.family import Example, scalar_parameters
from troth.models.first_guess import Column, FirstGuess, is_whole, round_up, unlike_counts
from troth.models.fitting.initial_parameters import FreeParameters, Positive, day_moments
from troth.models.numerics.predictive import MAX_TERMS, log_gamma_excess
from troth.models.numerics.second_difference import gamma_log_pmi
from troth.models.parameters import parameter, positive
from troth.models.shared.conjugate import GammaPrior
from troth.models.shared.count_and_sum import CountAndSum, draw_poisson


@dataclass(frozen=True)
class Poisson(GammaPrior, CountAndSum):
    """Counts with rate θ ~ Gamma(shape, rate).

    Statistic: (n, Σx). Λ(t) = lnΓ(a + Σx) − (a + Σx) ln(b + n).

    Examples
    --------
    >>> Poisson(shape=2, rate=1).statistics([0, 3, 1])
    array([3., 4.])
    """

    shape: float = field(metadata=parameter("pseudo-count of events", positive, 4.0))
    rate: float = field(metadata=parameter("pseudo-count of rows; the prior mean is shape/rate", positive, 0.5))

    description: ClassVar[str] = "counts"
    example: ClassVar[Example] = Example("cars counted in a minute", ("cars",), "sensor", values=(0, 200))
    theta: ClassVar[tuple[str, ...]] = ("mean of {column}",)

    @classmethod
    def suits(cls, column: Column, /) -> bool:
        """Return whether values are non-negative integers that may be counts."""
        return is_whole(column) and not unlike_counts(column)

    @classmethod
    def first_guess(cls, column: Column, /) -> FirstGuess:
        """Take the prior mean from the data, with the weight of one event."""
        size = max(round_up(float(column.numbers.mean())), 1e-9)
        return FirstGuess({"shape": 1.0, "rate": float(f"{1 / size:.3g}")}, from_data=True)

    support = Support(0, integer=True)

    def _posterior_parameters(self, statistics: Array) -> dict[str, Array]:
        """Gamma(a + Σx, b + n)."""
        return {"shape": self.shape + statistics[..., 1], "rate": self.rate + statistics[..., 0]}

    def log_pmi(self, own: Array, peers: Array, both: Array | None = None, /) -> Array:
        total = None if both is None else both[..., ::-1]
        return gamma_log_pmi(np.array([self.shape, self.rate]), own[..., ::-1], peers[..., ::-1], total)

    def draw_data(self, rng: Generator, parameters: Array, rows: int, /) -> Array:
        """Draw rows of counts for each rate."""
        return rng.poisson(parameters, size=(*parameters.shape[:-1], rows)).astype(np.float64)

    def draw_statistics(self, rng: Generator, parameters: Array, design: Array, /) -> Array:
        """Draw (n, Σx): the events of n rows are Poisson with n times the rate."""
        rate, rows = scalar_parameters(parameters, design)
        return np.stack([rows, np.asarray(draw_poisson(rng, rate * rows))], axis=-1)

    def expected_log_evidence(self, design: Array, /) -> Array | None:
        """E[S(a + Σx)], where Σx is negative binomial, truncated where 1e-18 of its mass is left."""
        from scipy.stats import nbinom  # slow to import

        rows = float(np.asarray(design)[..., 0].item())
        success = self.rate / (self.rate + rows)
        last = 10 + (float(nbinom.isf(1e-18, self.shape, success)) if rows else 0.0)
        if not last <= MAX_TERMS:
            return None
        sums = np.arange(last + 1)
        weights = nbinom.pmf(sums, self.shape, success)
        return np.asarray(weights @ log_gamma_excess(self.shape + sums) / weights.sum())

    one_row_suffices: ClassVar[str] = "the predictive at 0, 1 and 2 determines the posterior"
    """Proof. With posterior (a, b) the predictive has p(1)/p(0) = a/(b + 1) and 2p(2)/p(1) = (a + 1)/(b + 1); their
    difference is 1/(b + 1), which gives b and then a. ∎
    """

    score_measure = "ln x!"  # the factorial of each count, which no summary holds

    @classmethod
    def suits_reduction(cls, reduction: Reduction, /) -> bool:
        """Return whether reports sum one column of integers."""
        return isinstance(reduction, Moments) and reduction.columns == 1 and reduction.support.integer

    @classmethod
    def initial_parameters(cls, summaries: Array, reduction: Reduction, _: Mapping[str, Any], /) -> FreeParameters:
        days = day_moments(cls.__name__, summaries, reduction)
        excess = days.excess(days.centre)
        return {"shape": Positive((days.centre**2 / excess)[0]), "rate": Positive((days.centre / excess)[0])}
