"""Public data: they become part of the prior.

With public data z, log PMI(a, b | z) = Λ(a + b + z) + Λ(z) − Λ(a + z) − Λ(b + z), and peers are drawn given z. So a
report that is independent of the peers given z, such as a copy of z, says nothing about them. Rules, ranges, audits and
certificates need no special case: they take the model whose prior is the posterior given z.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast, overload

import numpy as np

from troth.core.contract import (
    Array,
    Combinable,
    Generator,
    HasFiniteStates,
    HasLogPMI,
    HasPosterior,
    Model,
    SamplesPosterior,
)
from troth.core.declarations import DECLARED
from troth.core.delegation import delegates
from troth.core.errors import DataError
from troth.core.provider_models import shared_evidence
from troth.core.support import as_floats

# Attributes that depend only on the likelihood, not on the prior.
_LIKELIHOOD_ATTRIBUTES = (
    *("width", "summary", "from_summary", "reduction", "support", "rows", "design", "draw_data", "draw_statistics"),
    *("possible", "possible_statistics"),
    *("parameter_names", "space"),
    *DECLARED,
)


@overload
def posterior(models: Model, statistics: Array) -> Model: ...
@overload
def posterior(models: Sequence[Model], statistics: Array) -> list[Model]: ...
def posterior(models: Model | Sequence[Model], statistics: Array) -> Model | list[Model]:
    """Return the model, or each provider's model, whose prior is the posterior given public data.

    Use the returned model to pay, audit and certify, and to take the statistics of reports. A copy of the public data
    then earns no more in expectation than an empty report.

    Parameters
    ----------
    models
        One model, or one per provider in a shared space of statistics (see `troth.combine`).
    statistics
        Statistics of the public data, shape ``(statistic,)``, in that space. If a provider's rows share a random
        effect, the public data count as one more provider.

    Examples
    --------
    >>> import troth
    >>> model = troth.models.Bernoulli(alpha=1, beta=1)
    >>> troth.posterior(model, model.statistics([1, 1, 1, 0]))
    Bernoulli(alpha=4.0, beta=2.0)
    """
    public = as_floats(statistics, "statistic")
    if public.ndim != 1:
        raise DataError(f"public data have one vector of statistics, not an array of shape {public.shape}")
    evidence = shared_evidence(models)
    if np.isneginf(evidence.log_evidence(public)):
        raise DataError("the public data cannot occur under any state of the model")
    if isinstance(models, Model):
        return _posterior_of(models, public)
    return [_posterior_of(model, public) for model in models]


def _posterior_of(model: Model, known: Array) -> Model:
    return model.posterior(known) if isinstance(model, HasPosterior) else conditioned_on(model, known)


class ConditionedModel:
    """Any model conditioned on known data z: Λ(t) becomes Λ(t + z), and θ is drawn given z."""

    def __init__(self, model: Any, known: Array) -> None:
        self.model, self.known = model, known

    def statistics(self, data: Any, /) -> Array:
        """Return a report's statistics, without the known data."""
        return cast("Array", self.model.statistics(data))

    def log_evidence(self, statistics: Array, /) -> Array:
        """Return Λ(t + z)."""
        return cast("Array", self.model.log_evidence(np.asarray(statistics) + self.known))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ConditionedModel) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> tuple[Any, ...]:
        return self.model, tuple(self.known.tolist())

    def __reduce__(self) -> tuple[Any, ...]:
        return conditioned_on, (self.model, self.known)

    def __repr__(self) -> str:
        return f"{self.model!r} given {self.known.tolist()}"

    def _log_pmi(self, own: Array, peers: Array, _: Array | None = None, /) -> Array:
        """Return log PMI(a, b + z) − log PMI(a, z), each in its precise form."""
        return np.asarray(self.model.log_pmi(own, peers + self.known) - self.model.log_pmi(own, self.known))

    def _draw_parameters(self, rng: Generator, shape: tuple[int, ...] = (), /) -> Array:
        """Draw θ given the known data."""
        return cast("Array", self.model.draw_posterior(rng, np.broadcast_to(self.known, (*shape, len(self.known)))))

    def _draw_posterior(self, rng: Generator, statistics: Array, /) -> Array:
        """Draw θ given statistics and the known data."""
        return cast("Array", self.model.draw_posterior(rng, np.asarray(statistics) + self.known))

    def _posterior_probabilities(self, statistics: Array, /) -> Array:
        """Return p(θ | statistics and known data)."""
        return cast("Array", self.model.posterior_probabilities(np.asarray(statistics) + self.known))

    def _in_space_of(self, reference: Any, /) -> Model:
        """Return the conditioned model with statistics in the space of ``reference``."""
        return conditioned_on(self.model.in_space_of(reference.model), self.known)


def conditioned_on(model: Model, known: Array) -> Model:
    """Condition a model on known data; the result has those of its capabilities that remain valid.

    Examples
    --------
    >>> import troth
    >>> model = troth.models.Bernoulli(alpha=1, beta=1)
    >>> conditioned = conditioned_on(model, model.statistics([1, 1, 1, 0]))
    >>> conditioned.log_evidence(model.statistics([1])), model.log_evidence(model.statistics([1, 1, 1, 0, 1]))
    (array(-3.40119738), array(-3.40119738))
    """
    methods: dict[str, Any] = {}
    if isinstance(model, HasLogPMI):
        methods["log_pmi"] = ConditionedModel._log_pmi
    if isinstance(model, SamplesPosterior):
        methods |= {
            "draw_parameters": ConditionedModel._draw_parameters,
            "draw_posterior": ConditionedModel._draw_posterior,
        }
    if isinstance(model, HasFiniteStates):
        methods["posterior_probabilities"] = ConditionedModel._posterior_probabilities
    if isinstance(model, Combinable):
        methods["in_space_of"] = ConditionedModel._in_space_of
    conditioned: type[Any] = type(type(model).__name__, (ConditionedModel,), methods)  # capabilities are methods
    unchanged = [name for name in _LIKELIHOOD_ATTRIBUTES if hasattr(model, name)]
    return cast("Model", delegates("model", *unchanged)(conditioned)(model, known))
