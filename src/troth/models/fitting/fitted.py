"""Results of a fit: a model for each provider, standard errors and plots."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from troth.core.contract import Array
from troth.core.formats import html_table, number
from troth.core.past import History

if TYPE_CHECKING:
    from troth.models.family import Family

M = TypeVar("M", bound="Family")

BLUE, ORANGE, GREY = "#0072b2", "#d55e00", "#9aa3ad"
MAX_PROVIDERS = 30
"""The maximum number of providers in a plot."""


class Fitted(ABC):
    """The result of a fit to a history."""

    @abstractmethod
    def model_of(self, provider: str) -> Family:
        """Return the model of a provider, which may have no history."""

    @abstractmethod
    def model_table(self) -> dict[str, Any]:
        """Return the table [model] of a campaign file as plain data."""

    def caveats(self, labels: Sequence[str]) -> list[str]:
        """Return warnings to read before paying with this fit; ``labels`` are the names of the codes 0, 1, …."""
        return []

    @abstractmethod
    def title_and_lines(self) -> tuple[str, list[str]]:
        """Summarise the fit as a title and a list of lines."""

    def __str__(self) -> str:
        title, lines = self.title_and_lines()
        return "\n".join([title, *(f"  {line}" for line in lines)])

    def _repr_html_(self) -> str:
        title, lines = self.title_and_lines()
        return html_table(title, ("learnt",), [[line] for line in lines])

    def predicted_means(self, history: History) -> Array | None:
        """Return the mean that each report's peers predict for it, ``(day, provider)``, or None if unavailable."""
        return None

    def draw(self, axes: Sequence[Any], history: History) -> None:
        """Draw the fit on three Matplotlib axes; by default as text."""
        for each in axes:
            each.set_axis_off()
        axes[0].text(0, 0.5, str(self), family="monospace", fontsize=8, va="center")


@dataclass(frozen=True)
class FittedPrior(Fitted):
    """A fitted prior that all providers share, and how well the history determines it.

    Attributes
    ----------
    model
        The family with its fitted parameters.
    log_likelihood
        Σ_t log p(day t), up to terms that depend on no parameter.
    errors
        Standard errors from the curvature at the maximum, shaped as the parameters; infinite where the history does
        not determine them.
    days
        The number of days used.
    at_bound
        Parameters that diverged: the likelihood is highest if days do not differ, or differ without limit.
    rounds
        The plural noun for days; they may be tasks.
    """

    model: Family
    log_likelihood: float
    errors: Mapping[str, Any]
    days: int
    at_bound: tuple[str, ...] = ()
    rounds: str = "days"

    def model_of(self, provider: str) -> Family:
        """Return the model that all providers share."""
        return self.model

    def model_table(self) -> dict[str, Any]:
        """Return the table [model] of a campaign file as plain data."""
        return self.model.to_dict()

    def title_and_lines(self) -> tuple[str, list[str]]:
        """Return the family, and each parameter with its standard error."""
        likelihood, lines = number(self.log_likelihood, 3), []
        for name, error in self.errors.items():
            value = np.array2string(np.asarray(getattr(self.model, name)), precision=4, separator=", ")
            spread = np.array2string(np.asarray(error), precision=2, separator=", ")
            lines.append(f"{name} = {value} ± {spread}".replace("\n", " ").replace("-", "−"))
        if self.at_bound:
            unbounded = ", ".join(self.at_bound)
            lines.append(
                f"the history does not determine {unbounded}: its {self.rounds} differ too little, or too much"
            )
        left_out = terms_left_out(self.model)
        return (
            f"{type(self.model).__name__} from {self.days} {self.rounds}, log-likelihood {likelihood}{left_out}",
            lines,
        )


@dataclass(frozen=True)
class FittedProviders(Fitted, Generic[M]):
    """A model of each provider, and a population model for providers without history.

    Attributes
    ----------
    models
        Each provider's model; a provider with too little data has the population's.
    population
        The model of an unknown provider.
    log_likelihood
        Nats per day or task of the history, up to terms that depend on no parameter.
    """

    models: Mapping[str, M]
    population: M
    log_likelihood: float

    def model_of(self, provider: str) -> M:
        """Return a provider's own model, or the population's for a provider without history."""
        return self.models.get(provider, self.population)

    def model_table(self) -> dict[str, Any]:
        """Return the population as the table [model] of a campaign file, with each provider's differences from it."""
        shared = self.population.to_dict()
        own = {
            name: {key: value for key, value in model.to_dict().items() if shared.get(key) != value}
            for name, model in self.models.items()
        }
        return {**shared, "providers": own}

    def _draw_dispersions(self, axes: Any) -> None:
        names, population = list(self.models)[:MAX_PROVIDERS], self.population.to_dict()
        sizes = [self.models[name].to_dict()["dispersion"] for name in names]
        axes.barh(range(len(names)), sizes, color=BLUE, height=0.6)
        axes.axvline(population["dispersion"], color=ORANGE, linestyle="--", label="unknown providers")
        name_rows(axes, names)
        axes.set_title("dispersion: how strongly a provider's rows on one day are correlated", loc="left", fontsize=10)
        axes.legend(fontsize=7)


def terms_left_out(model: Family) -> str:
    """Return a phrase that names the terms of every row left out of a log-likelihood, or an empty string."""
    return "" if model.score_measure in (None, "nothing") else f" without {model.score_measure} for each row"


def name_rows(axes: Any, names: Sequence[str]) -> None:
    """Label the rows of a plot with the names of providers."""
    axes.set_yticks(range(len(names)), [name if len(name) <= 20 else name[:19] + "…" for name in names])
