"""A plug-in family in one file, registered with one call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from scipy.special import gammaln

from troth import models
from troth.core.contract import Array, Generator
from troth.core.reductions import Moments, Reduction
from troth.core.support import Support
from troth.models.first_guess import Column, FirstGuess
from troth.models.fitting.initial_parameters import FreeParameters, Positive, gamma_moments
from troth.models.parameters import Word, parameter, positive


@dataclass(frozen=True)
class Rayleigh(models.Family):
    """Heights x with density λx·exp(−λx²/2), λ ~ Gamma(shape, rate), in metres or feet."""

    shape: float = field(metadata=parameter("pseudo-count of waves", positive, 3.0))
    rate: float = field(metadata=parameter("pseudo-sum of half squared heights", positive, 2.0))
    unit: str = field(default="metre", metadata=parameter("of the heights", Word("metre", "foot"), known=True))

    description: ClassVar[str] = "heights of waves"
    example: ClassVar[models.Example] = models.Example("how high are the waves?", ("height",), "buoy")
    theta: ClassVar[tuple[str, ...]] = ("calmness of {column}",)

    @classmethod
    def suits(cls, column: Column, /) -> bool:
        """Return False, so that `init` proposes a normal for numbers."""
        return False

    @classmethod
    def first_guess(cls, column: Column, /) -> FirstGuess:
        """Guess the size of heights from the data."""
        rate = float(np.mean(column.numbers**2) / 2)
        meanings = {"unit": "What heights are measured in."}
        return FirstGuess({"shape": 1.0, "rate": rate, "unit": "metre"}, from_data=True, meanings=meanings)

    @property
    def _metres(self) -> float:
        return {"metre": 1.0, "foot": 0.3048}[self.unit]

    @property
    def support(self) -> Support:
        """Heights above 0."""
        return Support(0, open=True)

    @property
    def reduction(self) -> Reduction:
        """The number of waves and the sum of squared heights."""
        return Moments((0.0,), linear=False, squares=True, support=self.support)

    def summary(self, data: Any, /) -> Array:
        """(n, Σx²)."""
        x = self.support.check(data)
        return np.stack([np.full(x.shape[:-1], float(x.shape[-1])), (x * x).sum(axis=-1)], axis=-1)

    def from_summary(self, summary: Array, /) -> Array:
        """(n, Σx²/2) in metres."""
        return np.asarray(summary, dtype=np.float64) * [1.0, self._metres**2 / 2]

    def log_evidence(self, statistics: Array, /) -> Array:
        """lnΓ(a + n) − (a + n) ln(b + Σx²/2)."""
        t = np.asarray(statistics)
        a = self.shape + t[..., 0]
        return np.asarray(gammaln(a) - a * np.log(self.rate + t[..., 1]))

    def draw_parameters(self, rng: Generator, shape: tuple[int, ...] = (), /) -> Array:
        """Draw λ from the prior."""
        return rng.gamma(self.shape, 1 / self.rate, size=(*shape, 1))

    def draw_posterior(self, rng: Generator, statistics: Array, /) -> Array:
        """Draw λ given statistics."""
        return np.asarray(rng.gamma(self.shape + statistics[..., :1]) / (self.rate + statistics[..., 1:]))

    def draw_data(self, rng: Generator, parameters: Array, rows: int, /) -> Array:
        """Draw heights."""
        return np.sqrt(2 * rng.exponential(size=(*parameters.shape[:-1], rows)) / parameters) / self._metres

    def draw_statistics(self, rng: Generator, parameters: Array, design: Array, /) -> Array:
        """Draw (n, Σx²/2)."""
        rate, rows = np.broadcast_arrays(parameters[..., 0], design[..., 0])
        return np.stack([rows, rng.standard_gamma(rows) / rate], axis=-1)

    def base_measure(self, summaries: Array, reduction: Reduction, /) -> Array:
        """0: Σ ln x does not depend on parameters, and is not part of the summary."""
        return np.zeros(summaries.shape[:-1])

    @property
    def score_measure(self) -> str | None:
        """The term that log scores leave out."""
        return "ln x"

    @classmethod
    def initial_parameters(cls, summaries: Array, reduction: Reduction, fixed: Mapping[str, Any], /) -> FreeParameters:
        """Match the moments of the days' mean squared heights."""
        total = reduction.convert(summaries.sum(axis=1), cls.example_model().reduction)
        shape, rate = gamma_moments(2 * total[:, 0] / np.maximum(total[:, 1], 1e-300))
        return {"shape": Positive(shape), "rate": Positive(rate)}


@contextmanager
def registered() -> Iterator[type[Rayleigh]]:
    """Register the family within a ``with`` block."""
    try:
        yield models.register(Rayleigh)
    finally:
        models.FAMILIES.pop("Rayleigh", None)
