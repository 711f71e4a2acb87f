"""Levels that walk at random: where each provider, or a day, stands now, and how far it may go in days to come."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from troth.core.contract import Array

_STEPS = np.concatenate([[0.0], 10.0 ** np.arange(-5.0, 0.6, 0.5)])  # variances of a day's step, of one residual's
_PARTS = np.array([0.05, 0.2, 0.4, 0.6, 0.8, 1.0])  # of the dispersion's variance that is not the walk's


class Walk(NamedTuple):
    """Levels after the last day, their variances for the days to come, and which part of the dispersion stays."""

    offset: Array
    variance: Array
    part: float
    step: float


def walk_of(residual: Array, dispersion: Array, noise: Array, ahead: int) -> Walk:
    """Filter residuals r_t = b_t + e_t, b_t = b_{t−1} + u_t, of each provider (the local level model).

    e_t has variance c·τ² + σ²/n and u_t variance q. The share c and q, in units of the mean variance of a residual, are
    those of a grid that make the residuals likeliest, the same for all providers; q = 0 is an offset that stays. The
    variance of an offset ``h`` days later is that after the last day plus hq, averaged over h = 1 … ``ahead``.

    Parameters
    ----------
    residual
        Reported means less the day's, ``(day, provider)``, NaN where there is no report.
    dispersion
        τ² by provider.
    noise
        σ²/n, ``(day, provider)``.
    """
    seen = ~np.isnan(residual)
    unit = float(np.nanmean(np.where(seen, residual - np.nanmean(residual, axis=0), np.nan) ** 2))
    part, step = (grid.ravel()[:, None] for grid in np.meshgrid(_PARTS, _STEPS * unit, indexing="ij"))
    level = np.broadcast_to(np.nanmean(residual[: max(5, len(residual) // 10)], axis=0), (len(part), residual.shape[1]))
    level = np.nan_to_num(level)
    spare = np.full(level.shape, unit)
    fit = np.zeros(len(part))
    for day, reported in enumerate(residual):
        spare = spare + step
        total = spare + part * dispersion + np.where(seen[day], noise[day], 1.0)
        away = np.where(seen[day], reported - level, 0.0)
        fit -= 0.5 * np.where(seen[day], np.log(total) + away**2 / total, 0.0).sum(axis=1)
        gain = np.where(seen[day], spare / total, 0.0)
        level, spare = level + gain * away, spare * (1 - gain)
    best = int(np.argmax(fit))
    variance = spare[best] + float(step[best, 0]) * (ahead + 1) / 2
    return Walk(level[best], variance, float(part[best, 0]), float(step[best, 0]))
