"""Log-likelihoods of a provider's sums under each day type, less that under the likeliest one.

At a billion rows a log-likelihood has ten digits before the decimal point, most of which all types share. What
distinguishes them is computed as a difference from the start, so it keeps its digits at any number of rows.
"""

from __future__ import annotations

import numpy as np

from troth.core.contract import Array
from troth.models.numerics.dispersed import as_probabilities, log_likelihood, log_rising, pseudo_counts
from troth.models.numerics.second_difference import binet_remainder, minus_product


def log_likelihood_ratios(outcome: str, sums: Array, means: Array, dispersion: float, spread: float) -> Array:
    """Ln p(data|type)/p(data|likeliest type) of sums ``(..., sum)``, shape ``(..., type)``; 0 for empty reports.

    Examples
    --------
    >>> log_likelihood_ratios("count", np.array([2.0, 6.0]), np.array([1.0, 3.0]), 0.0, 0.0).round(3)
    array([-2.592,  0.   ])
    """
    best = log_likelihood(outcome, sums, means, dispersion, spread).argmax(axis=-1)
    if outcome == "real":
        return _real_ratios(sums, means, means[best], dispersion, spread)
    if outcome == "count":
        return _count_ratios(sums, means, means[best], dispersion)
    p = as_probabilities(outcome, means)
    gaps = means - means[best][..., None] if outcome == "binary" else p - p[best][..., None, :]
    return _label_ratios(
        sums, p, p[best], np.stack([-gaps, gaps], axis=-1) if outcome == "binary" else gaps, dispersion
    )


def _real_ratios(sums: Array, means: Array, reference: Array, dispersion: float, spread: float) -> Array:
    """(μ − μ′)(Σ(x − μ) + Σ(x − μ′))/2(nτ² + σ²)."""
    n, total, other = sums[..., None, 0], sums[..., None, 1], reference[..., None]
    gaps = minus_product(total, means, n) + minus_product(total, other, n)
    return np.asarray((means - other) * gaps / (2 * (n * dispersion**2 + spread**2)))


def _count_ratios(sums: Array, means: Array, reference: Array, dispersion: float) -> Array:
    """S ln λ(1 + u′)/λ′(1 + u) − (1/δ) ln (1 + u)/(1 + u′) with u = nλδ; at δ = 0 the last term is n(λ − λ′).

    It is S ln λ − (S + 1/δ) log1p(u) less the same for λ′. With many rows the first ratio tends to 1.
    """
    n, total, other = sums[..., None, 0], sums[..., None, 1], reference[..., None]
    gap = means - other
    own, theirs = 1 + n * means * dispersion, 1 + n * other * dispersion
    v = n * dispersion * gap / theirs
    share = np.divide(_log_ratio(own, theirs, n * dispersion * gap), v, out=np.ones(v.shape), where=v != 0)
    return np.asarray(total * _log_ratio(means * theirs, other * own, gap) - n * gap / theirs * share)


def _label_ratios(counts: Array, p: Array, reference: Array, gaps: Array, dispersion: float) -> Array:
    """Σ_c [lnΓ(a_c + n_c) − lnΓ(a_c)] less the same for a′, where Σa = Σa′; Σ_c n_c ln p_c/p′_c without dispersion.

    Up to Σa rows the report is nearly what it is without dispersion, and the rest small. From there on, with
    d = a − a′, lnΓ(x + d) − lnΓ(x) is d ln x − d + (x + d − ½) ln (x + d)/x + R(x + d) − R(x), at x = a′ + n and at
    x = a′. As Σd = 0, nothing grows with the number of rows.
    """
    c, other = counts[..., None, :], reference[..., None, :]
    chances = c * _log_ratio(p, other, gaps)
    if dispersion == 0:
        return np.asarray(chances.sum(axis=-1))
    strength = float(pseudo_counts(np.ones(()), np.asarray(dispersion)))
    a, b = p * strength, other * strength
    d = gaps * strength
    few = chances + (log_rising(a, c) - log_rising(b, c))
    rows = c.sum(axis=-1, keepdims=True)
    logs = np.log((b + c) / (strength + rows) / other)
    many = d * logs + (_gamma_step(b + c, a + c, d) - _gamma_step(b, a, d))
    return np.asarray(np.where(rows <= strength, few, many).sum(axis=-1))


def _gamma_step(x: Array, y: Array, d: Array) -> Array:
    """LnΓ(y) − lnΓ(x) − d ln x + d, where y = x + d."""
    return np.asarray((y - 0.5) * _log_ratio(y, x, d) + (binet_remainder(y) - binet_remainder(x)))


def _log_ratio(x: Array, y: Array, difference: Array) -> Array:
    """Ln x/y, from x − y where they are close."""
    u = difference / y
    close = np.abs(u) < 0.5
    return np.asarray(np.where(close, np.log1p(np.where(close, u, 0.0)), np.log(x / y)))
