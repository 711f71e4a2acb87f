"""Peers drawn from the model, with the designs of those who reported: θ from the prior, then their data given θ."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from troth.core.contract import (
    Array,
    HasExpectedEvidence,
    SamplesStatistics,
    TakesFeatures,
    has_independent_rows,
)
from troth.core.errors import DataError, MissingCapabilityError
from troth.core.information import leave_one_out
from troth.mechanisms.separate_peers import SeparatePeers, design_ranks, draw_part

if TYPE_CHECKING:
    from collections.abc import Iterator

    from troth.mechanisms.round import Round
    from troth.mechanisms.separate_peers import Places

BLOCK = 1 << 22  # numbers drawn at a time


def draw_peers(this_round: Round, draws: int, answers: int | None = None) -> Iterator[Array]:
    """Yield blocks of fresh peers, ``(block, ..., provider, statistic)``, for as many draws as there are in all.

    With ``answers``, how many entries of statistics answers change, these alone are drawn (`HasAnswerPart`).
    """
    classes = sampling_classes(this_round)
    pooled = {model: members for model, members in classes.items() if has_independent_rows(model)}
    designs = _peer_designs(this_round, pooled)
    apart = {
        model: (members, designs_of(model, this_round, members))
        for model, members in classes.items()
        if model not in pooled
    }
    separate = SeparatePeers(apart, this_round)
    assert this_round.rng is not None  # noqa: S101 (checked by the caller)
    leading = this_round.statistics.shape[:-2]
    shape = (*this_round.statistics.shape[:-1], this_round.statistics.shape[-1] if answers is None else answers)
    block = max(1, BLOCK // max(1, prod(shape)))
    for start in range(0, draws, block):
        size = min(block, draws - start)
        theta = next(iter(classes)).draw_parameters(this_round.rng, (size, *leading, 1))
        peers = np.zeros((size, *shape))
        for model, design, which in designs:
            drawn = draw_part(model, answers)(this_round.rng, theta, design)
            peers += np.take_along_axis(drawn, which[None, ..., None], axis=-2)
        yield peers + separate.draw(this_round.rng, theta, answers) if apart else peers


def sampling_classes(this_round: Round) -> dict[SamplesStatistics, list[int]]:
    """Return the providers of each distinct model, the models in an order that does not depend on who comes first."""
    classes: dict[SamplesStatistics, list[int]] = {}
    for model, members in this_round.providers_by_model.items():
        if not isinstance(model, SamplesStatistics):
            remedy = "it needs design, draw_parameters, draw_statistics"
            if isinstance(model, TakesFeatures):
                remedy = "give a model for each provider, model.with_features(features), or its number of rows"
            raise MissingCapabilityError(f"{type(model).__name__} cannot draw statistics: {remedy}")
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
        own = designs_of(model, this_round, members)
        designs.append((model, *_distinct(leave_one_out(this_round.among_all(own, members), this_round.groups))))
    return designs


def designs_of(model: SamplesStatistics, this_round: Round, members: list[int]) -> Array:
    """Return what was fixed of some providers' data before they were seen: by their statistics, or by their rows."""
    try:
        statistics = this_round.statistics
        return model.design(statistics if len(members) == statistics.shape[-2] else statistics[..., members, :])
    except (MissingCapabilityError, DataError):
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
