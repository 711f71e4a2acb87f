"""Measurements by providers, each with its own offset and daily effects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from troth.core.contract import Array, Extremes, Generator, Mask
from troth.core.past import History
from troth.core.reductions import Reduction
from troth.core.sensitivity import Peers
from troth.models.family import Example, scalar_parameters
from troth.models.fitting.day_types.fit import ProgressCallback
from troth.models.fitting.offsets import FittedOffsets, fit_offsets
from troth.models.normal import NormalMean
from troth.models.numerics.dispersed import dispersed_mean_log_density, real_weight, summaries_around
from troth.models.numerics.extremes import count_ladder
from troth.models.numerics.normal_extremes import Side, normal_extremes
from troth.models.numerics.possible_statistics import SLACK
from troth.models.parameters import Integer, Kind, non_negative, number, parameter, positive


@dataclass(frozen=True)
class ProviderNormal(NormalMean):
    """Values around θ ~ N(mean, scale²), with a provider's offset b and its effect u on the day.

    x = θ + b + u + ε with the offset b, u ~ N(0, τ²) once a day, τ the dispersion, and ε ~ N(0, σ²) in each row, σ the
    noise. So the mean of n rows is ȳ ~ N(θ + b, τ² + σ²/n). Statistic: (w, w(ȳ − b − mean)) with w = 1/(τ² + σ²/n),
    which adds over providers with any offsets, dispersions and noises. Λ(t) = h²/2λ − ½ ln λ with
    λ = 1/scale² + w and h = w(ȳ − b − mean). The summary (n, Σ(x − mean)) adds over rows.

    Examples
    --------
    >>> ProviderNormal(mean=100, scale=5, noise=2, offset=1, dispersion=1).statistics([101, 105])
    array([0.33333333, 0.66666667])
    """

    mean: float = field(metadata=parameter("prior mean", number, 15.0))
    noise: float = field(metadata=parameter("standard deviation of a value around its day", positive, 1.0, known=True))
    offset: float = field(
        default=0.0, metadata=parameter("how far the provider's values lie above the others'", number, 0.0, known=True)
    )
    dispersion: float = field(
        default=0.0,
        metadata=parameter(
            "standard deviation of the effect that a provider's values on one day share", non_negative, 0.5, known=True
        ),
    )

    description: ClassVar[str] = "numbers, each provider with its own offset"
    example: ClassVar[Example] = Example(
        "a temperature that stations read with their own offset and daily error",
        ("temperature",),
        "station",
        values=(0, 200),
    )
    independent_rows: ClassVar[bool] = False
    own_likelihoods: ClassVar[bool] = True

    def _weight(self, rows: Array) -> Array:
        return real_weight(rows, np.asarray(self.dispersion), np.asarray(self.noise))

    def from_summary(self, summary: Array, /) -> Array:
        """Map (n, Σ(x − mean)) to the precision of the day's mean, and its deviation times the precision."""
        s = np.asarray(summary, dtype=np.float64)
        weight = self._weight(s[..., 0])
        average = s[..., 1] / np.maximum(s[..., 0], 1.0)
        return np.stack([weight, weight * (average - self.offset)], axis=-1)

    def rows(self, statistics: Array, /) -> Array:
        """Return the number of rows behind one provider's statistic: n = wσ²/(1 − wτ²)."""
        w = np.asarray(statistics, dtype=np.float64)[..., 0]
        return np.asarray(w * self.noise**2 / np.maximum(1 - w * self.dispersion**2, np.finfo(float).tiny))

    possible_statistics: ClassVar[str] = "a precision is at least 0 and below 1/dispersion²"

    def possible(self, statistics: Array, /) -> Mask:
        """Return where the precision is that of some number of rows."""
        w = np.asarray(statistics, dtype=np.float64)[..., 0]
        return np.asarray((w >= 0) & (w * self.dispersion**2 <= 1 + SLACK))

    def design(self, statistics: Array, /) -> Array:
        """Return the precision of the day's mean; precisions add over providers."""
        return np.asarray(statistics, dtype=np.float64)[..., :1]

    def plan(self, rows: Any, /) -> Array:
        """Return the precision of the mean of ``rows`` rows."""
        return self._weight(super().plan(rows))

    def log_pmi_extremes(self, rows: int, peers: Peers, values: tuple[float, float] | None = None, /) -> Extremes:
        """Extremes over every report of up to ``rows`` rows within the declared values.

        A report has the precision of its number of rows and a mean between the declared values less its offset.
        """
        low, high = (value - self.mean for value in self._declared(values))
        own, *peer_sides = (
            Side(model._weight(count_ladder(limit)), low - model.offset, high - model.offset)
            for model, limit in [(self, rows), *self._in_one_space(peers)]
        )
        return Extremes(*normal_extremes(self.log_pmi, self._prior_rows, own, peer_sides))

    def draw_data(self, rng: Generator, parameters: Array, rows: int, /) -> Array:
        """Draw rows of values for each θ; the rows of a dataset share one effect."""
        effect = self.offset + self.dispersion * rng.standard_normal(parameters.shape)
        return parameters + effect + self.noise * rng.standard_normal((*parameters.shape[:-1], rows))

    def draw_statistics(self, rng: Generator, parameters: Array, design: Array, /) -> Array:
        """Draw (w, h) for each θ and precision: h ~ N(w(θ − mean), w)."""
        theta, weight = scalar_parameters(parameters, design)
        noise = np.sqrt(weight) * rng.standard_normal(weight.shape)
        return np.stack([weight, weight * (theta - self.mean) + noise], axis=-1)

    def expected_log_evidence(self, design: Array, /) -> Array | None:
        """−½ ln(λ/λ₀): h has variance (λ − λ₀)λ/λ₀, so E[h²/2λ] = (λ/λ₀ − 1)/2 is linear in the precision."""
        return np.asarray(-0.5 * np.log1p(design[..., 0] * self.scale**2))

    def base_measure(self, summaries: Array, reduction: Reduction, /) -> Array:
        """Return the log-density of a report at θ = mean."""
        s = summaries_around(summaries, reduction, self.mean + self.offset)
        return dispersed_mean_log_density(s, self.dispersion, self.noise)

    provider_effects: ClassVar[str] = "offsets"

    @classmethod
    def fit_options(cls, _: Reduction, /) -> Mapping[str, Kind | None]:
        """Return the options of `fit`."""
        return {"spread": positive, "ahead": Integer(1), "progress": None}

    @classmethod
    def fit(  # type: ignore[override]
        cls,
        history: History,
        *,
        spread: float | None = None,
        ahead: int | None = None,
        progress: ProgressCallback | None = None,
    ) -> FittedOffsets:
        """Learn the prior of a day's mean, and each provider's offset and dispersion.

        Parameters
        ----------
        history
            Past days, as for `Family.fit`.
        spread
            Standard deviation of values within a day, if the history has no sums of squares.
        ahead
            Model offsets and the level of days as random walks, and learn the model of the next ``ahead`` days: offsets
            and the prior mean are those after the last day, and variances include their drift. By default, they are
            constant.
        progress
            Called with the fraction of work done and the name of the current step.

        Examples
        --------
        >>> import troth
        >>> from troth.core.reductions import Moments
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
        return fit_offsets(cls, history, spread=spread, ahead=ahead, progress=progress)
