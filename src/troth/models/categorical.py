"""One of K kinds: category probabilities with a Dirichlet prior."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any, ClassVar

import numpy as np
from scipy.special import gammaln

from troth.core.contract import Array, Generator
from troth.core.reductions import Counts, Reduction
from troth.core.support import Support
from troth.models.dirichlet import DirichletCounts
from troth.models.family import Example, Vector
from troth.models.first_guess import Column, FirstGuess
from troth.models.fitting.free_parameters import FreeParameters, Positive
from troth.models.fitting.moments import dirichlet_moments
from troth.models.parameters import parameter, pseudo_counts


@dataclass(frozen=True)
class Categorical(DirichletCounts):
    """Rows that are codes 0 … K−1 with probabilities θ ~ Dirichlet(alpha).

    Statistic: counts of each code. Λ(t) = Σ_k lnΓ(α_k + t_k) − lnΓ(Σ_k (α_k + t_k)).

    Examples
    --------
    >>> Categorical(alpha=[1, 1, 2]).statistics([0, 2, 2, 1])
    array([1., 1., 2.])
    """

    alpha: Vector = field(metadata=parameter("pseudo-counts of the labels", pseudo_counts, [1.0, 1.0, 1.0]))

    description: ClassVar[str] = "one of several labels"
    example: ClassVar[Example] = Example(
        "how annotators label pictures", ("label",), "annotator", labels=("cat", "dog", "other")
    )

    @classmethod
    def suits(cls, column: Column, /) -> bool:
        """Labels."""
        return column.has_text

    @classmethod
    def first_guess(cls, column: Column, /) -> FirstGuess:
        """All probabilities are equally likely."""
        return FirstGuess({"alpha": [1.0] * column.codes}, column.labels)

    def parameter_names(self, _: Sequence[str | None], labels: Sequence[str] | None = None, /) -> list[str]:
        """Name the probability of each label."""
        return [f"probability of {label!r}" for label in labels or map(str, range(len(self.alpha)))]

    @property
    def support(self) -> Support:
        """Codes 0 … K−1."""
        return Support(0, len(self.alpha) - 1, integer=True)

    @cached_property
    def _pseudo_counts(self) -> Array:
        return np.array(self.alpha)

    def statistics(self, data: Any, /) -> Array:
        """Count each code along the last axis."""
        return count_codes(self.support.check(data, "code"), len(self.alpha))

    @property
    def reduction(self) -> Reduction:
        """Counts of each code."""
        return Counts(len(self.alpha))

    def log_evidence(self, statistics: Array, /) -> Array:
        """Σ_k lnΓ(α_k + t_k) − lnΓ(Σ_k (α_k + t_k))."""
        x = self._pseudo_counts + statistics
        return np.asarray(gammaln(x).sum(axis=-1) - gammaln(x.sum(axis=-1)))

    def posterior(self, statistics: Array, /) -> Categorical:
        """Dirichlet(α + counts)."""
        return self._replace(alpha=self._pseudo_counts + statistics)

    def draw_parameters(self, rng: Generator, shape: tuple[int, ...] = (), /) -> Array:
        """Draw probabilities from the prior, shape ``(*shape, K)``."""
        return np.asarray(rng.dirichlet(self._pseudo_counts, size=shape))

    def draw_posterior(self, rng: Generator, statistics: Array, /) -> Array:
        """Draw probabilities given statistics."""
        weights = np.maximum(rng.standard_gamma(self._pseudo_counts + statistics), np.finfo(float).tiny)
        return np.asarray(weights / weights.sum(axis=-1, keepdims=True))

    def draw_data(self, rng: Generator, parameters: Array, rows: int, /) -> Array:
        """Draw rows of codes for each vector of probabilities."""
        return draw_codes(rng, parameters, rows)

    def draw_statistics(self, rng: Generator, parameters: Array, design: Array, /) -> Array:
        """Draw counts for each vector of probabilities and number of rows."""
        return draw_counts(rng, parameters, design[..., 0])

    @classmethod
    def suits_reduction(cls, reduction: Reduction, /) -> bool:
        """Codes, more or fewer than two of them."""
        return isinstance(reduction, Counts) and reduction.labels != 2

    @classmethod
    def initial_parameters(cls, summaries: Array, reduction: Reduction, _: Mapping[str, Any], /) -> FreeParameters:
        """Match how the days' shares of each code vary."""
        return {"alpha": Positive(dirichlet_moments(cls.__name__, summaries, reduction))}


def count_codes(codes: Array, categories: int) -> Array:
    """Count each code along the last axis, shape ``(..., categories)``."""
    datasets = prod(codes.shape[:-1])
    flat = codes.reshape(datasets, codes.shape[-1]).astype(np.intp)
    offsets = np.arange(datasets)[:, None] * categories
    counts = np.bincount((flat + offsets).ravel(), minlength=datasets * categories)
    return counts.reshape(*codes.shape[:-1], categories).astype(np.float64)


def draw_codes(rng: Generator, probabilities: Array, rows: int) -> Array:
    """Draw codes by inversion, shape ``(..., rows)``."""
    steps = np.cumsum(probabilities, axis=-1)[..., :-1]
    uniform = rng.random((*probabilities.shape[:-1], rows)) * np.sum(probabilities, axis=-1)[..., None]
    codes = np.zeros(uniform.shape)
    for step in np.moveaxis(steps, -1, 0):
        codes += uniform >= step[..., None]
    return codes


def draw_counts(rng: Generator, probabilities: Array, rows: Array) -> Array:
    """Draw multinomial counts, with leading axes of both broadcast."""
    shape = np.broadcast_shapes(probabilities.shape[:-1], rows.shape)
    p = np.broadcast_to(probabilities, (*shape, probabilities.shape[-1]))
    return np.asarray(rng.multinomial(np.broadcast_to(rows, shape).astype(np.int64), p), dtype=np.float64)
