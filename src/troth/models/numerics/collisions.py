"""The probability that two datasets are equal, which a quadratic score needs.

Sequences of N rows from p and p′ are equal with probability (Σ_k p_k p′_k)^N, the entrywise power of a Gram matrix
(errata E12 and E15). Their counts c are equal with probability

    Σ_c (N!/Πc_k!)² Π (p_k p′_k)^{c_k} = (N!)² [x^N] Π_k I₀(2√(x p_k p′_k)),

a coefficient that is computed at any N by tilting and a convolution of short windows, without enumeration. If rows
share an effect, with Dirichlet parameters a = m(1 − ρ)/ρ, counts are independent negative binomial counts given their
sum. The probability of equal counts is then again a convolution over symbols, of N + 1 terms each:

    Σ_c Π_k NB(c_k; a_k) NB(c_k; a′_k) / (NB(N; Σa) NB(N; Σa′)).

The probability of equal sequences is N!/((Σa)_N (Σa′)_N) Σ_c Π_k (a_k)_{c_k} (a′_k)_{c_k}/c_k!. Its terms differ so
much in size that it is summed in logarithms.
"""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln, ive, xlogy

from troth.core.contract import Array
from troth.models.numerics.dispersed import log_rising, pseudo_counts
from troth.models.numerics.log_sum_exp import log_sum_exp


def log_same_sequence(table: Array, rows: int) -> Array:
    """Return the log probability that datasets from two states are equal row by row, ``[state, state]``."""
    with np.errstate(divide="ignore"):
        return np.zeros((len(table), len(table))) if rows == 0 else rows * np.log(table @ table.T)


def log_same_counts(table: Array, rows: int) -> Array:
    """Return the log probability that datasets from two states have equal counts, for ``table[state, symbol]``."""
    states = len(table)
    result = np.empty((states, states))
    for i in range(states):
        for j in range(i + 1):
            result[i, j] = result[j, i] = _log_sum_over_counts(table[i] * table[j], rows)
    return result


def _log_sum_over_counts(products: Array, rows: int) -> float:
    """Ln Σ_c (N!)² Π λ_k^{c_k}/(c_k!)² over counts that sum to N, for λ = p·p′."""
    roots = np.sqrt(products[products > 0])
    if rows == 0:
        return 0.0
    if len(roots) == 0:
        return -np.inf
    tilt = rows / roots.sum()  # makes N the most probable total
    window, start, log_mass = np.ones(1), 0, 0.0
    for root in roots:
        centre = tilt * root
        margin = 9 * np.sqrt(centre / 2) + 30
        low, high = max(0, int(centre - margin)), min(rows, int(centre + margin) + 1)
        counts = np.arange(low, high + 1)
        log_weights = 2 * (counts * np.log(centre) - gammaln(counts + 1))
        log_norm = _log_bessel(2 * centre)
        log_mass += log_norm
        weights = np.exp(log_weights - log_norm)
        window = _convolved(window, weights)
        start += low
    return float(2 * gammaln(rows + 1) - 2 * rows * np.log(tilt) + log_mass + np.log(window[rows - start]))


def _log_bessel(z: float) -> float:
    """Ln I₀(z), by its asymptotic series beyond the range of `scipy.special.ive`."""
    if z < 1e6:
        return float(np.log(ive(0, z)) + z)
    return float(z - 0.5 * np.log(2 * np.pi * z) + np.log1p(1 / (8 * z) + 9 / (128 * z * z)))


def log_same_dispersed(table: Array, dispersion: float, rows: int, unordered: bool) -> Array:
    """Return the log probability that one provider's labels are equal under two states, for pairs of ``triu_indices``.

    Mean probabilities are ``table[state, symbol]``, all above 0, and the dispersion is the intra-class correlation of
    the rows. If ``unordered``, only counts are compared.

    Examples
    --------
    >>> np.exp(log_same_dispersed(np.array([[0.5, 0.5], [0.2, 0.8]]), 0.0, 1, True)).round(3)
    array([0.5 , 0.5 , 0.68])
    """
    first, second = np.triu_indices(len(table))
    if unordered:
        probabilities, log_total = _negative_binomial(table, dispersion, rows)
        same = [_same_counts(probabilities[i] * probabilities[j]) for i, j in zip(first, second, strict=True)]
        with np.errstate(divide="ignore"):  # a term that underflows relative to √(K_ii K_jj) is negligible in qᵀKq
            return np.asarray(np.log(same) - 2 * log_total)
    if dispersion == 0:
        return log_same_sequence(table, rows)[first, second]
    counts = np.arange(rows + 1.0)
    strength = pseudo_counts(np.ones(()), np.asarray(dispersion))
    log_terms = xlogy(counts, table[..., None]) + log_rising(table[..., None] * strength, counts)
    log_pairs = log_terms[first] + log_terms[second] - gammaln(counts + 1)
    window = log_pairs[:, 0]
    for symbol in range(1, table.shape[1] - 1):
        window = _log_convolved(window, log_pairs[:, symbol])
    log_sum = log_sum_exp(window + log_pairs[:, -1, ::-1])
    return np.asarray(log_sum + gammaln(rows + 1) - 2 * log_rising(strength, np.asarray(float(rows))))


def _negative_binomial(table: Array, dispersion: float, rows: int) -> tuple[Array, float]:
    """Return probabilities ``[state, symbol, count]`` of counts whose mean total is N, and the log probability of N.

    NB(c; a) = (a)_c/c! x^c (1 − x)^a with x = N/(N + Σa); at dispersion 0 Poisson with mean N·m.
    """
    odds = dispersion / (1 - dispersion)
    rate = rows / (1 + rows * odds)
    mass = np.log1p(rows * odds) / odds if dispersion else float(rows)
    strength = pseudo_counts(np.ones(()), np.asarray(dispersion))

    def log_probability(mean: Array, counts: Array) -> Array:
        rising = log_rising(mean * strength, counts)
        return np.asarray(xlogy(counts, mean * rate) + rising - gammaln(counts + 1) - mean * mass)

    probabilities = np.exp(log_probability(table[..., None], np.arange(rows + 1.0)))
    return probabilities, float(log_probability(np.ones(()), np.asarray(float(rows))))


def _same_counts(products: Array) -> float:
    """Σ Π_k products[k, c_k] over counts that sum to the largest count."""
    window = products[0]
    for product in products[1:-1]:
        window = _convolved(window, product)[: len(product)]
    return float(window @ products[-1, ::-1])


def _convolved(first: Array, second: Array) -> Array:
    from scipy.signal import fftconvolve  # slow to import

    small = min(len(first), len(second)) < 500
    return np.convolve(first, second) if small else np.maximum(fftconvolve(first, second), 0.0)


def _log_convolved(first: Array, second: Array) -> Array:
    """Convolve logarithms along the last axis, truncated to its length."""
    sums = [log_sum_exp(first[:, : total + 1] + second[:, total::-1]) for total in range(first.shape[1])]
    return np.stack(sums, axis=-1)
