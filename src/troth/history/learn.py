"""Fit any family to past days."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from troth.core.errors import ParameterError
from troth.models import FAMILIES, named_family

if TYPE_CHECKING:
    from collections.abc import Mapping

    from troth.core.past import History
    from troth.core.reductions import Reduction
    from troth.models import Family
    from troth.models.fitting.fitted import Fitted

DEFAULT_DAYS_AHEAD = 30
"""The default number of days ahead for which a drifting model is learnt."""

_GENERAL_OPTIONS = ("seed", "progress")
"""Options that a fit may ignore, because it draws nothing or is quick."""


def fit(history: History, family: str | type[Family] | None = None, **options: Any) -> Fitted:
    """Learn a model of a family from past days.

    Parameters
    ----------
    history
        Past days. They must be public or paid for, and independent of the reports that the model will price.
    family
        A family or its name. By default, the first that suits the history and learns each provider separately, such as
        day types with a dispersion per provider.
    options
        Options of the family's ``fit``; those that are None are ignored.

    Examples
    --------
    >>> import troth
    >>> from troth.core.reductions import Counts
    >>> days = [(d, name, [20 - k, k]) for d in range(40) for name, k in (("a", 4 + d % 2 * 9), ("b", 6 + d % 2 * 8))]
    >>> print(fit(troth.History.from_reports(days, Counts(2)), types=2))
    2 day types of 2 providers...
    """
    family_class = named_family(family) if isinstance(family, str) else family or default_family(history.reduction)
    if family_class is None:
        raise ParameterError("no bundled family fits provider effects to such a history; choose a family with --family")
    fit_options = family_class.fit_options(history.reduction)
    parameters = [field.name for field in dataclasses.fields(family_class) if field.init]
    passed = {name: value for name, value in options.items() if value is not None}
    accepted = {*fit_options, *parameters}
    for name in passed:
        if name not in accepted and name not in _GENERAL_OPTIONS:
            raise ParameterError(f"{name} is not an option for fitting {family_class.__name__} to these days")
    return family_class.fit(history, **{name: value for name, value in passed.items() if name in accepted})


def default_family(reduction: Reduction) -> type[Family] | None:
    """Return the first family that suits these summaries and learns each provider separately, if any."""
    suitable = (family for family in FAMILIES.values() if family.suits_reduction(reduction))
    return next((family for family in suitable if family.provider_effects), None)


@dataclasses.dataclass(frozen=True)
class Learner:
    """A function that learns a model: a family with options of its fit, to all days or only the most recent ones.

    Examples
    --------
    >>> from troth.core.reductions import Counts
    >>> from troth.history import from_summaries
    >>> past = from_summaries(Counts(2), [[[k, 9 - k]] for k in range(9)])
    >>> Learner(FAMILIES["Bernoulli"], {}, recent=5)(past).days
    5
    """

    family: type[Family]
    options: Mapping[str, Any]
    recent: int | None = None

    def __call__(self, history: History) -> Fitted:
        """Fit the family to a history."""
        days = history if self.recent is None else history.select(days=history.days[-self.recent :])
        return fit(days, self.family, **self.options)


def candidates_for(reduction: Reduction, recent: int | None = None, **options: Any) -> dict[str, Learner]:
    """Return the models to try on a history of these summaries: textbook models, and models of each provider.

    Parameters
    ----------
    recent
        Also fit the models that learn each provider to only the last ``recent`` days.
    options
        Options of fits; each family takes its own. A family whose fit has ``ahead`` is tried with and without drift.

    Examples
    --------
    >>> from troth.core.reductions import Counts, Moments
    >>> list(candidates_for(Counts(2))), list(candidates_for(Moments()))
    (['textbook Bernoulli', 'day types'], ['textbook Normal', 'day types', 'offsets', 'drifting offsets'])
    """
    candidates: dict[str, Learner] = {}
    for name, family in FAMILIES.items():
        if family.suits_reduction(reduction):
            fit_options = family.fit_options(reduction)
            passed = {key: value for key, value in options.items() if key in fit_options and key != "ahead"}
            label = family.provider_effects or f"textbook {name}"
            if label in candidates:
                label = f"{label} of {name}"
            candidates[label] = Learner(family, passed)
            if recent is not None and family.provider_effects:
                candidates[f"{label}, last {recent} days"] = Learner(family, passed, recent)
            if "ahead" in fit_options:
                drifting = passed | {"ahead": options.get("ahead") or DEFAULT_DAYS_AHEAD}
                candidates[f"drifting {label}"] = Learner(family, drifting)
    return candidates
