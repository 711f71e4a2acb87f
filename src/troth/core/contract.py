"""The contract: a model is two functions, and everything else derives from them.

The mechanism assumes one thing about the data: datasets are independent given θ. So a model is
``statistics(data)``, numbers that add over providers, and ``log_evidence(t)``, the log of the integral
over θ of p(θ)·exp(log-likelihood with statistics t), up to terms that cancel in

    log PMI(a, b) = Λ(a + b) + Λ(0) − Λ(a) − Λ(b).

What a family can do beyond that is a capability, one small Protocol each. All of them are vectorised over
leading axes. Shapes are always ``(..., provider, statistic)``.
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
    """All that a mechanism needs to know about the data."""

    def statistics(self, data: Any, /) -> Array:
        """Numbers for one provider's dataset that add over providers, shape ``(..., statistic)``."""

    def log_evidence(self, statistics: Array, /) -> Array:
        """Λ(t), one number for each leading index of ``(..., statistic)``."""


Models: TypeAlias = Model | Sequence[Model]
"""One model, or one per provider."""


@runtime_checkable
class HasSummary(Model, Protocol):
    """A model whose statistics come from a summary that adds over rows.

    For rows that are i.i.d. given θ the two are the same. Where a provider's rows share an effect of their own,
    the summary still adds over rows while the statistics add only over providers.
    """

    def summary(self, data: Any, /) -> Array:
        """Numbers that add over rows, so that data can be reduced where it lives."""

    def from_summary(self, summary: Array, /) -> Array:
        """Map one provider's summary to its statistics."""


@runtime_checkable
class HasReduction(HasSummary, Protocol):
    """A model that says how rows become its summary, so that any engine can reduce its data."""

    @property
    def reduction(self) -> Reduction:
        """How rows become the summary."""


@runtime_checkable
class HasBaseMeasure(HasReduction, Protocol):
    """A model that knows the full probability of a report, not only what log PMI needs.

    Λ leaves out terms that do not depend on θ. They are needed to compare models by the probability of past days, and
    to fit parameters that they depend on (the noise of a normal).
    """

    def base_measure(self, summaries: Array, reduction: Reduction, /) -> Array:
        """Return the part of a report's log-likelihood that depends on the model's parameters but not on θ.

        ``summaries`` are what ``reduction`` made of the rows, which may hold more than the model's own reduction.
        """

    @property
    def score_measure(self) -> str | None:
        """The terms that log scores leave out: scores are comparable only if these agree, and never if it is None."""


@runtime_checkable
class SamplesData(Model, Protocol):
    """A model that can draw parameters from the prior and data given parameters."""

    def draw_parameters(self, rng: Generator, shape: tuple[int, ...] = (), /) -> Array:
        """Draw θ from the prior, shape ``(*shape, parameter)``."""

    def draw_data(self, rng: Generator, parameters: Array, rows: Any, /) -> Any:
        """Draw a dataset of ``rows`` rows (a regression: or with these features) for each θ."""


@runtime_checkable
class SamplesStatistics(Model, Protocol):
    """A model that can draw fresh statistics with the design of given ones, without any rows.

    The design is what was fixed before the data were seen: the number of rows and, in a regression, the features.
    """

    def design(self, statistics: Array, /) -> Array:
        """Return the design of a statistic, shape ``(..., design)``."""

    def draw_parameters(self, rng: Generator, shape: tuple[int, ...] = (), /) -> Array:
        """Draw θ from the prior, shape ``(*shape, parameter)``."""

    def draw_statistics(self, rng: Generator, parameters: Array, design: Array, /) -> Array:
        """Draw statistics given θ; the leading axes of ``parameters`` and ``design`` broadcast."""


class ComparedDesign(NamedTuple):
    """What must be equal on two days, besides the number of rows, for their peers to be compared.

    Attributes
    ----------
    values
        Numbers that are the same if the designs are, up to rounding: ``(..., number)``.
    rounding
        The size of what was added up for each of them, in which rounding is measured; 0 for counts.
    """

    values: Array
    rounding: Array

    @classmethod
    def of_products(cls, products: Array) -> Self:
        """Compare products of features, ``(..., d, d)``.

        Σzᵢzⱼ adds up numbers as large as √(Σzᵢ²·Σzⱼ²), in any order, however small it is itself.

        Examples
        --------
        >>> ComparedDesign.of_products(np.array([[4.0, 0.0], [0.0, 9.0]])).rounding
        array([4., 6., 6., 9.])
        """
        length = np.sqrt(np.maximum(np.diagonal(products, axis1=-2, axis2=-1), 0.0))
        sizes = length[..., :, None] * length[..., None, :]
        return cls(*(array.reshape(*array.shape[:-2], -1) for array in (products, sizes)))

    @classmethod
    def of_rows_alone(cls, statistics: Array) -> Self:
        """Compare only the number of rows."""
        nothing = np.zeros((*np.shape(statistics)[:-1], 0))
        return cls(nothing, nothing)


@runtime_checkable
class ComparesDays(Model, Protocol):
    """A model that says what must be equal on two days besides the number of rows (erratum E10): the features.

    It is less than `SamplesStatistics.design` where that holds what answers show, such as the spread of a provider's
    rows: on independent days that is a part of the data.
    """

    def compared_design(self, statistics: Array, /) -> ComparedDesign:
        """Return the compared design of a statistic; raise `MissingCapabilityError` if that is not known."""


@runtime_checkable
class TakesFeatures(Protocol):
    """A regression that knows more about a provider whose features are known."""

    def with_features(self, features: Any, /) -> SamplesStatistics:
        """Return the model of a provider with these features, ``(row, feature)``."""


@runtime_checkable
class DrawsAnswers(TakesFeatures, SamplesStatistics, Protocol):
    """A regression that can draw answers to given features from its likelihood, not only from a limit."""

    def with_features(self, features: Any, rows: int | None = None, /) -> SamplesStatistics:
        """Return the model of a provider with these features, ``(row, feature)``, or of ``rows`` rows like them."""

    def draw_slope(self, rng: Generator, coefficients: Array, features: Array, counts: Array | None = None, /) -> Array:
        """Draw answers to features, and return what they add to the statistics."""


@runtime_checkable
class HasFeatures(SamplesStatistics, Protocol):
    """The model of a provider whose features are known."""

    @property
    def without_features(self) -> Model:
        """The model of everybody, with the same statistics and evidence."""


@runtime_checkable
class SamplesPosterior(Model, Protocol):
    """A model that can draw parameters from the posterior given statistics."""

    def draw_posterior(self, rng: Generator, statistics: Array, /) -> Array:
        """Draw one θ for each statistic, shape ``(..., parameter)``."""


@runtime_checkable
class HasPosterior(Model, Protocol):
    """A model that stays in its family when data become known to everybody."""

    def posterior(self, statistics: Array, /) -> Model:
        """Return the model whose prior is this one's posterior given statistics.

        Take statistics with the returned model: it may count them from another mean, or have fewer states.
        """


@runtime_checkable
class HasFiniteStates(Model, Protocol):
    """A model whose θ is one of finitely many states."""

    def posterior_probabilities(self, statistics: Array, /) -> Array:
        """p(θ | statistics), shape ``(..., state)``; the prior for statistics of zeros."""


@runtime_checkable
class CountsEffectiveCandidates(HasFiniteStates, Protocol):
    """A model whose θ is one of a few candidates, which may be too few for the data."""

    def effective_candidates(self, statistics: Array, /) -> EffectiveCandidates:
        """Count the candidates that reports ``(provider, statistic)`` leave plausible, each alone and all together."""


@runtime_checkable
class WarnsAboutReports(Model, Protocol):
    """A model whose approximation is good only for some data, and that can tell for which."""

    def warning_about(self, statistics: Array, /) -> str:
        """Say why the approximation is poor for reports ``(..., statistic)``, and the remedy; empty if it is good."""


@runtime_checkable
class HasPublicPoint(Model, Protocol):
    """A regression whose likelihood is expanded at public coefficients."""

    @property
    def public_coefficients(self) -> Array:
        """The public point."""

    def expanded_at_mode(self, data: Any, /) -> Self:
        """Return the model expanded at the most probable coefficients given rows (z, y)."""


@runtime_checkable
class NamesParameters(Model, Protocol):
    """A model that can say in words what its parameters are."""

    def parameter_names(self, columns: Sequence[str | None], labels: Sequence[str] | None = None, /) -> list[str]:
        """Name the first entries of θ, given the columns of a campaign (None is a constant) and their labels."""


@runtime_checkable
class CountsRows(Model, Protocol):
    """A model that knows how many rows are behind a statistic."""

    def rows(self, statistics: Array, /) -> Array:
        """Count the rows behind each statistic."""


@runtime_checkable
class ChecksStatistics(Model, Protocol):
    """A model that knows which statistics no data can have."""

    @property
    def possible_statistics(self) -> str:
        """The condition that all statistics of data satisfy, in words."""

    def possible(self, statistics: Array, /) -> Mask:
        """Return for each statistic whether some data can have it, up to rounding; also where that is not known."""


@runtime_checkable
class HasSupport(Model, Protocol):
    """A model that knows which values a row may have."""

    @property
    def support(self) -> Support:
        """The bounds of one value."""


@runtime_checkable
class HasLogPMI(Model, Protocol):
    """A model with a better log PMI than the difference of four log evidences.

    Four terms of size 1e9 that add up to a number of size 1 leave few digits; a family that knows its own closed
    form keeps them. The laws compare it with the generic formula.
    """

    def log_pmi(self, own: Array, peers: Array, both: Array | None = None, /) -> Array:
        """Log PMI of two statistics; ``both`` is their sum where the caller has it already."""


@runtime_checkable
class HasLineLogPMI(Model, Protocol):
    """A model that scores one report with many peers of one design at once, sharing what depends on the design."""

    def line_log_pmi(self, own: Array, line: Array, /) -> Array:
        """Log PMI of reports ``(..., statistic)`` with every member of their lines ``(member, ..., statistic)``.

        All members have the design of the first.
        """


@runtime_checkable
class HasAnswerPart(SamplesStatistics, Protocol):
    """A model whose statistics have a part that answers change, and a longer one that the design fixes.

    The members of a line, all of one design, then differ in the short part alone: a regression with d coefficients
    draws d numbers for each decoy instead of d².
    """

    def answer_part(self, statistics: Array, /) -> Array:
        """Return the part that answers change, ``(..., entry)``; it adds over providers."""

    def draw_answer_part(self, rng: Generator, parameters: Array, design: Array, /) -> Array:
        """Draw the answer part given θ; the leading axes of ``parameters`` and ``design`` broadcast."""

    def answer_scorer(self, own: Array, peers: Array, /) -> Callable[[Array], Array]:
        """Return log PMI of reports ``(..., statistic)`` as a function of the answer part of peers.

        It takes the members of a line, ``(member, ..., entry)``, all with the design of ``peers``.
        """


@runtime_checkable
class OrdersPeers(Model, Protocol):
    """A model with one parameter, whose peers of one design are ordered by one number.

    Along it log PMI with any report rises and then falls. Proof. PMI(a, b) = E[p(a|θ)/p(a) | b], the likelihood of a
    rises and falls in θ, and the posterior of θ given b has a monotone likelihood ratio in the number: expectations of
    p(a|θ) − c then change sign no oftener than p(a|θ) − c does, and in the same order (Karlin's variation diminishing
    property). ∎
    """

    def peer_order(self, statistics: Array, /) -> Array:
        """Return the number that orders statistics of one design."""


@runtime_checkable
class PlansDesigns(Model, Protocol):
    """A model that knows the design of a report before there is any data."""

    def plan(self, rows: Any, /) -> Array:
        """Return the design of a report with ``rows`` rows (a regression: with these features); designs add."""


@runtime_checkable
class HasExpectedEvidence(PlansDesigns, Protocol):
    """A model that knows E[Λ(t)] under its own prior predictive, and with it every mutual information."""

    def expected_log_evidence(self, design: Array, /) -> Array | None:
        """E[Λ(t)] over datasets with this design, up to terms linear in it, or None if no exact sum is known."""


class Extremes(NamedTuple):
    """Least and greatest finite log PMI over every admissible report, and whether PMI can be 0 as well."""

    low: float
    high: float
    impossible: bool = False


@runtime_checkable
class HasScoreRange(Model, Protocol):
    """A model that knows how large and how small log PMI can get when reports are limited."""

    def log_pmi_extremes(
        self, rows: int, peers: Sequence[tuple[Model, int]], values: Bounds | None = None, /
    ) -> Extremes:
        """Extremes for a report of up to ``rows`` rows, given peers' models and row limits and bounds on values.

        Raises `UnboundedRangeError` where there are none, and says why.
        """


@runtime_checkable
class HasPaperBounds(Model, Protocol):
    """A model for which the paper has closed bounds of log PMI, corrected where they are wrong."""

    def paper_bounds(self, rows: int, peers: Sequence[tuple[Model, int]], values: Bounds | None = None, /) -> Extremes:
        """Bounds for a report of up to ``rows`` rows, given peers' models and row limits and bounds on values."""


class Forecast(NamedTuple):
    """What a report predicts of its peers' data.

    Attributes
    ----------
    probability
        The probability of exactly what the peers reported.
    collision_probability
        Σ p² over all that they could report.
    log_outcomes
        Log of how many different things they could report.
    """

    probability: Array
    collision_probability: Array
    log_outcomes: Array


@runtime_checkable
class PredictsPooledPeers(Model, Protocol):
    """A model with a known p(data|θ) over finitely many datasets, which can predict peers' data."""

    def counts(self, statistics: Array, rows: Array | None = None, /) -> Array:
        """Count each possible row behind a statistic of ``rows`` rows; counts add over providers of the same model."""

    def forecast(self, own: Array, peers: Sequence[tuple[Model, Array]], unordered: bool, /) -> Forecast:
        """Predict peers, given as models with the counts of all their data, unordered or row by row."""


@runtime_checkable
class PredictsPeersSeparately(Model, Protocol):
    """A model that can predict the data of peers whose rows share an effect, each peer by itself.

    What a peer's report adds to the others' forecasts are terms that add over peers, whatever their models.
    """

    def forecast_terms(self, statistics: Array, rows: Array, unordered: bool, /) -> Array:
        """Terms of reports with ``rows`` rows, ``(..., term)``, unordered or row by row."""

    def forecast_apart(self, own: Array, terms: Array, /) -> Forecast:
        """Predict peers whose terms add up to these."""


@runtime_checkable
class Combinable(Model, Protocol):
    """A model that can be mixed with others that share its prior: two labs with different tests."""

    @property
    def space(self) -> Mapping[str, object]:
        """What two models must agree on for their statistics to add."""

    def in_space_of(self, reference: Model, /) -> Model:
        """Return the same model with statistics in the space of ``reference``, or raise and say why not."""


def has_independent_rows(model: Model) -> bool:
    """Return whether rows are i.i.d. given θ, so that data of several providers are like one dataset of all rows."""
    return declared(model).independent_rows


def explains_target(model: Any) -> bool:
    """Return whether data are features and target, ``(z, y)``."""
    return declared(model).explains_target


def design_of(model: Any, statistics: Array, rows: Any = None) -> Array:
    """Return the design of data, fixed before they were seen: from statistics or, if these do not have it, from rows.

    Raises the error of ``model.design`` where there are no rows either, or the model cannot plan by them.
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
