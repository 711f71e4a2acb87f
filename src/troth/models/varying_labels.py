"""Yes or no, and labels, from providers whose rates differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from scipy.special import gammaln, xlogy

from troth.core.contract import Array, Extremes, Generator, Mask
from troth.core.reductions import Counts, Reduction
from troth.core.sensitivity import Peers, Sensitivity
from troth.models.bernoulli import Bernoulli
from troth.models.categorical import Categorical
from troth.models.family import CompleteEvidence, Example, Vector
from troth.models.fitting.initial_parameters import FreeParameters, Positive, dirichlet_moments
from troth.models.numerics.beta_binomial import draw_rate, log_evidence, summarise_report
from troth.models.numerics.dispersed import draw_codes, draw_dirichlet
from troth.models.numerics.extremes import count_ladder
from troth.models.numerics.identification import compare_log_pmi
from troth.models.numerics.possible_statistics import none_negative
from troth.models.numerics.spread_grid import CHANCE_OF_NO_SPREAD
from troth.models.parameters import parameter, positive, pseudo_counts
from troth.models.shared.varying_providers import VaryingProviders, differ_parameter

_MARGIN = 0.01  # nats by which the maximum log PMI may exceed that over a ladder of counts


@dataclass(frozen=True)
class VaryingLabels(CompleteEvidence, VaryingProviders):
    """Labels as a sequence of yes/no questions: is it the first label; if not, is it the second; and so on.

    Each of the K − 1 questions has a common rate m and a spread: a provider's rate is Beta with mean m and intra-class
    correlation ρ = spread²/(1 + spread²). θ consists of the probabilities of the labels, Dirichlet as in `Categorical`,
    and the spread of each question. The questions are independent, so Λ is a sum over them (stick-breaking).
    """

    max_rows: ClassVar[int] = 10**9
    min_spread: ClassVar[float] = 0.03
    max_spread: ClassVar[float] = 3.0

    @property
    def _pseudo_counts(self) -> Array:
        """The prior's pseudo-counts, in the order of the codes."""
        raise NotImplementedError

    @property
    def _questions(self) -> list[tuple[float, float]]:
        """Pseudo-counts of yes and no for each question."""
        alpha = self._pseudo_counts
        return [(float(a), float(b)) for a, b in zip(alpha, alpha.sum() - np.cumsum(alpha), strict=True)][:-1]

    @property
    def reduction(self) -> Reduction:
        """Counts of each code."""
        return Counts(len(self._pseudo_counts))

    def from_summary(self, summary: Array, /) -> Array:
        """Map counts of labels to statistics, question by question."""
        counts = np.asarray(summary, dtype=np.float64)
        remaining = np.flip(np.cumsum(np.flip(counts, axis=-1), axis=-1), axis=-1)
        answers = zip(np.moveaxis(counts, -1, 0)[:-1], np.moveaxis(remaining, -1, 0)[1:], strict=True)
        return np.concatenate([summarise_report(yes, no, self._spreads) for yes, no in answers], axis=-1)

    def _by_question(self, statistics: Array) -> list[Array]:
        return np.split(np.asarray(statistics, dtype=np.float64), len(self._questions), axis=-1)

    def log_evidence(self, statistics: Array, /) -> Array:
        """Ln of the integral over rates and spreads: a sum over questions."""
        total = np.zeros(np.shape(statistics)[:-1])
        for t, (yes, no) in zip(self._by_question(statistics), self._questions, strict=True):
            total += log_evidence(t, yes, no, self._spreads)
        return total

    def rows(self, statistics: Array, /) -> Array:
        t = np.asarray(statistics, dtype=np.float64)
        return np.asarray(t[..., 0] + t[..., 1])

    def _recomputed(self, statistics: Array) -> tuple[Array, Mask]:
        questions = self._by_question(statistics)
        counts = np.stack([*(t[..., 0] for t in questions), questions[-1][..., 1]], axis=-1)
        return self.from_summary(np.maximum(counts, 0.0)), none_negative(counts)

    def log_pmi_extremes(self, rows: int, peers: Peers, _: tuple[float, float] | None = None, /) -> Extremes:
        """Bounds over every report of up to ``rows`` rows.

        PMI ≤ sup_θ p(own|θ)/p(own), and p(own|θ) is a mixture of i.i.d. likelihoods, so at most the one at the
        report's own shares. Some additional row does not lower the ratio, so full reports suffice. And PMI ≥ p(own,
        peers) is at least its part without any spread, which by Jensen's inequality is lowest for equal posterior
        counts. ∎
        """
        ladder = count_ladder(rows)
        counts = np.unique(np.concatenate([ladder, rows - ladder]))
        high = 0.0
        for yes, no in self._questions:
            evidence = log_evidence(summarise_report(counts, rows - counts, self._spreads), yes, no, self._spreads)
            shares = xlogy(counts, counts / max(rows, 1)) + xlogy(rows - counts, 1 - counts / max(rows, 1))
            high += float((shares - evidence).max()) + _MARGIN
        alpha = self._pseudo_counts
        total, labels = alpha.sum() + rows + sum(n for _, n in self._in_one_space(peers)), len(alpha)
        low = labels * gammaln(total / labels) - gammaln(total) - (gammaln(alpha).sum() - gammaln(alpha.sum()))
        return Extremes(float(low + (labels - 1) * np.log(CHANCE_OF_NO_SPREAD)), high)

    def _parameters(self, rates: Array, spreads: Array) -> Array:
        """Return θ for rates and spreads of the questions."""
        return np.concatenate([_probabilities(rates), spreads], axis=-1)

    def _split(self, parameters: Array) -> tuple[Array, Array]:
        """Return the rates and spreads of the questions for θ."""
        labels = len(self._pseudo_counts)
        return _rates(parameters[..., :labels]), parameters[..., labels:]

    def draw_parameters(self, rng: Generator, shape: tuple[int, ...] = (), /) -> Array:
        """Draw θ from the prior: probabilities of the labels, then spreads."""
        rates = np.stack([rng.beta(*question, size=shape) for question in self._questions], axis=-1)
        return self._parameters(rates, self._draw_spread(rng, rates.shape))

    def draw_posterior(self, rng: Generator, statistics: Array, /) -> Array:
        """Draw θ given statistics."""
        draws, leading = [], np.shape(statistics)[:-1]
        for t, (yes, no) in zip(self._by_question(statistics), self._questions, strict=True):
            draws.append(np.stack(draw_rate(rng, t.reshape(-1, t.shape[-1]), yes, no, self._spreads)))
        return self._parameters(*np.stack(draws, axis=-1).reshape(2, *leading, len(draws)))

    def _draw_own_rates(self, rng: Generator, rates: Array, spreads: Array) -> Array:
        """Draw a provider's own rates of the questions."""
        strength = np.where(spreads > 0, spreads, 1.0) ** -2.0
        pseudo = np.stack([rates, 1 - rates], axis=-1) * strength[..., None]
        own = draw_dirichlet(rng, np.maximum(pseudo, np.finfo(float).tiny))[..., 0]
        return np.where(spreads > 0, own, rates)

    def draw_data(self, rng: Generator, parameters: Array, rows: int, /) -> Array:
        """Draw rows of codes for each θ; the rows of a dataset share the provider's rates."""
        return draw_codes(rng, _probabilities(self._draw_own_rates(rng, *self._split(parameters))), rows)

    def draw_statistics(self, rng: Generator, parameters: Array, design: Array, /) -> Array:
        """Draw statistics for each θ and number of rows: counts of labels, question by question."""
        rates, spreads = self._split(parameters)
        leading = np.broadcast_shapes(rates.shape[:-1], design.shape[:-1])
        shape = (*leading, rates.shape[-1])
        own = self._draw_own_rates(rng, np.broadcast_to(rates, shape), np.broadcast_to(spreads, shape))
        remaining, counts = np.broadcast_to(design[..., 0], leading).astype(np.int64), []
        for rate in np.moveaxis(own, -1, 0):
            counts.append(rng.binomial(remaining, rate))
            remaining = remaining - counts[-1]
        return self.from_summary(np.stack([*counts, remaining], axis=-1).astype(np.float64))

    def sensitivity(self, rows: int, peers: Peers, /) -> Sensitivity:
        """Compare the predictions of all admissible reports for the first three rows of a peer."""
        return compare_log_pmi(self, rows, peers)


def _probabilities(rates: Array) -> Array:
    """Probabilities of the labels from the rates of the questions."""
    remaining = np.cumprod(1 - rates, axis=-1)
    before = np.concatenate([np.ones((*rates.shape[:-1], 1)), remaining[..., :-1]], axis=-1)
    return np.concatenate([rates * before, remaining[..., -1:]], axis=-1)


def _rates(probabilities: Array) -> Array:
    """Rates of the questions from the probabilities of the labels."""
    remaining = np.flip(np.cumsum(np.flip(probabilities, axis=-1), axis=-1), axis=-1)[..., :-1]
    return np.divide(probabilities[..., :-1], remaining, out=np.zeros(remaining.shape), where=remaining > 0)


@dataclass(frozen=True)
class VaryingBernoulli(VaryingLabels):
    """Rows of 0 and 1 from providers whose rates differ, beta-binomial with an unknown intra-class correlation.

    The common rate is Beta(alpha, beta). A provider's rate is Beta with that mean and intra-class correlation
    ρ = spread²/(1 + spread²), from 0 to 0.9. At ρ = 0 it is `Bernoulli`.

    The summary (zeros, ones) adds over rows. Besides the counts, the statistic holds three functions of the
    pseudo-counts as values on a grid: log PMI is that of the continuous integral over rate and spread to 1e-6.

    Providers differ by ρ up to 0.01 if ``differ`` is ``"little"``, and up to 0.08 if it is ``"some"``.

    Examples
    --------
    >>> import troth
    >>> model = VaryingBernoulli()
    >>> own, peers = model.statistics([1, 1, 0, 1]), model.statistics([1, 1, 1]) + model.statistics([1, 0, 1])
    >>> round(float(troth.log_pmi(model, own, peers)), 3)
    0.578
    """

    alpha: float = field(default=1.0, metadata=parameter("pseudo-count of ones", positive, 1.0))
    beta: float = field(default=1.0, metadata=parameter("pseudo-count of zeros", positive, 1.0))
    differ: str = field(
        default="any", metadata=differ_parameter("a correlation of up to 0.9 between a provider's rows")
    )

    description: ClassVar[str] = "yes or no, from providers that differ"
    example: ClassVar[Example] = Bernoulli.example
    theta: ClassVar[tuple[str, ...]] = ("rate of {column}", "spread of providers' rates")
    _value_word = "value"

    suits = Bernoulli.suits
    first_guess = Bernoulli.first_guess
    initial_parameters = Bernoulli.initial_parameters

    @property
    def _pseudo_counts(self) -> Array:
        return np.array([self.beta, self.alpha])

    def _parameters(self, rates: Array, spreads: Array) -> Array:
        return np.concatenate([1 - rates, spreads], axis=-1)

    def _split(self, parameters: Array) -> tuple[Array, Array]:
        return 1 - parameters[..., :1], parameters[..., 1:]


@dataclass(frozen=True)
class VaryingCategorical(VaryingLabels):
    """Rows that are codes 0 … K−1 from providers whose probabilities differ by unknown amounts.

    The common probabilities are Dirichlet(alpha). A provider's are built by stick-breaking: among the rows without any
    earlier label, the rate of label k is Beta around the common one, with its own intra-class correlation ρ_k from 0 to
    0.9. This is a generalised Dirichlet-multinomial (Connor and Mosimann): providers may differ in some labels more
    than in others, and the order of labels matters a little. At ρ = 0 it is `Categorical`; with two labels it is
    `VaryingBernoulli`.

    The summary, counts of labels, adds over rows. The statistic is that of K − 1 yes/no questions.

    Providers differ by ρ up to 0.01 if ``differ`` is ``"little"``, and up to 0.08 if it is ``"some"``.

    Examples
    --------
    >>> import troth
    >>> model = VaryingCategorical(alpha=[1, 1, 1])
    >>> own, peers = model.statistics([0, 0, 2, 0]), model.statistics([0, 0, 1]) + model.statistics([0, 2, 0])
    >>> round(float(troth.log_pmi(model, own, peers)), 3)
    0.826
    """

    alpha: Vector = field(metadata=parameter("pseudo-counts of the labels", pseudo_counts, [1.0, 1.0, 1.0]))
    differ: str = field(
        default="any", metadata=differ_parameter("a correlation of up to 0.9 between a provider's rows")
    )

    description: ClassVar[str] = "one of several labels, from providers that differ"
    example: ClassVar[Example] = Categorical.example

    suits = Categorical.suits
    first_guess = Categorical.first_guess

    def parameter_names(self, _: Sequence[str | None], labels: Sequence[str] | None = None, /) -> list[str]:
        """Name the probability of each label, and the spread of each but the last."""
        names = list(labels or map(str, range(len(self.alpha))))
        spreads = [f"spread of providers' rates of {label!r}" for label in names[:-1]]
        return [*(f"probability of {label!r}" for label in names), *spreads]

    @property
    def _pseudo_counts(self) -> Array:
        return np.array(self.alpha)

    @classmethod
    def initial_parameters(cls, summaries: Array, reduction: Reduction, _: Mapping[str, Any], /) -> FreeParameters:
        return {"alpha": Positive(dirichlet_moments(cls.__name__, summaries, reduction))}
