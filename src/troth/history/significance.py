"""Significance of gains, corrected for all comparisons, with single providers shrunk towards the mean."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from troth.history.findings import PastFinding
from troth.history.intervals import joint_level, over_days

if TYPE_CHECKING:
    from collections.abc import Sequence

    from troth.audits.findings import LieVerdict
    from troth.core.contract import Array


def findings_of(
    lies: Sequence[str],
    providers: Sequence[Any],
    truth: Array,
    gains: Array,
    refused: Array,
    false_alarm: float,
    negligible: float,
) -> tuple[tuple[PastFinding, ...], tuple[PastFinding, ...]]:
    """Return findings overall and by provider from daily numbers ``(day, provider[, lie])``.

    Half of the false-alarm rate goes to the means over providers and half to single providers. `joint_level` divides
    each half among comparisons, one-sided for gains and for losses.
    """
    honest, means, refusals = daily_mean(truth), daily_mean(gains), daily_mean(refused)
    columns: list[Any] = [(lie, None, honest, means[:, k], 0.0, None, refusals[:, k]) for k, lie in enumerate(lies)]
    overall = _tested(columns, false_alarm, negligible)
    columns = []
    for k, lie in enumerate(lies):
        shrinkage = _Shrinkage(gains[..., k], means[:, k])
        series, extra = shrinkage.series()
        for i, provider in enumerate(providers):
            alone = partial(shrinkage.detectable_alone, i)
            columns.append((lie, provider, truth[:, i], series[:, i], float(extra[i]), alone, refused[:, i, k]))
    return overall, _tested(columns, false_alarm, negligible)


def _tested(columns: Sequence[Any], false_alarm: float, negligible: float) -> tuple[PastFinding, ...]:
    """Test comparisons jointly: lie, provider, honest share, daily gain, extra variance, detectable gain, refusals."""
    level = joint_level(np.stack([gain for _, _, _, gain, *_ in columns], axis=1), false_alarm / 2)
    findings = []
    for lie, provider, honest, gain, extra, alone, refusals in columns:
        interval = over_days(gain, false_alarm, negligible, extra)
        verdict: LieVerdict = "open"
        if interval.days and not np.nan_to_num(gain).any():
            verdict = "unchanged"
        elif interval.above <= level:
            verdict = "gains"
        elif interval.below <= level:
            verdict = "loses"
        mean = mean_of(honest)
        numbers = mean, mean + interval.mean, interval.mean, interval.low, interval.high
        days = int((~np.isnan(honest)).sum()) if interval.days else 0
        detectable = interval.detectable(level, negligible) if alone is None else alone(level, negligible)
        findings.append(PastFinding(lie, *numbers, detectable, mean_of(refusals), verdict, provider, days))
    return tuple(findings)


class _Shrinkage:
    """Shrinks providers' daily gains ``(day, provider)`` towards the mean over providers (empirical Bayes).

    With d_i the mean deviation of provider i from the mean over providers, s_i² its sampling variance and τ² the
    variance of true deviations, mean d_i² minus mean s_i², the estimate is the mean over providers plus w_i d_i, where
    w_i = τ²/(τ² + s_i²). Its variance is that of its daily series plus (1 − w_i)²τ², for the deviation that shrinkage
    removed.
    """

    def __init__(self, gains: Array, mean: Array) -> None:
        self.gains, self.mean, self.daily_deviations = gains, mean, gains - mean[:, None]
        intervals = [over_days(column, 0.05) for column in self.daily_deviations.T]
        self.measured = np.array([interval.days > 2 for interval in intervals])
        self.noise = np.array(
            [i.error**2 if measured else np.inf for i, measured in zip(intervals, self.measured, strict=True)]
        )
        self.deviation = np.array([interval.mean for interval in intervals])

    def _weights(self, deviation: Array) -> tuple[Array, float]:
        """Return w_i and τ² for mean deviations."""
        measured, noise = self.measured, self.noise
        between = max(
            float(np.mean(deviation[measured] ** 2 - noise[measured])) * measured.sum() / (measured.sum() - 1), 0.0
        )
        weight = np.where(measured, between / np.where(between + noise > 0, between + noise, 1.0), 0.0)
        return np.where(measured & (noise == 0), 1.0, weight), between

    def series(self) -> tuple[Array, Array]:
        """Return daily gains after shrinkage, and the variance of the deviation that it removed."""
        if self.measured.sum() < 3:
            return self.gains, np.zeros(self.gains.shape[1])
        weight, between = self._weights(self.deviation)
        days, present = (~np.isnan(self.mean)).sum(), (~np.isnan(self.gains)).sum(axis=0)
        series = self.mean[:, None] + weight * np.nan_to_num(self.daily_deviations) * days / np.maximum(present, 1)
        return np.where(present > 0, series, np.nan), np.where(self.measured, (1 - weight) ** 2 * between, 0.0)

    def detectable_alone(self, provider: int, level: float, negligible: float) -> float:
        """Return the gain of one provider that is detected with probability `POWER` if no other provider gains."""
        own, overall = over_days(self.gains[:, provider], 0.05), over_days(self.mean, 0.05)
        if self.measured.sum() < 3 or not self.measured[provider] or not np.isfinite(overall.error):
            return own.detectable(level, negligible)
        peers = self.measured.sum() - 1
        covariance = (own.error**2 - overall.error**2 - self.noise[provider]) / 2

        def missing(gain: float) -> float:
            """Return the difference between the detectable gain and the estimate if the others gain nothing."""
            deviation = np.where(self.measured, -gain / (peers + 1), 0.0)
            deviation[provider] = gain * peers / (peers + 1)
            noise = np.where(self.measured, self.noise, 0.0)
            weights, between = self._weights(np.sqrt(deviation**2 + noise))  # expected deviations include noise
            w = weights[provider]
            variance = overall.error**2 + w**2 * self.noise[provider] + 2 * w * covariance + (1 - w) ** 2 * between
            needed = own._replace(error=float(np.sqrt(max(variance, 0.0)))).detectable(level, negligible)
            return float(needed - (gain / (peers + 1) + w * deviation[provider]))

        low, high = 0.0, 1.0
        if missing(high) > 0:
            return float("inf")
        for _ in range(20):
            middle = (low + high) / 2
            low, high = (middle, high) if missing(middle) > 0 else (low, middle)
        return high


def daily_mean(numbers: Array) -> Array:
    """Return daily means of ``(day, provider, ...)`` over the providers who reported; NaN if nobody did."""
    count = (~np.isnan(numbers)).sum(axis=1)
    return np.where(count > 0, np.nansum(numbers, axis=1) / np.maximum(count, 1), np.nan)


def mean_of(numbers: Array) -> float:
    """Return the mean of the numbers that are not NaN; NaN if there are none."""
    measured = numbers[~np.isnan(numbers)]
    return float(measured.mean()) if len(measured) else float("nan")
