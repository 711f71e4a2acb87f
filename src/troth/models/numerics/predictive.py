"""Exact expectations under the prior predictive, which give mutual information.

I(own; peers) = E[Λ(both)] + Λ(0) − E[Λ(own)] − E[Λ(peers)], so any part of E[Λ] that is linear in the design cancels.
The dominant part is linear, because N·E[θ ln θ | t] has expectation N·E[θ ln θ]. The remainder of lnΓ(x) is

    S(x) = lnΓ(x) − x·ψ(x) + x,

which grows only like −½ ln x, so no precision is lost at any size.
"""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln, psi

from troth.core.contract import Array

MAX_TERMS = 2_000_000
"""Sums with more terms are left to simulation."""

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
