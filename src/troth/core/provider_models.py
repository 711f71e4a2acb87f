"""The models of several providers: one for all or one each, in a shared space of statistics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from troth.core.contract import Combinable, Model, Models, check_is_model
from troth.core.errors import DataError, IncompatibleModelsError


def one_each(models: Models, providers: int | None = None) -> list[Any]:
    """Return a model for each provider; without their number, the given models as a list."""
    check_is_model(models)
    if isinstance(models, Model):
        return [models] * (1 if providers is None else providers)
    if providers is not None and len(models) != providers:
        raise DataError(f"{len(models)} models for {providers} providers: give one model, or one each")
    return list(models)


def combine(models: Sequence[Model]) -> list[Model]:
    """Put the models of different providers into one space of statistics.

    Providers may differ in their likelihood (two labs with different tests, two sensors with different noise) as
    long as they share θ and its prior. Take each provider's statistics with its own model from the returned list,
    and the evidence with any of them. Raises `IncompatibleModelsError` with the first difference between priors.

    Examples
    --------
    >>> import troth
    >>> good, poor = troth.combine([troth.models.Normal(0, 1, noise=1), troth.models.Normal(0, 1, noise=2)])
    >>> good.statistics([0.5, 1.5]), poor.statistics([0.5, 1.5])
    (array([2., 2.]), array([0.5, 0.5]))
    """
    if not models:
        raise IncompatibleModelsError("there are no models to combine")
    reference = models[0]
    combined = []
    for model in models:
        if _difference(model, reference) is None:
            combined.append(model)
        elif isinstance(model, Combinable):
            combined.append(model.in_space_of(reference))
        else:
            raise IncompatibleModelsError(f"{type(model).__name__} cannot be combined with {type(reference).__name__}")
    return combined


def shared_evidence(models: Models) -> Model:
    """Return a model that computes the evidence for all providers.

    Raises `IncompatibleModelsError` if the statistics of the models do not add; ``troth.combine`` remedies that.
    """
    check_is_model(models)
    if isinstance(models, Model):
        return models
    reference = models[0]
    for provider, model in enumerate(models):
        difference = _difference(model, reference)
        if difference:
            raise IncompatibleModelsError(
                f"the models of providers 0 and {provider} differ in {difference}, so their statistics do not add; "
                "take the statistics with the models that troth.combine(models) returns"
            )
    return reference


def _difference(model: Model, reference: Model) -> str | None:
    """Describe the first difference between two models' spaces; return None if their statistics add."""
    if model is reference or model == reference:
        return None
    if not (isinstance(model, Combinable) and isinstance(reference, Combinable)):
        return f"kind ({type(model).__name__} and {type(reference).__name__})"
    space, reference_space = model.space, reference.space
    for key in [*space, *reference_space]:
        if space.get(key) != reference_space.get(key):
            return f"{key} ({space.get(key)} and {reference_space.get(key)})"
    return None
