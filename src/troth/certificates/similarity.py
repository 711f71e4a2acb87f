"""Datasets that are too similar: copies across providers, from statistics and, if given, from rows."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from troth.core.contract import (
    Array,
    Generator,
    HasSupport,
    Indexes,
    Models,
    SamplesPosterior,
    SamplesStatistics,
    design_of,
)
from troth.core.errors import MissingCapabilityError
from troth.core.provider_models import one_each
from troth.mechanisms.round import indexes_by_label

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class NearDuplicates:
    """Two providers, by their numbers in the round, whose data are too similar, and why.

    ``chance`` is the probability that honest data of these two would be so alike, where it is known.
    """

    providers: tuple[int, int]
    why: str
    chance: float | None = None


def find_near_duplicates(
    model: Models,
    statistics: Array,
    datasets: Sequence[Any] | None = None,
    *,
    rows: Any = None,
    level: float = 1e-2,
    rng: Generator | None = None,
    draws: int = 20_000,
) -> list[NearDuplicates]:
    """Flag pairs of providers with identical or near-identical data.

    From statistics: pairs of the same design that are nearer to each other than chance allows, and multiples of each
    other. Chance is simulated from the model and shared among all pairs, so that a round of honest providers is flagged
    with probability ``level`` at most; few labels are alike as a matter of course and are not flagged. From rows: more
    than half of the rows of the smaller dataset in common, to nine digits, where values are continuous. Numbers of
    ``rows`` are needed only where statistics do not say them.

    Examples
    --------
    >>> import troth
    >>> model = troth.models.Normal(0, 1, 1)
    >>> t = np.stack([model.statistics(x) for x in ([0.3, 1.2], [0.7, -0.1], [0.3, 1.2])])
    >>> [pair.providers for pair in find_near_duplicates(model, t)]
    [(0, 2)]
    """
    rng = np.random.default_rng(20201206) if rng is None else rng
    t = np.asarray(statistics, dtype=np.float64)
    models = one_each(model, len(t))
    pairs: list[NearDuplicates] = []
    members = indexes_by_label(models)
    for group_model, providers in members.items():
        places = np.array(providers, dtype=np.intp)
        sizes = None if rows is None else np.broadcast_to(np.asarray(rows, dtype=np.float64), len(t))[places]
        pairs += _similar_pairs(group_model, t[places], sizes, places, level, rng, draws)
        if _continuous(group_model):
            pairs += _multiples(t[places], places)
    if datasets is not None and all(_continuous(group_model) for group_model in members):
        pairs += _shared_rows(datasets)
    return sorted({(pair.providers, pair.why): pair for pair in pairs}.values(), key=lambda pair: pair.providers)


def _continuous(model: Any) -> bool:
    return not (isinstance(model, HasSupport) and model.support.integer)


def _similar_pairs(
    model: Any, t: Array, rows: Array | None, places: Indexes, level: float, rng: Generator, draws: int
) -> list[NearDuplicates]:
    """Find pairs of the same design nearer than chance allows, in units of how much such data vary."""
    from scipy.spatial import cKDTree  # takes long to load

    if len(t) < 2 or not (isinstance(model, SamplesPosterior) and isinstance(model, SamplesStatistics)):
        return []
    try:
        designs = design_of(model, t, rows)
    except MissingCapabilityError:
        return []
    possible_pairs = len(t) * (len(t) - 1) / 2
    pairs = []
    for group in _groups(np.round(designs, 6)):
        sample = np.nan_to_num(t[group[0]], neginf=-1e6)
        theta = model.draw_posterior(rng, np.broadcast_to(t[group[0]], (draws, t.shape[1])))
        fresh = np.nan_to_num(model.draw_statistics(rng, theta, designs[group[0]][None]), neginf=-1e6)
        spread = fresh.std(axis=0)
        varying = spread > 1e-12 * (1 + np.abs(sample))
        if not varying.any():
            continue  # empty reports are all alike
        scaled = np.nan_to_num(t[group], neginf=-1e6)[:, varying] / spread[varying]
        nearest = (np.abs(fresh[:, varying] - sample[varying]) / spread[varying]).max(axis=1)
        same = float((nearest < 1e-9).mean())
        if same > level / possible_pairs / 2:
            continue  # discrete, and likely by chance
        radius = max(level / possible_pairs, 1e-9) if _continuous(model) else 1e-9
        for i, j in sorted(cKDTree(scaled).query_pairs(radius, p=np.inf)):
            first, second = sorted((int(places[group[i]]), int(places[group[j]])))
            exact = np.array_equal(t[group[i]], t[group[j]])
            reason = "the same statistics" if exact else "nearly the same statistics"
            pairs.append(NearDuplicates((first, second), reason, same))
    return pairs


def _groups(keys: Array) -> list[Indexes]:
    _, inverse, counts = np.unique(keys, axis=0, return_inverse=True, return_counts=True)
    order = np.argsort(inverse.ravel(), kind="stable")
    return [part for part in np.split(order, np.cumsum(counts)[:-1]) if len(part) > 1]


def _multiples(t: Array, places: Indexes) -> list[NearDuplicates]:
    """Find reports that are whole multiples of others: the same rows, replicated."""
    usable = np.flatnonzero(np.isfinite(t).all(axis=1) & (np.abs(t).sum(axis=1) > 0))
    if len(usable) < 2:
        return []
    size = np.linalg.norm(t[usable], axis=1)
    multiples = []
    for group in _groups(np.round(t[usable] / size[:, None], 11)):
        smallest = group[int(size[group].argmin())]
        for other in group:
            ratio = float(size[other] / size[smallest])
            if round(ratio) >= 2 and abs(ratio - round(ratio)) < 1e-8:
                first, second = sorted((int(places[usable[smallest]]), int(places[usable[other]])))
                multiples.append(NearDuplicates((first, second), f"the same statistics {round(ratio)} times"))
    return multiples


def _shared_rows(datasets: Sequence[Any]) -> list[NearDuplicates]:
    owners: defaultdict[str, Counter[int]] = defaultdict(Counter)
    sizes = []
    for provider, data in enumerate(datasets):
        parts = data if isinstance(data, tuple) else (data,)
        columns = [np.asarray(part, dtype=np.float64) for part in parts]
        table = np.column_stack([column[:, None] if column.ndim == 1 else column for column in columns])
        sizes.append(len(table))
        for row in table:
            owners[" ".join(f"{value:.9g}" for value in row)][provider] += 1
    shared: Counter[tuple[int, int]] = Counter()
    for counts in owners.values():
        for first, second in combinations(sorted(counts), 2):
            shared[first, second] += min(counts[first], counts[second])
    return [
        NearDuplicates(pair, f"{common} row{'' if common == 1 else 's'} in common")
        for pair, common in sorted(shared.items())
        if common > 0.5 * min(sizes[pair[0]], sizes[pair[1]])
    ]
