"""Simulated datasets for the laws: informative sizes, bounded test functions, and error bounds of means."""

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
"""Maximum probability that a correct model fails a simulated law."""

SIZES = ((1, 2), (6, 9))
_MAX_ROWS = 384  # of the larger datasets that are drawn if the prior is strong
_MIN_INFORMATION = 0.3  # nats of mutual information that reveal an incorrect log evidence
_CHUNK_ROWS = 1 << 22
_MAX_TOTAL_ROWS = 1 << 24
_MAX_COMPARISONS = 512  # of one check, which share `FALSE_ALARM`

LOG_INVERSE_LEVEL = np.log(_MAX_COMPARISONS / FALSE_ALARM)
"""ln(1/α), where α is the probability that a correct model fails a single comparison."""


class Simulation:
    """Matched statistics of drawn datasets, of sizes at which they are informative about each other."""

    def __init__(self, model: Any, rng: Generator, draws: int) -> None:
        self.model, self.rng, self.draws = model, rng, draws

    @cached_property
    def sizes(self) -> tuple[tuple[int, int], ...]:
        """Small sizes and, if the prior is strong, one at which mutual information reaches `_MIN_INFORMATION`."""
        own, peers = SIZES[-1]
        while own < _MAX_ROWS:
            sample = log_pmi(self.model, *self.draw((own, peers), 1000))
            if not -0.1 < np.clip(sample, -5, 5).mean() < _MIN_INFORMATION:
                break  # informative, or so negative that small datasets reveal the error
            own, peers = 2 * own, 2 * peers
        return SIZES if (own, peers) == SIZES[-1] else (*SIZES, (own, peers))

    def draw(self, sizes: Sequence[int], draws: int | None = None) -> list[Array]:
        """Draw many θ, fewer if datasets are large, and for each θ the statistics of one dataset of each size."""
        draws = max(1000, min(draws or self.draws, _MAX_TOTAL_ROWS // sum(sizes)))
        block = max(1, _CHUNK_ROWS // sum(sizes))
        parts = []
        for start in range(0, draws, block):
            parameters = self.model.draw_parameters(self.rng, (min(block, draws - start),))
            parts.append([self._statistics(parameters, rows) for rows in sizes])
        return [np.concatenate(side) for side in zip(*parts, strict=True)]

    def _statistics(self, parameters: Array, rows: int) -> Array:
        """Draw data and take their statistics; for an approximation, redraw these from the approximate model."""
        t = np.asarray(self.model.statistics(self.model.draw_data(self.rng, parameters, rows)), dtype=np.float64)
        if declared(self.model).approximation:
            return np.asarray(self.model.draw_statistics(self.rng, parameters, self.model.design(t)))
        return t

    @cached_property
    def informative(self) -> Indexes:
        """The indexes of the statistics that correlate most between matched datasets, found on separate draws."""
        a, b = (_compressed(t) for t in self.draw(self.sizes[-1], 1000))
        a, b = ((t - t.mean(axis=0)) / np.maximum(t.std(axis=0), 1e-12) for t in (a, b))
        return np.argsort(-np.abs((a * b).mean(axis=0)), kind="stable")[:3]


def bounded_mean(sample: Array, width: float = 1.0) -> tuple[float, float]:
    """Return the mean of independent numbers from an interval of given width, and a bound on its error.

    The bounds of one check hold together with probability at least 1 − `FALSE_ALARM`, by the empirical Bernstein
    inequality of Maurer and Pontil, which assumes no normal limit.
    """
    n, variance = len(sample), sample.var(ddof=1)
    margin = np.sqrt(2 * variance * LOG_INVERSE_LEVEL / n) + 7 * width * LOG_INVERSE_LEVEL / (3 * (n - 1))
    return float(sample.mean()), float(margin)


def swap_neighbours(t: Array) -> Array:
    """Swap neighbouring pairs, so that draws from one θ are paired with draws from another."""
    even = t[: len(t) // 2 * 2]
    return np.concatenate([even.reshape(-1, 2, t.shape[-1])[:, ::-1].reshape(even.shape), t[len(even) :]])


def pair_means(sample: Array) -> Array:
    """Average neighbouring pairs; the last number is dropped if their count is odd."""
    return (sample[: len(sample) // 2 * 2 : 2] + sample[1::2]) / 2


def bounded_functions(a: Array, b: Array, rolled: Array, informative: Indexes) -> list[tuple[Array, Array]]:
    """Return functions into [0, 1] of independent and of matched pairs; any bounded functions would be valid.

    The constant 1; the similarity of the two; and for each informative statistic the size of the sum of the two, and
    its distance from the median.
    """
    parts = [_compressed(t[:, informative]) for t in (a, b, rolled)]
    medians = [np.median(t, axis=0) for t in parts]
    first, second, third = (
        np.tanh((t - m) / np.maximum(t.std(axis=0), 1e-12)) for t, m in zip(parts, medians, strict=True)
    )
    functions = [(np.ones(len(a)), np.ones(len(a)))]
    functions.append((expit(2 * (first * third).sum(axis=-1)), expit(2 * (first * second).sum(axis=-1))))
    for k in range(len(informative)):
        independent, matched = (first[:, k] + third[:, k]) / 2, (first[:, k] + second[:, k]) / 2
        functions += [((1 + independent) / 2, (1 + matched) / 2), (independent**2, matched**2)]
    return functions


def _compressed(t: Array) -> Array:
    """Return statistics on a scale without overflow, even for −∞."""
    return np.arcsinh(np.maximum(t, -1e300))
