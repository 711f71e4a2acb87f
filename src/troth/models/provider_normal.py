"""Measurements by providers with an offset of their own and an effect of their own on each day."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from troth.core.contract import Extremes
from troth.core.errors import UnboundedRangeError
from troth.core.reductions import Moments
from troth.core.sensitivity import one_row_suffices
from troth.models.family import Family, moments, scalar_parameters
from troth.models.fitting.offsets import fit_offsets
from troth.models.geometric import count_and_sum
from troth.models.normal import normal_log_pmi
from troth.models.numerics.dispersed import real_weight
from troth.models.numerics.dispersed_mean import dispersed_mean_log_density, moments_around
from troth.models.numerics.extremes import ray_extremes
from troth.models.numerics.second_difference import minus_product

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from troth.core.contract import Array, Generator, Model
    from troth.core.past import History
    from troth.core.reductions import Reduction
    from troth.core.sensitivity import Peers, Sensitivity
    from troth.models.fitting.day_types.fit import Watch
    from troth.models.fitting.offsets import FittedOffsets
    from troth.models.numerics.predictive import Exact

_GRID = 1001  # precisions between nothing and everybody's, where numbers of rows do not make a ladder


@dataclass(frozen=True)
class ProviderNormal(Family):
    """Values around θ ~ N(mean, scale²), seen through a provider's offset b and its effect u of a day.

    x = θ + b + u + noise with u ~ N(0, τ²) once a day and noise ~ N(0, σ²) in each row, so that the mean of n rows is
    ȳ ~ N(θ + b, τ² + σ²/n). Statistic: (w, w(ȳ − b − mean)) with
    w = 1/(τ² + σ²/n), which adds over providers whatever their offsets, dispersions and noises are, and
    Λ(t) = h²/2λ − ½ ln λ with λ = 1/scale² + w and h = w(ȳ − b − mean). The summary (n, Σ(x − mean)) adds over rows.

    Parameters
    ----------
    mean, scale
        Mean and standard deviation of the prior, which providers share.
    noise
        σ, the standard deviation of one value around its day's mean.
    offset
        b, how far this provider's values lie above θ on average.
    dispersion
        τ, the standard deviation of what all of the provider's values of one day have in common beyond θ and b, or 0.

    Examples
    --------
    >>> ProviderNormal(mean=100, scale=5, noise=2, offset=1, dispersion=1).statistics([101, 105])
    array([0.33333333, 0.66666667])
    """

    mean: float
    scale: float
    noise: float
    offset: float = 0.0
    dispersion: float = 0.0

    independent_rows: ClassVar[bool] = False

    def __post_init__(self) -> None:
        self._finite("mean")
        self._positive("scale")
        self._positive("noise")
        self._finite("offset")
        self._finite("dispersion")
        if self.dispersion != 0:
            self._positive("dispersion")

    def _weight(self, rows: Array) -> Array:
        return real_weight(rows, np.asarray(self.dispersion), np.asarray(self.noise))

    @property
    def reduction(self) -> Reduction:
        """The number of rows and the sum of deviations from the prior mean."""
        return Moments((self.mean,))

    def summary(self, data: Any, /) -> Array:
        """Count the rows and sum the deviations from the prior mean along the last axis."""
        return moments(count_and_sum, self.support.check(data), self.mean)

    def from_summary(self, summary: Array, /) -> Array:
        """Map (n, Σ(x − mean)) to the precision of the day's mean, and to its deviation weighted by that."""
        s = np.asarray(summary, dtype=np.float64)
        weight = self._weight(s[..., 0])
        average = s[..., 1] / np.maximum(s[..., 0], 1.0)
        return np.stack([weight, weight * (average - self.offset)], axis=-1)

    def statistics(self, data: Any, /) -> Array:
        """Precision and weighted deviation of the mean along the last axis."""
        return self.from_summary(self.summary(data))

    def log_evidence(self, statistics: Array, /) -> Array:
        """h²/2λ − ½ ln λ."""
        t = np.asarray(statistics)
        precision = self.scale**-2 + t[..., 0]
        return np.asarray(t[..., 1] * (t[..., 1] / (2 * precision)) - 0.5 * np.log(precision))

    def log_pmi(self, own: Array, peers: Array, both: Array | None = None, /) -> Array:
        """½ log1p(w₁w₂/(λ_Tλ₀)) − W: log-determinant and quadratic form, neither of which cancels."""
        prior = np.asarray(self.scale**-2)
        total = own + peers if both is None else both
        mean = total[..., 1] / (prior + total[..., 0])
        r1, r2 = (minus_product(t[..., 1], mean, t[..., 0]) - prior * mean for t in (own, peers))
        weights = own[..., 0], peers[..., 0], total[..., 0]
        return normal_log_pmi(prior, weights, mean, (r1, r2), 1.0)

    def rows(self, statistics: Array, /) -> Array:
        """Count the rows behind one provider's statistic: n = wσ²/(1 − wτ²)."""
        w = np.asarray(statistics, dtype=np.float64)[..., 0]
        return np.asarray(w * self.noise**2 / np.maximum(1 - w * self.dispersion**2, np.finfo(float).tiny))

    def design(self, statistics: Array, /) -> Array:
        """Read off the precision of the day's mean; precisions add over providers."""
        return np.asarray(statistics, dtype=np.float64)[..., :1]

    def plan(self, rows: Any, /) -> Array:
        """Return the precision of the mean of so many rows."""
        return self._weight(super().plan(rows))

    @property
    def space(self) -> Mapping[str, object]:
        """Family and prior: providers may differ in everything else."""
        return {"family": "ProviderNormal", "mean": self.mean, "scale": self.scale}

    def log_pmi_extremes(
        self, rows: int, peers: Sequence[tuple[Model, int]], values: tuple[float, float] | None = None, /
    ) -> Extremes:
        """Extremes over every report of up to so many rows within the declared values.

        A side has some precision up to that of all its rows, and a weighted mean of deviations between the least and
        the greatest of its providers. All such pairs are searched, whether or not whole numbers of rows make them.
        """
        low, high = (value - self.mean for value in self._declared(values))
        sides = []
        for part in ([(self, rows)], self._laws(peers)):
            total = sum(float(law._weight(np.asarray(float(limit)))) for law, limit in part)
            offsets = [law.offset for law, limit in part if limit] or [0.0]
            sides.append((np.linspace(0.0, total, _GRID), low - max(offsets), high - min(offsets)))
        return Extremes(*ray_extremes(self.log_pmi, *sides))

    def _laws(self, peers: Sequence[tuple[Model, int]]) -> list[tuple[ProviderNormal, int]]:
        found = []
        for other, rows in peers:
            if not isinstance(other, ProviderNormal) or other.space != self.space:
                raise UnboundedRangeError(f"no range is known for {self!r} beside {other!r}")
            found.append((other, rows))
        return found

    def draw_parameters(self, rng: Generator, shape: tuple[int, ...] = (), /) -> Array:
        """Draw θ from the prior, shape ``(*shape, 1)``."""
        return rng.normal(self.mean, self.scale, size=(*shape, 1))

    def draw_posterior(self, rng: Generator, statistics: Array, /) -> Array:
        """Draw θ given statistics."""
        t = np.asarray(statistics, dtype=np.float64)
        precision = self.scale**-2 + t[..., :1]
        return self.mean + t[..., 1:] / precision + rng.standard_normal(precision.shape) / np.sqrt(precision)

    def draw_data(self, rng: Generator, parameters: Array, rows: int, /) -> Array:
        """Draw rows of values for each θ; the rows of a dataset share one effect."""
        effect = self.offset + self.dispersion * rng.standard_normal(parameters.shape)
        return parameters + effect + self.noise * rng.standard_normal((*parameters.shape[:-1], rows))

    def draw_statistics(self, rng: Generator, parameters: Array, design: Array, /) -> Array:
        """Draw (w, h) for each θ and precision: h ~ N(w(θ − mean), w)."""
        theta, weight = scalar_parameters(parameters, design)
        noise = np.sqrt(weight) * rng.standard_normal(weight.shape)
        return np.stack([weight, weight * (theta - self.mean) + noise], axis=-1)

    def expected_log_evidence(self, design: Array, /) -> Exact:
        """−½ ln(λ/λ₀): h has variance (λ − λ₀)λ/λ₀, so E[h²/2λ] = (λ/λ₀ − 1)/2 is linear in the precision."""
        return np.asarray(-0.5 * np.log1p(design[..., 0] * self.scale**2))

    def sensitivity(self, rows: int, peers: Peers, /) -> Sensitivity:  # noqa: ARG002
        """One peer row suffices, against the paper's appendix (erratum E1).

        Proof. The predictive is normal with the posterior mean plus a known offset, and with the posterior variance
        plus a known noise and dispersion: it determines both. ∎
        """
        return one_row_suffices(peers, "the predictive's mean and variance determine the posterior (E1)")

    def base_measure(self, summaries: Array, reduction: Reduction, /) -> Array:
        """Return the log-density of a report at θ = mean."""
        s = moments_around(summaries, reduction, self.mean + self.offset)
        return dispersed_mean_log_density(s, self.dispersion, self.noise)

    provider_effects: ClassVar[str] = "offsets"

    @classmethod
    def suits_reduction(cls, reduction: Reduction, /) -> bool:
        """One column of numbers that need not be whole."""
        return isinstance(reduction, Moments) and reduction.columns == 1 and not reduction.support.integer

    @classmethod
    def fit_options(cls, _: Reduction, /) -> tuple[str, ...]:
        """Name the options of `fit`."""
        return ("spread", "watch")

    @classmethod
    def fit(  # type: ignore[override]
        cls, history: History, *, spread: float | None = None, watch: Watch | None = None
    ) -> FittedOffsets:
        """Learn the prior of a day's mean, and each provider's offset and dispersion.

        Parameters
        ----------
        history
            Past days; they must be public or paid for, and not depend on the reports that the model will price.
        spread
            Standard deviation of values within a day, where the history has no sums of squares.
        watch
            Called with the share of the work that is done, and with words.

        Examples
        --------
        >>> import troth
        >>> rng = np.random.default_rng(1)
        >>> reports = []
        >>> for day, theta in enumerate(rng.normal(20, 3, 60)):
        ...     for name, offset in (("a", -1.0), ("b", 1.0)):
        ...         x = theta + offset + rng.normal(0, 0.5) + rng.normal(0, 1, 30)
        ...         reports.append((day, name, Moments(squares=True).of_rows(x[:, None])))
        >>> learned = ProviderNormal.fit(troth.History.from_reports(reports, Moments(squares=True)))
        >>> 1.7 < learned.models["b"].offset - learned.models["a"].offset < 2.3
        True
        """
        return fit_offsets(cls, history, spread=spread, watch=watch)
