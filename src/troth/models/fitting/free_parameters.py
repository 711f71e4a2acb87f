"""How a parameter is written as free numbers: all are 0 at the start of a search, and a plausible step is of size 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from troth.core.contract import Array


@dataclass(frozen=True)
class _AroundOrigin:
    origin: Any

    @property
    def free(self) -> int:
        """How many free numbers there are."""
        return int(np.size(self.origin))


@dataclass(frozen=True)
class Real(_AroundOrigin):
    """A real number or a vector of them: origin + unit·free."""

    unit: Any

    def read(self, free: Array) -> Any:
        """Return the parameter with these free numbers."""
        value = np.atleast_1d(self.origin) + np.atleast_1d(self.unit) * free
        return value if np.ndim(self.origin) else float(value[0])


@dataclass(frozen=True)
class Positive(_AroundOrigin):
    """A number above a bound, or a vector of them: above + origin·exp(free)."""

    above: float = 0.0

    def read(self, free: Array) -> Any:
        """Return the parameter with these free numbers."""
        value = np.atleast_1d(self.origin) * np.exp(free) + self.above
        return value if np.ndim(self.origin) else float(value[0])


@dataclass(frozen=True)
class PositiveDefinite:
    """A covariance matrix DLLᵀD with D = diag(scale): free are the entries of L, of its diagonal the logarithms.

    Examples
    --------
    >>> PositiveDefinite(np.array([2.0, 1.0])).read(np.zeros(3))
    array([[4., 0.],
           [0., 1.]])
    """

    scale: Array

    @property
    def free(self) -> int:
        """How many free numbers there are."""
        return len(self.scale) * (len(self.scale) + 1) // 2

    def read(self, free: Array) -> Array:
        """Return the parameter with these free numbers."""
        size = len(self.scale)
        root = np.zeros((size, size))
        root[np.tril_indices(size)] = free
        root[np.diag_indices(size)] = np.exp(np.diagonal(root))
        root = np.diag(self.scale) @ root
        return np.asarray(root @ root.T)


FreeParameters: TypeAlias = dict[str, Real | Positive | PositiveDefinite]
