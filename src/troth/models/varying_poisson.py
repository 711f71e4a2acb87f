"""Counts of events, from providers whose rates differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from scipy.special import gammaln, xlogy

from troth.core.contract import Array, Extremes, Generator, Mask
from troth.core.reductions import Reduction
from troth.core.sensitivity import Peers
from troth.core.support import Support
from troth.models.family import CompleteEvidence, Example
from troth.models.first_guess import Column, FirstGuess, looks_like_counts, round_up
from troth.models.fitting.initial_parameters import FreeParameters, Positive, day_moments
from troth.models.numerics.extremes import count_ladder
from troth.models.numerics.gamma_poisson import draw_mean, log_evidence, summarise_counts
from troth.models.numerics.possible_statistics import none_negative
from troth.models.numerics.spread_grid import CHANCE_OF_NO_SPREAD
from troth.models.parameters import parameter, positive
from troth.models.shared.count_and_sum import draw_poisson
from troth.models.shared.varying_providers import VaryingProviders, differ_parameter

_MARGIN = 0.01  # nats by which the maximum log PMI may exceed that over a ladder of counts
_MAX_RATE = 1e15
_REACH = 3.0  # of the log of the mean in a fit: grids do not extend far above the prior mean


@dataclass(frozen=True)
class VaryingPoisson(CompleteEvidence, VaryingProviders):
    """Counts of providers whose rates differ: a provider's rate is λ times a Gamma factor with mean 1, spread unknown.

    λ ~ Gamma with this mean and scale; the factor's standard deviation is 0 or up to 2. A provider's sum is then
    negative binomial. At spread 0 it is `Poisson`.

    The summary (n, Σx) adds over rows. Besides it, the statistic holds functions of the spread, and of spread and λ, as
    values on a grid: log PMI is that of the continuous integral over λ and spread to 1e-6.

    Providers' rates differ by a tenth if ``differ`` is ``"little"``, and by three tenths if it is ``"some"``.

    Examples
    --------
    >>> import troth
    >>> model = VaryingPoisson(mean=5, scale=5)
    >>> own, peers = model.statistics([3, 4, 2]), model.statistics([4, 3]) + model.statistics([2, 5, 3])
    >>> round(float(troth.log_pmi(model, own, peers)), 3)
    1.013
    """

    mean: float = field(metadata=parameter("roughly where the mean count lies", positive, 8.0))
    scale: float = field(metadata=parameter("how far off that may be", positive, 8.0))
    differ: str = field(default="any", metadata=differ_parameter("rates that vary by up to twice their mean"))

    description: ClassVar[str] = "counts, from providers that differ"
    example: ClassVar[Example] = Example("cars counted in a minute", ("cars",), "sensor", values=(0, 200))
    theta: ClassVar[tuple[str, ...]] = ("mean of {column}", "spread of providers' rates")
    max_rows: ClassVar[int] = 10**7  # the log-likelihood of a larger report is too sharp for the grid
    min_spread: ClassVar[float] = 0.02
    max_spread: ClassVar[float] = 2.0

    @classmethod
    def suits(cls, column: Column, /) -> bool:
        """Return whether values are counts with a mean below 10; larger ones are nearly normal."""
        return looks_like_counts(column)

    @classmethod
    def first_guess(cls, column: Column, /) -> FirstGuess:
        """Take the prior mean from the data, to one digit, and a prior standard deviation of the same size."""
        size = max(round_up(float(column.numbers.mean())), 1e-9)
        return FirstGuess({"mean": size, "scale": size}, from_data=True)

    support = Support(0, integer=True)

    @property
    def _prior(self) -> tuple[float, float]:
        """Shape and rate of the prior of λ."""
        return (self.mean / self.scale) ** 2, self.mean / self.scale**2

    def from_summary(self, summary: Array, /) -> Array:
        """Map a provider's summary (n, Σx) to statistics."""
        s = np.asarray(summary, dtype=np.float64)
        return summarise_counts(s[..., 0], s[..., 1], self.mean, self._spreads)

    def _recomputed(self, statistics: Array) -> tuple[Array, Mask]:
        summary = statistics[..., :2]
        return self.from_summary(np.maximum(summary, 0.0)), none_negative(summary)

    def log_evidence(self, statistics: Array, /) -> Array:
        """Ln of the integral over λ and the spread."""
        return log_evidence(np.asarray(statistics, dtype=np.float64), *self._prior, self._spreads)

    def log_pmi_extremes(self, rows: int, peers: Peers, values: tuple[float, float] | None = None, /) -> Extremes:
        """Bounds over every report of up to ``rows`` rows within the declared values.

        PMI ≤ sup_θ p(own|θ)/p(own), and p(own|θ) is a mixture of i.i.d. likelihoods, so at most the one at the
        report's own mean. And PMI ≥ p(own, peers), which is at least its part without any spread. ∎
        """
        low, high = self._declared(values)
        ladder = count_ladder(rows)
        sizes = np.unique(np.append(ladder[:: max(1, len(ladder) // 12)], rows))
        summaries = np.concatenate(
            [np.stack([np.full(33, n), np.round(np.linspace(n * low, n * high, 33))], 1) for n in sizes]
        )
        n, total = summaries.T
        own = xlogy(total, total / np.maximum(n, 1)) - total - self.log_evidence(self.from_summary(summaries))
        all_rows = rows + sum(count for _, count in self._in_one_space(peers))
        shape, rate = self._prior
        all_sums = shape + np.linspace(0, all_rows * high, 4001)
        lowest = (gammaln(all_sums) - all_sums * np.log(rate + all_rows)).min() - gammaln(shape) + shape * np.log(rate)
        return Extremes(
            float(lowest + np.log(CHANCE_OF_NO_SPREAD) - all_rows * gammaln(high + 1)), float(own.max()) + _MARGIN
        )

    def draw_parameters(self, rng: Generator, shape: tuple[int, ...] = (), /) -> Array:
        """Draw (λ, spread) from the prior, shape ``(*shape, 2)``."""
        a, b = self._prior
        return np.stack([rng.gamma(a, 1 / b, size=shape), self._draw_spread(rng, shape)], axis=-1)

    def draw_posterior(self, rng: Generator, statistics: Array, /) -> Array:
        """Draw (λ, spread) given statistics."""
        t = np.asarray(statistics, dtype=np.float64)
        mean_and_spread = draw_mean(rng, t.reshape(-1, t.shape[-1]), *self._prior, self._spreads)
        return np.stack(mean_and_spread, axis=-1).reshape(*t.shape[:-1], 2)

    @staticmethod
    def _draw_rates(rng: Generator, mean: Array, spread: Array) -> Array:
        delta = np.where(spread > 0, spread, 1.0) ** 2
        return np.minimum(mean * np.where(spread > 0, delta * rng.standard_gamma(1 / delta), 1.0), _MAX_RATE)

    def draw_data(self, rng: Generator, parameters: Array, rows: int, /) -> Array:
        """Draw rows of counts for each (λ, spread); the rows of a dataset share one rate."""
        rates = self._draw_rates(rng, parameters[..., 0], parameters[..., 1])
        return rng.poisson(rates[..., None], size=(*rates.shape, rows)).astype(np.float64)

    def draw_statistics(self, rng: Generator, parameters: Array, design: Array, /) -> Array:
        """Draw statistics for each (λ, spread) and number of rows."""
        mean, spread, rows = np.broadcast_arrays(parameters[..., 0], parameters[..., 1], design[..., 0])
        total = draw_poisson(rng, self._draw_rates(rng, mean, spread) * rows)
        return self.from_summary(np.stack([rows, np.asarray(total)], axis=-1))

    one_row_suffices: ClassVar[str] = (
        "the transform of a peer's rate has one singularity, at rows and sum of the report"
    )
    """Proof. A peer's row is Poisson with a random rate r, so its predictive gives the Laplace transform φ(z) of r
    given the report. Without spread r is Gamma(shape + S, rate + n), which adds a multiple of (1 + z/(rate +
    n))^−(shape+S) to φ. With spread δ it is the integral over λ of λ^(shape+S−1) e^(−rate·λ) (1 + nλδ)^−(S+1/δ) (1 +
    zλδ)^(−1/δ): the path of λ can be rotated away from −1/(zδ), so that this part continues analytically from the upper
    half plane across all z < 0. There φ has one singularity: its location gives n, its order S. ∎
    """

    score_measure = "ln x!"  # the factorial of each count, which no summary holds

    @classmethod
    def initial_parameters(cls, summaries: Array, reduction: Reduction, _: Mapping[str, Any], /) -> FreeParameters:
        days = day_moments(cls.__name__, summaries, reduction)
        excess = days.excess(days.centre)
        return {"mean": Positive(days.centre[0], reach=_REACH), "scale": Positive(np.sqrt(excess[0]))}
