"""A regression, or candidates, with the features of one provider, so that decoys come from the likelihood itself."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from hashlib import sha256
from typing import Any, ClassVar

import numpy as np

from troth.core.contract import Array, ComparedDesign, Generator, Model
from troth.core.declarations import declared
from troth.core.delegation import delegates
from troth.core.errors import DataError, MissingCapabilityError
from troth.core.information import line_log_pmi, log_pmi
from troth.core.support import Support

_EXPANDED = (
    "the likelihood is expanded at a public point, which is exact in the limit of many rows; decoys are drawn from "
    "the likelihood itself, with "
)
_BLOCK = 1 << 21  # answers drawn at a time
_ROWS_OF_A_CLOSED_FORM = 10  # about as many answers are drawn while the evidence of a report is computed


@delegates("model", "assumption", "evidence_limit", "limit_measured", "possible", "possible_statistics")
@delegates("model", "width", "space", "statistics", "log_evidence", "log_pmi", "rows", "design", "draw_parameters")
class FeaturesAtHand:
    """A regression, or `Candidates`, with the features of one provider.

    Evidence and statistics are those of the model. Fresh statistics are those of fresh answers, drawn from the
    likelihood for these very features: the real peers and their decoys are then exchangeable for a report that says
    nothing, whatever the expansion is worth.
    """

    independent_rows: ClassVar[bool] = False
    features_in_words: ClassVar[str] = "the peers' features"
    draws_limit: ClassVar[str] = ""

    statistics: Callable[[Any], Array]
    log_evidence: Callable[[Array], Array]

    def __init__(self, model: Any, features: Any) -> None:
        self.model, self.features = model, features

    def __repr__(self) -> str:
        """Return the same text for the same features, wherever they are in memory: decoys are drawn in its order."""
        return f"FeaturesAtHand({sha256(np.asarray(self.features).tobytes()).hexdigest()}, {self.model!r})"

    @property
    def without_features(self) -> Model:
        """The regression, or the candidates."""
        model: Model = self.model
        return model

    @property
    def approximation(self) -> str:
        """What is not exact: the evidence, if the model expands it."""
        return _EXPANDED + self.features_in_words if self.model.evidence_limit else ""

    def in_space_of(self, _: Model, /) -> Model:
        """Return this model: statistics do not depend on the features at hand."""
        return self

    def line_log_pmi(self, own: Array, line: Array, /) -> Array:
        """Log PMI with many peers that have the same features."""
        return line_log_pmi(self.model, own, line)

    def compared_design(self, statistics: Array, /) -> ComparedDesign:
        """Return what statistics say of the design; the features at hand are those of every day."""
        try:
            compared: ComparedDesign = self.model.compared_design(statistics)
        except MissingCapabilityError:
            return ComparedDesign.rows_only(statistics)
        return compared

    def draw_data(self, rng: Generator, parameters: Array, rows: Any, /) -> Any:
        """Draw (z, y): with the features at hand if there are `rows` of them, otherwise with others."""
        has_own_rows = np.ndim(rows) == 0 and np.ndim(self.features) == 2 and len(self.features) == rows
        return self.model.draw_data(rng, parameters, self.features if has_own_rows else rows)

    def draw_statistics(self, rng: Generator, parameters: Array, design: Array, /) -> Array:
        """Draw answers for the features at hand, and return their statistics; a report without rows keeps none."""
        leading = np.broadcast_shapes(parameters.shape[:-1], design.shape[:-1])
        theta = np.broadcast_to(parameters, (*leading, parameters.shape[-1]))
        fresh = self.model.draw_with_features(rng, theta, self.features)
        return np.where(design[..., -1:] > 0, fresh, 0.0)


@delegates("model", "reduction", "summary", "from_summary", "answer_part", "answer_scorer", "warning_about")
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
            raise DataError(f"there are features of {len(z)} rows, but {self.total} rows")

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

    @property
    def _key(self) -> tuple[Any, ...]:
        return self.model, self._digest, self.total

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KeptFeatures) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return f"{self.model!r} with features {self._digest} of {self.total} rows"

    def log_pmi(self, own: Array, peers: Array, both: Array | None = None, /) -> Array:
        """Log PMI of the regression, by its own formula or by its evidence."""
        return log_pmi(self.model, own, peers, both)

    @property
    def evidence_cost(self) -> int:
        """That of the regression, and of answers that are drawn row by row."""
        return declared(self.model).evidence_cost + len(self.features) // _ROWS_OF_A_CLOSED_FORM

    def plan(self, rows: Any, /) -> Array:
        """Return the design of the features at hand for reports with as many rows, or that of given features."""
        counts = np.asarray(rows, dtype=np.float64)
        if counts.ndim > 1 or self._counts is not None or (counts != self.total).any():
            return np.asarray(self.model.plan(rows))
        design = np.asarray(self.model.plan(self.features))
        return np.broadcast_to(design, (*counts.shape, *design.shape))

    def draw_statistics(self, rng: Generator, parameters: Array, design: Array, /) -> Array:
        """Draw answers for the kept features, and return their statistics, with the curvature of the design."""
        fresh = self.model.from_slope(self._draw_slope(rng, parameters, design), design)
        return np.where((design != 0).any(axis=-1, keepdims=True), fresh, 0.0)

    def draw_answer_part(self, rng: Generator, parameters: Array, design: Array, /) -> Array:
        """Draw answers for the kept features, and return that part of their statistics."""
        fresh = self.model.answers_of_slope(self._draw_slope(rng, parameters, design), design)
        return np.where((design != 0).any(axis=-1, keepdims=True), fresh, 0.0)

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
