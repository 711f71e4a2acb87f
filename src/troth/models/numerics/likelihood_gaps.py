"""How far apart the log-likelihoods of a report under two day types can be, over all admissible reports."""

from __future__ import annotations

import numpy as np

from troth.core.contract import Array
from troth.models.numerics.dispersed import LABELS, log_rising, pseudo_counts, real_weight

_ONE_BY_ONE = 4000  # rows up to which the best report of labels is found row by row


def widest_spread(
    outcome: str,
    rows: int,
    means: Array,
    dispersion: float,
    spread: float = 0.0,
    values: tuple[float, float] = (-np.inf, np.inf),
) -> float:
    """Return the largest difference of two types' log-likelihoods over reports of up to ``rows`` rows, or a bound.

    Parameters
    ----------
    means
        By type; for labels probabilities, ``(type, code)``.
    values
        Bounds on counts and values; labels need none.
    """
    if rows == 0 or len(means) == 1:
        return 0.0
    if outcome in LABELS:
        return max(_labels(rows, one, two, dispersion) for one in means for two in means)
    if outcome == "count":
        return _counts(rows, means, dispersion, max(values[1], 0.0))
    return _reals(rows, means, dispersion, spread, values)


def _labels(rows: int, one: Array, two: Array, dispersion: float) -> float:
    """Return the most that a report favours one type over another.

    The i-th row of code c adds ln((p_c + iγ)/(p′_c + iγ)), γ = ρ/(1 − ρ): positive if and only if p_c > p′_c, and then
    falling in i. So the best report takes the ``rows`` largest of these increments. Where they are too many to sort,
    all codes that are worth it are taken to have all rows.
    """
    better = one > two
    p, q = one[better], two[better]
    if not len(p):
        return 0.0
    gamma = dispersion / (1 - dispersion)
    if gamma == 0:
        return float(rows * np.log(p / q).max())
    if rows > _ONE_BY_ONE:
        n, rho = np.full(len(p), float(rows)), np.asarray(dispersion)
        gain = rows * np.log(p / q) + log_rising(pseudo_counts(p, rho), n) - log_rising(pseudo_counts(q, rho), n)
        return float(gain.sum())
    steps = gamma * np.arange(rows)[:, None]
    return float(np.sort(np.log((p + steps) / (q + steps)), axis=None)[-rows:].sum())


def _counts(rows: int, rates: Array, dispersion: float, most: float) -> float:
    """Bound the difference for counts of up to ``most``.

    For rates λ > λ′ it is S ln(λ(1 + nλ′δ)/(λ′(1 + nλδ))) − ln((1 + nλδ)/(1 + nλ′δ))/δ, a difference of two positive
    terms that both grow with n, the first one also with S ≤ n·most: n times its logarithm is 1/δ times the integral
    of 1/(1 + s/(nδ)) over s from 1/λ to 1/λ′. So it is no larger than the larger of them at all rows. ∎
    """
    high, low = float(rates.max()), float(rates.min())
    a, b = rows * high * dispersion, rows * low * dispersion
    first = rows * most * (np.log(high / low) - np.log1p(a) + np.log1p(b))
    second = rows * (high - low) if dispersion == 0 else (np.log1p(a) - np.log1p(b)) / dispersion
    return float(max(first, second))


def _reals(rows: int, means: Array, dispersion: float, spread: float, values: tuple[float, float]) -> float:
    """Return w|μ − μ′|·|ȳ − (μ + μ′)/2| at its largest: at all rows and an end of the values."""
    weight = float(real_weight(np.asarray(float(rows)), np.asarray(dispersion), np.asarray(spread)))
    gap, middle = means[:, None] - means[None], 0.5 * (means[:, None] + means[None])
    reach = np.maximum(np.abs(values[0] - middle), np.abs(values[1] - middle))
    return float(weight * (np.abs(gap) * reach).max())
