"""One door to every fit: a family's name and past days in, a model out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from troth.core.errors import ParameterError
from troth.core.reductions import Counts, Moments
from troth.history.fit import LatentFit, fit_latent_class
from troth.history.offsets import NormalFit, fit_provider_normal
from troth.history.priors import FittedPrior, fit_prior
from troth.models import FAMILIES

if TYPE_CHECKING:
    from collections.abc import Callable

    from troth.core.reductions import Reduction
    from troth.history.record import History

Learned: TypeAlias = LatentFit | NormalFit | FittedPrior


def fit(history: History, family: str = "LatentClass", **options: Any) -> Learned:
    """Learn a model of a family from past days.

    Parameters
    ----------
    history
        Past days; they must be public or paid for, and not depend on the reports that the model will price.
    family
        ``"LatentClass"``, day types with a law per provider and a dispersion, which suits real providers;
        ``"ProviderNormal"``, a normal mean with an offset and a dispersion per provider; or a conjugate family, whose
        prior is fitted and whose law all providers share.
    options
        Of `fit_latent_class` (types, max_types, starts, seed, spread), `fit_provider_normal` or `fit_prior`.

    Examples
    --------
    >>> from troth.history.record import History
    >>> days = [(d, name, [20 - k, k]) for d in range(40) for name, k in (("a", 4 + d % 2 * 9), ("b", 6 + d % 2 * 8))]
    >>> print(fit(History.from_reports(days, Counts(2)), "LatentClass", types=2))
    2 day types of 2 providers...
    """
    if family not in FAMILIES:
        raise ParameterError(f"there is no family {family!r}; there are {', '.join(FAMILIES)}")
    given = {key: value for key, value in options.items() if value is not None}
    if family == "LatentClass":
        return fit_latent_class(history, given.pop("law", None) or law_for(history.reduction), **given)
    given.pop("seed", None)  # nothing is drawn
    if "types" in given:
        raise ParameterError(f"types are for LatentClass, not for {family}")
    if family == "ProviderNormal":
        return fit_provider_normal(history, **given)
    if "spread" in given:
        raise ParameterError(f"spread is for LatentClass and ProviderNormal, not for {family}")
    given.pop("watch", None)
    return fit_prior(family, history, **given)


def law_for(reduction: Reduction) -> str:
    """Return the law of day types that suits such sums.

    Examples
    --------
    >>> law_for(Counts(2)), law_for(Counts(5)), law_for(Moments())
    ('binary', 'categorical', 'real')
    """
    if isinstance(reduction, Counts):
        return "binary" if reduction.size == 2 else "categorical"
    if reduction.columns != 1:
        raise ParameterError("day types are learnt from one column; fit the prior of a family for several")
    return "count" if reduction.support.integer else "real"


def textbook_for(reduction: Reduction) -> str | None:
    """Return the conjugate family that people would take for such sums, if there is one to compare with."""
    if isinstance(reduction, Counts):
        return "Bernoulli" if reduction.size == 2 else "Categorical"
    if reduction.columns != 1:
        return None
    return "Poisson" if reduction.support.integer else "Normal"


def candidates_for(
    reduction: Reduction, spread: float | None = None, **options: Any
) -> dict[str, Callable[[History], Learned]]:
    """Return ways to learn a model from such sums: the textbook's, day types, and offsets for real values.

    Parameters
    ----------
    spread
        Standard deviation of values within a day, where the history does not tell it.
    options
        Of `fit_latent_class`, for the day types.
    """
    found: dict[str, Callable[[History], Learned]] = {}
    textbook = textbook_for(reduction)
    if textbook is not None:
        found[f"textbook {textbook}"] = lambda past: fit(past, textbook)
        real = law_for(reduction) == "real"
        found["day types"] = lambda past: fit(past, "LatentClass", spread=spread if real else None, **options)
    if isinstance(reduction, Moments) and textbook == "Normal":
        found["offsets"] = lambda past: fit(past, "ProviderNormal", spread=spread)
    return found


def model_table(learned: Learned) -> dict[str, Any]:
    """Return what was learnt as the table [model] of a campaign file."""
    if isinstance(learned, FittedPrior):
        return learned.model.to_dict()
    return learned.to_dict()
