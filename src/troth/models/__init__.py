"""The families, and their registry: `FAMILIES` maps names to classes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from difflib import SequenceMatcher
from typing import Any, TypeVar

from troth.core.errors import ParameterError
from troth.core.reductions import Reduction
from troth.core.registry import check_entry
from troth.core.settings import closest
from troth.models.bernoulli import Bernoulli
from troth.models.candidates import Candidates
from troth.models.categorical import Categorical
from troth.models.exponential import Exponential, Gamma
from troth.models.family import Example, Family
from troth.models.finite import Finite
from troth.models.geometric import Geometric, NegativeBinomial
from troth.models.labelled_candidates import LogisticCandidates, PoissonCandidates, SoftmaxCandidates
from troth.models.labelled_rows import LogisticRegression, PoissonRegression, SoftmaxRegression
from troth.models.latent_class import LatentClass
from troth.models.linear_regression import LinearRegression, LinearRegressionUnknownNoise
from troth.models.multivariate_normal import MultivariateNormal, MultivariateNormalUnknownCovariance
from troth.models.normal import Normal, NormalUnknownVariance
from troth.models.parameters import Kind, declared_parameters, documented
from troth.models.poisson import Poisson
from troth.models.provider_normal import ProviderNormal
from troth.models.regression_candidates import LinearCandidates
from troth.models.reported_candidates import ReportedCandidates
from troth.models.varying_labels import VaryingBernoulli, VaryingCategorical
from troth.models.varying_normal import VaryingNormal
from troth.models.varying_poisson import VaryingPoisson
from troth.models.varying_regression import (
    VaryingLinearRegression,
    VaryingLogisticRegression,
    VaryingPoissonRegression,
    VaryingSoftmaxRegression,
)

F = TypeVar("F", bound=Family)

FAMILIES: dict[str, type[Family]] = {}

_COLUMN_KEYS = ("column", "columns", "target", "intercept", "categories", "scales", "levels")
RESERVED_KEYS = ("family", "file", "digest", *_COLUMN_KEYS, "pilot", "providers", "guessed")
"""Keys of a ``[model]`` table with a fixed meaning, which no hyper-parameter may take."""


def register(family: type[F]) -> type[F]:
    """Add a family to `FAMILIES`; also usable as a decorator.

    Campaign files, forms and commands then know the family by the name of its class, and its docstring documents its
    hyper-parameters. Families are offered, and guessed from data, in the order of registration.

    Raises `ParameterError` if the class is not a family, if its name is taken, or if a declaration is missing: its
    description, a hyper-parameter's meaning or example, how rows become numbers, or their log evidence.
    """
    check_entry(FAMILIES, family, Family)
    name = family.__name__
    if not family.description:
        raise ParameterError(f"{name}: add a description, a few words on what data it is for")
    _check_parameters(family)
    if family.summary is Family.summary and family.statistics is Family.statistics:
        raise ParameterError(f"{name}: define summary or statistics, which turn rows into numbers")
    if family.log_evidence is Family.log_evidence:
        raise ParameterError(f"{name}: define log_evidence, the log evidence of statistics")
    _check_reduction(name, family.example_model().reduction)
    family.__doc__ = documented(family)
    FAMILIES[name] = family
    return family


def _check_parameters(family: type[Family]) -> None:
    name, parameters = family.__name__, {parameter.name: parameter for parameter in declared_parameters(family)}
    for field in dataclasses.fields(family):
        if field.init and field.name not in parameters:
            raise ParameterError(
                f"{name}: declare {field.name} with field(metadata=parameter(meaning, kind, example))",
                parameter=field.name,
            )
    for parameter in parameters.values():
        if parameter.name in RESERVED_KEYS or hasattr(Family, parameter.name):
            raise ParameterError(
                f"{name}: {parameter.name!r} is taken; give the parameter another name", parameter=parameter.name
            )
        if not isinstance(parameter.kind, Kind):
            raise ParameterError(
                f"{name}: the kind of {parameter.name} must be one of troth.models.parameters, such as positive, not "
                f"{parameter.kind!r}",
                parameter=parameter.name,
            )
        if not (parameter.meaning or parameter.hidden):
            raise ParameterError(f"{name}: say what {parameter.name} means", parameter=parameter.name)
        if parameter.required and parameter.hidden:
            raise ParameterError(f"{name}: give {parameter.name} a default, because users are not asked for it")
        if parameter.required and parameter.example is None:
            raise ParameterError(f"{name}: give an example of {parameter.name}", parameter=parameter.name)


def _check_reduction(name: str, reduction: object) -> None:
    if not isinstance(reduction, Reduction):
        members = [member for member in vars(Reduction) if not member.startswith("_")]
        missing = ", ".join(member for member in members if not hasattr(reduction, member))
        raise ParameterError(
            f"{name}: its reduction must have all methods and attributes of troth.core.reductions.Reduction; it lacks "
            f"{missing}"
        )


for _family in (
    Bernoulli,
    Categorical,
    Geometric,
    NegativeBinomial,
    Poisson,
    Exponential,
    Gamma,
    Normal,
    NormalUnknownVariance,
    MultivariateNormal,
    MultivariateNormalUnknownCovariance,
    LinearRegression,
    LinearRegressionUnknownNoise,
    LogisticRegression,
    SoftmaxRegression,
    PoissonRegression,
    Finite,
    LatentClass,
    ProviderNormal,
    VaryingBernoulli,
    VaryingCategorical,
    VaryingPoisson,
    VaryingNormal,
    VaryingLinearRegression,
    VaryingLogisticRegression,
    VaryingSoftmaxRegression,
    VaryingPoissonRegression,
    LogisticCandidates,
    SoftmaxCandidates,
    PoissonCandidates,
    LinearCandidates,
    ReportedCandidates,
):
    register(_family)


def is_registered(model: object) -> bool:
    """Return whether a model's class is in `FAMILIES`, so that campaign files and ledgers can name it.

    Examples
    --------
    >>> class Mine(Bernoulli):
    ...     pass
    >>> is_registered(Bernoulli(1, 1)), is_registered(Mine(1, 1))
    (True, False)
    """
    return FAMILIES.get(type(model).__name__) is type(model)


def named_family(name: str) -> type[Family]:
    """Return the family with this name; case, spaces and dashes are ignored.

    Examples
    --------
    >>> named_family("linear-regression").__name__
    'LinearRegression'
    """
    family = closest(name, tuple(FAMILIES))
    if family is None:
        raise _unknown_family(name)
    return FAMILIES[family]


def similar_family(name: str) -> str:
    """Return the name of the family that is closest in spelling, to suggest it.

    Examples
    --------
    >>> similar_family("varyingbernouli")
    'VaryingBernoulli'
    """
    return max(FAMILIES, key=lambda candidate: SequenceMatcher(None, candidate.lower(), name.lower()).ratio())


def _unknown_family(name: object) -> ParameterError:
    return ParameterError(f"there is no family {name!r}; there are {', '.join(FAMILIES)}")


def from_dict(plain: Mapping[str, Any]) -> Family:
    """Create a model from plain data, such as ``model.to_dict()`` or a table of a TOML file.

    Examples
    --------
    >>> from_dict({"family": "Bernoulli", "alpha": 1, "beta": 3})
    Bernoulli(alpha=1.0, beta=3.0)
    """
    name = plain.get("family")
    if name not in FAMILIES:
        raise _unknown_family(name)
    try:
        return FAMILIES[name].from_dict(plain)
    except TypeError as error:
        raise ParameterError(f"{name}: {error}") from None


__all__ = [
    "FAMILIES",
    "Bernoulli",
    "Candidates",
    "Categorical",
    "Example",
    "Exponential",
    "Family",
    "Finite",
    "Gamma",
    "Geometric",
    "LatentClass",
    "LinearCandidates",
    "LinearRegression",
    "LinearRegressionUnknownNoise",
    "LogisticCandidates",
    "LogisticRegression",
    "MultivariateNormal",
    "MultivariateNormalUnknownCovariance",
    "NegativeBinomial",
    "Normal",
    "NormalUnknownVariance",
    "Poisson",
    "PoissonCandidates",
    "PoissonRegression",
    "ProviderNormal",
    "ReportedCandidates",
    "SoftmaxCandidates",
    "SoftmaxRegression",
    "VaryingBernoulli",
    "VaryingCategorical",
    "VaryingLinearRegression",
    "VaryingLogisticRegression",
    "VaryingNormal",
    "VaryingPoisson",
    "VaryingPoissonRegression",
    "VaryingSoftmaxRegression",
    "from_dict",
    "named_family",
    "register",
]
