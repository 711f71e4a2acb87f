"""Second differences without cancellation: log PMI of the Beta, Dirichlet and Gamma families at any size.

Write Δ²f = f(both) + f(prior) − f(own) − f(peers), where each argument is the prior's parameter plus counts, so that
``both + prior = own + peers``. Four calls of lgamma give Δ² lnΓ(x) an error of 1e-5 at a billion rows. By Stirling,

    lnΓ(x) = x ln x − x − ½ ln x + ½ ln 2π + R(x),

and each part has a form without cancellation:

- Δ² ln x = −log1p(a₁a₂ / (x_T x₀)), because own·peers − both·prior = a₁a₂;
- Δ² of A ln(A/B), the leading part of lnΓ(A) − A ln B and, summed over categories, of the Dirichlet, is
  A₁L(u₁) + A₂L(u₂) − A₀L(u₀) with u = (A_T/B_T)/(A/B) − 1 and L(u) = log1p(u) − u, since Σ ± A·u = 0;
  u = (A_T·B − A·B_T)/(A·B_T), and all that cancels in its numerator is b₁a₂ − a₁b₂, which is formed exactly;
- R(x), Binet's remainder, is small: at most 1/(12x).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from scipy.special import gammaln

from troth.core.blocks import for_each_chunk
from troth.core.contract import Array

Columns: TypeAlias = tuple[Array, Array, Array, Array]  # prior, own, peers' and both counts: (statistic, row)

_CHUNK = 3 << 15  # entries of an intermediate array: they fit the cache and keep all cores busy
_STIRLING_FROM = 16.0
_FIRST_TERM_FROM = 2.5e7  # beyond it the later terms round to 0, so leaving them out changes no bit
_BINET = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188)
_SERIES_BELOW = 0.0625  # for smaller |u|, log1p(u) − u cancels
_SERIES_FROM_WEIGHT = 1e4
_ATANH = (1 / 3, 1 / 5, 1 / 7, 1 / 9, 1 / 11)


def binet_remainder(x: Array) -> Array:
    """R(x) = lnΓ(x) − (x − ½) ln x + x − ½ ln 2π, with an absolute error of 1e-16 for x ≥ 16 and 1e-14 below."""
    inverse = 1.0 / np.maximum(x, _STIRLING_FROM)
    if x.min(initial=np.inf) > _FIRST_TERM_FROM:
        return _BINET[0] * inverse
    series = _horner(_BINET, inverse * inverse)
    series *= inverse
    small = x < _STIRLING_FROM
    if small.any():
        y = x[small]
        series[small] = gammaln(y) - (y - 0.5) * np.log(y) + y - 0.5 * np.log(2 * np.pi)
    return series


def weighted_excess(weight: Array, u: Array, inverse: Callable[[], Array]) -> Array:
    """A·L(u) with L(u) = log1p(u) − u, given u and a function for 1/(1+u) − 1: log1p is taken of the positive one.

    Near zero, log1p(u) = 2 artanh(z) with z = u/(2 + u), so L(u) = z·(2z²·(⅓ + z²/5 + z⁴/7 + …) − u). This series is
    used if the weight is so large that the cancellation in log1p(u) − u matters.
    """
    near = (np.abs(u) < _SERIES_BELOW) & (weight > _SERIES_FROM_WEIGHT)
    excess = _excess_series(u) if near.all() else _excess(u, inverse())
    if near.any() and not near.all():
        np.copyto(excess, _excess_series(u), where=near)
    excess *= weight
    return excess


def _excess(u: Array, inverse: Array) -> Array:
    excess = np.maximum(u, inverse)
    np.log1p(excess, out=excess)
    np.copysign(excess, u, out=excess)
    excess -= u
    return excess


def _excess_series(u: Array) -> Array:
    z = u / (2 + u)
    square = z * z
    series = _horner(_ATANH, square)
    series *= square
    series *= 2
    series -= u
    series *= z
    return series


def product_difference(a: Array, b: Array, c: Array, d: Array) -> Array:
    """Return a·b − c·d with exact products and one rounding of the result (Dekker; up to 1e290)."""
    ab, cd = a * b, c * d
    return np.asarray((ab - cd) + (_product_error(a, b, ab) - _product_error(c, d, cd)))


def minus_product(c: Array, a: Array, b: Array) -> Array:
    """Return c − a·b with an exact product and one rounding of the result."""
    ab = a * b
    return np.asarray((c - ab) - _product_error(a, b, ab))


def _leading_bits(x: Array, peak: Array) -> Array:
    """Truncate numbers of up to ``peak`` to 22 bits: sums of up to 512 products are then exact (Ozaki's splitting)."""
    sigma = np.ldexp(1.5, np.frexp(peak)[1] + 30)
    high = x + sigma
    high -= sigma
    return np.asarray(high)


def residual(target: Array, matrix: Array, x: Array, peak: Array) -> Array:
    """Return target − matrix·x with little more than one rounding: the products of leading bits are exact."""
    high = _leading_bits(matrix, peak)
    x_high = _leading_bits(x, np.abs(x).max(axis=-1, keepdims=True))
    exact, small = np.moveaxis(high @ np.stack([x_high, x - x_high], axis=-1), -1, 0)
    remainder = (np.subtract(matrix, high, out=high) @ x[..., None])[..., 0]
    return np.asarray((target - exact) - (small + remainder))


def peak_of(gram: Array) -> Array:
    """Bound the entries of a positive semi-definite matrix by the largest on its diagonal."""
    return np.asarray(np.diagonal(gram, axis1=-2, axis2=-1).max(axis=-1)[..., None, None])


def _product_error(x: Array, y: Array, product: Array) -> Array:
    """Return x·y − fl(x·y) exactly: products of 26-bit halves are exact."""
    (x1, x2), (y1, y2) = _halves(x), _halves(y)
    error = x1 * y1
    error -= product
    error += x1 * y2
    error += x2 * y1
    error += x2 * y2
    return np.asarray(error)


def _halves(x: Array) -> tuple[Array, Array]:
    scaled = 134217729.0 * x  # 2²⁷ + 1: Veltkamp's splitting
    high = scaled - (scaled - x)
    return high, x - high


def _horner(coefficients: tuple[float, ...], x: Array) -> Array:
    series = coefficients[-1] * x
    for coefficient in reversed(coefficients[1:-1]):
        series += coefficient
        series *= x
    series += coefficients[0]
    return np.asarray(series)


def _numerators(A: Columns, B: Columns) -> tuple[Array, Array, Array]:
    """A_T·B − A·B_T of own, peers and prior; the product of counts, which cancels most, is exact."""
    (A0, a1, a2, aT), (B0, b1, b2, bT) = A, B
    cross = product_difference(b1, a2, a1, b2)
    return (B0 * a2 - A0 * b2) + cross, (B0 * a1 - A0 * b1) - cross, B0 * aT - A0 * bT


def _leading(A: Columns, B: Columns, numerators: tuple[Array, Array, Array]) -> Array:
    """Δ² of A ln(A/B)."""
    (A0, a1, a2, aT), (B0, b1, b2, bT) = A, B
    AT, BT = A0 + aT, B0 + bT

    def part(shape: Array, rate: Array, numerator: Array) -> Array:
        return weighted_excess(shape, numerator / BT / shape, lambda: numerator / -AT / rate)

    own, peers, prior = numerators
    return (part(A0 + a1, B0 + b1, own) - part(A0, B0, prior)) + part(A0 + a2, B0 + b2, peers)


def _remainder(A: Columns) -> Array:
    """Δ² of −½ ln A + R(A)."""
    A0, a1, a2, aT = A
    AT = A0 + aT
    lower = (binet_remainder(AT) - binet_remainder(A0 + a2)) - (binet_remainder(A0 + a1) - binet_remainder(A0))
    return 0.5 * np.log1p((a1 / A0) * (a2 / AT)) + lower


def gamma_log_pmi(
    prior: Array, own: Array, peers: Array, both: Array | None = None, *, shape_per_row: float = 1.0
) -> Array:
    """Δ² of lnΓ(kA) − kA ln B, for statistics (A, B) on the last axis, prior (A₀, B₀) and k = ``shape_per_row``."""
    k = shape_per_row

    def kernel(*data: Array) -> Array:
        columns = _columns(prior, data)
        A, B = _part(columns, slice(1)), _part(columns, slice(1, 2))
        terms = k * _leading(A, B, _numerators(A, B)) + _remainder((k * A[0], k * A[1], k * A[2], k * A[3]))
        return np.asarray(terms[0])

    return in_chunks(kernel, own, peers, both)


def dirichlet_log_pmi(prior: Array, own: Array, peers: Array, both: Array | None = None) -> Array:
    """Δ² of Σ_k lnΓ(x_k) − lnΓ(Σ x_k), for counts on the last axis."""
    cells = len(prior)

    def kernel(*data: Array) -> Array:
        columns = _columns(prior, data, with_total=True)
        A, N = _part(columns, slice(cells)), _part(columns, slice(cells, None))
        if cells == 2:  # one cell's numerators are minus those of the other
            first = _numerators(_part(columns, slice(1)), _part(columns, slice(1, 2)))
            own, peers, empty = (np.concatenate([x, -x]) for x in first)
        else:
            own, peers, empty = _numerators(A, N)
        terms = _remainder(columns)
        terms[:cells] += _leading(A, N, (own, peers, empty))
        return np.asarray(_sum(terms[:cells]) - terms[cells])

    return in_chunks(kernel, own, peers, both, max(1, _CHUNK // (cells + 1)))


def in_chunks(
    kernel: Callable[[Array, Array, Array], Array],
    own: Array,
    peers: Array,
    both: Array | None,
    size: int = _CHUNK // 3,
) -> Array:
    """Apply a kernel over flattened leading axes, in chunks that fit the cache; ``both`` is own + peers."""
    shape = np.broadcast_shapes(own.shape, peers.shape)
    own_rows, peer_rows = (np.broadcast_to(t, shape).reshape(-1, shape[-1]) for t in (own, peers))
    shared = both is not None and both.size == shape[-1]
    total = None if both is None else (both if shared else np.broadcast_to(both, shape)).reshape(-1, shape[-1])
    out = np.empty(len(own_rows))

    def work(rows: slice) -> None:
        a, b = own_rows[rows], peer_rows[rows]
        out[rows] = kernel(a, b, a + b if total is None else total if shared else total[rows])

    for_each_chunk(len(own_rows), size, work)
    return out.reshape(shape[:-1])


def _columns(prior: Array, data: tuple[Array, ...], with_total: bool = False) -> Columns:
    """Transpose to contiguous ``(statistic, row)`` arrays, optionally with the total as a last statistic."""
    parts = [np.empty((len(prior) + with_total, len(t))) for t in (prior[None], *data)]
    for part, t in zip(parts, (prior[None], *data), strict=True):
        part[: len(prior)] = t.T
        if with_total:
            part[-1] = _sum(part[:-1])
    return parts[0], parts[1], parts[2], parts[3]


def _part(columns: Columns, part: slice) -> Columns:
    prior, own, peers, both = columns
    return prior[part], own[part], peers[part], both[part]


def _sum(rows: Array) -> Array:
    """Add rows in order, so that the rounding of a sum does not depend on the number of sums."""
    total = rows[0].copy()
    for row in rows[1:]:
        total += row
    return np.asarray(total)
