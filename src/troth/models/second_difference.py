"""Second differences that keep their digits: log PMI of the Beta, Dirichlet and Gamma families at any size.

Write Δ²f = f(both) + f(prior) − f(own) − f(peers), where each is the prior's number plus counts, so that
``both + prior = own + peers``. Δ² lnΓ(x) as four lgammas is wrong by 1e-5 at a billion rows. By Stirling,

    lnΓ(x) = x ln x − x − ½ ln x + ½ ln 2π + R(x),

and each part has a form without cancellation:

- Δ² ln x = −log1p(a₁a₂ / (x_T x₀)), because own·peers − both·prior = a₁a₂;
- Δ² of A ln(A/B), the leading part of lnΓ(A) − A ln B and, summed over categories, of the Dirichlet, is
  A₁L(u₁) + A₂L(u₂) − A₀L(u₀) with u = (A_T/B_T)/(A/B) − 1 and L(u) = log1p(u) − u, since Σ ± A·u = 0;
- R(x), Binet's remainder, is small: at most 1/(12x).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import gammaln

from troth.chunks import for_each_chunk

if TYPE_CHECKING:
    from collections.abc import Callable

    from troth.model import Array

_CHUNK = 1 << 15  # rows whose intermediate arrays stay in the processor's cache
_STIRLING_FROM = 16.0
_FIRST_TERM_FROM = 2e7  # where the later terms round to nothing, so that leaving them out changes no bit
_BINET = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188)


def binet_remainder(x: Array) -> Array:
    """R(x) = lnΓ(x) − (x − ½) ln x + x − ½ ln 2π, to 1e-16 absolute from 16 on and 1e-14 below."""
    inverse = 1.0 / np.maximum(x, _STIRLING_FROM)
    if x.min(initial=np.inf) > _FIRST_TERM_FROM:
        return _BINET[0] * inverse
    square = inverse * inverse
    series = _BINET[-1] * square
    for coefficient in reversed(_BINET[1:-1]):
        series += coefficient
        series *= square
    series += _BINET[0]
    series *= inverse
    small = x < _STIRLING_FROM
    if small.any():
        y = x[small]
        series[small] = gammaln(y) - (y - 0.5) * np.log(y) + y - 0.5 * np.log(2 * np.pi)
    return series


def log_ratio_excess(ratio_minus_one: Array, inverse_minus_one: Array) -> Array:
    """L(u) = log1p(u) − u, given u and 1/(1+u) − 1: whichever is positive gives an accurate logarithm."""
    logarithm = np.asarray(np.maximum(ratio_minus_one, inverse_minus_one))
    np.log1p(logarithm, out=logarithm)
    np.copysign(logarithm, ratio_minus_one, out=logarithm)
    logarithm -= ratio_minus_one
    return logarithm


def _leading(A: tuple[Array, ...], B: tuple[Array, ...]) -> Array:
    """Δ² of A ln(A/B); A and B are (prior, own counts, peers' counts, counts of both)."""
    (A0, a1, a2, aT), (B0, b1, b2, bT) = A, B
    AT, BT = A0 + aT, B0 + bT

    def part(shape: Array, rate: Array, other_shape: Array, other_rate: Array) -> Array:
        cross = rate * other_shape
        cross -= shape * other_rate
        excess = log_ratio_excess(cross / (shape * BT), cross / (-AT * rate))
        excess *= shape
        return excess

    own = part(A0 + a1, B0 + b1, a2, b2)
    peers = part(A0 + a2, B0 + b2, a1, b1)
    prior = part(A0, B0, aT, bT)
    return (own - prior) + peers


def _remainder(A: tuple[Array, ...]) -> Array:
    """Δ² of −½ ln A + R(A)."""
    A0, a1, a2, aT = A
    AT = A0 + aT
    lower = (binet_remainder(AT) - binet_remainder(A0 + a2)) - (binet_remainder(A0 + a1) - binet_remainder(A0))
    return 0.5 * np.log1p((a1 / A0) * (a2 / AT)) + lower


def gamma_log_pmi(prior: Array, own: Array, peers: Array, both: Array | None = None) -> Array:
    """Δ² of lnΓ(A) − A ln B, for statistics (A, B) on the last axis and prior (A₀, B₀)."""

    def kernel(own: Array, peers: Array, both: Array) -> Array:
        A, B = _columns(prior, own, peers, both)
        return _leading(A, B) + _remainder(A)

    return in_chunks(kernel, own, peers, both)


def dirichlet_log_pmi(prior: Array, own: Array, peers: Array, both: Array | None = None) -> Array:
    """Δ² of Σ_k lnΓ(x_k) − lnΓ(Σ x_k), for counts on the last axis."""

    def kernel(own: Array, peers: Array, both: Array) -> Array:
        cells = _columns(prior, own, peers, both)
        total = tuple(sum(column[1:], start=column[0]) for column in zip(*cells, strict=True))
        result = -_remainder(total)
        for cell in cells:
            result += _leading(cell, total)
            result += _remainder(cell)
        return result

    return in_chunks(kernel, own, peers, both)


def in_chunks(
    kernel: Callable[[Array, Array, Array], Array],
    own: Array,
    peers: Array,
    both: Array | None,
    size: int = _CHUNK,
) -> Array:
    """Apply a kernel over flattened leading axes, a cache-full of rows at a time; ``both`` is own + peers."""
    shape = np.broadcast_shapes(own.shape, peers.shape)
    one, two = (np.broadcast_to(t, shape).reshape(-1, shape[-1]) for t in (own, peers))
    shared = both is not None and both.size == shape[-1]
    total = None if both is None else (both if shared else np.broadcast_to(both, shape)).reshape(-1, shape[-1])
    out = np.empty(len(one))

    def work(rows: slice) -> None:
        a, b = one[rows], two[rows]
        out[rows] = kernel(a, b, a + b if total is None else total if shared else total[rows])

    for_each_chunk(len(one), size, work)
    return out.reshape(shape[:-1])


def _columns(prior: Array, own: Array, peers: Array, both: Array) -> list[tuple[Array, ...]]:
    """Split the last axis: per column (prior, own, peers, both), each contiguous."""
    return [(np.array([p]), *(np.ascontiguousarray(t[:, k]) for t in (own, peers, both))) for k, p in enumerate(prior)]
