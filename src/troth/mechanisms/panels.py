"""Panels: each provider's peers split at random, so that no other provider takes part in more than one line-up in B.

Peers are split into panels whose sizes differ by one at most. Where a provider has few peers, the mean over all such
splits is paid: it needs no randomness, and a report that changes enters exactly 1/B of it. Where there are too many
splits, one is drawn: peers are put in the order of their reports and dealt out by a permutation from the seed. What a
panel holds is then a function of the set of reports, so equal reports are paid equally and the order of providers does
not matter. A peer that reports something else also changes places in that order, so for one seed it may move others
to other panels; their distribution stays the same, and on average over the seed its report enters 1/B of the share.
"""

from __future__ import annotations

from itertools import combinations
from math import comb
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from troth.core.contract import Array, Generator
    from troth.mechanisms.round import Round
    from troth.mechanisms.separate_peers import Places

_ALL_SPLITS = 252  # different panels of one provider, up to which all are tried


class Panels(NamedTuple):
    """Who is on which panel.

    Attributes
    ----------
    provider
        Whose panel it is, ``(panel,)``.
    weight
        What its line-up counts for the provider's share, ``(panel,)``.
    members
        Who is on it, ``(round or 1, panel, provider)``.
    """

    provider: Places
    weight: Array
    members: NDArray[np.bool_]


def split(this_round: Round, panels: int, rng: Generator) -> Panels:
    """Split everybody's peers, in as many panels as there are peers if there are fewer."""
    groups: Sequence[Any] = range(this_round.providers) if this_round.groups is None else list(this_round.groups)
    peers = [[j for j, other in enumerate(groups) if other != group] for group in groups]
    sizes = {len(each) for each in peers}
    if all(_different_panels(size, panels) <= _ALL_SPLITS for size in sizes):
        return _all_splits(peers, panels)
    order = _order_of_reports(this_round)
    permutations = {size: rng.permutation(size) for size in sorted(sizes)}
    owners, weights, members = [], [], []
    ranks = np.argsort(order, axis=-1)
    for provider, each in enumerate(peers):
        count = max(1, min(panels, len(each)))
        places = np.argsort(np.argsort(ranks[:, each], axis=-1), axis=-1)  # of each peer among these
        label = permutations[len(each)][places] % count if each else places
        for panel in range(count):
            who = np.zeros((len(order), this_round.providers), dtype=bool)
            who[:, each] = label == panel
            owners.append(provider)
            weights.append(1 / count)
            members.append(who)
    return Panels(np.array(owners), np.array(weights), np.stack(members, axis=1))


def mean_over_panels(values: Array, panels: Panels | None, providers: int) -> Array:
    """Return each provider's mean over its panels, ``(round, provider)``, whatever their order."""
    if panels is None:
        return values
    result = np.empty((len(values), providers))
    for owner in range(providers):
        mine = panels.provider == owner
        least = values[:, mine].min(axis=-1, keepdims=True)
        excess = np.sort((values[:, mine] - least) * panels.weight[mine], axis=-1).sum(axis=-1)
        result[:, owner] = least[:, 0] + excess  # equal values have exactly that mean
    return result


def _different_panels(peers: int, panels: int) -> int:
    small, larger = divmod(peers, max(1, min(panels, peers)))
    return comb(peers, small) + (comb(peers, small + 1) if larger else 0)


def _all_splits(peers: list[list[int]], panels: int) -> Panels:
    """Every panel that a balanced split can have, with the chance that it has it."""
    owners, weights, members = [], [], []
    for provider, each in enumerate(peers):
        count = max(1, min(panels, len(each)))
        small, larger = divmod(len(each), count)
        for size, part in ((small, (count - larger) / count), (small + 1, larger / count)):
            if part == 0:
                continue
            for panel in combinations(each, size):
                who = np.zeros(len(peers), dtype=bool)
                who[list(panel)] = True
                owners.append(provider)
                weights.append(part / comb(len(each), size))
                members.append(who)
    return Panels(np.array(owners), np.array(weights), np.stack(members)[None])


def _order_of_reports(this_round: Round) -> Places:
    """Return providers in the order of their models and reports, ``(round, provider)``."""
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
