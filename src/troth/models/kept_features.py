"""A regression with one provider's features, all or a sample of them, whose decoys come from the likelihood itself."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from hashlib import sha256
from typing import Any

import numpy as np

from troth.core.contract import Array, Generator, HasEvidenceCost
from troth.core.errors import DataError
from troth.core.information import log_pmi
from troth.core.reductions import Reduction
from troth.core.support import Support
from troth.models.features_at_hand import FeaturesAtHand

_BLOCK = 1 << 21  # answers drawn at a time
_ROWS_OF_A_CLOSED_FORM = 10  # about as many answers are drawn while the evidence of a report is computed


class KeptFeatures(FeaturesAtHand):
    """A regression with features ``(kept rows, d)`` of one provider, who has ``rows`` rows in all.

    Where only a sample of the features was kept, each of them stands for rows/kept rows. Two are equal if the models
    and the features are, so that equal reports have equal decoys.
    """

    def __init__(self, model: Any, features: Any, rows: int | None = None) -> None:
        z = Support().check(features, "feature", columns=model.reduction.features)
        super().__init__(model, np.ascontiguousarray(z))
        self.total = len(z) if rows is None else int(rows)
        if not 0 < len(z) <= self.total:
            raise DataError(f"there are features of {len(z)} rows, and {self.total} rows")

    @cached_property
    def _counts(self) -> Array | None:
        """How many rows each of the kept features stands for, or None if each is one row."""
        size = len(self.features)
        return None if size == self.total else np.diff(np.arange(size + 1) * self.total // size)

    @property
    def draws_limit(self) -> str:  # type: ignore[override]
        """Nothing where all features were kept: their answers are drawn from the likelihood."""
        return "" if self._counts is None else "many rows, of whose features a sample was kept"

    @property
    def features_in_words(self) -> str:  # type: ignore[override]
        """The peers' features, or a sample of them."""
        return "the peers' features" if self._counts is None else "a sample of the peers' features"

    @cached_property
    def _digest(self) -> str:
        return sha256(self.features.tobytes()).hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KeptFeatures) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return f"{self.model!r} with features {self._digest} of {self.total} rows"

    @property
    def _key(self) -> tuple[Any, ...]:
        return self.model, self._digest, self.total

    @property
    def reduction(self) -> Reduction:
        """That of the regression."""
        reduction: Reduction = self.model.reduction
        return reduction

    def summary(self, data: Any, /) -> Array:
        """Return the summary of the regression."""
        return np.asarray(self.model.summary(data))

    def from_summary(self, summary: Array, /) -> Array:
        """Return the statistics of the regression."""
        return np.asarray(self.model.from_summary(summary))

    def log_pmi(self, own: Array, peers: Array, both: Array | None = None, /) -> Array:
        """Log PMI of the regression."""
        return log_pmi(self.model, own, peers, both)

    @property
    def evidence_cost(self) -> int:
        """That of the regression, and of answers that are drawn row by row."""
        of_model = self.model.evidence_cost if isinstance(self.model, HasEvidenceCost) else 1
        return of_model + len(self.features) // _ROWS_OF_A_CLOSED_FORM

    def doubt(self, statistics: Array, /) -> str:
        """Say what the regression says."""
        return str(self.model.doubt(statistics))

    def plan(self, rows: Any, /) -> Array:
        """Return the design of the features at hand for reports with as many rows, or that of given features."""
        counts = np.asarray(rows, dtype=np.float64)
        if counts.ndim > 1 or self._counts is not None or (counts != self.total).any():
            return np.asarray(self.model.plan(rows))
        design = np.asarray(self.model.plan(self.features))
        return np.broadcast_to(design, (*counts.shape, *design.shape))

    def draw_statistics(self, rng: Generator, parameters: Array, design: Array, /) -> Array:
        """Draw answers for the kept features, and return their statistics, with the curvature of the design."""
        drawn = self.model.from_slope(self._draw_slope(rng, parameters, design), design)
        return np.where((design != 0).any(axis=-1, keepdims=True), drawn, 0.0)

    def answer_part(self, statistics: Array, /) -> Array:
        """Return that part of the regression's statistics."""
        return np.asarray(self.model.answer_part(statistics))

    def draw_answer_part(self, rng: Generator, parameters: Array, design: Array, /) -> Array:
        """Draw answers for the kept features, and return that part of their statistics."""
        drawn = self.model.answers_of_slope(self._draw_slope(rng, parameters, design), design)
        return np.where((design != 0).any(axis=-1, keepdims=True), drawn, 0.0)

    def answer_scorer(self, own: Array, peers: Array, /) -> Callable[[Array], Array]:
        """Return that of the regression."""
        scorer: Callable[[Array], Array] = self.model.answer_scorer(own, peers)
        return scorer

    def _draw_slope(self, rng: Generator, parameters: Array, design: Array) -> Array:
        leading = np.broadcast_shapes(parameters.shape[:-1], design.shape[:-1])
        own = self.model.draw_own_coefficients(rng, np.broadcast_to(parameters, (*leading, parameters.shape[-1])))
        flat = own.reshape(-1, own.shape[-1])
        step = max(1, _BLOCK // max(1, len(self.features)))
        parts = [
            self.model.draw_slope(rng, flat[start : start + step], self.features, self._counts)
            for start in range(0, len(flat), step)
        ]
        return np.concatenate(parts).reshape(own.shape)
