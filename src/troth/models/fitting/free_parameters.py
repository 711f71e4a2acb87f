"""How a parameter is written as free numbers, all 0 at the start of a search and of size 1 where it is plausible."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from troth.core.contract import Array


@dataclass(frozen=True)
class Real:
    """A real number or a vector of them: origin + unit·free."""

    origin: Any
    unit: Any

    @property
    def free(self) -> int:
        """How many free numbers there are."""
        return int(np.size(self.origin))

    def read(self, free: Array) -> Any:
        """Return the parameter with these free numbers."""
        value = np.atleast_1d(self.origin) + np.atleast_1d(self.unit) * free
        return value if np.ndim(self.origin) else float(value[0])


@dataclass(frozen=True)
class Positive:
    """A number above a bound, or a vector of them: above + origin·exp(free)."""

    origin: Any
    above: float = 0.0

    @property
    def free(self) -> int:
        """How many free numbers there are."""
        return int(np.size(self.origin))

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


FreeParameter: TypeAlias = Real | Positive | PositiveDefinite
