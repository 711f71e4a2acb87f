"""The place of the real peers in a line with decoys, which is ordered by log PMI with one report.

Log PMI is rounded to a grid of 2⁻³⁰ nats, so that values that differ only by rounding errors tie. This costs almost no
truthfulness. Suppose that the line is ordered by values v′ within ε of the true v. The probability w that a member is
real is proportional to exp(v), so w and w′ differ by a factor of at most e^{2ε} either way. The order by v′ is optimal
for w′, hence under w it pays at least e^{−4ε} of what any other order pays: no lie gains more than 4ε of the cap,
2·10⁻⁹ for this grid, whatever the errors depend on.
"""

from __future__ import annotations

from math import comb
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from troth.core.information import log_pmi

if TYPE_CHECKING:
    from collections.abc import Callable

    from troth.core.contract import Array, Indexes, Mask, OrdersPeers

_GRID = 2.0**30


class Places(NamedTuple):
    """The places of the real peers, one entry for each line.

    Attributes
    ----------
    above, tied
        The numbers of decoys that fit the report better than the real peers, and equally well; in an exhaustive line,
        the probabilities (including that of the real peers' own report).
    ahead
        The number of tied decoys that random tie-breaking puts before the real peers.
    squares
        Σ PMI² of decoys over PMI² of the real peers, for the spherical score.
    """

    above: Array
    tied: Array
    ahead: Array
    squares: Array


def on_grid(log_pmi: Array) -> Array:
    """Round log PMI to the grid, so that equal values tie; −∞ is unchanged."""
    return np.asarray(np.round(log_pmi * _GRID) / _GRID)


def compare(v: Array, v_real: Array, ahead: Array, strict: bool) -> Array:
    """Return what some decoys add to `Places`, ``(4, line)``.

    Parameters
    ----------
    v, v_real
        Log PMI on the grid, with decoys, ``(decoy, line)``, and with the real peers, ``(line,)`` or ``(1, line)``.
    ahead
        1 for decoys that random tie-breaking puts before the real peers, and 0 for the others, ``(decoy, line)``.
    """
    tied = v == v_real
    squares = np.zeros(v.shape[1])
    if strict:
        with np.errstate(invalid="ignore", over="ignore"):
            squares = np.where(tied, 1.0, np.exp(2 * (v - v_real))).sum(axis=0)
    return np.stack([(v > v_real).sum(axis=0), tied.sum(axis=0), np.where(tied, ahead, 0.0).sum(axis=0), squares])


def _count_below(keys: Array, local: Indexes, key: Array, *, after: bool = False) -> Indexes:
    """Count the sorted keys ``(place, design)`` of each line's design below its own key; with ``after``, up to it."""
    count, below = len(keys), np.less_equal if after else np.less
    ends = np.zeros_like(local), np.full_like(local, count)
    return _bisect(lambda index: below(keys[np.minimum(index, count - 1), local], key), *ends, count)


def _bisect(before: Callable[[Indexes], Mask], low: Indexes, high: Indexes, count: int) -> Indexes:
    """Return each line's first place from low to high at which ``before`` is false, among ``count`` decoys."""
    for _ in range(count.bit_length()):
        middle = (low + high) // 2
        right = before(middle) & (low < high)
        low, high = np.where(right, middle + 1, low), np.where(right, high, np.minimum(middle, high))
    return low


def compare_ordered(
    model: OrdersPeers, own: Array, real: Array, local: Indexes, decoys: Array, weights: Array
) -> Array:
    """Like `compare`, for log PMI that is unimodal along the decoys, with about 2·log₂ K scores for each line.

    The decoys that fit at least as well as the real peers are an interval around their place. Bisection finds its ends.
    Ties are at the ends, and are skipped.

    Parameters
    ----------
    own, real
        The report of each line, and the sum of its real peers' reports, ``(line, statistic)``.
    local, decoys
        The index of each line's design, and the decoys of each design, ``(decoy, design, statistic)``.
    weights
        The weight of each decoy, and its weight times ``ahead``, ``(2, decoy, design)``.
    """
    order = np.argsort(model.peer_order(decoys), axis=0, kind="stable")
    decoys = np.take_along_axis(decoys, order[..., None], axis=0)
    keys = model.peer_order(decoys)
    weights = np.take_along_axis(np.broadcast_to(weights, (2, *order.shape)), order[None], axis=1)
    totals = np.concatenate([np.zeros((2, 1, order.shape[1])), np.cumsum(weights, axis=1)], axis=1)
    counts = np.zeros((4, len(own)))
    counts[1:3] = totals[:, -1, local]  # an empty report ties with all decoys
    reporting = np.flatnonzero(own.any(axis=-1))
    local, own, real = local[reporting], own[reporting], real[reporting]
    v_real = on_grid(log_pmi(model, own, real))

    def score(index: Indexes) -> Array:
        return on_grid(log_pmi(model, own, decoys[index, local]))

    def fits(index: Indexes) -> Mask:
        return score(np.minimum(index, len(keys) - 1)) >= v_real

    place, end = _count_below(keys, local, model.peer_order(real)), np.full_like(local, len(keys))
    first = _bisect(lambda index: ~fits(index), np.zeros_like(place), place, len(keys))  # on the left, it fits
    last = _bisect(fits, place, end, len(keys))  # on the right, it does not
    left, right = first, last
    while (tied := (left < right) & (score(index := np.minimum(left, len(keys) - 1)) == v_real)).any():
        left = np.where(tied, np.minimum(_count_below(keys, local, keys[index, local], after=True), last), left)
    while (tied := (left < right) & (score(index := np.maximum(right - 1, 0)) == v_real)).any():
        right = np.where(tied, np.maximum(_count_below(keys, local, keys[index, local]), first), right)
    better = np.where(left < right, totals[:, right, local] - totals[:, left, local], 0.0)
    counts[0, reporting] = better[0]
    counts[1:3, reporting] = totals[:, last, local] - totals[:, first, local] - better
    return counts


def rank_share(above: Any, tied: Any, decoys: int, rivals: int) -> Array:
    """Average φ(j) = C(K − j, r)/C(K, r) over the places j from ``above`` to ``above + tied``, correctly rounded.

    The sum over places telescopes: Σ C(K − j, r) = C(K − above + 1, r + 1) − C(K − above − tied, r + 1).

    Examples
    --------
    >>> rank_share(np.array([0, 1, 0]), np.array([0, 0, 9]), decoys=9, rivals=4)
    array([1.        , 0.55555556, 0.2       ])
    """
    pairs = above.astype(np.int64) * (decoys + 1) + tied.astype(np.int64)
    distinct, inverse = np.unique(pairs, return_inverse=True)
    shares = []
    for pair in distinct.tolist():
        first, ties = divmod(pair, decoys + 1)
        ways = comb(decoys - first + 1, rivals + 1) - comb(decoys - first - ties, rivals + 1)
        shares.append(ways / ((ties + 1) * comb(decoys, rivals)))
    return np.array(shares)[inverse.ravel()].reshape(above.shape)


def limit_share(better: Array, worse: Array, rivals: int) -> Array:
    """Average (1 − u)^r over u from P(fits better) to 1 − P(fits worse): the share in an exhaustive line."""
    high = 1.0 - np.minimum(better, 1.0)
    low = np.minimum(worse, high)
    powers = [high**i * low ** (rivals - i) for i in range(rivals + 1)]
    return np.asarray(np.clip(sum(powers) / (rivals + 1), 0.0, 1.0))


def mean_place_share(place: float, decoys: int | None, rivals: int) -> float:
    """Interpolate φ linearly between two places; in an exhaustive line, without ``decoys``, return (1 − u)^r.

    Examples
    --------
    >>> mean_place_share(0.5, 9, 4), mean_place_share(0.5, None, 4)
    (0.7777777777777778, 0.0625)
    """
    if decoys is None:
        return float((1 - min(max(place, 0.0), 1.0)) ** rivals)
    place = min(max(place, 0.0), float(decoys))
    first = min(int(place), decoys - 1)
    ends = rank_share(np.array([first, first + 1]), np.zeros(2), decoys, rivals)
    return float(ends[0] + (place - first) * (ends[1] - ends[0]))


def exhaustive_line_score(pmi: Array, squares: Array, bound: Any, rivals: int) -> Array:
    """Return the strict score of an exhaustive line: 1/(r + 1) + c·(PMI/‖PMI‖ − 1).

    PMI(a, b)/‖PMI(a, ·)‖, with ‖f‖² = E[f²] over peers' marginal distribution, is the limit of √(K + 1) times the
    spherical score as K grows. By the Cauchy-Schwarz inequality its expectation E[PMI(d, b)·PMI(a, b)]/‖PMI(a, ·)‖ is
    highest if and only if PMI(a, ·) = PMI(d, ·): it is strictly proper. An empty report has PMI = 1 and is paid
    1/(r + 1). With c = min(1/(r + 1), r/((r + 1)(M − 1))), which does not depend on reports, shares stay in [0, 1].

    Parameters
    ----------
    pmi, squares
        PMI with the real peers, and E[PMI²] over everything that peers could report.
    bound
        M, a bound on PMI/‖PMI‖: 1/min p(θ), because PMI is at most that and ‖PMI‖ at least 1; or 1/√min p(b), because
        ‖PMI‖² ≥ p(b)·PMI(b)².

    Examples
    --------
    >>> exhaustive_line_score(np.array([1.0, 1.6]), np.array([1.0, 1.36]), 2.0, rivals=4).round(4)
    array([0.2   , 0.2744])
    """
    empty = 1 / (rivals + 1)
    with np.errstate(divide="ignore"):
        step = np.minimum(empty, (1 - empty) / np.maximum(bound - 1, 0.0))
    return np.asarray(np.clip(empty + step * (pmi / np.sqrt(np.maximum(squares, 1.0)) - 1), 0.0, 1.0))
