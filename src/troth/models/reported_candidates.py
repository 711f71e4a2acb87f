"""Candidates of any kind in a campaign: providers report log-likelihoods, whose distribution is simulated."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from troth.core.contract import Array, ComparedDesign, Generator
from troth.core.errors import MissingCapabilityError, ParameterError
from troth.core.reductions import Moments, Reduction
from troth.models.family import Example, Matrix
from troth.models.parameters import matrix, parameter
from troth.models.shared.candidate_states import FEATURES_UNKNOWN, FittedCandidates, reject_identical_candidates


@dataclass(frozen=True)
class ReportedCandidates(FittedCandidates):
    """Rows are log-likelihoods under S published candidates of any kind, which providers compute themselves.

    Given candidate k a row has mean m_k, a row of ``means``, and covariance V_k, whose upper half by rows is a row of
    ``covariances``. Both are estimated from simulated rows. In the limit of many rows, the log-likelihoods of n fresh
    rows are N(n·m_k, n·V_k).

    Examples
    --------
    >>> rates, rng = np.array([0.2, 0.5, 0.8]), np.random.default_rng(1)
    >>> rows = rng.random((3, 1000, 1)) < rates[:, None, None]  # simulated from each candidate
    >>> model = ReportedCandidates.from_simulation(np.where(rows, np.log(rates), np.log1p(-rates)))
    >>> model.statistics([[-1.6, -0.7, -0.2], [-0.2, -0.7, -1.6]]).round(1)
    array([-1.8, -1.4, -1.8,  2. ])
    """

    means: Matrix = field(
        metadata=parameter(
            "mean log-likelihoods of a row under each candidate, if the row's candidate is the true one",
            matrix,
            [[-0.5, -0.69, -1.33], [-0.92, -0.69, -0.92], [-1.33, -0.69, -0.5]],
        )
    )
    covariances: Matrix = field(
        metadata=parameter(
            "upper half of the covariance of these log-likelihoods, a row for each true candidate",
            matrix,
            [
                [0.31, 0.0, -0.31, 0.01, 0.0, 0.31],
                [0.48, 0.0, -0.48, 0.01, 0.0, 0.48],
                [0.31, 0.0, -0.31, 0.01, 0.0, 0.31],
            ],
        )
    )

    description: ClassVar[str] = "log-likelihoods under a few candidates of any kind, which providers compute"
    example: ClassVar[Example] = Example("which of three rates is right", ("low", "middle", "high"), "clinic")
    row_axes: ClassVar[int] = 1
    _value_word = "log-likelihood"
    given_parameters: ClassVar[tuple[str, ...]] = ("means", "covariances")
    draws_limit: ClassVar[str] = "many rows whose features have the distribution of the simulated ones"
    approximation: ClassVar[str] = (
        "decoys are drawn from the normal limit of many rows, with the mean and the covariance of simulated rows: the "
        "features of the peers must have the distribution of the simulation; log-likelihoods are what providers compute"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        size = len(self.means)
        half = size * (size + 1) // 2
        for name, width in (("means", size), ("covariances", half)):
            shape = np.shape(getattr(self, name))
            if shape != (size, width):
                message = f"ReportedCandidates: {name} of {size} candidates must be {size} by {width}, not {shape}"
                raise ParameterError(message, parameter=name)
        reject_identical_candidates("ReportedCandidates", np.array(self.means), "means")

    @classmethod
    def from_simulation(cls, log_likelihoods: Any, prior: Any = None) -> Self:
        """Create a model from log-likelihoods of simulated rows, ``(true candidate, row, candidate)``.

        From every candidate, simulate at least as many rows as a round has, with features like those of providers.
        """
        rows = np.asarray(log_likelihoods, dtype=np.float64)
        if rows.ndim != 3 or rows.shape[0] != rows.shape[2] or rows.shape[1] < 2:
            raise ParameterError(f"give log-likelihoods (candidate, row, candidate), not of shape {rows.shape}")
        centred = rows - rows.mean(axis=1, keepdims=True)
        covariances = np.swapaxes(centred, 1, 2) @ centred / (rows.shape[1] - 1)
        upper = np.triu_indices(len(rows))
        return cls(means=rows.mean(axis=1), covariances=covariances[:, *upper], prior=prior)

    @property
    def reduction(self) -> Reduction:
        """The number of rows, and the sum of each column."""
        return Moments((0.0,) * len(self.means))

    def from_summary(self, summary: Array, /) -> Array:
        """Put the number of rows last."""
        s = np.asarray(summary, dtype=np.float64)
        return np.concatenate([s[..., 1:], s[..., :1]], axis=-1)

    def rows(self, statistics: Array, /) -> Array:
        return np.asarray(statistics, dtype=np.float64)[..., -1]

    def compared_design(self, _: Array, /) -> ComparedDesign:
        """Raise `MissingCapabilityError`: nobody but the provider sees the features."""
        raise MissingCapabilityError(FEATURES_UNKNOWN)

    @cached_property
    def _roots(self) -> Array:
        """F with FFᵀ = V, for each candidate."""
        size = len(self.means)
        rows, columns = np.triu_indices(size)
        V = np.empty((size, size, size))
        V[:, rows, columns] = V[:, columns, rows] = np.array(self.covariances)
        values, vectors = np.linalg.eigh(V)
        return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :])

    def draw_data(self, rng: Generator, parameters: Array, rows: int, /) -> Array:
        """Draw normal log-likelihoods with the mean and the covariance of rows of each candidate."""
        values = np.broadcast_to(parameters, (rows, *np.shape(parameters)))
        return np.moveaxis(self._draw(rng, values, np.ones(())), 0, -2)

    def draw_statistics(self, rng: Generator, parameters: Array, design: Array, /) -> Array:
        """Draw log-likelihoods of fresh rows: N(n·m_k, n·V_k) under candidate k."""
        n = np.broadcast_to(design[..., 0], np.broadcast_shapes(np.shape(parameters)[:-1], design.shape[:-1]))
        return np.concatenate([self._draw(rng, parameters, n), n[..., None]], axis=-1)

    def _draw(self, rng: Generator, parameters: Array, rows: Array) -> Array:
        leading = np.broadcast_shapes(np.shape(parameters)[:-1], rows.shape)
        candidate = np.broadcast_to(np.asarray(parameters)[..., 0].astype(np.intp), leading)
        n = np.broadcast_to(rows, leading)[..., None]
        white = rng.standard_normal((*leading, len(self.means)))
        noise = np.einsum("...ij,...j->...i", self._roots[candidate], white)
        return np.asarray(n * np.array(self.means)[candidate] + np.sqrt(n) * noise)
