"""Panels: each provider's peers split at random, so that each peer takes part in only one of B line-ups.

The sizes of panels differ by at most one. With few peers, the share is the mean over all such splits: this needs no
randomness, and a report affects exactly 1/B of it. If there are too many splits, one is drawn: peers are sorted by
report and dealt out by a permutation from the seed. Panels are then a function of the set of reports, so equal reports
are paid equally and the order of providers does not matter. A peer that changes its report also changes its rank, so
for one seed it may move others to other panels. Their distribution stays the same, and on average over the seed the
report affects 1/B of the share.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from itertools import combinations
from math import comb
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from troth.core.information import add_exactly, sum_subsets
from troth.mechanisms.round import indexes_by_label

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from troth.core.contract import Array, Generator, Indexes
    from troth.mechanisms.round import Round

_MAX_ENUMERATED = 252  # possible panels of one provider, up to which the mean over all splits is paid


class Panels(NamedTuple):
    """All panels, sorted by provider: the provider of each, and its weight in that provider's share.

    ``sum`` adds up arrays ``(round, provider, statistic)`` over the members of each panel, exactly.
    """

    provider: Indexes
    weight: Array
    sum: Callable[[Array], Array]


def split(this_round: Round, panels: int, rng: Generator) -> Panels:
    """Split each provider's peers into panels, at most as many as it has peers."""
    groups: Sequence[Any] = range(this_round.providers) if this_round.groups is None else list(this_round.groups)
    sizes = Counter(groups)
    peers = {len(groups) - size for size in sizes.values()}
    if all(_count_panels(count, panels) <= _MAX_ENUMERATED for count in peers):
        return _all_splits(groups, panels)
    permutations = {count: rng.permutation(count) for count in sorted(peers)}
    counts = np.array([max(1, min(panels, len(groups) - sizes[group])) for group in groups])
    add = partial(_sum_panels, groups=groups, order=_report_order(this_round), counts=counts, permutations=permutations)
    provider = np.repeat(np.arange(len(groups)), counts)
    return Panels(provider, 1 / counts[provider], partial(add_exactly, add=add))


def _sum_panels(
    t: Array, groups: Sequence[Any], order: Indexes, counts: Indexes, permutations: dict[int, Indexes]
) -> Array:
    """Add up each provider's panels, in time linear in the number of providers.

    A peer's position is its rank minus the number of members of the provider's own group before it. So the peers
    between two such members are dealt out by the permutation, shifted by one for each member before them: their sum is
    a difference of two cumulative sums.
    """
    rounds, n, _ = t.shape
    starts = np.cumsum(counts) - counts
    total = np.zeros((rounds, int(counts.sum()), t.shape[-1]))
    ordered = np.take_along_axis(t, order[..., None], axis=1)
    ranks = np.argsort(order, axis=1)
    members: dict[int, list[list[int]]] = {}
    for indexes in indexes_by_label(groups).values():
        members.setdefault(len(indexes), []).append(indexes)
    for size, groups_of_size in members.items():
        accounts = np.array(groups_of_size)
        deal = permutations[n - size]
        own = np.sort(ranks[:, accounts], axis=-1)
        edges = np.concatenate(
            [np.full((rounds, len(accounts), 1), -1), own, np.full((rounds, len(accounts), 1), n)], axis=-1
        )
        for panel in range(min(int(counts[accounts[0, 0]]), n - size)):
            sums = np.zeros((rounds, len(accounts), t.shape[-1]))
            for moved in range(size + 1):
                dealt = np.zeros(n, dtype=bool)
                dealt[moved : moved + n - size] = deal % counts[accounts[0, 0]] == panel
                before = np.concatenate([np.zeros_like(t[:, :1]), np.cumsum(ordered * dealt[:, None], axis=1)], axis=1)
                first, last = edges[..., moved, None] + 1, edges[..., moved + 1, None]
                sums += np.take_along_axis(before, last, axis=1) - np.take_along_axis(before, first, axis=1)
            total[:, starts[accounts] + panel] = sums[:, :, None]
    return total


def mean_over_panels(values: Array, panels: Panels | None) -> Array:
    """Return each provider's mean over its panels, ``(round, provider)``, independent of their order."""
    if panels is None:
        return values
    starts = np.flatnonzero(np.diff(panels.provider, prepend=-1))
    minimum = np.minimum.reduceat(values, starts, axis=1)
    excess = (values - minimum[:, panels.provider]) * panels.weight
    order = np.lexsort((excess, np.broadcast_to(panels.provider, excess.shape)), axis=-1)
    # so that the mean of equal values is exact
    return np.asarray(minimum + np.add.reduceat(np.take_along_axis(excess, order, axis=1), starts, axis=1))


def _count_panels(peers: int, panels: int) -> int:
    small, larger = divmod(peers, max(1, min(panels, peers)))
    return comb(peers, small) + (comb(peers, small + 1) if larger else 0)


def _all_splits(groups: Sequence[Any], panels: int) -> Panels:
    """Return all possible panels of balanced splits, weighted by their frequency."""
    owners, weights, members = [], [], []
    for provider, group in enumerate(groups):
        peers = [j for j, other in enumerate(groups) if other != group]
        count = max(1, min(panels, len(peers)))
        small, larger = divmod(len(peers), count)
        for size, part in ((small, (count - larger) / count), (small + 1, larger / count)):
            if part == 0:
                continue
            for panel in combinations(peers, size):
                mask = np.zeros(len(groups), dtype=bool)
                mask[list(panel)] = True
                owners.append(provider)
                weights.append(part / comb(len(peers), size))
                members.append(mask)
    return Panels(np.array(owners), np.array(weights), partial(sum_subsets, members=np.stack(members)))


def _report_order(this_round: Round) -> Indexes:
    """Return the order of providers by model and report, ``(round, provider)``."""
    t = this_round.statistics.reshape(-1, *this_round.statistics.shape[-2:])
    names = {model: repr(model) for model in this_round.providers_by_model}
    codes = {name: code for code, name in enumerate(sorted(names.values()))}
    kind = np.zeros(this_round.providers)
    for model, members in this_round.providers_by_model.items():
        kind[members] = codes[names[model]]
    columns = [np.broadcast_to(kind, t.shape[:-1]), *np.moveaxis(t, -1, 0)]
    if this_round.rows is not None:
        columns.append(this_round.count_rows().reshape(t.shape[:-1]))
    return np.lexsort(columns[::-1], axis=-1)
