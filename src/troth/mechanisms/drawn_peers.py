"""Peers drawn from the model with the designs of the real ones: θ from the prior, then data given θ.

If rows are i.i.d. given θ, peers of one model are pooled into one dataset: their designs add, and they are drawn
together. If a provider's rows share a random effect, peers are drawn one by one (`SeparatePeers`).
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from troth.core.contract import (
    Array,
    Generator,
    HasAnswerPart,
    Indexes,
    Mask,
    SamplesStatistics,
    TakesFeatures,
    design_of,
    has_independent_rows,
)
from troth.core.errors import MissingCapabilityError
from troth.core.information import leave_one_out
from troth.mechanisms.round import indexes_by_label

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from troth.mechanisms.round import Round

BLOCK = 1 << 22  # numbers drawn at a time


def draw_peers(this_round: Round, draws: int, answers: int | None = None) -> Iterator[Array]:
    """Yield all draws of peers in blocks, ``(block, ..., provider, statistic)``.

    If ``answers``, the width of answer parts, is given, only answer parts are drawn (`HasAnswerPart`).
    """
    classes = sampling_classes(this_round)
    pooled: list[tuple[SamplesStatistics, Array, Indexes]] = []
    separate_classes: dict[SamplesStatistics, tuple[list[int], Array]] = {}
    for model, members in classes.items():
        own = designs_of(model, this_round, members)
        if has_independent_rows(model):
            peer_designs = leave_one_out(this_round.scatter(own, members), this_round.groups)
            pooled.append((model, *distinct_designs(peer_designs)))
        else:
            separate_classes[model] = members, own
    separate = SeparatePeers(separate_classes, this_round)
    assert this_round.rng is not None  # noqa: S101 (checked by the caller)
    leading = this_round.statistics.shape[:-2]
    shape = (*this_round.statistics.shape[:-1], this_round.statistics.shape[-1] if answers is None else answers)
    block = max(1, BLOCK // max(1, prod(shape)))
    for start in range(0, draws, block):
        size = min(block, draws - start)
        theta = next(iter(classes)).draw_parameters(this_round.rng, (size, *leading, 1))
        peers = np.zeros((size, *shape))
        for model, design, design_of_peer in pooled:
            by_design = draw_part(model, answers)(this_round.rng, theta, design)
            peers += np.take_along_axis(by_design, design_of_peer[None, ..., None], axis=-2)
        yield peers + separate.draw(this_round.rng, theta, answers) if separate_classes else peers
        this_round.report_progress((start + size) / draws)


def sampling_classes(this_round: Round) -> dict[SamplesStatistics, list[int]]:
    """Return `Round.providers_by_model`; raise an error if a model cannot draw statistics."""
    classes: dict[SamplesStatistics, list[int]] = {}
    for model, members in this_round.providers_by_model.items():
        if not isinstance(model, SamplesStatistics):
            missing = [name for name in ("design", "draw_parameters", "draw_statistics") if not hasattr(model, name)]
            remedy = f"it lacks {' and '.join(missing)}"
            if isinstance(model, TakesFeatures):
                remedy = "give a model for each provider, model.with_features(features), or its number of rows"
            raise MissingCapabilityError(f"{type(model).__name__} cannot draw statistics: {remedy}")
        classes[model] = members
    return classes


def designs_of(model: SamplesStatistics, this_round: Round, members: list[int]) -> Array:
    """Return some providers' designs, from their statistics and, if given, their numbers of rows."""
    statistics = this_round.statistics
    statistics = statistics if len(members) == statistics.shape[-2] else statistics[..., members, :]
    return design_of(model, statistics, None if this_round.rows is None else this_round.count_rows()[..., members])


def distinct_designs(designs: Array) -> tuple[Array, Indexes]:
    """Return the sorted distinct designs of each leading index, and the index of each provider's design among them.

    So draws do not depend on the order of providers, and providers who face the same design share a draw.
    """
    ranks = design_ranks(designs)
    representatives = np.full((*ranks.shape[:-1], int(ranks.max(initial=-1)) + 1), -1)
    np.put_along_axis(representatives, ranks, np.broadcast_to(np.arange(designs.shape[-2]), ranks.shape), axis=-1)
    # pad rounds that have fewer designs with the first
    representatives = np.where(representatives < 0, representatives[..., :1], representatives)
    return np.take_along_axis(designs, representatives[..., None], axis=-2) + 0.0, ranks  # −0 and 0 are one design


def design_ranks(designs: Array) -> Indexes:
    """Return the rank of each design among the sorted distinct designs of its leading index, ``(..., provider)``.

    Designs are equal only if all their numbers are exactly equal. Columns are compared until designs of the same rank
    are equal in the remaining ones.
    """
    ranks = np.zeros(designs.shape[:-1], dtype=np.intp)
    varying = (designs != designs[..., :1, :]).reshape(-1, designs.shape[-1]).any(axis=0)
    for number in np.flatnonzero(varying):
        column = designs[..., number]
        if ((ranks[..., 1:] == ranks[..., :1]) & (column[..., 1:] == column[..., :1])).all():
            continue
        order = np.lexsort((column, ranks))
        values, before = (np.take_along_axis(array, order, axis=-1) for array in (column, ranks))
        differs = np.zeros(order.shape, dtype=bool)
        differs[..., 1:] = (values[..., 1:] != values[..., :-1]) | (before[..., 1:] != before[..., :-1])
        np.put_along_axis(ranks, order, np.cumsum(differs, axis=-1), axis=-1)
        if differs[..., 1:].all() or _equal_where_tied(designs, order, differs):
            break
    return ranks


def _equal_where_tied(designs: Array, order: Indexes, differs: Mask) -> bool:
    """Return whether neighbours of the same rank so far are equal in all columns."""
    tied = np.nonzero(~differs[..., 1:])
    before, after = (designs[(*tied[:-1], order[..., 1:][tied] if step else order[..., :-1][tied])] for step in (0, 1))
    return bool((before == after).all())


def draw_part(model: SamplesStatistics, answers: int | None) -> Callable[[Generator, Array, Array], Array]:
    """Return the method that draws statistics given θ and designs, or only answer parts if ``answers`` is given."""
    if answers is None:
        return model.draw_statistics
    assert isinstance(model, HasAnswerPart)  # noqa: S101 (checked by the caller)
    return model.draw_answer_part


class SeparatePeers:
    """Peers drawn one by one, because a provider's rows share a random effect and cannot be pooled.

    Providers of the same model and design are of one kind, and exchangeable given θ. There is one draw per provider,
    sorted by kind independently of the order of providers. A provider that leaves out c providers of a kind (itself, or
    its group) faces all draws of that kind but the last c: they have the correct distribution, and providers who face
    the same peers face the same draws. ``classes`` maps each model to its providers and their designs,
    ``(..., member, design)``.
    """

    def __init__(self, classes: Mapping[SamplesStatistics, tuple[list[int], Array]], this_round: Round) -> None:
        self._width = this_round.statistics.shape[-1]
        leading, providers = this_round.statistics.shape[:-2], this_round.providers
        self._designs: list[tuple[SamplesStatistics, Array]] = []
        self._count = sum(len(members) for members, _ in classes.values())
        # the last draw of each provider's kind; a provider that is not drawn has an extra draw, which is empty
        self._ends: Indexes = np.full((*leading, providers), self._count, dtype=np.intp)
        start = 0
        for model, (members, designs) in classes.items():
            ranks = np.broadcast_to(design_ranks(designs), (*leading, len(members)))
            order = np.argsort(ranks, axis=-1, kind="stable")
            ordered = np.take_along_axis(ranks, order, axis=-1)
            draws = np.broadcast_to(start + np.arange(len(members)), ranks.shape)
            end_of_kind = np.zeros((*leading, int(ranks.max(initial=-1)) + 1), dtype=np.intp)
            np.put_along_axis(end_of_kind, ordered, draws, axis=-1)  # the last of a kind wins
            self._ends[..., members] = np.take_along_axis(end_of_kind, ranks, axis=-1)
            spread = np.broadcast_to(designs, (*leading, *designs.shape[-2:]))
            self._designs.append((model, np.take_along_axis(spread, order[..., None], axis=-2)))
            start += len(members)
        self._left_out = None if this_round.groups is None else self._by_group(list(this_round.groups))

    def _by_group(self, groups: list[object]) -> list[tuple[list[int], Mask]]:
        """Return each group's members, and a mask of the draws that they leave out, ``(..., draw)``."""
        left_out = []
        for members in indexes_by_label(groups).values():
            out = np.zeros((*self._ends.shape[:-1], self._count + 1), dtype=bool)
            for rank, provider in enumerate(members):
                end = self._ends[..., provider]
                same_kind = (self._ends[..., members[:rank]] == end[..., None]).sum(axis=-1)
                draw = np.where(end < self._count, end - same_kind, self._count)
                np.put_along_axis(out, draw[..., None], True, axis=-1)
            left_out.append((members, out))
        return left_out

    def draw(self, rng: Generator, theta: Array, answers: int | None = None) -> Array:
        """Draw each provider's peers given θ, ``(block, ..., provider, statistic)``, or only their answer parts."""
        shape, width = theta.shape[:-2], self._width if answers is None else answers
        draws = np.zeros((*shape, self._count + 1, width))
        start = 0
        for model, designs in self._designs:
            stop = start + designs.shape[-2]
            draws[..., start:stop, :] = draw_part(model, answers)(rng, theta, designs)
            start = stop
        if self._left_out is None:
            return np.take_along_axis(leave_one_out(draws), self._ends[None, ..., None], axis=-2)
        peers = np.empty((*shape, self._ends.shape[-1], width))
        for members, out in self._left_out:
            peers[..., members, :] = np.where(out[..., None], 0.0, draws).sum(axis=-2, keepdims=True)
        return peers
