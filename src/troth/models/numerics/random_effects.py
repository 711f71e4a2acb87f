"""Random effects: coefficients γᵢ ~ N(γ, τ²) of providers, with known precision and in units of the prior."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from troth.core.contract import Array


class Effects(NamedTuple):
    """A log-likelihood c + hᵀγ − ½γᵀMγ per spread: c is ``(..., spread)``, h has d and M d × d further entries."""

    constant: Array
    product: Array
    precision: Array


def integrate_effects(
    precision: Array, product: Array, spreads: Array, scale: Array | None = None, *, matrices: bool = True
) -> Effects:
    """Integrate a log-likelihood gᵀγᵢ − ½γᵢᵀHγᵢ over γᵢ ~ N(γ, τ²AAᵀ), for each τ.

    With H = V diag(λ) Vᵀ and u = Vᵀg the result is c + hᵀγ − ½γᵀMγ, where c = ½Σ(τ²u²/(1 + τ²λ) − log1p(τ²λ)),
    h = V u/(1 + τ²λ) and M = V diag(λ/(1 + τ²λ)) Vᵀ, which is M = H − H(H + τ⁻²)⁻¹H without cancellation. A is
    ``scale``, by default the identity; otherwise the integral is taken in coordinates A⁻¹γ. M is left out unless
    ``matrices``.
    """
    if scale is not None:
        inner = integrate_effects(scale.T @ precision @ scale, product @ scale, spreads, matrices=matrices)
        back = np.linalg.inv(scale)
        outer = back.T @ inner.precision @ back if matrices else inner.precision
        return Effects(inner.constant, inner.product @ back, outer)
    values, vectors = np.linalg.eigh(precision) if precision.shape[-1] > 1 else (precision[..., 0], None)
    values = np.maximum(values, 0.0)[..., None, :]
    rotated = (product if vectors is None else np.einsum("...ik,...i->...k", vectors, product))[..., None, :]
    variance = (spreads**2)[:, None]
    shrink = 1 / (1 + variance * values)
    constant = 0.5 * (variance * rotated**2 * shrink - np.log1p(variance * values)).sum(axis=-1)
    if vectors is None:
        return Effects(constant, rotated * shrink, (values * shrink)[..., None])
    back = np.swapaxes(vectors, -1, -2)
    if not matrices:
        return Effects(constant, (rotated * shrink) @ back, np.empty(0))
    scaled = vectors[..., None, :, :] * (values * shrink)[..., None, :]
    return Effects(constant, (rotated * shrink) @ back, scaled @ back[..., None, :, :])


def evidence_of_effects(effects: Effects) -> Array:
    """Ln ∫ N(γ; 0, 1) exp(c + hᵀγ − ½γᵀMγ) dγ = c + ½hᵀ(1 + M)⁻¹h − ½ ln det(1 + M), for each spread."""
    h = np.array(np.moveaxis(effects.product, -1, 0))
    matrix = np.array(np.moveaxis(effects.precision, (-2, -1), (0, 1)))
    evidence = effects.constant
    for k in range(len(h)):  # Gaussian elimination, vectorised over matrices: LAPACK would process them one by one
        pivot = 1 + matrix[k, k]
        factor = matrix[k, k + 1 :] / pivot
        evidence = evidence + h[k] * (h[k] / (2 * pivot)) - 0.5 * np.log(pivot)
        h[k + 1 :] -= factor * h[k]
        matrix[k + 1 :, k + 1 :] -= factor[:, None] * matrix[k, k + 1 :]
    return np.asarray(evidence)


def evidence_in_line(precision: Array) -> Callable[[Array, Array], Array]:
    """Return that evidence as a function of c and h, ``(member, ...)``, for members that share M, factored once."""
    inverse = np.linalg.inv(np.linalg.cholesky(np.eye(precision.shape[-1]) + precision))
    log_root = np.log(np.diagonal(inverse, axis1=-2, axis2=-1)).sum(axis=-1)
    inverse = np.swapaxes(inverse, -1, -2)

    def evidence(constant: Array, product: Array) -> Array:
        whitened = np.moveaxis(product, 0, -2) @ inverse
        quadratic = np.einsum("...mi,...mi->...m", whitened, whitened)
        return np.asarray(constant + 0.5 * np.moveaxis(quadratic, -1, 0) + log_root)

    return evidence


def draw_coefficients(normal: Array, effects: Effects) -> Array:
    """Transform standard normal draws into γ ~ N((1 + M)⁻¹h, (1 + M)⁻¹), with one spread per draw."""
    root = np.linalg.cholesky(np.eye(normal.shape[-1]) + effects.precision)
    whitened = np.linalg.solve(root, effects.product[..., None]) + normal[..., None]
    return np.asarray(np.linalg.solve(np.swapaxes(root, -1, -2), whitened)[..., 0])
