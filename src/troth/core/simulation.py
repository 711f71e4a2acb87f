"""Simulated datasets for the laws: sizes at which a mistake shows, bounded functions, and how far means may stray."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import expit

from troth.core.contract import Array, Generator, Indexes
from troth.core.declarations import declared
from troth.core.information import log_pmi

FALSE_ALARM = 1e-9
"""Largest probability that a simulated law fails a model that obeys it."""

SIZES = ((1, 2), (6, 9))
_MAX_ROWS = 384  # of the larger datasets that a strong prior needs before they say anything about each other
_ENOUGH = 0.3  # nats of mutual information that make a wrong log evidence visible
_ROWS_AT_ONCE = 1 << 22
_ROWS_IN_ALL = 1 << 24
COMPARISONS = 512  # more than there are in one check; `FALSE_ALARM` is shared among them


class Simulation:
    """Matched statistics of drawn datasets, of sizes at which they say something about each other."""

    def __init__(self, model: Any, rng: Generator, draws: int) -> None:
        self.model, self.rng, self.draws = model, rng, draws

    @cached_property
    def sizes(self) -> tuple[tuple[int, int], ...]:
        """Small sizes and, where the prior is strong, one at which mutual information reaches `_ENOUGH`."""
        own, peers = SIZES[-1]
        while own < _MAX_ROWS:
            sample = log_pmi(self.model, *self.draw((own, peers), 1000))
            if not -0.1 < np.clip(sample, -5, 5).mean() < _ENOUGH:
                break  # enough, or so negative that small datasets show the mistake
            own, peers = 2 * own, 2 * peers
        return SIZES if (own, peers) == SIZES[-1] else (*SIZES, (own, peers))

    def draw(self, sizes: Sequence[int], draws: int | None = None) -> list[Array]:
        """Draw statistics of one dataset of each size for each of many θ, fewer of them where datasets are large."""
        draws = max(1000, min(draws or self.draws, _ROWS_IN_ALL // sum(sizes)))
        block = max(1, _ROWS_AT_ONCE // sum(sizes))
        parts = []
        for start in range(0, draws, block):
            parameters = self.model.draw_parameters(self.rng, (min(block, draws - start),))
            parts.append([self._statistics(parameters, rows) for rows in sizes])
        return [np.concatenate(side) for side in zip(*parts, strict=True)]

    def _statistics(self, parameters: Array, rows: int) -> Array:
        """Draw data and take their statistics; of an approximation, draw the statistics that it stands for."""
        t = np.asarray(self.model.statistics(self.model.draw_data(self.rng, parameters, rows)), dtype=np.float64)
        if declared(self.model).approximation:
            return np.asarray(self.model.draw_statistics(self.rng, parameters, self.model.design(t)))
        return t

    @cached_property
    def informative(self) -> Indexes:
        """The statistics in which matched datasets agree most, found on separate draws."""
        a, b = (_compressed(t) for t in self.draw(self.sizes[-1], 1000))
        a, b = ((t - t.mean(axis=0)) / np.maximum(t.std(axis=0), 1e-12) for t in (a, b))
        return np.argsort(-np.abs((a * b).mean(axis=0)), kind="stable")[:3]


def bounded_mean(sample: Array, width: float = 1.0) -> tuple[float, float]:
    """Mean of independent numbers from an interval of some width, and how far it strays except with `FALSE_ALARM`.

    The empirical Bernstein inequality of Maurer and Pontil, which needs no normal limit.
    """
    odds = np.log(COMPARISONS / FALSE_ALARM)
    margin = np.sqrt(2 * sample.var(ddof=1) * odds / len(sample)) + 7 * width * odds / (3 * (len(sample) - 1))
    return float(sample.mean()), float(margin)


def swapped(t: Array) -> Array:
    """Exchange every two neighbours: what was drawn with one θ is paired with what was drawn with another."""
    even = t[: len(t) // 2 * 2]
    return np.concatenate([even.reshape(-1, 2, t.shape[-1])[:, ::-1].reshape(even.shape), t[len(even) :]])


def means_of_pairs(sample: Array) -> Array:
    """Average every two neighbours; one that is left over counts for nothing."""
    return (sample[: len(sample) // 2 * 2 : 2] + sample[1::2]) / 2


def weights(a: Array, b: Array, rolled: Array, informative: Indexes) -> list[tuple[Array, Array]]:
    """Functions into [0, 1] of independent and of matched pairs: any bounded function of both statistics would do.

    1; how alike the two are; and for each informative statistic how large and how far from its middle their sum is.
    """
    parts = [_compressed(t[:, informative]) for t in (a, b, rolled)]
    middle = [np.median(t, axis=0) for t in parts]
    first, second, third = (
        np.tanh((t - m) / np.maximum(t.std(axis=0), 1e-12)) for t, m in zip(parts, middle, strict=True)
    )
    weights = [(np.ones(len(a)), np.ones(len(a)))]
    weights.append((expit(2 * (first * third).sum(axis=-1)), expit(2 * (first * second).sum(axis=-1))))
    for k in range(len(informative)):
        independent, matched = (first[:, k] + third[:, k]) / 2, (first[:, k] + second[:, k]) / 2
        weights += [((1 + independent) / 2, (1 + matched) / 2), (independent**2, matched**2)]
    return weights


def _compressed(t: Array) -> Array:
    """Statistics on a scale on which nothing overflows, −∞ included."""
    return np.arcsinh(np.maximum(t, -1e300))
