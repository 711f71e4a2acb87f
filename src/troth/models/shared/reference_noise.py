"""The base class of families with known noise; providers that differ in noise count rows in units of a reference."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from troth.core.contract import Array, Model
from troth.models.family import Family


class ReferenceNoise(Family):
    """A family with fields ``noise`` and ``reference``, the noise that defines the unit of rows, or None."""

    noise: Any
    reference: Any

    @property
    def _unit(self) -> Any:
        return self.noise if self.reference is None else self.reference

    @property
    def _weight(self) -> float:
        """The number of rows of the reference noise that one row is worth."""
        return float((self._unit / self.noise) ** 2)

    def from_summary(self, summary: Array, /) -> Array:
        """Multiply the summary by the weight of a row."""
        return self._weight * super().from_summary(summary)

    def rows(self, statistics: Array, /) -> Array:
        """Return the unweighted number of rows."""
        return np.asarray(super().rows(statistics) / self._weight)

    @property
    def space(self) -> Mapping[str, object]:
        """Family, prior and the noise that defines the unit of rows."""
        return {**self._prior_space, "reference noise": self._unit}

    def in_space_of(self, reference: Model, /) -> Model:
        """Return this model with its rows counted in units of the reference's noise."""
        if isinstance(reference, type(self)) and self._prior_space == reference._prior_space:
            return dataclasses.replace(self, reference=reference._unit)  # type: ignore[call-arg]
        return super().in_space_of(reference)
