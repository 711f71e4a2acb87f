"""Finitely many states of the world: the paper's discrete setting, and the way to any law whatsoever."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import comb
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import nnls
from scipy.special import gammaln

from troth.errors import DataError, MissingCapabilityError, ParameterError
from troth.model import Array, Generator, Model, Support
from troth.models.categorical import count_codes, draw_codes, draw_counts
from troth.models.family import Family

if TYPE_CHECKING:
    from collections.abc import Mapping

    from troth.models.family import Matrix, Vector
    from troth.models.predictive import Exact

_LARGEST_ENUMERATION = 200_000


@dataclass(frozen=True)
class Finite(Family):
    """Rows that are symbols 0 … K−1, whose law depends on one of m states θ.

    Statistic: Σ log p(d|θ), one entry per θ, −∞ allowed. Λ(t) = logsumexp(log p(θ) + t).

    Parameters
    ----------
    prior
        p(θ), m positive numbers that sum to 1.
    likelihood
        p(symbol|θ) as ``likelihood[θ, symbol]``; zeros allowed. Providers may have different tables.
    normalised
        False if the table is known only up to a factor per symbol, as `from_posteriors` may leave it. Such a model
        prices data, which that factor does not change, but cannot draw any.

    Examples
    --------
    >>> model = Finite(prior=[0.5, 0.5], likelihood=[[0.9, 0.1], [0.2, 0.8]])
    >>> model.statistics([0, 0, 1]).round(3)
    array([-2.513, -3.442])
    """

    prior: Vector
    likelihood: Matrix
    normalised: bool = True

    def __post_init__(self) -> None:
        prior = self._vector("prior")
        if not (prior > 0).all():
            raise ParameterError(f"Finite: prior[{int(np.argmin(prior))}] must be above 0; leave impossible states out")
        if abs(prior.sum() - 1) > 1e-6:
            raise ParameterError(f"Finite: prior must sum to 1, not {prior.sum():.9g}")
        table = self._array("likelihood", 2)
        if len(table) != len(prior):
            raise ParameterError(f"Finite: likelihood must have {len(prior)} rows, one per state, not {len(table)}")
        if (table < 0).any():
            state, symbol = np.argwhere(table < 0)[0]
            raise ParameterError(f"Finite: likelihood[{state}, {symbol}] is below 0")
        sums = table.sum(axis=1)
        worst = int(np.argmax(np.abs(sums - 1)))
        if self.normalised and abs(sums[worst] - 1) > 1e-6:
            raise ParameterError(f"Finite: likelihood[{worst}] must sum to 1 over symbols, not {sums[worst]:.9g}")

    @classmethod
    def from_posteriors(cls, prior: Any, posteriors: Any) -> Finite:
        """Make a model from what one row says about θ, as the paper does.

        log p(θ|d) − log p(θ) differs from log p(d|θ) by a constant per row, which cancels in log PMI: the analyst
        need not know p(d|θ). Where the posteriors leave only one p(d) possible, the likelihood is recovered too.

        Parameters
        ----------
        prior
            p(θ).
        posteriors
            p(θ|symbol) as ``posteriors[symbol, θ]``.

        Examples
        --------
        >>> model = Finite.from_posteriors(prior=[0.5, 0.5], posteriors=[[0.75, 0.25], [0.25, 0.75]])
        >>> model.likelihood
        ((0.75, 0.25), (0.25, 0.75))
        """
        p, q = (np.asarray(a, dtype=np.float64) for a in (prior, posteriors))
        if p.ndim != 1 or q.ndim != 2 or q.shape[1] != len(p):
            raise ParameterError(f"Finite: posteriors must have shape (symbols, {p.size}), not {q.shape}")
        if not (np.isfinite(p).all() and np.isfinite(q).all() and (p > 0).all()):
            raise ParameterError("Finite: prior and posteriors must be finite, and the prior above 0")
        if (q < 0).any() or not np.allclose(q.sum(axis=1), 1, rtol=0, atol=1e-6):
            raise ParameterError("Finite: each row posteriors[symbol] must be non-negative and sum to 1")
        weights, gap = nnls(q.T, p)
        if gap > 1e-2:
            raise ParameterError(
                "Finite: no frequencies of the symbols average these posteriors to this prior, so they contradict it"
            )
        ratio = q.T / p[:, None]
        if np.linalg.matrix_rank(q) == len(q) and gap < 1e-9 and (weights > 0).all():
            table = ratio * weights
            return cls(tuple(p), (table / table.sum(axis=1, keepdims=True)).tolist())
        return cls(tuple(p), ratio.tolist(), normalised=False)

    @property
    def support(self) -> Support:
        """Codes 0 … K−1."""
        return Support(0, len(self.likelihood[0]) - 1, integer=True)

    @cached_property
    def _log_prior(self) -> Array:
        return np.asarray(np.log(self.prior), dtype=np.float64)

    @cached_property
    def _log_table(self) -> Array:
        """Log p(symbol|θ) as ``[symbol, θ]``."""
        with np.errstate(divide="ignore"):
            return np.ascontiguousarray(np.log(np.array(self.likelihood, dtype=np.float64)).T)

    def summary(self, data: Any, /) -> Array:
        """Count each symbol along the last axis."""
        return count_codes(self.support.check(data, "symbol"), len(self._log_table))

    def from_summary(self, summary: Array, /) -> Array:
        """Map counts of symbols to log-likelihoods, where a count of 0 outweighs a log-likelihood of −∞."""
        counts = np.asarray(summary, dtype=np.float64)
        impossible = np.isneginf(self._log_table)
        t = np.einsum("...k,km->...m", counts, np.where(impossible, 0.0, self._log_table))
        excluded = np.einsum("...k,km->...m", counts, impossible.astype(np.float64)) > 0
        return np.where(excluded, -np.inf, t)

    def statistics(self, data: Any, /) -> Array:
        """Sum the log-likelihoods of the rows, one entry per state, along the last axis."""
        t = self.from_summary(self.summary(data))
        impossible = np.isneginf(t).all(axis=-1)
        if impossible.any():
            self._explain_impossible(np.asarray(data)[tuple(np.argwhere(impossible)[0])])
        return t

    def _explain_impossible(self, symbols: Array) -> None:
        alive = np.ones(len(self.prior), dtype=bool)
        for row, symbol in enumerate(symbols.astype(np.intp)):
            alive &= ~np.isneginf(self._log_table[symbol])
            if not alive.any():
                raise DataError(
                    f"row {row}: symbol {symbol} cannot occur together with the rows before it in any state"
                )

    def log_evidence(self, statistics: Array, /) -> Array:
        """Logsumexp of log p(θ) + t, exact for −∞."""
        x = self._log_prior + statistics
        peak = np.max(x, axis=-1, keepdims=True)
        peak = np.where(np.isneginf(peak), 0.0, peak)
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(np.exp(x - peak).sum(axis=-1)) + peak[..., 0])

    def rows(self, statistics: Array, /) -> Array:
        """Recover the number of rows from log-likelihoods, where only one number fits.

        Whole counts c with Σ_k c_k log p(k|θ) = t_θ are found by least squares if the table has full rank, or by
        trying all small datasets. Otherwise ask the provider: log-likelihoods alone do not tell.
        """
        t = np.asarray(statistics, dtype=np.float64)
        distinct, back = np.unique(t.reshape(-1, t.shape[-1]).round(10), axis=0, return_inverse=True)
        found = self._rows_by_least_squares(distinct)
        missing = np.isnan(found)
        found[missing] = self._rows_by_enumeration(distinct[missing])
        if np.isnan(found).any():
            raise MissingCapabilityError(
                "the numbers of rows cannot be recovered from these log-likelihoods: pass them beside the statistics"
            )
        return found[back.ravel()].reshape(t.shape[:-1])

    def _rows_by_least_squares(self, t: Array) -> Array:
        table = self._log_table
        if not np.isfinite(table).all() or np.linalg.matrix_rank(table) < len(table):
            return np.full(len(t), np.nan)
        counts = np.round(t @ np.linalg.pinv(table))
        fits = (counts >= 0).all(axis=-1) & np.isclose(counts @ table, t, rtol=1e-9, atol=1e-9).all(axis=-1)
        return np.where(fits, counts.sum(axis=-1), np.nan)

    def _rows_by_enumeration(self, t: Array) -> Array:
        found, todo = np.full(len(t), np.nan), np.arange(len(t))
        comparisons, rows = 0, 0
        while len(todo):
            comparisons += comb(rows + len(self._log_table) - 1, rows) * len(todo)
            if comparisons > _LARGEST_ENUMERATION:
                break
            candidates = self.from_summary(datasets_by_type(rows, len(self._log_table)))
            close = np.isclose(t[todo, None], candidates[None], rtol=1e-9, atol=1e-9)
            hit = np.any(np.all(close, axis=-1), axis=1)
            found[todo[hit]] = rows
            todo = todo[~hit]
            rows += 1
        return found

    @property
    def space(self) -> Mapping[str, object]:
        """Family and prior: providers may have different tables."""
        return {"family": "Finite", "prior": self.prior}

    def in_space_of(self, reference: Model, /) -> Model:
        """Return this model: log-likelihoods of any table add, if the states and their prior are the same."""
        return super().in_space_of(reference)

    def draw_parameters(self, rng: Generator, shape: tuple[int, ...] = (), /) -> Array:
        """Draw states from the prior, as numbers of shape ``(*shape, 1)``."""
        return rng.choice(len(self.prior), p=np.array(self.prior) / sum(self.prior), size=(*shape, 1)).astype(
            np.float64
        )

    def draw_data(self, rng: Generator, parameters: Array, rows: int, /) -> Array:
        """Draw rows of symbols for each state."""
        return draw_codes(rng, self._sampling_table[parameters[..., 0].astype(np.intp)], rows)

    def draw_statistics(self, rng: Generator, parameters: Array, design: Array, /) -> Array:
        """Draw log-likelihood vectors for each state and number of rows."""
        table = self._sampling_table[parameters[..., 0].astype(np.intp)]
        return self.from_summary(draw_counts(rng, table, design[..., 0]))

    @property
    def _sampling_table(self) -> Array:
        if not self.normalised:
            raise MissingCapabilityError(
                "this Finite model was made from posteriors that leave p(d|θ) open, so it cannot draw data; "
                "give the likelihood instead"
            )
        return np.array(self.likelihood)

    def expected_log_evidence(self, design: Array, /) -> Exact:
        """E[Λ] over all datasets of that many rows, by type."""
        rows, symbols = int(np.asarray(design)[..., 0].item()), len(self._log_table)
        if not self.normalised or comb(rows + symbols - 1, rows) > _LARGEST_ENUMERATION:
            return None
        types = datasets_by_type(rows, symbols)
        evidence = self.log_evidence(self.from_summary(types))
        possible = np.isfinite(evidence)
        log_orders = gammaln(rows + 1) - gammaln(types + 1).sum(axis=-1)
        return np.asarray((np.exp(log_orders + evidence)[possible] * evidence[possible]).sum())


def datasets_by_type(rows: int, symbols: int) -> Array:
    """All datasets of so many rows up to their order, as counts of shape ``(types, symbols)``.

    Examples
    --------
    >>> datasets_by_type(2, 2)
    array([[0., 2.],
           [1., 1.],
           [2., 0.]])
    """
    bars = np.array(list(combinations(range(rows + symbols - 1), symbols - 1)), dtype=np.intp)
    bars = bars.reshape(comb(rows + symbols - 1, symbols - 1), symbols - 1)
    ends = np.hstack([np.full((len(bars), 1), -1), bars, np.full((len(bars), 1), rows + symbols - 1)])
    return (np.diff(ends, axis=1) - 1).astype(np.float64)
