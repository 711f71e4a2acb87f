"""The density of a report of values whose mean has a normal effect: what the base measure of normal families is."""

from __future__ import annotations

import numpy as np

from troth.core.contract import Array
from troth.core.errors import DataError
from troth.core.reductions import Moments, Reduction


def moments_around(summaries: Array, reduction: Reduction, location: float) -> Array:
    """Return (n, Σ(x − location)) of past summaries of one column, and Σ(x − location)² where they have squares."""
    if not isinstance(reduction, Moments):
        raise DataError("a normal model needs numbers, not codes")
    return reduction.convert(summaries, Moments((location,), squares=reduction.squares))


def dispersed_mean_log_density(moments: Array, dispersion: float, noise: float) -> Array:
    """Log-density of a report whose mean is N(location, τ² + σ²/n), rows included where there are squares.

    Examples
    --------
    >>> bool(np.isclose(dispersed_mean_log_density(np.array([4.0, 2.0]), 0.0, 2.0), -0.5 * np.log(2 * np.pi) - 0.125))
    True
    """
    n = np.maximum(moments[..., 0], 1.0)
    variance = dispersion**2 + noise**2 / n
    density = -0.5 * np.log(2 * np.pi * variance) - (moments[..., 1] / n) ** 2 / (2 * variance)
    if moments.shape[-1] == 3:
        scatter = np.maximum(moments[..., 2] - moments[..., 1] ** 2 / n, 0.0)
        density = density - 0.5 * (n - 1) * np.log(2 * np.pi * noise**2) - scatter / (2 * noise**2) - 0.5 * np.log(n)
    return np.asarray(density)
