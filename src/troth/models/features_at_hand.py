"""A regression of a provider whose features are at hand, so that its decoys come from the likelihood itself."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from troth.core.contract import Array, ComparedDesign, Generator, Model
from troth.core.errors import MissingCapabilityError
from troth.core.information import line_log_pmi
from troth.models.numerics.designs import compare_rows_alone

_EXPANDED = (
    "the likelihood is expanded at a public point, which is exact in the limit of many rows; decoys are drawn from "
    "the likelihood itself, with "
)


class FeaturesAtHand:
    """A regression, or `Candidates`, with the features of one provider.

    Evidence and statistics are those of the model. Fresh statistics are those of fresh answers, drawn from the
    likelihood for these very features: the real peers and their decoys are then exchangeable for a report that says
    nothing, whatever the expansion is worth.
    """

    independent_rows: ClassVar[bool] = False

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
    def width(self) -> int:
        """How many numbers a statistic has."""
        return int(self.model.width)

    @property
    def approximation(self) -> str:
        """What is not exact: the evidence, if the model expands it."""
        return _EXPANDED + self.features_in_words if self.evidence_limit else ""

    features_in_words: ClassVar[str] = "the peers' features"
    draws_limit: ClassVar[str] = ""

    @property
    def evidence_limit(self) -> str:
        """The limit in which the model's evidence is exact."""
        return str(self.model.evidence_limit)

    @property
    def assumption(self) -> str:
        """What the model assumes about θ beyond its prior."""
        return str(self.model.assumption)

    @property
    def space(self) -> Mapping[str, object]:
        """What two models must agree on for their statistics to add: that of the regression."""
        space: Mapping[str, object] = self.model.space
        return space

    def in_space_of(self, _: Model, /) -> Model:
        """Return this model: statistics do not depend on the features at hand."""
        return self

    def statistics(self, data: Any, /) -> Array:
        """Numbers for one provider's dataset, as the regression has them."""
        return np.asarray(self.model.statistics(data))

    def log_evidence(self, statistics: Array, /) -> Array:
        """Λ(t) of the regression."""
        return np.asarray(self.model.log_evidence(statistics))

    def log_pmi(self, own: Array, peers: Array, both: Array | None = None, /) -> Array:
        """Log PMI of the regression."""
        return np.asarray(self.model.log_pmi(own, peers, both))

    def line_log_pmi(self, own: Array, line: Array, /) -> Array:
        """Log PMI with many peers that have the same features."""
        return line_log_pmi(self.model, own, line)

    def rows(self, statistics: Array, /) -> Array:
        """Count the rows behind each statistic."""
        return np.asarray(self.model.rows(statistics))

    @property
    def possible_statistics(self) -> str:
        """What holds of all statistics of data, in words."""
        return str(self.model.possible_statistics)

    def possible(self, statistics: Array, /) -> NDArray[np.bool_]:
        """Return for each statistic whether some data can have it."""
        return np.asarray(self.model.possible(statistics))

    def design(self, statistics: Array, /) -> Array:
        """Return the curvature and the number of rows."""
        return np.asarray(self.model.design(statistics))

    def compared_design(self, statistics: Array, /) -> ComparedDesign:
        """Return what statistics say of the design; the features at hand are those of every day."""
        try:
            compared: ComparedDesign = self.model.compared_design(statistics)
        except MissingCapabilityError:
            return compare_rows_alone(statistics)
        return compared

    def draw_parameters(self, rng: Generator, shape: tuple[int, ...] = (), /) -> Array:
        """Draw coefficients from the prior."""
        return np.asarray(self.model.draw_parameters(rng, shape))

    def draw_data(self, rng: Generator, parameters: Array, rows: Any, /) -> Any:
        """Draw (z, y): with the features at hand if there are `rows` of them, otherwise with others."""
        own = np.ndim(rows) == 0 and np.ndim(self.features) == 2 and len(self.features) == rows
        return self.model.draw_data(rng, parameters, self.features if own else rows)

    def draw_statistics(self, rng: Generator, parameters: Array, design: Array, /) -> Array:
        """Draw answers for the features at hand, and return their statistics; a report without rows keeps none."""
        leading = np.broadcast_shapes(parameters.shape[:-1], design.shape[:-1])
        theta = np.broadcast_to(parameters, (*leading, parameters.shape[-1]))
        drawn = self.model.draw_with_features(rng, theta, self.features)
        return np.where(design[..., -1:] > 0, drawn, 0.0)
