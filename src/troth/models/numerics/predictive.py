"""Exact expectations under the prior predictive, from which every mutual information follows.

I(own; peers) = E[Λ(both)] + Λ(0) − E[Λ(own)] − E[Λ(peers)]: any part of E[Λ] that is linear in the design cancels. What
grows with the data is linear, because N·E[θ ln θ | t] has the expectation N·E[θ ln θ]. What is left of lnΓ(x) is

    S(x) = lnΓ(x) − x·ψ(x) + x,

which grows like −½ ln x, so that no size costs digits.
"""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln, psi

from troth.core.contract import Array

LARGEST_SUM = 2_000_000
"""Terms beyond which a full sum is left to simulation."""

_ASYMPTOTIC_FROM = 16.0
_ASYMPTOTIC = (1 / 6, -1 / 90, 1 / 210, -1 / 210, 5 / 594)  # B₂ₖ/(2k − 1)


def log_gamma_excess(x: Array | float) -> Array:
    """S(x) = lnΓ(x) − x·ψ(x) + x, by its asymptotic series from 16 on.

    Examples
    --------
    >>> log_gamma_excess(1e12).round(6)
    np.float64(-12.396572)
    """
    x = np.asarray(x, dtype=np.float64)
    inverse = 1 / np.maximum(x, _ASYMPTOTIC_FROM)
    powers = inverse[..., None] ** (2 * np.arange(len(_ASYMPTOTIC)) + 1)
    small = np.minimum(x, _ASYMPTOTIC_FROM)
    below = gammaln(small) - small * psi(small) + small
    above = 0.5 * (np.log(2 * np.pi) + 1 + np.log(inverse)) + powers @ np.array(_ASYMPTOTIC)
    return np.asarray(np.where(x < _ASYMPTOTIC_FROM, below, above))


def expected_log_evidence_of_counts(prior: Array, design: Array) -> Array | None:
    """E[Σ_k S(α_k + t_k)] − S(Σα + n): each count is Beta-binomial, so one sum per category is exact."""
    from scipy.stats import betabinom  # takes long to load

    rows = int(np.asarray(design)[..., 0].item())
    if rows > LARGEST_SUM:
        return None
    counts = np.arange(rows + 1)
    total = prior.sum()
    expectation = -log_gamma_excess(total + rows)
    for alpha in prior:
        weights = betabinom.pmf(counts, rows, alpha, total - alpha)
        expectation += float(weights @ log_gamma_excess(alpha + counts)) / float(weights.sum())
    return np.asarray(expectation)
