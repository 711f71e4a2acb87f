"""Failures before a success: geometric and negative binomial counts with a Beta prior."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from troth.core.contract import Array, Generator
from troth.core.reductions import Reduction
from troth.core.support import Support
from troth.models.family import MAX_DRAW, Example, scalar_parameters
from troth.models.fitting.initial_parameters import FreeParameters, Positive, beta_moments, day_moments
from troth.models.numerics.second_difference import dirichlet_log_pmi
from troth.models.parameters import parameter, positive
from troth.models.shared.conjugate import BetaPrior
from troth.models.shared.count_and_sum import CountAndSum, draw_poisson


@dataclass(frozen=True)
class NegativeBinomial(BetaPrior, CountAndSum):
    """Counts of failures before the r-th success, with success probability θ ~ Beta(alpha, beta) and known r.

    r is any positive number. Statistic: (n, Σx). Λ(t) = ln B(α + r·n, β + Σx).

    Examples
    --------
    >>> NegativeBinomial(r=2, alpha=1, beta=1).statistics([0, 3, 1])
    array([3., 4.])
    """

    r: float = field(metadata=parameter("number of successes that end a row", positive, 3.0, known=True))
    alpha: float = field(metadata=parameter("pseudo-count of successes", positive, 3.0))
    beta: float = field(metadata=parameter("pseudo-count of failures", positive, 2.0))

    description: ClassVar[str] = "failures before the r-th success"
    example: ClassVar[Example] = Example("failures before the third success", ("failures",), "site", values=(0, 200))
    theta: ClassVar[tuple[str, ...]] = ("probability of success",)

    support = Support(0, integer=True)

    def _posterior_parameters(self, statistics: Array) -> dict[str, Array]:
        """Beta(α + r·n, β + Σx)."""
        return {"alpha": self.alpha + self.r * statistics[..., 0], "beta": self.beta + statistics[..., 1]}

    def log_pmi(self, own: Array, peers: Array, both: Array | None = None, /) -> Array:
        """Log PMI in a form that stays accurate for any number of rows: a Dirichlet with counts (r·n, Σx)."""
        scale = np.array([self.r, 1.0])
        total = None if both is None else both * scale
        return dirichlet_log_pmi(np.array([self.alpha, self.beta]), own * scale, peers * scale, total)

    def draw_data(self, rng: Generator, parameters: Array, rows: int, /) -> Array:
        """Draw rows of failure counts for each success probability."""
        return self._draw_failures(rng, parameters, np.ones((*parameters.shape[:-1], rows)))

    def draw_statistics(self, rng: Generator, parameters: Array, design: Array, /) -> Array:
        """Draw (n, Σx): the failures of n rows are those before r·n successes."""
        theta, rows = scalar_parameters(parameters, design)
        return np.stack([rows, self._draw_failures(rng, theta, rows)], axis=-1)

    def _draw_failures(self, rng: Generator, theta: Array, rows: Array) -> Array:
        """Draw a Poisson with a Gamma rate, which works for zero rows and tiny θ without overflow."""
        theta = np.maximum(theta, 1 / MAX_DRAW)
        return draw_poisson(rng, rng.standard_gamma(self.r * rows) * ((1 - theta) / theta))

    one_row_suffices: ClassVar[str] = "the predictive at 0, 1 and 2 determines the posterior"
    """Proof. With posterior (A, B) and S = A + B + r the predictive has p(1)/p(0) = r·B/S and p(2)/p(1) =
    (r+1)/2·(B+1)/(S+1). From u = B/S and v = (B+1)/(S+1), v > u, follow S = (1 − v)/(v − u), B and A. ∎
    """

    @property
    def score_measure(self) -> str | None:
        """The binomial coefficient of each count, which no summary holds."""
        return f"ln C(x + r − 1, x) with r = {self.r:g}"

    @classmethod
    def initial_parameters(cls, summaries: Array, reduction: Reduction, fixed: Mapping[str, Any], /) -> FreeParameters:
        r = float(fixed.get("r", 1.0))
        days = day_moments(cls.__name__, summaries, reduction)
        alpha, beta = beta_moments(r / (r + days.means[:, 0]))
        return {"alpha": Positive(alpha), "beta": Positive(beta)}

    given_parameters: ClassVar[tuple[str, ...]] = ("r",)


@dataclass(frozen=True)
class Geometric(NegativeBinomial):
    """Counts of failures before the first success, with success probability θ ~ Beta(alpha, beta).

    Statistic: (n, Σx). Λ(t) = ln B(α + n, β + Σx): the negative binomial with r = 1.

    Examples
    --------
    >>> Geometric(alpha=2, beta=1).statistics([0, 3, 1])
    array([3., 4.])
    """

    r: float = field(default=1.0, init=False, repr=False)

    description: ClassVar[str] = "failures before the first success"
    example: ClassVar[Example] = Example(
        "failed attempts before the first success", ("failures",), "site", values=(0, 200)
    )
    given_parameters: ClassVar[tuple[str, ...]] = ()
