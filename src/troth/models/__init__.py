"""The families: one file each, two functions each. `FAMILIES` maps their names to their classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from troth.core.errors import ParameterError
from troth.models.bernoulli import Bernoulli
from troth.models.categorical import Categorical
from troth.models.exponential import Exponential, Gamma
from troth.models.family import Family
from troth.models.finite import Finite
from troth.models.geometric import Geometric, NegativeBinomial
from troth.models.latent_class import LatentClass
from troth.models.linear_regression import LinearRegression, LinearRegressionUnknownNoise
from troth.models.multivariate_normal import MultivariateNormal, MultivariateNormalUnknownCovariance
from troth.models.normal import Normal, NormalUnknownVariance
from troth.models.poisson import Poisson
from troth.models.provider_normal import ProviderNormal

if TYPE_CHECKING:
    from collections.abc import Mapping

FAMILIES: dict[str, type[Family]] = {
    family.__name__: family
    for family in (
        Finite,
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
        LatentClass,
        ProviderNormal,
    )
}


def from_dict(plain: Mapping[str, Any]) -> Family:
    """Make a model from plain data, such as ``model.to_dict()`` or a table of a TOML file.

    Examples
    --------
    >>> from_dict({"family": "Bernoulli", "alpha": 1, "beta": 3})
    Bernoulli(alpha=1.0, beta=3.0)
    """
    name = plain.get("family")
    if name not in FAMILIES:
        raise ParameterError(f"there is no family {name!r}; there are {', '.join(FAMILIES)}")
    try:
        return FAMILIES[name].from_dict(plain)
    except TypeError as error:
        raise ParameterError(f"{name}: {error}") from None


__all__ = [
    "FAMILIES",
    "Bernoulli",
    "Categorical",
    "Exponential",
    "Family",
    "Finite",
    "Gamma",
    "Geometric",
    "LatentClass",
    "LinearRegression",
    "LinearRegressionUnknownNoise",
    "MultivariateNormal",
    "MultivariateNormalUnknownCovariance",
    "NegativeBinomial",
    "Normal",
    "NormalUnknownVariance",
    "Poisson",
    "ProviderNormal",
    "from_dict",
]
