"""Likelihood ratios of day types, their range, and the similarity of types' predictions.

At a billion rows a log-likelihood has ten digits before the decimal point, and most of it is common to all types.
Differences between types are computed directly, so they stay accurate at any number of rows.
"""

from __future__ import annotations

from math import comb
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import gammaln

from troth.core.contract import Array
from troth.models.numerics.dispersed import (
    LABELS,
    as_probabilities,
    count_log_likelihood,
    log_likelihood,
    log_rising,
    pseudo_counts,
    real_weight,
)
from troth.models.numerics.extremes import unordered_datasets
from troth.models.numerics.second_difference import binet_remainder, minus_product

if TYPE_CHECKING:
    from troth.models.latent_class import LatentClass

_MAX_EXACT_ROWS = 4000  # with more rows, the best report of labels is bounded instead of found
_MAX_REPORTS = 200_000  # in an enumeration


def log_likelihood_ratios(outcome: str, summaries: Array, means: Array, dispersion: float, spread: float) -> Array:
    """Ln p(data|type)/p(data|most likely type) of summaries ``(..., entry)``, ``(..., type)``; 0 for empty reports.

    Examples
    --------
    >>> log_likelihood_ratios("count", np.array([2.0, 6.0]), np.array([1.0, 3.0]), 0.0, 0.0).round(3)
    array([-2.592,  0.   ])
    """
    best = log_likelihood(outcome, summaries, means, dispersion, spread).argmax(axis=-1)
    if outcome == "real":
        return _real_ratios(summaries, means, means[best], dispersion, spread)
    if outcome == "count":
        return _count_ratios(summaries, means, means[best], dispersion)
    p = as_probabilities(outcome, means)
    if outcome == "binary":
        gap = means - means[best][..., None]
        gaps = np.stack([-gap, gap], axis=-1)
    else:
        gaps = p - p[best][..., None, :]
    return _label_ratios(summaries, p, p[best], gaps, dispersion)


def _real_ratios(summaries: Array, means: Array, reference: Array, dispersion: float, spread: float) -> Array:
    """(μ − μ′)(Σ(x − μ) + Σ(x − μ′))/2(nτ² + σ²)."""
    n, total, other = summaries[..., None, 0], summaries[..., None, 1], reference[..., None]
    gaps = minus_product(total, means, n) + minus_product(total, other, n)
    return np.asarray((means - other) * gaps / (2 * (n * dispersion**2 + spread**2)))


def _count_ratios(summaries: Array, means: Array, reference: Array, dispersion: float) -> Array:
    """S ln λ(1 + u′)/λ′(1 + u) − (1/δ) ln (1 + u)/(1 + u′) with u = nλδ; at δ = 0 the last term is n(λ − λ′).

    This is S ln λ − (S + 1/δ) log1p(u) minus the same for λ′. With many rows the ratio in the first term tends to 1.
    """
    n, total, other = summaries[..., None, 0], summaries[..., None, 1], reference[..., None]
    gap = means - other
    own, other_part = 1 + n * means * dispersion, 1 + n * other * dispersion
    v = n * dispersion * gap / other_part
    share = np.divide(_log_ratio(own, other_part, n * dispersion * gap), v, out=np.ones(v.shape), where=v != 0)
    return np.asarray(total * _log_ratio(means * other_part, other * own, gap) - n * gap / other_part * share)


def _label_ratios(counts: Array, p: Array, reference: Array, gaps: Array, dispersion: float) -> Array:
    """Σ_c [lnΓ(a_c + n_c) − lnΓ(a_c)] minus the same for a′, where Σa = Σa′; Σ_c n_c ln p_c/p′_c without dispersion.

    Up to Σa rows the result is close to that without dispersion, and the correction is small. With more rows and
    d = a − a′, lnΓ(x + d) − lnΓ(x) = d ln x − d + (x + d − ½) ln (x + d)/x + R(x + d) − R(x) is used at x = a′ + n and
    at x = a′. Because Σd = 0, no term grows with the number of rows.
    """
    c, other = counts[..., None, :], reference[..., None, :]
    independent = c * _log_ratio(p, other, gaps)
    if dispersion == 0:
        return np.asarray(independent.sum(axis=-1))
    strength = float(pseudo_counts(np.ones(()), np.asarray(dispersion)))
    a, b = p * strength, other * strength
    d = gaps * strength
    few_rows = independent + (log_rising(a, c) - log_rising(b, c))
    rows = c.sum(axis=-1, keepdims=True)
    logs = np.log((b + c) / (strength + rows) / other)
    many_rows = d * logs + (_gamma_step(b + c, a + c, d) - _gamma_step(b, a, d))
    return np.asarray(np.where(rows <= strength, few_rows, many_rows).sum(axis=-1))


def _gamma_step(x: Array, y: Array, d: Array) -> Array:
    """LnΓ(y) − lnΓ(x) − d ln x + d, where y = x + d."""
    return np.asarray((y - 0.5) * _log_ratio(y, x, d) + (binet_remainder(y) - binet_remainder(x)))


def _log_ratio(x: Array, y: Array, difference: Array) -> Array:
    """Ln x/y, computed from x − y if they are close."""
    u = difference / y
    close = np.abs(u) < 0.5
    return np.asarray(np.where(close, np.log1p(np.where(close, u, 0.0)), np.log(x / y)))


def max_log_ratio(
    outcome: str,
    rows: int,
    means: Array,
    dispersion: float,
    spread: float = 0.0,
    values: tuple[float, float] = (-np.inf, np.inf),
) -> float:
    """Return the largest log-likelihood ratio of two types for up to ``rows`` rows, or an upper bound.

    Means are by type, for labels probabilities ``(type, code)``; counts and values need bounds.
    """
    if rows == 0 or len(means) == 1:
        return 0.0
    if outcome in LABELS:
        return max(_max_label_ratio(rows, first, second, dispersion) for first in means for second in means)
    if outcome == "count":
        return _max_count_ratio(rows, means, dispersion, max(values[1], 0.0))
    return _max_real_ratio(rows, means, dispersion, spread, values)


def _max_label_ratio(rows: int, first: Array, second: Array, dispersion: float) -> float:
    """Return the largest log-likelihood ratio of two types over reports of labels.

    Row i of code c adds ln((p_c + iγ)/(p′_c + iγ)) with γ = ρ/(1 − ρ), which is positive if and only if p_c > p′_c,
    and then decreases in i. So the best report takes the ``rows`` largest increments. If they are too many to sort, the
    bound gives all rows to every code with positive increments.
    """
    better = first > second
    p, q = first[better], second[better]
    if not len(p):
        return 0.0
    gamma = dispersion / (1 - dispersion)
    if gamma == 0:
        return float(rows * np.log(p / q).max())
    if rows > _MAX_EXACT_ROWS:
        n, rho = np.full(len(p), float(rows)), np.asarray(dispersion)
        gain = rows * np.log(p / q) + log_rising(pseudo_counts(p, rho), n) - log_rising(pseudo_counts(q, rho), n)
        return float(gain.sum())
    steps = gamma * np.arange(rows)[:, None]
    return float(np.sort(np.log((p + steps) / (q + steps)), axis=None)[-rows:].sum())


def _max_count_ratio(rows: int, rates: Array, dispersion: float, max_count: float) -> float:
    """Bound the log-likelihood ratio of two types for counts of up to ``max_count``.

    For rates λ > λ′ it is S ln(λ(1 + nλ′δ)/(λ′(1 + nλδ))) − ln((1 + nλδ)/(1 + nλ′δ))/δ, a difference of two positive
    terms that both grow with n. The first one also grows with S ≤ n·max_count: n times its logarithm is 1/δ times the
    integral of 1/(1 + s/(nδ)) over s from 1/λ to 1/λ′. So the difference is at most the larger of the two terms at the
    maximum number of rows. ∎
    """
    high, low = float(rates.max()), float(rates.min())
    a, b = rows * high * dispersion, rows * low * dispersion
    first = rows * max_count * (np.log(high / low) - np.log1p(a) + np.log1p(b))
    second = rows * (high - low) if dispersion == 0 else (np.log1p(a) - np.log1p(b)) / dispersion
    return float(max(first, second))


def _max_real_ratio(rows: int, means: Array, dispersion: float, spread: float, values: tuple[float, float]) -> float:
    """Return the maximum of w|μ − μ′|·|ȳ − (μ + μ′)/2|: at the maximum number of rows and at an end of the values."""
    weight = float(real_weight(np.asarray(float(rows)), np.asarray(dispersion), np.asarray(spread)))
    gap, middle = means[:, None] - means[None], 0.5 * (means[:, None] + means[None])
    deviation = np.maximum(np.abs(values[0] - middle), np.abs(values[1] - middle))
    return float(weight * (np.abs(gap) * deviation).max())


def day_type_cosines(model: LatentClass, rows: int) -> tuple[Array, Array]:
    """Return cosines ``[type, type]`` between the distributions of a report, and the logarithms of their norms.

    To prove linear independence, the distribution of any function of the report suffices, on any subset of its values.
    So labels are enumerated for a smaller report if there are too many, and counts are truncated.

    Examples
    --------
    >>> from troth.models import LatentClass
    >>> day_type_cosines(LatentClass([0.5, 0.5], "real", [0.0, 2.0], 0.0, 1.0), 1)[0].round(4)
    array([[1.    , 0.3679],
           [0.3679, 1.    ]])
    """
    means = np.array(model.means, dtype=np.float64) - model.centre
    if model.outcome == "real":
        weight = float(real_weight(np.asarray(float(rows)), np.asarray(model.dispersion), np.asarray(model.spread)))
        return np.exp(-0.25 * weight * (means[:, None] - means[None]) ** 2), np.zeros(len(means))
    if model.outcome in LABELS:
        codes = as_probabilities(model.outcome, means).shape[1]
        while comb(rows + codes - 1, rows) > _MAX_REPORTS:
            rows //= 2
        counts = unordered_datasets(rows, codes)
        log = model.from_summary(counts) + (gammaln(rows + 1) - gammaln(counts + 1).sum(axis=1))[:, None]
    else:
        totals = np.arange(min(float(rows * means.max() * 4 + 100), float(_MAX_REPORTS)))
        summaries = np.stack([np.full(len(totals), float(rows)), totals], axis=-1)
        log = count_log_likelihood(summaries, means, np.asarray(model.dispersion)) - gammaln(totals + 1)[:, None]
        if model.dispersion:
            log = log + log_rising(np.asarray(1 / model.dispersion), totals)[:, None]
        log = log + totals[:, None] * np.log(rows)
    peak = log.max(axis=0)
    vectors = np.exp(log - peak)
    norms = np.linalg.norm(vectors, axis=0)
    vectors /= norms
    return np.clip(vectors.T @ vectors, 0.0, 1.0), peak + np.log(norms)
