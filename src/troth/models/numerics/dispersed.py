"""A provider's data on one day: rows are i.i.d. given the day's type and an effect of the provider on that day.

Each kind of outcome has a mean per type and a dispersion: how strongly the effect moves all of a provider's rows
together. At dispersion 0 rows are i.i.d. given the type. All functions take summaries and are vectorised:

- summaries ``(..., entry)``, means ``(..., type)`` or ``(..., type, code)`` and dispersions ``(...)``, with leading
  axes that broadcast, give log-likelihoods ``(..., type)``;
- terms that do not depend on the type cancel in log PMI, and are left out unless a fit asks for ``all_terms``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import xlogy

from troth.core.contract import Array, Generator
from troth.core.errors import DataError
from troth.core.reductions import Moments, Reduction
from troth.models.numerics.second_difference import binet_remainder

OUTCOMES = ("binary", "categorical", "count", "real")
LABELS = ("binary", "categorical")

_MAX_RATE = 1e15  # larger Poisson draws would overflow an integer
_MIN_INVERTIBLE = 1e-300  # smaller numbers have no finite inverse


def log_rising(x: Array, count: Array) -> Array:
    """Σ_{i<count} log1p(i/x) = lnΓ(x + c) − lnΓ(x) − c ln x, for x > 0 or x = ∞.

    With u = c/x it is x((1 + u) log1p(u) − u) − ½ log1p(u) + R(x + c) − R(x), with R the remainder of Stirling's
    formula. The error is that of rounding c, however large x is, so the result tends to 0 with the dispersion 1/x.

    Examples
    --------
    >>> bool(np.isclose(log_rising(np.array(2.0), np.array(3.0)), np.log(1.5 * 2.0)))
    True
    """
    shape = np.broadcast_shapes(np.shape(x), np.shape(count))
    x, c = np.atleast_1d(np.asarray(x, dtype=np.float64)), np.atleast_1d(np.asarray(count, dtype=np.float64))
    finite = np.where(np.isfinite(x), x, 1.0)
    u = c / finite
    log = np.log1p(u)
    rising = finite * ((1 + u) * log - u) - 0.5 * log + (binet_remainder(finite + c) - binet_remainder(finite))
    return np.asarray(np.where(np.isfinite(x), rising, 0.0)).reshape(shape)


def pseudo_counts(means: Array, dispersion: Array) -> Array:
    """Return the parameters a = m(1 − ρ)/ρ of the Dirichlet with means m and intra-class correlation ρ; ∞ at ρ = 0."""
    with np.errstate(divide="ignore"):
        return np.asarray(means * ((1 - dispersion) / dispersion))


def labels_log_likelihood(counts: Array, means: Array, dispersion: Array) -> Array:
    """Ln p(labels|type), Dirichlet-multinomial: Σ_c [n_c ln m_c + Σ_{i<n_c} log1p(i/a_c)] − Σ_{i<n} log1p(i/Σa)."""
    c = np.asarray(counts, dtype=np.float64)[..., None, :]
    log_probability = xlogy(c, means).sum(axis=-1)
    rho = np.asarray(dispersion, dtype=np.float64)
    if not rho.any():
        return np.asarray(log_probability)
    strength = pseudo_counts(np.ones(()), rho)[..., None]
    rising = log_rising(means * strength[..., None], c).sum(axis=-1)
    return np.asarray(log_probability + rising - log_rising(strength, c.sum(axis=-1)))


def count_log_likelihood(summaries: Array, means: Array, dispersion: Array, all_terms: bool = False) -> Array:
    """Ln p(counts|type), negative binomial: S ln λ − (S + 1/δ) log1p(nλδ), and S ln λ − nλ at δ = 0."""
    n, total = summaries[..., None, 0], summaries[..., None, 1]
    delta = np.asarray(dispersion, dtype=np.float64)[..., None]
    u = n * means * delta
    log = np.log1p(u)
    share = np.divide(log, u, out=np.ones(np.shape(u)), where=u > 0)
    log_probability = total * (np.log(means) - log) - n * means * share
    if all_terms:
        with np.errstate(divide="ignore"):
            log_probability = log_probability + log_rising(1 / delta, total)
    return np.asarray(log_probability)


def real_weight(rows: Array, dispersion: Array, spread: Array) -> Array:
    """Precision of the mean of ``rows`` rows: 1/(τ² + σ²/n), and 0 without rows."""
    return np.asarray(rows / (rows * dispersion**2 + spread**2))


def real_log_likelihood(
    summaries: Array, means: Array, dispersion: Array, spread: Array, all_terms: bool = False
) -> Array:
    """Ln p(values|type) for ȳ ~ N(μ, τ² + σ²/n) relative to type 0: w(μ − μ₀)(ȳ − (μ + μ₀)/2), w = 1/(τ² + σ²/n).

    The difference is formed without squares, so it stays accurate for values far from every mean.
    """
    n, total = summaries[..., None, 0], summaries[..., None, 1]
    tau, sigma = (np.asarray(x, dtype=np.float64)[..., None] for x in (dispersion, spread))
    weight = real_weight(n, tau, sigma)
    average = total / np.maximum(n, 1.0)
    first = means[..., :1]
    log_probability = weight * (means - first) * (average - 0.5 * (means + first))
    if all_terms:
        # The sum of squares around the mean is left out: it does not depend on the effect.
        first_type = np.log(np.where(n > 0, weight, 1.0)) - weight * (average - first) ** 2
        log_probability = log_probability + 0.5 * first_type
    return np.asarray(log_probability)


def log_likelihood(outcome: str, summaries: Array, means: Array, dispersion: Any, spread: Any) -> Array:
    """Return log-likelihoods of summaries by type, ``(..., type)``; means of binary rows are probabilities of 1."""
    if outcome == "real":
        return real_log_likelihood(summaries, means, dispersion, spread)
    if outcome == "count":
        return count_log_likelihood(summaries, means, dispersion)
    return labels_log_likelihood(summaries, as_probabilities(outcome, means), dispersion)


def as_probabilities(outcome: str, means: Array) -> Array:
    """Return the probabilities of all codes; for binary rows, ``means`` are those of code 1."""
    return np.stack([1 - means, means], axis=-1) if outcome == "binary" else means


def draw_effect(outcome: str, rng: Generator, means: Array, dispersion: float) -> Array:
    """Draw a provider's probabilities, rate or mean on a day, for each given mean."""
    if outcome in LABELS:
        p = as_probabilities(outcome, means)
        return p if dispersion == 0 else draw_dirichlet(rng, pseudo_counts(p, np.asarray(dispersion)))
    if outcome == "count":
        if dispersion == 0:
            return means
        return np.minimum(means * dispersion * rng.standard_gamma(1 / dispersion, size=means.shape), _MAX_RATE)
    return np.asarray(means + dispersion * rng.standard_normal(means.shape))


def draw_rows(outcome: str, rng: Generator, effect: Array, rows: int, spread: float) -> Array:
    """Draw rows given the effect, shape ``(..., rows)``."""
    if outcome in LABELS:
        return draw_codes(rng, effect, rows)
    if outcome == "count":
        return rng.poisson(effect[..., None], size=(*effect.shape, rows)).astype(np.float64)
    return np.asarray(effect[..., None] + spread * rng.standard_normal((*effect.shape, rows)))


def draw_summaries(outcome: str, rng: Generator, effect: Array, rows: Array, spread: float, centre: float) -> Array:
    """Draw summaries given the effect, with the leading axes of effects and rows."""
    if outcome in LABELS:
        return draw_counts(rng, effect, rows)
    if outcome == "count":
        return np.stack([rows, rng.poisson(np.minimum(effect * rows, _MAX_RATE)).astype(np.float64)], axis=-1)
    noise = spread * np.sqrt(rows) * rng.standard_normal(rows.shape)
    return np.stack([rows, rows * (effect - centre) + noise], axis=-1)


def draw_codes(rng: Generator, probabilities: Array, rows: int) -> Array:
    """Draw codes by inversion, shape ``(..., rows)``."""
    thresholds = np.cumsum(probabilities, axis=-1)[..., :-1]
    uniform = rng.random((*probabilities.shape[:-1], rows)) * np.sum(probabilities, axis=-1)[..., None]
    codes = np.zeros(uniform.shape)
    for threshold in np.moveaxis(thresholds, -1, 0):
        codes += uniform >= threshold[..., None]
    return codes


def draw_counts(rng: Generator, probabilities: Array, rows: Array) -> Array:
    """Draw multinomial counts; the leading axes broadcast."""
    shape = np.broadcast_shapes(probabilities.shape[:-1], rows.shape)
    p = np.broadcast_to(probabilities, (*shape, probabilities.shape[-1]))
    return np.asarray(rng.multinomial(np.broadcast_to(rows, shape).astype(np.int64), p), dtype=np.float64)


def draw_dirichlet(rng: Generator, a: Array) -> Array:
    """Draw probabilities by ln G(a) = ln G(a + 1) + ln(U)/a, which does not underflow for small a."""
    log = np.log(rng.standard_gamma(a + 1)) + np.log1p(-rng.random(a.shape)) / np.maximum(a, _MIN_INVERTIBLE)
    weights = np.exp(log - log.max(axis=-1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


def summaries_around(summaries: Array, reduction: Reduction, location: float) -> Array:
    """Return (n, Σ(x − location)) of past summaries of one column, and Σ(x − location)² if they have squares."""
    if not isinstance(reduction, Moments):
        raise DataError("a normal model needs numbers, not codes")
    return reduction.convert(summaries, Moments((location,), squares=reduction.squares))


def dispersed_mean_log_density(summaries: Array, dispersion: float, noise: float) -> Array:
    """Log density of a report whose mean is N(location, τ² + σ²/n): of its rows if squares are known, else of its mean.

    It is 0 for empty reports.

    Examples
    --------
    >>> bool(np.isclose(dispersed_mean_log_density(np.array([4.0, 2.0]), 0.0, 2.0), -0.5 * np.log(2 * np.pi) - 0.125))
    True
    """
    n = np.maximum(summaries[..., 0], 1.0)
    variance = dispersion**2 + noise**2 / n
    density = -0.5 * np.log(2 * np.pi * variance) - (summaries[..., 1] / n) ** 2 / (2 * variance)
    if summaries.shape[-1] == 3:
        scatter = np.maximum(summaries[..., 2] - summaries[..., 1] ** 2 / n, 0.0)
        density = density - 0.5 * (n - 1) * np.log(2 * np.pi * noise**2) - scatter / (2 * noise**2) - 0.5 * np.log(n)
    return np.where(summaries[..., 0] > 0, density, 0.0)
