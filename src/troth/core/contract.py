"""The contract: a model is two functions, from which everything else is derived.

The mechanism makes one assumption about the data: datasets are independent given θ. So a model consists of
``statistics(data)``, a vector that adds over providers, and ``log_evidence(t)``, the log of the integral
over θ of p(θ)·exp(log-likelihood with statistics t), up to terms that cancel in

    log PMI(a, b) = Λ(a + b) + Λ(0) − Λ(a) − Λ(b).

Each further capability of a family is a small Protocol. All functions are vectorised over leading axes. Shapes are
always ``(..., provider, statistic)``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from typing import Any, NamedTuple, Protocol, Self, TypeAlias, runtime_checkable

import numpy as np

from troth.core.declarations import declared
from troth.core.effective_candidates import EffectiveCandidates
from troth.core.errors import DataError, MissingCapabilityError, ParameterError
from troth.core.reductions import Reduction
from troth.core.support import Array as Array
from troth.core.support import Bounds as Bounds
from troth.core.support import Indexes as Indexes
from troth.core.support import Mask as Mask
from troth.core.support import Support

Generator: TypeAlias = np.random.Generator


@runtime_checkable
class Model(Protocol):
    """Everything that a mechanism needs to know about the data."""

    def statistics(self, data: Any, /) -> Array:
        """Return the statistics of one provider's dataset, ``(..., statistic)``; they add over providers."""

    def log_evidence(self, statistics: Array, /) -> Array:
        """Return Λ(t), one number for each leading index of ``(..., statistic)``."""


Models: TypeAlias = Model | Sequence[Model]
"""One model, or one per provider."""


@runtime_checkable
class HasSummary(Model, Protocol):
    """A model whose statistics come from a summary that adds over rows.

    If rows are i.i.d. given θ, summary and statistics are the same. If a provider's rows share a random effect, the
    summary still adds over rows, but the statistics add only over providers.
    """

    def summary(self, data: Any, /) -> Array:
        """Return numbers that add over rows, so that data can be reduced where it lives."""

    def from_summary(self, summary: Array, /) -> Array:
        """Map one provider's summary to its statistics."""


@runtime_checkable
class HasReduction(HasSummary, Protocol):
    """A model that declares how rows become its summary, so that any engine can reduce its data."""

    @property
    def reduction(self) -> Reduction:
        """The reduction of rows to the summary."""


@runtime_checkable
class HasBaseMeasure(HasReduction, Protocol):
    """A model that knows the full probability of a report, including the terms that cancel in log PMI.

    Λ omits terms that do not depend on θ. These are needed to compare models by the probability of past days, and to
    fit the parameters that they depend on, such as the noise of a normal.
    """

    def base_measure(self, summaries: Array, reduction: Reduction, /) -> Array:
        """Return the part of a report's log-likelihood that depends on the model's parameters but not on θ.

        ``summaries`` were made by ``reduction``, which may add up more than the model's own reduction.
        """

    @property
    def score_measure(self) -> str | None:
        """The terms that log scores omit: scores are comparable only if these agree, and never if this is None."""


@runtime_checkable
class SamplesData(Model, Protocol):
    """A model that can draw parameters from the prior and data given parameters."""

    def draw_parameters(self, rng: Generator, shape: tuple[int, ...] = (), /) -> Array:
        """Draw θ from the prior, shape ``(*shape, parameter)``."""

    def draw_data(self, rng: Generator, parameters: Array, rows: Any, /) -> Any:
        """Draw a dataset for each θ; ``rows`` is the number of rows or, for a regression, the features."""


@runtime_checkable
class SamplesStatistics(Model, Protocol):
    """A model that can draw fresh statistics with a given design, without drawing rows.

    The design is what is fixed before the data are seen: the number of rows and, in a regression, the features.
    """

    def design(self, statistics: Array, /) -> Array:
        """Return the design of statistics, shape ``(..., design)``."""

    def draw_parameters(self, rng: Generator, shape: tuple[int, ...] = (), /) -> Array:
        """Draw θ from the prior, shape ``(*shape, parameter)``."""

    def draw_statistics(self, rng: Generator, parameters: Array, design: Array, /) -> Array:
        """Draw statistics given θ; the leading axes of ``parameters`` and ``design`` broadcast."""


class ComparedDesign(NamedTuple):
    """The part of a design that must be equal on two days, besides the number of rows, to compare their peers.

    Attributes
    ----------
    values
        Numbers that are equal, up to rounding, if the designs are: ``(..., number)``.
    rounding
        The scale of the terms of each sum, relative to which rounding errors are measured; 0 for counts.
    """

    values: Array
    rounding: Array

    @classmethod
    def from_products(cls, products: Array) -> Self:
        """Compare products of features, ``(..., d, d)``.

        However small Σzᵢzⱼ is, its partial sums may be as large as √(Σzᵢ²·Σzⱼ²).

        Examples
        --------
        >>> ComparedDesign.from_products(np.array([[4.0, 0.0], [0.0, 9.0]])).rounding
        array([4., 6., 6., 9.])
        """
        length = np.sqrt(np.maximum(np.diagonal(products, axis1=-2, axis2=-1), 0.0))
        sizes = length[..., :, None] * length[..., None, :]
        return cls(*(array.reshape(*array.shape[:-2], -1) for array in (products, sizes)))

    @classmethod
    def rows_only(cls, statistics: Array) -> Self:
        """Compare only the number of rows."""
        empty = np.zeros((*np.shape(statistics)[:-1], 0))
        return cls(empty, empty)


@runtime_checkable
class ComparesDays(Model, Protocol):
    """A model that knows what must be equal on two days besides the number of rows (erratum E10): the features.

    This is less than `SamplesStatistics.design` if that depends on the answers, such as on the spread of a provider's
    rows: on independent days, answers are data.
    """

    def compared_design(self, statistics: Array, /) -> ComparedDesign:
        """Return the compared design of statistics, or raise `MissingCapabilityError` if it is unknown."""


@runtime_checkable
class TakesFeatures(Protocol):
    """A regression that can be specialised to a provider whose features are known."""

    def with_features(self, features: Any, /) -> SamplesStatistics:
        """Return the model of a provider with these features, ``(row, feature)``."""


@runtime_checkable
class DrawsAnswers(TakesFeatures, SamplesStatistics, Protocol):
    """A regression that can draw answers to given features from its exact likelihood, not only from a limit."""

    def with_features(self, features: Any, rows: int | None = None, /) -> SamplesStatistics:
        """Return the model of a provider with these features, ``(row, feature)``, or with ``rows`` similar rows."""

    def draw_slope(self, rng: Generator, coefficients: Array, features: Array, counts: Array | None = None, /) -> Array:
        """Draw answers to the features, and return their contribution to the statistics."""


@runtime_checkable
class HasFeatures(SamplesStatistics, Protocol):
    """The model of a provider whose features are known."""

    @property
    def without_features(self) -> Model:
        """The model without known features, with the same statistics and evidence."""


@runtime_checkable
class SamplesPosterior(Model, Protocol):
    """A model that can draw parameters from the posterior given statistics."""

    def draw_posterior(self, rng: Generator, statistics: Array, /) -> Array:
        """Draw one θ for each vector of statistics, shape ``(..., parameter)``."""


@runtime_checkable
class HasPosterior(Model, Protocol):
    """A model whose posterior is a model of the same family."""

    def posterior(self, statistics: Array, /) -> Model:
        """Return the model whose prior is this one's posterior given statistics.

        Take statistics with the returned model: it may centre them differently, or have fewer states.
        """


@runtime_checkable
class HasFiniteStates(Model, Protocol):
    """A model whose θ is one of finitely many states."""

    def posterior_probabilities(self, statistics: Array, /) -> Array:
        """Return p(θ | statistics), shape ``(..., state)``; the prior if all statistics are 0."""


@runtime_checkable
class CountsEffectiveCandidates(HasFiniteStates, Protocol):
    """A model whose θ is one of a few candidates, which may be too few for the data."""

    def effective_candidates(self, statistics: Array, /) -> EffectiveCandidates:
        """Count the candidates that reports ``(provider, statistic)`` leave plausible, each alone and all together."""


@runtime_checkable
class WarnsAboutReports(Model, Protocol):
    """A model that knows for which data its approximation is good."""

    def warning_about(self, statistics: Array, /) -> str:
        """Return why the approximation is poor for reports ``(..., statistic)``, and the remedy; empty if good."""


@runtime_checkable
class HasPublicPoint(Model, Protocol):
    """A regression whose likelihood is expanded at public coefficients."""

    @property
    def public_coefficients(self) -> Array:
        """The coefficients of the public point."""

    def expanded_at_mode(self, data: Any, /) -> Self:
        """Return the model expanded at the posterior mode of the coefficients given rows (z, y)."""


@runtime_checkable
class NamesParameters(Model, Protocol):
    """A model that can name its parameters."""

    def parameter_names(self, columns: Sequence[str | None], labels: Sequence[str] | None = None, /) -> list[str]:
        """Return names of the first entries of θ, given a campaign's columns (None is a constant) and labels."""


@runtime_checkable
class CountsRows(Model, Protocol):
    """A model that knows the number of rows behind statistics."""

    def rows(self, statistics: Array, /) -> Array:
        """Return the number of rows behind each vector of statistics."""


@runtime_checkable
class ChecksStatistics(Model, Protocol):
    """A model that knows which statistics are possible."""

    @property
    def possible_statistics(self) -> str:
        """The condition that the statistics of any data satisfy, as text."""

    def possible(self, statistics: Array, /) -> Mask:
        """Return whether some data have these statistics, up to rounding; True if that is unknown."""


@runtime_checkable
class HasSupport(Model, Protocol):
    """A model that knows which values a row may have."""

    @property
    def support(self) -> Support:
        """The possible values."""


@runtime_checkable
class HasLogPMI(Model, Protocol):
    """A model with a more precise log PMI than the difference of four log evidences.

    If four terms of order 1e9 add up to a number of order 1, most precision is lost; a closed form keeps it. The laws
    compare it with the generic formula.
    """

    def log_pmi(self, own: Array, peers: Array, both: Array | None = None, /) -> Array:
        """Return log PMI of two datasets; ``both`` is the sum of their statistics, if the caller has it already."""


@runtime_checkable
class HasLineLogPMI(Model, Protocol):
    """A model that scores one report with many peers of the same design in one batch, sharing work between them."""

    def line_log_pmi(self, own: Array, line: Array, /) -> Array:
        """Return log PMI of reports ``(..., statistic)`` with all members of their lines ``(member, ..., statistic)``.

        All members have the design of the first.
        """


@runtime_checkable
class HasAnswerPart(SamplesStatistics, Protocol):
    """A model whose statistics have a short part that depends on the answers; the design determines the rest.

    The members of a line have the same design, so they differ only in the short part: a regression with d coefficients
    draws d numbers for each decoy instead of d².
    """

    def answer_part(self, statistics: Array, /) -> Array:
        """Return the part that depends on the answers, ``(..., entry)``; it adds over providers."""

    def draw_answer_part(self, rng: Generator, parameters: Array, design: Array, /) -> Array:
        """Draw the answer part given θ; the leading axes of ``parameters`` and ``design`` broadcast."""

    def answer_scorer(self, own: Array, peers: Array, /) -> Callable[[Array], Array]:
        """Return log PMI of reports ``(..., statistic)`` as a function of the peers' answer part.

        The function takes the members of a line, ``(member, ..., entry)``, all with the design of ``peers``.
        """


@runtime_checkable
class OrdersPeers(Model, Protocol):
    """A model with one parameter, whose peers of the same design are ordered by a single number.

    Log PMI with any report is unimodal in that number. Proof. PMI(a, b) = E[p(a|θ)/p(a) | b], the likelihood of a is
    unimodal in θ, and the posterior of θ given b has a monotone likelihood ratio in the number. So expectations of
    p(a|θ) − c change sign no more often than p(a|θ) − c does, and in the same order (Karlin's variation diminishing
    property). ∎
    """

    def peer_order(self, statistics: Array, /) -> Array:
        """Return the number that orders statistics of the same design."""


@runtime_checkable
class PlansDesigns(Model, Protocol):
    """A model that knows the design of a report before there is any data."""

    def plan(self, rows: Any, /) -> Array:
        """Return the design of ``rows`` rows or, for a regression, of these features; designs add."""


@runtime_checkable
class HasExpectedEvidence(PlansDesigns, Protocol):
    """A model that knows E[Λ(t)] under its own prior predictive, and so every mutual information."""

    def expected_log_evidence(self, design: Array, /) -> Array | None:
        """Return E[Λ(t)] over datasets with this design, up to terms linear in it; None if no exact sum is known."""


class Extremes(NamedTuple):
    """Minimum and maximum finite log PMI over all admissible reports, and whether PMI can also be 0."""

    low: float
    high: float
    impossible: bool = False


@runtime_checkable
class HasScoreRange(Model, Protocol):
    """A model that knows the range of log PMI for reports of limited size."""

    def log_pmi_extremes(
        self, rows: int, peers: Sequence[tuple[Model, int]], values: Bounds | None = None, /
    ) -> Extremes:
        """Return the extremes for a report of up to ``rows`` rows, given peers' models and rows, and bounds on values.

        Raises `UnboundedRangeError`, with the reason, if there are none.
        """


@runtime_checkable
class HasPaperBounds(Model, Protocol):
    """A model for which the paper gives closed bounds of log PMI, here with its errors corrected."""

    def paper_bounds(self, rows: int, peers: Sequence[tuple[Model, int]], values: Bounds | None = None, /) -> Extremes:
        """Return bounds for a report of up to ``rows`` rows, given peers' models and rows, and bounds on values."""


class Forecast(NamedTuple):
    """A report's prediction of its peers' data.

    Attributes
    ----------
    probability
        The probability of the peers' actual reports.
    collision_probability
        Σ p² over all possible reports of the peers.
    log_outcomes
        The log of the number of these possible reports.
    """

    probability: Array
    collision_probability: Array
    log_outcomes: Array


@runtime_checkable
class PredictsPooledPeers(Model, Protocol):
    """A model with finitely many possible datasets, which can predict peers' data."""

    def counts(self, statistics: Array, rows: Array | None = None, /) -> Array:
        """Return the count of each possible row behind statistics of ``rows`` rows; counts add over providers."""

    def forecast(self, own: Array, peers: Sequence[tuple[Model, Array]], unordered: bool, /) -> Forecast:
        """Predict peers, given as models with the counts of their data, as unordered datasets or row by row."""


@runtime_checkable
class PredictsPeersSeparately(Model, Protocol):
    """A model that can predict the data of peers whose rows share a random effect, each peer separately.

    A peer's report contributes terms to the others' forecasts. Terms add over peers, even of different models.
    """

    def forecast_terms(self, statistics: Array, rows: Array, unordered: bool, /) -> Array:
        """Return the terms of reports with ``rows`` rows, ``(..., term)``, as unordered datasets or row by row."""

    def forecast_separately(self, own: Array, terms: Array, /) -> Forecast:
        """Predict peers from the sum of their terms."""


@runtime_checkable
class Combinable(Model, Protocol):
    """A model that can be combined with others that share its prior, such as labs with different tests."""

    @property
    def space(self) -> Mapping[str, object]:
        """The properties that models must share for their statistics to add."""

    def in_space_of(self, reference: Model, /) -> Model:
        """Return the same model with statistics in the space of ``reference``, or raise an error with the reason."""


def has_independent_rows(model: Model) -> bool:
    """Return whether rows are i.i.d. given θ, so that the data of several providers are like one dataset."""
    return declared(model).independent_rows


def explains_target(model: Any) -> bool:
    """Return whether data are features and a target, ``(z, y)``."""
    return declared(model).explains_target


def design_of(model: Any, statistics: Array, rows: Any = None) -> Array:
    """Return the design of data: from their statistics or, if these do not determine it, from the number of rows.

    Raises the error of ``model.design`` if neither determines it.
    """
    try:
        return np.asarray(model.design(statistics))
    except (MissingCapabilityError, DataError):
        if rows is None or not isinstance(model, HasExpectedEvidence):
            raise
        return np.asarray(model.plan(rows))


def check_is_model(models: Any) -> None:
    """Raise an error for a class, a name or a number in place of a model.

    Examples
    --------
    >>> import troth
    >>> check_is_model(troth.models.Bernoulli)
    Traceback (most recent call last):
    ...
    troth.core.errors.ParameterError: Bernoulli is a class, not a model: give its parameters, Bernoulli(alpha=…, beta=…)
    """
    if isinstance(models, type):
        needed = [
            name for name, parameter in signature(models).parameters.items() if parameter.default is parameter.empty
        ]
        arguments = ", ".join(f"{name}=…" for name in needed)
        raise ParameterError(
            f"{models.__name__} is a class, not a model: give its parameters, {models.__name__}({arguments})"
        )
    if isinstance(models, str):
        raise ParameterError(f"{models!r} is a name, not a model: give an object, such as one of troth.models")
    if models is None or isinstance(models, int | float):
        raise ParameterError(f"{models!r} is not a model: give an object, such as one of troth.models")
