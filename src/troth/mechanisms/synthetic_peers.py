"""A bounded one-time rule for any model: peers of another day are drawn from the model.

Mechanism 2 needs a second day to compare with. Its expectation over that day is the same for peers drawn from the
prior predictive with the peers' own numbers of rows and features, and the score is linear in that term, so any number
of draws is exactly truthful. This answers the paper's question for a one-time mechanism that works for every model.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from troth.core.contract import Array, HasExpectedEvidence, SamplesStatistics, has_independent_rows
from troth.core.errors import MissingCapabilityError
from troth.core.information import leave_one_out, log_pmi
from troth.mechanisms.breakdown import Breakdown, normalise
from troth.mechanisms.divergences import DIVERGENCE, Divergence, logistic, score_formula
from troth.mechanisms.multi_day import MultiDay
from troth.mechanisms.options import Whole, option
from troth.mechanisms.rule import Rule, delegated
from troth.mechanisms.separate_peers import SeparatePeers, design_ranks

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from troth.mechanisms.round import Round
    from troth.mechanisms.separate_peers import Places

_BLOCK = 1 << 22  # numbers drawn at a time
_MEANING = "how many times peers are drawn; more draws make payments less random"


@dataclass(frozen=True)
class SyntheticPeers(Rule):
    """Score the mean of f′(1/PMI(own, drawn peers)) − f*(f′(1/PMI(own, peers))), on the divergence's range.

    Providers must not know the generator's seed when they report. Equal reports get equal payments: what is drawn for a
    provider depends on its peers' design alone, in an order that does not depend on who comes first.

    Parameters
    ----------
    draws
        How many times peers are drawn. More draws make payments less random, not more truthful.
    divergence
        One of `troth.divergences`.

    Examples
    --------
    >>> import troth
    >>> model = troth.models.Bernoulli(1, 1)
    >>> t = np.stack([model.statistics(x) for x in ([1, 1, 1, 0], [1, 1, 0, 1], [0, 0, 0, 0])])
    >>> pay = SyntheticPeers(draws=256).pay(model, t, budget=90.0, rng=np.random.default_rng(7))
    >>> bool(pay[0] == pay[1] > pay[2])
    True
    """

    draws: int = option(Whole("draws", 64, _MEANING, "Draws", least=1, most=1_000_000))
    divergence: Divergence = option(DIVERGENCE, logistic)

    purpose = "one round, any model; draws with a committed seed"
    needs_seed = True
    constant_empty_share = True
    pools_peers = True
    truthful_by = "Lemma 1 of Nguyen et al., linear in the drawn peers"
    truthful_if = ", in expectation over draws whose seed providers do not know"
    symmetric = True
    term_labels: ClassVar[Mapping[str, str]] = {"drawn_peers": "term of the drawn peers", "peers": "term of the peers"}
    summed_terms = ("drawn_peers", "peers")
    score_formula = r"\text{score} = \underset{\text{draws}}{\text{mean}} \; " + score_formula("drawn peers")

    strict = delegated("divergence", "strictly_convex")
    scale = delegated("divergence", "scale")

    @property
    def peer_draws(self) -> int:  # type: ignore[override]
        """How many times peers are drawn."""
        return self.draws

    @property
    def score_meaning(self) -> str:  # type: ignore[override]
        """Who the drawn peers are, and what f is."""
        return (
            f"The drawn peers are made-up ones, drawn {self.draws:,} times from the model with the seed of the round. "
            + self.divergence.meaning
        )

    def drawing(self, most: int) -> Rule:
        """Draw less often."""
        return replace(self, draws=min(int(self.draws), most))

    def in_expectation(self) -> Rule:
        """Compare with the peers of a second day, which have the distribution of the drawn ones."""
        return MultiDay(self.divergence)

    def breakdown(self, this_round: Round, /) -> Breakdown:
        """Score everybody against their peers and against drawn peers."""
        if this_round.rng is None:
            raise MissingCapabilityError("SyntheticPeers draws: pass rng=, such as numpy.random.default_rng(secret)")
        f = self.divergence
        log_pmi_with_peers = this_round.log_pmi()
        mismatched = np.zeros(this_round.own.shape[:-1])
        for fresh in self._draw(this_round):
            mismatched += f.mismatched(log_pmi(this_round.evidence, this_round.own, fresh)).sum(axis=0)
        mismatched /= self.draws
        matched = f.matched(log_pmi_with_peers)
        score = mismatched + matched
        terms = {"drawn_peers": mismatched, "peers": matched}
        return Breakdown(normalise(score, f.low, f.high), log_pmi_with_peers, score, f.low, f.high, terms)

    def evaluate_empty(self, this_round: Round, /) -> Array:
        """f(1) on the scale: an empty report has log PMI 0 with everything."""
        return np.full(this_round.own.shape[:-1], self.divergence.empty_share)

    def _draw(self, this_round: Round) -> Iterator[Array]:
        """Yield blocks of fresh peers, ``(block, ..., provider, statistic)``, for as many draws as there are in all."""
        classes = _classes(this_round)
        pooled = {model: members for model, members in classes.items() if has_independent_rows(model)}
        designs = _peer_designs(this_round, pooled)
        apart = {
            model: (members, _designs(model, this_round, members))
            for model, members in classes.items()
            if model not in pooled
        }
        separate = SeparatePeers(apart, this_round)
        assert this_round.rng is not None  # noqa: S101 (checked by the caller)
        leading = this_round.statistics.shape[:-2]
        block = max(1, _BLOCK // max(1, this_round.statistics.size))
        for start in range(0, self.draws, block):
            size = min(block, self.draws - start)
            theta = next(iter(classes)).draw_parameters(this_round.rng, (size, *leading, 1))
            peers = np.zeros((size, *this_round.statistics.shape))
            for model, design, which in designs:
                drawn = model.draw_statistics(this_round.rng, theta, design)
                peers += np.take_along_axis(drawn, which[None, ..., None], axis=-2)
            yield peers + separate.draw(this_round.rng, theta) if apart else peers


def _classes(this_round: Round) -> dict[SamplesStatistics, list[int]]:
    """Return the providers of each distinct model."""
    classes: dict[SamplesStatistics, list[int]] = {}
    for model, members in this_round.providers_by_model.items():
        if not isinstance(model, SamplesStatistics):
            raise MissingCapabilityError(
                f"{type(model).__name__} cannot draw statistics: it needs design, draw_parameters, draw_statistics"
            )
        classes[model] = members
    return classes


def _peer_designs(
    this_round: Round, classes: dict[SamplesStatistics, list[int]]
) -> list[tuple[SamplesStatistics, Array, Places]]:
    """Return, per distinct model, the distinct designs of the peers that have it and which provider faces which.

    Designs add over providers whose rows are i.i.d. given θ. Distinct ones are sorted, so that the draws do not depend
    on the order of providers, and providers who face the same design share the same draws.
    """
    designs = []
    for model, members in classes.items():
        own = _designs(model, this_round, members)
        everyone = np.zeros((*this_round.statistics.shape[:-1], own.shape[-1]))
        everyone[..., members, :] = own
        designs.append((model, *_distinct(leave_one_out(everyone, this_round.groups))))
    return designs


def _designs(model: SamplesStatistics, this_round: Round, members: list[int]) -> Array:
    try:
        return model.design(this_round.statistics[..., members, :])
    except MissingCapabilityError:
        if this_round.rows is None or not isinstance(model, HasExpectedEvidence):
            raise
        return model.plan(this_round.count_rows()[..., members])


def _distinct(designs: Array) -> tuple[Array, Places]:
    """Sort the distinct designs of each leading index, and return them with each provider's place among them."""
    which = design_ranks(designs)
    places = int(which.max(initial=0)) + 1
    # where a round has fewer designs than another, the first stands for the rest, whoever has it
    sample = np.repeat(which.argmin(axis=-1)[..., None], places, axis=-1)
    np.put_along_axis(sample, which, np.broadcast_to(np.arange(designs.shape[-2]), which.shape), axis=-1)
    return np.take_along_axis(designs, sample[..., None], axis=-2) + 0.0, which  # −0 and 0 are one design
