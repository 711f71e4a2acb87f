"""Detection of copies across providers, from statistics and, if available, from rows."""

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
    """Two providers, by their indexes in the round, whose data are too similar, and why.

    ``chance`` is the probability that their honest data would be so similar, if known.
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

    Based on statistics, this flags pairs of the same design that are closer than chance explains, and multiples of each
    other. Chance is simulated from the model, with a correction for the number of pairs: a round of honest providers is
    flagged with probability at most ``level``. Small datasets of labels often coincide and are not flagged. Based on
    rows with continuous values, this flags pairs that share more than half of the rows of the smaller dataset, to nine
    digits. Numbers of ``rows`` are needed only if the statistics do not determine them.

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
    providers_by_model = indexes_by_label(models)
    for group_model, providers in providers_by_model.items():
        indexes = np.array(providers, dtype=np.intp)
        sizes = None if rows is None else np.broadcast_to(np.asarray(rows, dtype=np.float64), len(t))[indexes]
        pairs += _similar_pairs(group_model, t[indexes], sizes, indexes, level, rng, draws)
        if _is_continuous(group_model):
            pairs += _multiples(t[indexes], indexes)
    if datasets is not None and all(_is_continuous(group_model) for group_model in providers_by_model):
        pairs += _shared_rows(datasets)
    return sorted({(pair.providers, pair.why): pair for pair in pairs}.values(), key=lambda pair: pair.providers)


def _is_continuous(model: Any) -> bool:
    return not (isinstance(model, HasSupport) and model.support.integer)


def _similar_pairs(
    model: Any, t: Array, rows: Array | None, providers: Indexes, level: float, rng: Generator, draws: int
) -> list[NearDuplicates]:
    """Find pairs of the same design closer than chance explains, in units of the spread of such data."""
    from scipy.spatial import cKDTree  # slow to import

    if len(t) < 2 or not (isinstance(model, SamplesPosterior) and isinstance(model, SamplesStatistics)):
        return []
    try:
        designs = design_of(model, t, rows)
    except MissingCapabilityError:
        return []
    finite = np.nan_to_num(t, neginf=-1e6)
    possible_pairs = len(t) * (len(t) - 1) / 2
    pairs = []
    for group in _groups(np.round(designs, 6)):
        sample = finite[group[0]]
        theta = model.draw_posterior(rng, np.broadcast_to(t[group[0]], (draws, t.shape[1])))
        fresh = np.nan_to_num(model.draw_statistics(rng, theta, designs[group[0]][None]), neginf=-1e6)
        spread = fresh.std(axis=0)
        varying = spread > 1e-12 * (1 + np.abs(sample))
        if not varying.any():
            continue  # all empty reports are equal
        scaled = finite[group][:, varying] / spread[varying]
        nearest = (np.abs(fresh[:, varying] - sample[varying]) / spread[varying]).max(axis=1)
        same = float((nearest < 1e-9).mean())
        if same > level / possible_pairs / 2:
            continue  # discrete data that often coincide by chance
        radius = max(level / possible_pairs, 1e-9) if _is_continuous(model) else 1e-9
        for i, j in sorted(cKDTree(scaled).query_pairs(radius, p=np.inf)):
            first, second = sorted((int(providers[group[i]]), int(providers[group[j]])))
            exact = np.array_equal(t[group[i]], t[group[j]])
            reason = "the same statistics" if exact else "nearly the same statistics"
            pairs.append(NearDuplicates((first, second), reason, same))
    return pairs


def _groups(keys: Array) -> list[Indexes]:
    """Return the indexes of equal rows, for every row that occurs more than once."""
    _, inverse, counts = np.unique(keys, axis=0, return_inverse=True, return_counts=True)
    order = np.argsort(inverse.ravel(), kind="stable")
    return [part for part in np.split(order, np.cumsum(counts)[:-1]) if len(part) > 1]


def _multiples(t: Array, providers: Indexes) -> list[NearDuplicates]:
    """Find reports that are integer multiples of others: the same rows, replicated."""
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
                first, second = sorted((int(providers[usable[smallest]]), int(providers[usable[other]])))
                multiples.append(NearDuplicates((first, second), f"the same statistics {round(ratio)} times"))
    return multiples


def _shared_rows(datasets: Sequence[Any]) -> list[NearDuplicates]:
    """Find datasets that share more than half of the rows of the smaller one."""
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
