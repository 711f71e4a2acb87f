"""Regressions of providers whose coefficients differ: what they share, whatever an answer is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from troth.core.contract import Array, ComparedDesign, Generator
from troth.models.numerics.designs import compare_products
from troth.models.random_effects import RandomEffects
from troth.models.regression import Regression


@dataclass(frozen=True)
class VaryingCoefficients(RandomEffects, Regression):
    """Coefficients β ~ N(mean, precision⁻¹) and of a provider βᵢ ~ N(β, τ²·precision⁻¹), β and τ unknown."""

    smallest_spread: ClassVar[float] = 0.01
    largest_spread: ClassVar[float] = 3.0

    def parameter_names(self, columns: Sequence[str | None], labels: Sequence[str] | None = None, /) -> list[str]:
        """Name the coefficients and their spread."""
        return [*super().parameter_names(columns, labels), "spread of providers' coefficients"]

    @property
    def _coefficients(self) -> int:
        return len(self.mean)

    @property
    def _nothing(self) -> Any:
        return (), ()

    @cached_property
    def _prior_scale(self) -> Array:
        """L with LLᵀ = precision⁻¹: coefficients are mean + Lγ."""
        return np.asarray(np.linalg.inv(self._prior_root).T, dtype=np.float64)

    def rows(self, statistics: Array, /) -> Array:
        """Count the rows behind each statistic."""
        return np.asarray(statistics, dtype=np.float64)[..., 0]

    def design(self, statistics: Array, /) -> Array:
        """Return the number of rows, and the precision that they give the provider's coefficients."""
        return RandomEffects.design(self, statistics)

    def compared_design(self, statistics: Array, /) -> ComparedDesign:
        """Return the precision that the features give the provider's coefficients."""
        return compare_products(self._unpack(np.asarray(statistics, dtype=np.float64)).precision[..., 0, :, :])

    def draw_parameters(self, rng: Generator, shape: tuple[int, ...] = (), /) -> Array:
        """Draw (coefficients, τ) from the prior, shape ``(*shape, d + 1)``."""
        gamma = rng.standard_normal((*shape, len(self.mean)))
        return self._parameters(gamma, self._draw_spread(rng, shape))

    def draw_posterior(self, rng: Generator, statistics: Array, /) -> Array:
        """Draw (coefficients, τ) given statistics."""
        return self._parameters(*self._draw_posterior(rng, statistics))

    def _parameters(self, gamma: Array, spread: Array) -> Array:
        return np.concatenate([np.array(self.mean) + gamma @ self._prior_scale.T, spread[..., None]], axis=-1)

    def draw_statistics(self, rng: Generator, parameters: Array, design: Array, /) -> Array:
        """Draw statistics for each (coefficients, τ) and precision."""
        return self._draw_statistics(rng, *self._in_units(parameters), design)

    def draw_answer_part(self, rng: Generator, parameters: Array, design: Array, /) -> Array:
        """Draw c and h for each (coefficients, τ) and precision."""
        return self._answers(*self._draw_product(rng, *self._in_units(parameters), design))

    def _in_units(self, parameters: Array) -> tuple[Array, Array]:
        """Return coefficients and spread in units of the prior."""
        return (parameters[..., :-1] - np.array(self.mean)) @ self._prior_root, parameters[..., -1]
