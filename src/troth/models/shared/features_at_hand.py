"""A regression or candidates with one provider's features, so that decoys are drawn from the likelihood itself."""

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
_ROWS_PER_EVIDENCE = 10  # drawing this many answers costs about as much as one evidence


@delegates("model", "assumption", "evidence_limit", "limit_measured", "possible", "possible_statistics")
@delegates("model", "width", "space", "statistics", "log_evidence", "log_pmi", "rows", "design", "draw_parameters")
class FeaturesAtHand:
    """A regression or `Candidates` with the features of one provider.

    Evidence and statistics are those of the model. Fresh statistics come from answers drawn from the likelihood for
    these features. So the real peers and their decoys are exchangeable for an uninformative report, however poor the
    expansion is.
    """

    independent_rows: ClassVar[bool] = False
    features_in_words: ClassVar[str] = "the peers' features"
    draws_limit: ClassVar[str] = ""

    statistics: Callable[[Any], Array]
    log_evidence: Callable[[Array], Array]

    def __init__(self, model: Any, features: Any) -> None:
        self.model, self.features = model, features

    def __repr__(self) -> str:
        """Identify features by their digest: decoys are drawn in the order of this text, which must be reproducible."""
        return f"FeaturesAtHand({self._digest}, {self.model!r})"

    @cached_property
    def _digest(self) -> str:
        return sha256(np.asarray(self.features).tobytes()).hexdigest()

    @property
    def without_features(self) -> Model:
        """The regression, or the candidates."""
        model: Model = self.model
        return model

    @property
    def approximation(self) -> str:
        """The approximation made: the expansion of the evidence, if the model has one."""
        return _EXPANDED + self.features_in_words if self.model.evidence_limit else ""

    def in_space_of(self, _: Model, /) -> Model:
        """Return this model: statistics do not depend on the features at hand."""
        return self

    def line_log_pmi(self, own: Array, line: Array, /) -> Array:
        """Log PMI with many peers that have the same features."""
        return line_log_pmi(self.model, own, line)

    def compared_design(self, statistics: Array, /) -> ComparedDesign:
        """Return the design that statistics reveal; the features at hand are those of every day."""
        try:
            compared: ComparedDesign = self.model.compared_design(statistics)
        except MissingCapabilityError:
            return ComparedDesign.rows_only(statistics)
        return compared

    def draw_data(self, rng: Generator, parameters: Array, rows: Any, /) -> Any:
        """Draw (z, y) with the features at hand if there are ``rows`` of them, otherwise as the model does."""
        use_own = np.ndim(rows) == 0 and np.ndim(self.features) == 2 and len(self.features) == rows
        return self.model.draw_data(rng, parameters, self.features if use_own else rows)

    def draw_statistics(self, rng: Generator, parameters: Array, design: Array, /) -> Array:
        """Draw answers for the features at hand, and return their statistics; those of an empty report are 0."""
        leading = np.broadcast_shapes(parameters.shape[:-1], design.shape[:-1])
        theta = np.broadcast_to(parameters, (*leading, parameters.shape[-1]))
        fresh = self.model.draw_with_features(rng, theta, self.features)
        return np.where(design[..., -1:] > 0, fresh, 0.0)


@delegates("model", "reduction", "summary", "from_summary", "answer_part", "answer_scorer", "warning_about")
class KeptFeatures(FeaturesAtHand):
    """A regression with the features ``(kept rows, d)`` of one provider, who has ``rows`` rows in total.

    If only a sample of the features was kept, each stands for rows/kept rows. Equality compares models and features,
    so that equal reports have equal decoys.
    """

    def __init__(self, model: Any, features: Any, rows: int | None = None) -> None:
        z = Support().check(features, "feature", columns=model.reduction.features)
        super().__init__(model, np.ascontiguousarray(z))
        self.total = len(z) if rows is None else int(rows)
        if not 0 < len(z) <= self.total:
            raise DataError(f"there are features of {len(z)} rows, but {self.total} rows")

    @cached_property
    def _counts(self) -> Array | None:
        """The number of rows that each of the kept features stands for, or None if each is one row."""
        size = len(self.features)
        return None if size == self.total else np.diff(np.arange(size + 1) * self.total // size)

    @property
    def draws_limit(self) -> str:  # type: ignore[override]
        """Empty if all features were kept, because answers are then drawn from the likelihood."""
        return "" if self._counts is None else "many rows, of whose features a sample was kept"

    @property
    def features_in_words(self) -> str:  # type: ignore[override]
        """The peers' features, or a sample of them."""
        return "the peers' features" if self._counts is None else "a sample of the peers' features"

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
        """Log PMI of the regression, by its own formula if it has one."""
        return log_pmi(self.model, own, peers, both)

    @property
    def evidence_cost(self) -> int:
        """The cost of the regression's evidence plus that of drawing answers row by row."""
        return declared(self.model).evidence_cost + len(self.features) // _ROWS_PER_EVIDENCE

    def plan(self, rows: Any, /) -> Array:
        """Return the design of the features at hand if ``rows`` is their number, or that of given features."""
        counts = np.asarray(rows, dtype=np.float64)
        if counts.ndim > 1 or self._counts is not None or (counts != self.total).any():
            return np.asarray(self.model.plan(rows))
        design = np.asarray(self.model.plan(self.features))
        return np.broadcast_to(design, (*counts.shape, *design.shape))

    def draw_statistics(self, rng: Generator, parameters: Array, design: Array, /) -> Array:
        """Draw answers for the kept features, and return their statistics with the curvature of the design."""
        fresh = self.model.from_slope(self._draw_slope(rng, parameters, design), design)
        return np.where((design != 0).any(axis=-1, keepdims=True), fresh, 0.0)

    def draw_answer_part(self, rng: Generator, parameters: Array, design: Array, /) -> Array:
        """Draw answers for the kept features, and return the answer part of their statistics."""
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
