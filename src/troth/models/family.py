"""The base class of families: everything that follows from a family's two functions."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np

from troth.core.contract import Array, Mask, Model
from troth.core.declarations import Declarations
from troth.core.errors import DataError, IncompatibleModelsError, ParameterError, UnboundedRangeError
from troth.core.past import History, PastTasks
from troth.core.reductions import Moments, Reduction
from troth.core.sensitivity import Peers, Price, Sensitivity, refuted_without_data, unproved
from troth.core.support import Support
from troth.models.fitting.fitted import Fitted, FittedPrior
from troth.models.fitting.initial_parameters import FreeParameters
from troth.models.fitting.marginal_likelihood import fit_prior
from troth.models.numerics.possible_statistics import all_possible
from troth.models.parameters import Kind, Parameter, declared_parameters

# What constructors accept; hyper-parameters are stored as (nested) tuples of floats.
Vector: TypeAlias = Sequence[float] | Array
Matrix: TypeAlias = Sequence[Sequence[float]] | Array

MAX_STATISTIC = 1e290
MAX_DRAW = 1e280
"""The largest draw of a heavy-tailed prior, so that sums of draws are valid statistics."""


@dataclass(frozen=True)
class Example:
    """The example campaign of a family; the example's hyper-parameters are declared with the fields."""

    story: str = "what several providers measure"  #: the question, or what the rows are
    columns: tuple[str, ...] = ("value",)  #: the columns that the model reads
    provider: str = "provider"  #: the word for a provider
    target: str | None = None  #: the column that a regression explains
    labels: tuple[str, ...] | None = None  #: the labels of the codes 0, 1, … in the data
    values: tuple[float, float] | None = None  #: the minimum and maximum value of a row, for rules that need them
    seed: int = 20201206  #: of the rows; change it if the rows happen to look as if the model did not fit


@dataclass(frozen=True)
class Family(Declarations):
    """A family of models; by default, rows are i.i.d. given θ and the design is the number of rows.

    A subclass is a frozen dataclass with ``statistics`` and ``log_evidence``. Its fields are hyper-parameters, each
    declared with `troth.models.parameters.parameter`: numbers or nested tuples of numbers, so that models print,
    compare, hash and serialise. Everything else has a default: the summary is the statistic itself, and the design is
    the number of rows.
    """

    description: ClassVar[str] = ""
    """The data it is for, in a few words."""

    example: ClassVar[Example] = Example()
    """The family's example campaign."""

    theta: ClassVar[tuple[str, ...]] = ()
    """The names of the entries of θ, such as ``"rate of {column}"``."""

    own_likelihoods: ClassVar[bool] = False
    """Whether providers that share the prior may have different likelihood parameters.

    Statistics of such providers are added, so they must already account for these parameters, as log-likelihoods do,
    and `log_evidence` must not depend on them.
    """

    rows_entry: ClassVar[int] = 0
    """The index of the number of rows in a statistic."""

    def __post_init__(self) -> None:
        for parameter in declared_parameters(type(self)):
            parameter.check(self)

    @classmethod
    def parameters(cls) -> tuple[Parameter, ...]:
        """Return the hyper-parameters that campaign files and forms ask for."""
        return tuple(parameter for parameter in declared_parameters(cls) if not parameter.hidden)

    @classmethod
    def example_parameters(cls) -> dict[str, Any]:
        """Return the hyper-parameters of the family's example."""
        return {parameter.name: parameter.example for parameter in cls.parameters() if parameter.example is not None}

    @classmethod
    def example_model(cls) -> Self:
        """Return the model of the family's example."""
        return cls(**cls.example_parameters())

    def parameter_names(self, columns: Sequence[str | None], _: Sequence[str] | None = None, /) -> list[str]:
        """Name the entries of θ, in the order of `draw_parameters`, for a campaign that reads these columns."""
        column = next((name for name in columns if name is not None), "value")
        return [name.format(column=column) for name in self.theta]

    @property
    def support(self) -> Support:
        """The valid values of an entry of a row."""
        return Support()

    def statistics(self, data: Any, /) -> Array:
        """Return the statistics of a provider's dataset, ``(..., statistic)``, which add over providers.

        A family defines this or `summary`. Without `summary`, rows must be i.i.d. given θ.
        """
        return self.from_summary(self.summary(data))

    def log_evidence(self, statistics: Array, /) -> Array:
        """Λ(t), one number for each leading index of ``(..., statistic)``."""
        raise NotImplementedError

    @cached_property
    def width(self) -> int:
        """The length of a statistic, taken from that of an empty dataset."""
        return int(self.statistics(((), ()) if self.explains_target else ()).shape[-1])

    def summary(self, data: Any, /) -> Array:
        """Return numbers that add over rows; by default the statistics, because rows are i.i.d. given θ."""
        return self.statistics(data)

    def from_summary(self, summary: Array, /) -> Array:
        """Map a summary to statistics; by default the identity, because rows are i.i.d. given θ."""
        return np.asarray(summary, dtype=np.float64)

    @property
    def reduction(self) -> Reduction:
        """How rows become a summary; by default, their number and the sum of their values."""
        return Moments(support=self.support)

    def rows(self, statistics: Array, /) -> Array:
        """Return the number of rows behind each statistic."""
        return np.asarray(statistics, dtype=np.float64)[..., self.rows_entry]

    possible_statistics: ClassVar[str] = ""
    """The condition that `possible` checks, for messages; empty if it checks nothing."""

    def possible(self, statistics: Array, /) -> Mask:
        """Return which statistics some dataset can have, up to rounding; by default, all of them."""
        return all_possible(np.asarray(statistics))

    def design(self, statistics: Array, /) -> Array:
        """Return what was fixed before the data were drawn; by default the number of rows, shape ``(..., 1)``."""
        return self.rows(statistics)[..., None]

    def plan(self, rows: Any, /) -> Array:
        """Return the design of a report with ``rows`` rows."""
        count = np.asarray(rows, dtype=np.float64)
        if not (np.isfinite(count).all() and (count >= 0).all() and (count == np.floor(count)).all()):
            raise DataError(f"a number of rows must be a whole number of at least 0, not {rows!r}")
        return count[..., None]

    @property
    def space(self) -> Mapping[str, object]:
        """What models must share for their statistics to add: the family, and all hyper-parameters or the prior's."""
        if not self.own_likelihoods:
            return self.to_dict()
        evidence = float(self.log_evidence(np.linspace(1.0, 2.0, self.width)))
        return {**self._prior_space, "log evidence of the same statistics": f"{evidence:.12g}"}

    def in_space_of(self, reference: Model, /) -> Model:
        """Return this model with statistics in the space of ``reference``; most families cannot convert theirs."""
        reference_space = reference.space if isinstance(reference, Family) else {"family": type(reference).__name__}
        for key, value in self.space.items():
            if reference_space.get(key) != value:
                raise IncompatibleModelsError(
                    f"{type(self).__name__} cannot be combined with {type(reference).__name__}: "
                    f"{key} is {value} here and {reference_space.get(key)} there, and providers must share it"
                )
        return self

    @property
    def _prior_space(self) -> dict[str, object]:
        """The family and the hyper-parameters of the prior."""
        # a subclass without a description of its own is the same family
        family = next(ancestor.__name__ for ancestor in type(self).__mro__ if "description" in vars(ancestor))
        prior = (parameter.name for parameter in self.parameters() if not parameter.known)
        return {"family": family, **{name: getattr(self, name) for name in prior}}

    def _in_one_space(self, peers: Peers) -> Sequence[tuple[Self, int]]:
        """Return the peers, after a check that their statistics can be added to those of this model."""
        for other, _ in peers:
            if other != self and not (isinstance(other, type(self)) and other.space == self.space):
                raise UnboundedRangeError(f"no range is known for {self!r} with {other!r}")
        return peers

    def _declared(self, values: tuple[float, float] | None) -> tuple[float, float]:
        """Return the declared bounds on values, clipped to the support."""
        name = type(self).__name__
        if values is None:
            raise UnboundedRangeError(
                f"log PMI of {name} grows without bound with the values",
                "declare the minimum and the maximum value of a row ([limits] values, or values=(low, high) in Python)",
            )
        low, high = float(values[0]), float(values[1])
        if not (np.isfinite([low, high]).all() and low <= high):
            raise ParameterError(
                f"values must be a pair of finite numbers (low, high) with low <= high, not {values!r}"
            )
        if high < self.support.low or low > self.support.high:
            raise ParameterError(f"values {values!r} are outside the support of {name}: {self.support}")
        low, high = max(low, self.support.low), min(high, self.support.high)
        if self.support.integer:
            low, high = float(np.ceil(low)), float(np.floor(high))
            if low > high:
                raise ParameterError(f"values {values!r} contain no whole number, but data of {name} are whole numbers")
        return low, high

    def to_dict(self) -> dict[str, Any]:
        """Return plain data (strings, numbers, lists) from which `troth.models.from_dict` restores the model."""
        values = {name: _as_lists(getattr(self, name)) for name in self._names()}
        return {"family": type(self).__name__} | {name: value for name, value in values.items() if value is not None}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Self:
        """Create a model from the plain data of `to_dict`."""
        values = {name: value for name, value in plain.items() if name != "family"}
        names = cls._names()
        for name in values:
            if name not in names:
                raise ParameterError(f"{cls.__name__} has no parameter {name!r}; it has {', '.join(sorted(names))}")
        return cls(**values)

    @classmethod
    def _names(cls) -> list[str]:
        return [field.name for field in dataclasses.fields(cls) if field.init]

    def _replace(self, **parameters: Any) -> Self:
        """Return a copy with some hyper-parameters replaced."""
        return dataclasses.replace(self, **parameters)

    one_row_suffices: ClassVar[str] = ""
    """Why one peer row distinguishes any two posteriors, with a proof; empty if unknown."""

    def sensitivity(self, rows: int, peers: Peers, /) -> Sensitivity:
        """Decide whether a provider with up to ``rows`` rows has a free lie: undecided, unless the family proves it."""
        if not self.one_row_suffices:
            return unproved(self)
        return refuted_without_data(peers) or Sensitivity("proved", self.one_row_suffices)

    def price_of_lying(self, rows: int, peers: Peers, low: float = -np.inf, /) -> Price | None:
        """Return the minimum cost of a lie, in nats of a log score that is never below ``low``; None if unknown."""
        return None

    def k_rank_condition(self, peers: Peers, /) -> bool | None:
        """Return whether the paper's k-rank condition on finitely many states holds; None for other families."""
        return None

    @property
    def score_measure(self) -> str | None:
        """The terms that log scores omit. Scores are comparable only if these agree, and never if they are None."""
        return "nothing"

    given_parameters: ClassVar[tuple[str, ...]] = ()
    """Parameters that a history cannot determine, so that a fit must be given them."""

    provider_effects: ClassVar[str] = ""
    """What a fit learns about each provider, such as ``"offsets"``; empty if all share one model."""

    @classmethod
    def suits_reduction(cls, reduction: Reduction, /) -> bool:
        """Return whether this family is the natural first choice for a history of these summaries."""
        return False

    @classmethod
    def fit_options(cls, reduction: Reduction, /) -> Mapping[str, Kind | None]:
        """Return the options of `fit` for a history of these summaries; by default, the parameters that may be fixed.

        Each option has the kind of its values, or None if they cannot be written as text.
        """
        return {parameter.name: parameter.kind for parameter in cls.parameters()}

    @property
    def refit_options(self) -> Mapping[str, Any]:
        """The options of `fit` that give a refitted model the same size."""
        return {}

    @classmethod
    def initial_parameters(cls, summaries: Array, reduction: Reduction, fixed: Mapping[str, Any], /) -> FreeParameters:
        """Return the parameters to fit, each as unconstrained numbers around a moment estimate.

        Summaries ``(day, provider, entry)`` are of days with reports; ``fixed`` are the parameters that are given.
        """
        raise ParameterError(f"{cls.__name__} has no initial_parameters, so its prior cannot be fitted")

    @classmethod
    def fit(cls, history: History, **options: Any) -> Fitted:
        """Fit the prior to past days, by maximum marginal likelihood.

        Parameters
        ----------
        history
            Past days; they must be public or paid for, and independent of the reports that the model will price.
        options
            Values of parameters to keep fixed; required for ``given_parameters``.

        Examples
        --------
        >>> import troth
        >>> from troth.core.reductions import Counts
        >>> rng = np.random.default_rng(1)
        >>> ones = rng.binomial(20, rng.beta(2, 6, size=(400, 1)), size=(400, 3))
        >>> past = troth.history.from_summaries(Counts(2), np.stack([20 - ones, ones], axis=-1))
        >>> print(troth.models.Bernoulli.fit(past))
        Bernoulli from 400 days, log-likelihood −12,286.824
          alpha = 1.9959 ± 0.16
          beta = 6.3735 ± 0.54
        """
        return fit_prior(cls, history, options)

    uses_gold: ClassVar[bool] = False
    """Whether `fit_tasks` can use the true labels of some past tasks."""

    @classmethod
    def fit_tasks(cls, past: PastTasks, **given: Any) -> Fitted:
        """Fit the prior to past tasks with independent θ. Workers share one likelihood, so their rows are pooled."""
        if cls.provider_effects or not cls.independent_rows:
            raise ParameterError(
                f"{cls.__name__} cannot be learnt from past tasks: each task has too few rows per worker to tell "
                "differences between workers from noise"
            )
        fitted = cls.fit(past.as_days(), **given)
        return dataclasses.replace(fitted, rounds="tasks") if isinstance(fitted, FittedPrior) else fitted


class CompleteEvidence(Family):
    """A family whose Λ includes every term that depends on a fitted parameter."""

    def base_measure(self, summaries: Array, _: Reduction, /) -> Array:
        """Return zeros: Λ omits at most the terms that `score_measure` names."""
        return np.zeros(np.shape(summaries)[:-1])


class ReducesRows(Family):
    """A family that summarises rows by its reduction, `Counts` or `Moments`.

    A subclass defines ``reduction`` or, for the default of `Family`, ``support``.
    """

    @property
    def support(self) -> Support:
        """The valid values of an entry of a row, which the reduction declares."""
        return self.reduction.support

    @property
    def _value_word(self) -> str:
        """The word for a value in messages."""
        if self.reduction.labels is not None:
            return "code"
        return "count" if self.support.integer else "value"

    def summary(self, data: Any, /) -> Array:
        """Sum over rows: the last axis of the data or, if rows have columns, the one before it."""
        columns = self.reduction.columns if self.row_axes else None
        rows = self.support.check(data, self._value_word, columns)
        return summed(self.reduction.of_rows, rows if self.row_axes else rows[..., None])


def summed(compute: Callable[..., Array], *data: Any) -> Array:
    """Return ``compute(*data)``, and reject values whose sums are too large for a statistic."""
    with np.errstate(over="ignore", invalid="ignore"):
        t = compute(*data)
    if not (np.abs(t) <= MAX_STATISTIC).all():
        raise DataError(f"the values are too large to add up: a sum exceeds {MAX_STATISTIC:g}; rescale them")
    return t


def scalar_parameters(parameters: Array, design: Array) -> tuple[Array, Array]:
    """Broadcast a scalar parameter and the number of rows against each other, without their last axes."""
    theta, rows = np.broadcast_arrays(parameters[..., 0], design[..., 0])
    return theta, rows


def _as_lists(value: Any) -> Any:
    return [_as_lists(entry) for entry in value] if isinstance(value, tuple) else value
