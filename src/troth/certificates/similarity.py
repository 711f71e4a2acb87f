"""Datasets that are too alike: copies across providers, from statistics and, where they are at hand, from rows."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np

from troth.model import Array, Generator, Model, Redrawable, Updating

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


@dataclass(frozen=True)
class Twins:
    """Two providers whose data are too alike.

    Attributes
    ----------
    providers
        Their places in the round.
    why
        What is alike.
    chance
        Probability that honest data would be so alike, where it is known.
    """

    providers: tuple[int, int]
    why: str
    chance: float | None = None


def find_twins(
    model: Model,
    statistics: Array,
    datasets: Sequence[Any] | None = None,
    *,
    level: float = 1e-3,
    rng: Generator | None = None,
    draws: int = 4000,
) -> list[Twins]:
    """Flag pairs of providers with identical or near-identical data.

    From statistics: equal ones, and multiples of each other, unless that is likely by chance, as it is for few labels;
    the chance is simulated from the model. From rows: more than half of the rows of the smaller dataset in common.

    Examples
    --------
    >>> import troth
    >>> model = troth.models.Normal(0, 1, 1)
    >>> t = np.stack([model.statistics(x) for x in ([0.3, 1.2], [0.7, -0.1], [0.3, 1.2])])
    >>> [twins.providers for twins in find_twins(model, t)]
    [(0, 2)]
    """
    rng = np.random.default_rng(20201206) if rng is None else rng
    t = np.asarray(statistics, dtype=np.float64)
    found = [*_equal(model, t, level, rng, draws), *_multiples(t)]
    if datasets is not None:
        found += _shared_rows(model, datasets)
    return list({(twins.providers, twins.why): twins for twins in reversed(found)}.values())[::-1]


def _groups(keys: Array) -> list[NDArray[np.intp]]:
    _, which, counts = np.unique(keys, axis=0, return_inverse=True, return_counts=True)
    order = np.argsort(which.ravel(), kind="stable")
    return [part for part in np.split(order, np.cumsum(counts)[:-1]) if len(part) > 1]


def _equal(model: Any, t: Array, level: float, rng: Generator, draws: int) -> list[Twins]:
    scale = np.abs(np.where(np.isfinite(t), t, 0.0)).max(axis=0, initial=0.0)
    keys = np.round(np.where(np.isfinite(t), t, -1e300) / np.where(scale > 0, scale, 1.0), 9)
    found = []
    for group in _groups(keys):
        if not np.where(np.isfinite(t[group[0]]), t[group[0]], 1.0).any():
            continue  # empty reports are all alike
        chance = _chance(model, t[group[0]], rng, draws)
        if chance is None or chance <= level:
            found += [Twins((int(group[0]), int(other)), "the same statistics", chance) for other in group[1:]]
    return found


def _chance(model: Any, t: Array, rng: Generator, draws: int) -> float | None:
    """Probability that another dataset of the same design has the same statistics, given these."""
    if not (isinstance(model, Updating) and isinstance(model, Redrawable)):
        return None
    theta = model.draw_posterior(rng, np.broadcast_to(t, (draws, *t.shape)))
    fresh = model.draw_statistics(rng, theta, model.design(t)[None])
    return float(np.isclose(fresh, t, rtol=1e-9, atol=1e-12).all(axis=-1).mean())


def _multiples(t: Array) -> list[Twins]:
    """Find reports that are whole multiples of others: the same rows, replicated."""
    finite = np.isfinite(t).all(axis=1) & (np.abs(t).sum(axis=1) > 0)
    rows = np.flatnonzero(finite)
    direction = t[rows] / np.linalg.norm(t[rows], axis=1, keepdims=True)
    found = []
    for group in _groups(np.round(direction, 12)):
        members = rows[group]
        size = np.linalg.norm(t[members], axis=1)
        smallest = members[int(size.argmin())]
        for other, ratio in zip(members, size / size.min(), strict=True):
            whole = round(float(ratio))
            if whole >= 2 and abs(ratio - whole) < 1e-9 and t.shape[1] > 2:
                found.append(
                    Twins((int(min(smallest, other)), int(max(smallest, other))), f"the same statistics {whole} times")
                )
    return found


def _shared_rows(model: Any, datasets: Sequence[Any]) -> list[Twins]:
    support = getattr(model, "support", None)
    if support is not None and support.integer and np.isfinite(support.high) and not isinstance(datasets[0], tuple):
        return []  # labels: rows of different providers are alike as a matter of course
    owners: dict[bytes, dict[int, int]] = {}
    sizes = []
    for provider, data in enumerate(datasets):
        parts = data if isinstance(data, tuple) else (data,)
        table = np.column_stack([np.asarray(part, dtype=np.float64).reshape(len(part), -1) for part in parts])
        sizes.append(len(table))
        for row in table:
            key = blake2b(row.tobytes(), digest_size=12).digest()
            counts = owners.setdefault(key, {})
            counts[provider] = counts.get(provider, 0) + 1
    shared: dict[tuple[int, int], int] = {}
    for counts in owners.values():
        names = sorted(counts)
        for i, one in enumerate(names):
            for two in names[i + 1 :]:
                shared[one, two] = shared.get((one, two), 0) + min(counts[one], counts[two])
    return [
        Twins(pair, f"{common} rows in common")
        for pair, common in sorted(shared.items())
        if common > 0.5 * min(sizes[pair[0]], sizes[pair[1]])
    ]
