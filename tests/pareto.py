"""A plug-in family with its own reduction, because no bundled reduction sums logarithms."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from troth import models
from troth.core.contract import Array
from troth.core.errors import DataError
from troth.core.reductions import Reduction
from troth.core.support import Bounds, Support
from troth.models.first_guess import Column, FirstGuess
from troth.models.fitting.initial_parameters import FreeParameters, Positive, gamma_moments
from troth.models.parameters import parameter, positive


@dataclass(frozen=True)
class LogSum:
    """The number of rows and Σ ln x, for values of at least ``minimum``."""

    minimum: float
    columns, width, labels, batch_columns = 1, 2, None, 1

    @property
    def support(self) -> Support:
        """Values from the minimum on."""
        return Support(self.minimum)

    def of_rows(self, table: Array, /) -> Array:
        """Reduce tables ``(..., row, column)``."""
        return np.stack(
            [np.full(table.shape[:-2], float(table.shape[-2])), np.log(table[..., 0]).sum(axis=-1)], axis=-1
        )

    def add(self, columns: Sequence[NDArray[Any]], codes: NDArray[np.integer], size: int, /) -> Array:
        """Reduce a batch by provider code."""
        return np.stack([np.bincount(codes, w, size) for w in (None, np.log(columns[0]))], axis=-1)

    def rows(self, summary: Array, /) -> Array:
        """Return n."""
        return summary[..., 0]

    def magnitudes(self, summary: Array, /) -> Array:
        """Return Σ ln x, which is infinite if a value is."""
        return summary[..., 1:]

    def check(self, summary: Array, values: Bounds | None = None, constant: Collection[int] = (), /) -> None:
        """Reject a sum that is too small for the number of rows."""
        if summary[0] == 0 and summary[1] != 0:
            raise DataError("no rows have a sum of logarithms")
        if summary[1] < summary[0] * (np.log(self.minimum) - 1e-9):
            raise DataError(f"values are at least {self.minimum:g}")

    def expressions(self, columns: Sequence[Any], labels: Sequence[Any] | None = None, /) -> dict[str, Any]:
        """Compute Σ ln x in the engine that holds the data."""
        return {"log_sum": columns[0].ln().sum()}

    def collect(self, rows: float, aggregates: Mapping[str, Any], /) -> Array:
        """Return n and Σ ln x."""
        return np.array([rows, aggregates["log_sum"]], dtype=np.float64)

    def convert(self, summary: Array, target: Reduction, /) -> Array:
        """Return the summary unchanged."""
        return summary


@dataclass(frozen=True)
class Pareto(models.Family):
    """Incomes x ≥ m with density αmᵅ/xᵅ⁺¹, α ~ Gamma(shape, rate)."""

    shape: float = field(metadata=parameter("pseudo-count of incomes", positive, 3.0))
    rate: float = field(metadata=parameter("pseudo-sum of ln(x/m)", positive, 2.0))
    minimum: float = field(default=1.0, metadata=parameter("the minimum income m", positive, 1.0, known=True))

    description: ClassVar[str] = "incomes above a minimum"
    example: ClassVar[models.Example] = models.Example("how unequal are incomes?", ("income",), "bureau")
    theta: ClassVar[tuple[str, ...]] = ("equality of {column}",)

    @classmethod
    def suits(cls, column: Column, /) -> bool:
        """Return False, so that `init` proposes a normal for numbers."""
        return False

    @classmethod
    def first_guess(cls, column: Column, /) -> FirstGuess:
        """Guess the minimum and the size of incomes from the data."""
        minimum = float(column.numbers.min())
        excess = float(np.log(column.numbers / minimum).mean())
        return FirstGuess({"shape": 1.0, "rate": excess or 1.0, "minimum": minimum}, from_data=True)

    @property
    def reduction(self) -> Reduction:
        """The number of incomes and the sum of their logarithms."""
        return LogSum(self.minimum)

    @property
    def support(self) -> Support:
        """Incomes from m on."""
        return self.reduction.support

    def summary(self, data: Any, /) -> Array:
        """(n, Σ ln x)."""
        return self.reduction.of_rows(self.support.check(data)[..., None])

    def from_summary(self, summary: Array, /) -> Array:
        """(n, Σ ln(x/m))."""
        return np.asarray(summary @ np.array([[1.0, -np.log(self.minimum)], [0.0, 1.0]]))

    def log_evidence(self, statistics: Array, /) -> Array:
        """lnΓ(a + n) − (a + n) ln(b + Σ ln(x/m))."""
        a = self.shape + statistics[..., 0]
        return np.asarray(gammaln(a) - a * np.log(self.rate + statistics[..., 1]))

    def draw_parameters(self, rng: np.random.Generator, shape: tuple[int, ...] = (), /) -> Array:
        """Draw α from the prior."""
        return rng.gamma(self.shape, 1 / self.rate, size=(*shape, 1))

    def draw_data(self, rng: np.random.Generator, parameters: Array, rows: int, /) -> Array:
        """Draw incomes."""
        return self.minimum * np.exp(rng.exponential(size=(*parameters.shape[:-1], rows)) / parameters)

    def draw_statistics(self, rng: np.random.Generator, parameters: Array, design: Array, /) -> Array:
        """Draw (n, Σ ln(x/m))."""
        rate, rows = np.broadcast_arrays(parameters[..., 0], design[..., 0])
        return np.stack([rows, rng.standard_gamma(rows) / rate], axis=-1)

    def draw_posterior(self, rng: np.random.Generator, statistics: Array, /) -> Array:
        """Draw α given statistics."""
        return np.asarray(rng.gamma(self.shape + statistics[..., :1]) / (self.rate + statistics[..., 1:]))

    def base_measure(self, summaries: Array, reduction: Reduction, /) -> Array:
        """−Σ ln x: an income of x has density α(m/x)ᵅ/x."""
        return np.asarray(-summaries[..., 1])

    @classmethod
    def initial_parameters(cls, summaries: Array, reduction: Reduction, fixed: Mapping[str, Any], /) -> FreeParameters:
        """Match the moments of the days' tail exponents."""
        total = summaries.sum(axis=1)
        excess = total[:, 1] - total[:, 0] * np.log(fixed.get("minimum", 1.0))
        shape, rate = gamma_moments(total[:, 0] / np.maximum(excess, 1e-300))
        return {"shape": Positive(shape), "rate": Positive(rate)}
