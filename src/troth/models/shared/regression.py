"""The base class of regressions with known and with unknown noise: statistics of (z, y), draws, second differences."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from troth.core.blocks import for_each_chunk
from troth.core.contract import Array, ComparedDesign, Generator, Mask
from troth.core.errors import DataError
from troth.core.reductions import Moments, Reduction
from troth.core.reductions.sums import unit_diagonal
from troth.core.sensitivity import Peers, Sensitivity, refuted_without_data
from troth.core.support import Support
from troth.models.family import Matrix, ReducesRows, Vector, summed
from troth.models.first_guess import Column, FirstGuess, answers_of, round_up, rounded_scale, standardised
from troth.models.normal import zero_where_empty
from troth.models.numerics.possible_statistics import are_products
from troth.models.numerics.second_difference import in_chunks, peak_of, residual
from troth.models.parameters import parameter, positive_definite, vector
from troth.models.shared.answered_rows import draw_features, features_and_answers, planned_features

ABOVE_ANY_FIT = 1e300  # a corner whose value does not matter, but keeps the augmented matrix positive definite
_CHUNK = 1 << 18  # entries of the matrices factored at a time
_SAFE_PIVOT = 1e-4  # of a matrix with unit diagonal


class Posterior(NamedTuple):
    """Cholesky factor L of the precision, L⁻¹r, log-determinant, and c − rᵀΛ⁻¹r for the row r and the corner c."""

    root: Array
    whitened: Array
    log_determinant: Array
    residual: Array


@dataclass(frozen=True)
class Regression(ReducesRows):
    """Regressions of rows (z, y) with statistics (ZᵀZ by rows, Zᵀr, rᵀr, n)."""

    mean: Vector = field(metadata=parameter("prior mean of the coefficients", vector, [0.0, 0.0]))
    precision: Matrix = field(
        metadata=parameter("prior precision of the coefficients, a matrix", positive_definite, [[1.0, 0.0], [0.0, 1.0]])
    )

    explains_target: ClassVar[bool] = True
    rows_entry: ClassVar[int] = -1

    @classmethod
    def standard_prior(cls, coefficients: int, _: Mapping[str, Any], /) -> dict[str, Any]:
        """Return a prior for columns and target on public scales: coefficients of 0 ± 1, independent."""
        return {"mean": [0.0] * coefficients, "precision": np.eye(coefficients).tolist()}

    @classmethod
    def suits_target(cls, target: Column, /) -> bool:
        """Return whether answers are numbers rather than labels or counts."""
        return answers_of(target) == "numbers"

    @classmethod
    def first_guess_of(cls, columns: Sequence[Column], target: Column, /) -> FirstGuess:
        """Estimate scales from the data, and the noise from a regression of the standardised columns."""
        z, scales, levels = standardised(columns)
        scales[target.name] = centre, scale = rounded_scale(target.numbers)
        y = (target.numbers - centre) / scale
        residuals = y - z @ np.linalg.lstsq(z, y, rcond=None)[0]
        noise = round_up(float(np.sqrt((residuals**2).sum() / max(len(residuals) - z.shape[1], 1)))) or 0.1
        return FirstGuess(cls._guess_noise(noise), from_data=True, scales=scales, levels=levels)

    @classmethod
    def _guess_noise(cls, noise: float) -> dict[str, Any]:
        """Return the parameters that describe the noise."""
        return {"noise": noise}

    def parameter_names(self, columns: Sequence[str | None], labels: Sequence[str] | None = None, /) -> list[str]:
        """Name the coefficient of each column except the last, the target; with several labels, for each label."""
        names = ["intercept" if column is None else f"coefficient of {column}" for column in columns[:-1]]
        if self._classes == 1:
            return names
        return [f"{name} for {label}" for label in labels or range(self._classes) for name in names]

    @property
    def _classes(self) -> int:
        """The number of coefficient vectors."""
        return 1

    def summary(self, data: Any, /) -> Array:
        """Return the number of rows, and the sum of outer products of (z, r)."""
        z, y = features_and_answers(data, len(self.mean), Support())
        return summed(self.reduction.of_rows, np.concatenate([z, y[..., None]], axis=-1))

    @property
    def reduction(self) -> Reduction:
        """The number of rows, and the products of features and of residuals r = y − z·mean."""
        d = len(self.mean)
        return Moments((0.0,) * (d + 1), linear=False, squares=True, prediction=tuple(self.mean))

    def from_summary(self, summary: Array, /) -> Array:
        """Unpack the matrix of products of (z, r)."""
        s, d = np.asarray(summary, dtype=np.float64), len(self.mean)
        matrix = s[..., 1:].reshape(*s.shape[:-1], d + 1, d + 1)
        return self._pack(matrix[..., :d, :d], matrix[..., :d, d], matrix[..., d, d], s[..., 0])

    def _pack(self, gram: Array, product: Array, square: Array, rows: Array | float) -> Array:
        d = len(self.mean)
        tail = np.stack([square, np.broadcast_to(rows, square.shape)], axis=-1)
        return np.concatenate([gram.reshape(*square.shape, d * d), product, tail], axis=-1)

    possible_statistics: ClassVar[str] = (
        "the products of features and answers have no negative eigenvalue, and no higher rank than there are rows"
    )

    def possible(self, statistics: Array, /) -> Mask:
        """Test whether ZᵀZ, Zᵀr and rᵀr are products of that many rows (z, r)."""
        t, d = np.asarray(statistics, dtype=np.float64), len(self.mean)
        matrix = np.empty((*t.shape[:-1], d + 1, d + 1))
        matrix[..., :d, :d] = self._gram(t)
        matrix[..., :d, d] = matrix[..., d, :d] = self._product(t)
        matrix[..., d, d] = t[..., -2]
        return are_products(matrix, self.rows(t))

    def design(self, statistics: Array, /) -> Array:
        """Return the Gram matrix of the features (by rows) and the number of rows, which do not depend on answers."""
        gram = np.asarray(statistics, dtype=np.float64)[..., : len(self.mean) ** 2]
        return np.concatenate([gram, self.rows(statistics)[..., None]], axis=-1)

    def compared_design(self, statistics: Array, /) -> ComparedDesign:
        """Return the Gram matrix of the features."""
        return ComparedDesign.from_products(self._gram(np.asarray(statistics, dtype=np.float64)))

    def plan(self, rows: Any, /) -> Array:
        """Return the design of a report with these features, ``(rows, d)``."""
        z = planned_features(rows, len(self.mean))
        gram = (np.swapaxes(z, -1, -2) @ z).reshape(*z.shape[:-2], -1)
        return np.concatenate([gram, np.full((*z.shape[:-2], 1), float(z.shape[-2]))], axis=-1)

    def _posterior(self, t: Array, unit: float, row: Array, corner: Array | float) -> Posterior:
        """Factor [[unit·P + G, row], [rowᵀ, corner]]; one Cholesky gives determinant, whitened row and residual."""
        d = len(self.mean)
        augmented = np.empty((*t.shape[:-1], d + 1, d + 1))
        np.add(self._gram(t), unit * self._prior_precision, out=augmented[..., :d, :d])
        augmented[..., d, :d] = augmented[..., :d, d] = row
        augmented[..., d, d] = corner
        try:
            root = np.linalg.cholesky(augmented)
        except np.linalg.LinAlgError:
            raise DataError(
                "ZᵀZ, Zᵀr and rᵀr of regression statistics contradict each other: no data have them, or columns are "
                "too large compared with the answers: rescale them"
            ) from None
        diagonal = np.diagonal(root, axis1=-2, axis2=-1)
        log_determinant = 2 * np.log(diagonal[..., :d]).sum(axis=-1)
        return Posterior(root[..., :d, :d], root[..., d, :d], log_determinant, diagonal[..., d] ** 2)

    def _gram(self, t: Array) -> Array:
        d = len(self.mean)
        return t[..., : d * d].reshape(*t.shape[:-1], d, d)

    def _product(self, t: Array) -> Array:
        d = len(self.mean)
        return t[..., d * d : d * d + d]

    @cached_property
    def _prior_precision(self) -> Array:
        return np.array(self.precision)

    @cached_property
    def _prior_root(self) -> Array:
        return np.asarray(np.linalg.cholesky(self._prior_precision), dtype=np.float64)

    @cached_property
    def _prior_scale(self) -> Array:
        """L with LLᵀ = precision⁻¹: coefficients are mean + Lγ."""
        return np.asarray(np.linalg.inv(self._prior_root).T, dtype=np.float64)

    def _in_units_of_prior(self, gram: Array, product: Array, variance: Array | float = 1.0) -> tuple[Array, Array]:
        """Return precision and product for coefficients in units of the prior, from rows with this variance."""
        root, unit = self._prior_scale, np.asarray(variance)[..., None]
        precision = root.T @ gram @ root / unit[..., None]
        return 0.5 * (precision + np.swapaxes(precision, -1, -2)), product @ root / unit

    def _information(
        self, own: Array, peers: Array, both: Array, unit: float, scale: float | None
    ) -> tuple[Array, ...]:
        """Return W = −½Δ² hᵀΛ⁻¹h, −Δ² ln det Λ, and the posterior rates of own and peers.

        With r = h − Λμ_T, W = ½(r₁ᵀΛ₁⁻¹r₁ + r₂ᵀΛ₂⁻¹r₂ − μ_TᵀPμ_T) is stationary in μ_T, and c − hᵀΛ⁻¹h is
        (c − μᵀh − μᵀ(h − Gμ) + μᵀPμ) − rᵀΛ⁻¹r, so cancellation occurs only in residuals that are computed exactly. If
        the prior mean fits a side better than μ_T, that side is expanded around the prior mean.
        """
        joint = self._posterior(both, unit, self._product(both), ABOVE_ANY_FIT)
        solved = np.linalg.solve(np.swapaxes(joint.root, -1, -2), joint.whitened[..., None])
        mean = np.asarray(solved[..., 0], dtype=np.float64)
        anchor = unit * ((mean @ self._prior_root) ** 2).sum(axis=-1)
        sides, distances = [], []
        for t in (own, peers):
            h = self._product(t)
            near = residual(h, gram := self._gram(t), mean, peak_of(gram))
            row = residual(near, prior := unit * self._prior_precision, mean, peak_of(prior))
            corner, direct = self._corner(scale, t, mean, near, anchor)
            row = np.where(direct[..., None], h, row)
            side = self._posterior(t, unit, row, corner)
            gap = side.whitened
            if direct.any():
                gap = gap - (np.where(direct[..., None], mean, 0.0)[..., None, :] @ side.root)[..., 0, :]
            sides.append(side)
            distances.append((gap * gap).sum(axis=-1))
        first, second = sides
        W = 0.5 * ((distances[0] - anchor) + distances[1]) / unit
        prior_log_determinant = 2 * np.log(np.diagonal(np.sqrt(unit) * self._prior_root)).sum()
        determinant = (first.log_determinant - prior_log_determinant) - (joint.log_determinant - second.log_determinant)
        return W, determinant, first.residual / 2, second.residual / 2

    def _corner(self, scale: float | None, t: Array, mean: Array, near: Array, anchor: Array) -> tuple[Array, Mask]:
        """Return the augmented matrix's corner, and whether it is expanded around 0; irrelevant for known noise."""
        if scale is None:
            return np.array(ABOVE_ANY_FIT), np.array(False)
        h = self._product(t)[..., None, :]
        square = residual(t[..., -2:-1], h, mean, np.abs(h).max(axis=-1, keepdims=True))[..., 0]
        square = square - (mean * near).sum(axis=-1) + anchor
        direct = t[..., -2] < square
        return 2 * scale + np.where(direct, t[..., -2], square), direct

    def _in_chunks(
        self, kernel: Callable[[Array, Array, Array], Array], own: Array, peers: Array, both: Array | None
    ) -> Array:
        def zero_if_empty(own: Array, peers: Array, both: Array) -> Array:
            return zero_where_empty(kernel(own, peers, both), own[:, -1], peers[:, -1])

        return in_chunks(zero_if_empty, own, peers, both, max(1, _CHUNK // (len(self.mean) + 1) ** 2))

    def _prior_given(self, t: Array) -> dict[str, Array]:
        """Return the posterior mean and precision of the coefficients, in units of the noise."""
        precision = self._prior_precision + self._gram(t)
        return {"mean": np.array(self.mean) + np.linalg.solve(precision, self._product(t)), "precision": precision}

    def _in_line(
        self,
        own: Array,
        peers: Array,
        products: Array,
        tails: Array,
        unit: float,
        evidence: Callable[[Array, Array, Array], Array],
    ) -> Array:
        """Return log PMI with the members of a line, factoring their common precision Λ = P + G only once.

        Members share the features of ``peers``, but have their own h and (rᵀr, n). ``evidence(t, quadratic,
        log_determinant)`` is the log evidence given (rᵀr, n), hᵀΛ⁻¹h and ln det Λ.
        """
        count, leading = len(products), products.shape[1:-1]
        own_rows, peer_rows = (
            np.broadcast_to(t, (*leading, t.shape[-1])).reshape(-1, t.shape[-1]) for t in (own, peers)
        )
        members = products.reshape(count, len(own_rows), -1)
        ends = np.broadcast_to(tails, (count, *leading, 2)).reshape(count, -1, 2)
        out = np.empty(members.shape[:-1])
        prior = self._prior_precision * unit
        empty_evidence = evidence(np.zeros(2), np.zeros(()), _log_determinant(prior))

        def work(rows: slice) -> None:
            a, b, h, tail = own_rows[rows], peer_rows[rows], members[:, rows], ends[:, rows]
            own_matrix, peer_matrix = prior + self._gram(a), prior + self._gram(b)
            joint, alone, peers = (
                evidence(t, _quadratic(products, precision), _log_determinant(precision))
                for t, products, precision in (
                    (a[:, -2:] + tail, self._product(a) + h, own_matrix + self._gram(b)),
                    (a[None, :, -2:], self._product(a)[None], own_matrix),
                    (tail, h, peer_matrix),
                )
            )
            empty = (a[:, -1] == 0) | (b[:, -1] == 0)
            out[:, rows] = np.where(empty, 0.0, (joint - peers) - (alone - empty_evidence))

        for_each_chunk(len(own_rows), max(1, _CHUNK // (len(self.mean) * (len(self.mean) + count))), work)
        return out.reshape(count, *leading)

    def _draw_coefficients(self, rng: Generator, t: Array, variance: Array) -> Array:
        """Draw θ ~ N(mean + Λ⁻¹h, variance·Λ⁻¹) with Λ = P + G."""
        root = np.linalg.cholesky(self._prior_precision + self._gram(t))
        noise = np.sqrt(variance)[..., None] * rng.standard_normal((*t.shape[:-1], len(self.mean)))
        whitened = np.linalg.solve(root, self._product(t)[..., None])[..., 0] + noise
        return np.asarray(self.mean + np.linalg.solve(np.swapaxes(root, -1, -2), whitened[..., None])[..., 0])

    def _draw_answers(self, rng: Generator, theta: Array, noise: Array | float, rows: Any) -> tuple[Array, Array]:
        z = draw_features(rng, rows, len(self.mean), theta.shape[:-1])
        signal = np.einsum("...ij,...j->...i", z, theta)
        return z, signal + noise * rng.standard_normal(signal.shape)

    def _draw_from_design(self, rng: Generator, theta: Array, variance: Array | float, design: Array) -> Array:
        """Draw (ZᵀZ, Zᵀr, rᵀr, n) given θ: Zᵀε ~ N(0, σ²ZᵀZ), and the remainder of εᵀε is chi-squared."""
        d = len(self.mean)
        leading = np.broadcast_shapes(theta.shape[:-1], design.shape[:-1])
        matrix = self._gram(design)
        gram = np.broadcast_to(matrix, (*leading, d, d))
        rows, sigma2 = np.broadcast_to(design[..., -1], leading), np.broadcast_to(variance, leading)
        scale, unit = unit_diagonal(matrix)
        root, positive = _root_and_rank(unit)
        white = np.sqrt(sigma2)[..., None] * rng.standard_normal((*leading, d)) * positive
        noise = np.einsum("...ij,...j->...i", scale[..., None] * root, white)
        shift = theta - np.array(self.mean)
        signal = np.einsum("...ij,...j->...i", gram, np.broadcast_to(shift, (*leading, d)))
        freedom = np.maximum(rows - positive.sum(axis=-1), 0)
        square = (shift * (signal + 2 * noise)).sum(axis=-1) + (white**2).sum(axis=-1)
        square = square + 2 * sigma2 * rng.standard_gamma(freedom / 2)
        return self._pack(gram, signal + noise, square, rows)

    def _sensitivity(self, rows: int, peers: Peers, needed: int) -> Sensitivity:
        """Decide by the peers' number of rows; all coefficients together need at least ``needed``."""
        if refutation := refuted_without_data(peers):
            return refutation
        d, count = len(self.mean), sum(n for _, n in peers)
        if count >= needed:
            return Sensitivity(
                "proved", f"{count} peer rows determine all {d} coefficients, for features in general position"
            )
        if count < d and rows > 0:
            pair = ("a row whose features peers never see", "the same row with another answer")
            return Sensitivity("refuted", f"{count} peer rows cannot determine all {d} coefficients", 0.0, pair)
        return Sensitivity("undecided", "peers' answers may not separate noise from coefficients")


def _root_and_rank(matrix: Array) -> tuple[Array, Mask]:
    """Return F with FFᵀ = matrix, by Cholesky if safe and else by eigenvalues, and a mask of its non-zero columns."""
    safe = _min_pivot(matrix) > _SAFE_PIVOT**2
    root, positive = np.empty_like(matrix), np.ones(matrix.shape[:-1], dtype=bool)
    root[safe] = np.linalg.cholesky(matrix[safe])
    if not safe.all():
        values, vectors = np.linalg.eigh(matrix[~safe])
        positive[~safe] = values > 1e-12 * np.maximum(values[..., -1:], np.finfo(float).tiny)
        root[~safe] = vectors * np.sqrt(np.where(positive[~safe], values, 0.0))[..., None, :]
    return root, positive


def _min_pivot(matrix: Array) -> Array:
    """Return the smallest pivot of Gaussian elimination; no matrix raises an error if it is not positive definite."""
    remaining, smallest = matrix, np.full(matrix.shape[:-2], np.inf)
    for _ in range(matrix.shape[-1]):
        pivot, row = remaining[..., 0, 0], remaining[..., 0, 1:]
        smallest = np.minimum(smallest, pivot)
        multiple = remaining[..., 1:, 0] / np.where(pivot > 0, pivot, 1.0)[..., None]
        remaining = remaining[..., 1:, 1:] - multiple[..., None] * row[..., None, :]
    return smallest


def _quadratic(h: Array, precision: Array) -> Array:
    """Return hᵀΛ⁻¹h of ``(member, row, d)``, where all members of a row share Λ."""
    products = np.ascontiguousarray(np.moveaxis(h, 0, -1))
    return np.asarray(np.einsum("rdm,rdm->mr", products, np.linalg.solve(precision, products)), dtype=np.float64)


def _log_determinant(precision: Array) -> Array:
    root = np.linalg.cholesky(precision)
    return np.asarray(2 * np.log(np.diagonal(root, axis1=-2, axis2=-1)).sum(axis=-1))
