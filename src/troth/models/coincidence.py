"""How likely two datasets are to be the same, which is what the Brier rule needs to know of all that could happen.

Sequences of N rows from p and p′ are equal with probability (Σ_k p_k p′_k)^N: the entrywise power of a Gram matrix
(errata E12 and E15). Their types, datasets up to the order of rows, are equal with probability

    Σ_c (N!/Πc_k!)² Π (p_k p′_k)^{c_k} = (N!)² [x^N] Π_k I₀(2√(x p_k p′_k)),

a coefficient that tilting and a convolution of short windows find at any N, without enumeration.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.signal import fftconvolve
from scipy.special import gammaln, ive

if TYPE_CHECKING:
    from troth.model import Array


def log_same_sequence(table: Array, rows: int) -> Array:
    """Log probability that datasets from two states are the same row by row, ``[state, state]``."""
    with np.errstate(divide="ignore"):
        return np.zeros((len(table), len(table))) if rows == 0 else rows * np.log(table @ table.T)


def log_same_type(table: Array, rows: int) -> Array:
    """Log probability that datasets from two states have the same counts, for ``table[state, symbol]``."""
    states = len(table)
    result = np.empty((states, states))
    for i in range(states):
        for j in range(i + 1):
            result[i, j] = result[j, i] = _log_same_counts(table[i] * table[j], rows)
    return result


def _log_same_counts(products: Array, rows: int) -> float:
    """Ln Σ_c (N!)² Π λ_k^{c_k}/(c_k!)² over counts that sum to N, for λ = p·p′."""
    roots = np.sqrt(products[products > 0])
    if rows == 0:
        return 0.0
    if len(roots) == 0:
        return -np.inf
    tilt = rows / roots.sum()  # makes N the most likely total
    window, start = np.ones(1), 0
    log_mass = 0.0
    for root in roots:
        centre = tilt * root
        reach = 9 * np.sqrt(centre / 2) + 30
        low, high = max(0, int(centre - reach)), min(rows, int(centre + reach) + 1)
        counts = np.arange(low, high + 1)
        log_weights = 2 * (counts * np.log(centre) - gammaln(counts + 1))
        log_norm = _log_bessel(2 * centre)
        log_mass += log_norm
        weights = np.exp(log_weights - log_norm)
        small = min(len(window), len(weights)) < 500
        window = np.convolve(window, weights) if small else np.maximum(fftconvolve(window, weights), 0.0)
        start += low
    return float(2 * gammaln(rows + 1) - 2 * rows * np.log(tilt) + log_mass + np.log(window[rows - start]))


def _log_bessel(z: float) -> float:
    """Ln I₀(z), by its asymptotic series where the library's scaled function ends."""
    if z < 1e6:
        return float(np.log(ive(0, z)) + z)
    return float(z - 0.5 * np.log(2 * np.pi * z) + np.log1p(1 / (8 * z) + 9 / (128 * z * z)))
