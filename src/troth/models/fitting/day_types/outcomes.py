"""Likelihoods, EM steps and scores of each kind of outcome.

Axes are ``(day, provider, type)``, for labels also ``code``. Two penalties shrink a provider's means: towards the
population's, −shrinkage·KL(population ‖ provider) with ``shrinkage`` in rows, and by ``_ANCHOR`` rows towards the
overall mean, so that no probability reaches 0. The population's mean that maximises this is the geometric mean over
providers (for values, the arithmetic mean).

``steps`` returns new means and the derivative of each day's log-likelihood with respect to log dispersion.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from scipy.special import digamma, xlogy

from troth.core.contract import Array, Indexes
from troth.core.errors import DataError, ParameterError
from troth.core.past import History
from troth.core.reductions import Counts, Moments, Reduction
from troth.models.numerics.dispersed import (
    LABELS,
    count_log_likelihood,
    labels_log_likelihood,
    real_log_likelihood,
    real_weight,
)

_ANCHOR = 0.5
_MAX_LOG_STEP = 1.0
_UNEXPLAINED_OVER_SPREAD = 3.0  # residual standard deviation over spread, assumed if there is one row a day

Selection: TypeAlias = slice | Indexes
"""A selection of providers."""


class LabelData:
    """Binary and categorical rows; the working dispersion is γ = ρ/(1 − ρ)."""

    low, high, start = 1e-5, 20.0, 0.05

    def __init__(self, history: History) -> None:
        self.counts = history.summaries
        self.rows = history.rows
        total = self.counts.sum(axis=(0, 1))
        self.overall = (total + 0.5) / (total + 0.5).sum()

    @property
    def averages(self) -> Array:
        """Share of each code except the last, ``(day, provider, code)``."""
        return (self.counts / np.maximum(self.rows, 1.0)[..., None])[..., :-1]

    def log_likelihood(self, means: Array, dispersion: Array, providers: Selection = slice(None)) -> Array:
        """Return log-likelihoods of the selected providers' days under each type."""
        return labels_log_likelihood(self.counts[:, providers], means[providers], _rho(dispersion[providers]))

    def initial(self, weights: Array) -> Array:
        """Return providers' probabilities by type, given each day's probabilities of types."""
        totals = np.einsum("dk,dic->ikc", weights, self.counts) + 2.0 * self.overall
        return np.asarray(totals / totals.sum(axis=-1, keepdims=True))

    def _excess(self, means: Array, dispersion: Array) -> tuple[Array, Array]:
        """Return a(ψ(a + n_c) − ψ(a)) by code, with Dirichlet parameters a = m/γ, and the same for their sum."""
        a = means / dispersion[:, None, None]
        code_excess = a * (digamma(a + self.counts[:, :, None, :]) - digamma(a))
        s = 1 / dispersion
        return code_excess, (s * (digamma(s + self.rows) - digamma(s)))[..., None]

    def steps(
        self, means: Array, dispersion: Array, weights: Array, population: Array, shrinkage: float
    ) -> tuple[Array, Array]:
        """Maximise Minka's lower bound, tight at a₀: lnΓ(a + n) − lnΓ(a) ≥ a₀(ψ(a₀ + n) − ψ(a₀)) ln a + const."""
        code_excess, total_excess = self._excess(means, dispersion)
        totals = np.einsum("dk,dikc->ikc", weights, code_excess) + shrinkage * population + _ANCHOR * self.overall
        slope = np.einsum("dk,dik->di", weights, total_excess - code_excess.sum(axis=-1))
        return totals / totals.sum(axis=-1, keepdims=True), slope

    def penalty(self, means: Array, population: Array, shrinkage: float) -> Array:
        """Return each provider's log penalty on means that differ from the population's."""
        divergence = xlogy(population, population) - population * np.log(means)
        anchored = self.overall * np.log(self.overall / means)
        return np.asarray(-shrinkage * divergence.sum(axis=(1, 2)) - _ANCHOR * anchored.sum(axis=(1, 2)))

    def population(self, means: Array) -> Array:
        """Geometric mean over providers, by type."""
        geometric = np.exp(np.log(means).mean(axis=0))
        return np.asarray(geometric / geometric.sum(axis=-1, keepdims=True))

    def scores(self, means: Array, dispersion: Array) -> tuple[Array, Array, Array]:
        """Return derivatives by the free logits of the means and by γ, and the information of one row on each logit."""
        code_excess, total_excess = self._excess(means, dispersion)
        total = code_excess.sum(axis=-1)
        slope = (total_excess - total) / dispersion[None, :, None]
        free = means[..., :-1]
        return code_excess[..., :-1] - free * total[..., None], slope, free * (1 - free)

    def errors(self, means: Array, covariance: Array) -> Array:
        """Return standard errors of means from the covariance of free logits, ``(..., logit, logit)``."""
        return np.sqrt(softmax_variance(means, covariance))

    def unit_variance(self, population: Array) -> Array:
        """Variance of one row's code indicators."""
        return population * (1 - population)

    def sampling_variance(self, means: Array, dispersion: Array, weights: Array) -> Array:
        """Return the sampling variance of providers' means."""
        effective_rows = self.rows / (1 + np.maximum(self.rows - 1, 0.0) * _rho(dispersion))
        days = np.maximum(np.einsum("dk,di->ik", weights, effective_rows), 1e-9)
        return np.asarray(means * (1 - means) / days[..., None])

    def widened(self, dispersion: float, population: Array, between: float) -> float:
        """Dispersion of an unknown provider, whose means vary by ``between`` times a row's variance."""
        rho = dispersion / (1 + dispersion)
        return float(rho + (1 - rho) * between / (1 + between))

    def natural(self, dispersion: Array) -> Array:
        """Return the intra-class correlation ρ."""
        return _rho(dispersion)

    def natural_errors(self, dispersion: Array, errors: Array) -> Array:
        """Return standard errors of ρ."""
        return errors / (1 + dispersion) ** 2


class SumData:
    """Rows of numbers, summarised by their count and sum."""

    overall: Array

    def __init__(self, history: History) -> None:
        self.summaries = history.summaries[..., :2]
        self.rows, self.total = self.summaries[..., 0], self.summaries[..., 1]

    def initial(self, weights: Array) -> Array:
        """Return providers' means by type."""
        total, rows = (np.einsum("dk,di->ik", weights, x) for x in (self.total, self.rows))
        return np.asarray((total + 2.0 * self.overall) / (rows + 2.0))


class CountData(SumData):
    """Counts whose rates share a gamma effect; the dispersion is the effect's variance δ."""

    low, high, start = 1e-5, 100.0, 0.1

    def __init__(self, history: History) -> None:
        super().__init__(history)
        self.overall = np.asarray((self.total.sum() + 0.5) / (self.rows.sum() + 0.5))
        present = self.rows > 0
        between = float(np.var((self.total / np.maximum(self.rows, 1.0))[present])) if present.any() else 0.0
        self.row_weight = float(1 / (1 + between / self.overall))  # less than 1 because days vary beyond Poisson noise

    @property
    def averages(self) -> Array:
        """Square root of the mean count, which stabilises the variance."""
        return np.sqrt(self.total / np.maximum(self.rows, 1.0))[..., None]

    def log_likelihood(self, means: Array, dispersion: Array, providers: Selection = slice(None)) -> Array:
        """Return log-likelihoods of the selected providers' days under each type."""
        return count_log_likelihood(
            self.summaries[:, providers], means[providers], dispersion[providers], all_terms=True
        )

    def steps(
        self, means: Array, dispersion: Array, weights: Array, population: Array, shrinkage: float
    ) -> tuple[Array, Array]:
        """Take a Fisher scoring step in ln λ; return the slope in ln δ as well."""
        rate, slope = self._slopes(means, dispersion)
        shrinkage, anchor = shrinkage * self.row_weight, _ANCHOR * self.row_weight
        score = np.einsum("dk,dik->ik", weights, rate)
        gradient = score + shrinkage * (population - means) + anchor * (self.overall - means)
        n = self.rows[..., None] * means
        information = np.einsum("dk,dik->ik", weights, n / (1 + n * dispersion[:, None]))
        step = np.clip(gradient / (information + (shrinkage + anchor) * means), -_MAX_LOG_STEP, _MAX_LOG_STEP)
        return means * np.exp(step), np.einsum("dk,dik->di", weights, slope * dispersion[:, None])

    def _slopes(self, means: Array, dispersion: Array) -> tuple[Array, Array]:
        """Return the derivatives of each day's log-likelihood by ln λ and by δ."""
        delta, r = dispersion[:, None], 1 / dispersion
        n, total = self.rows[..., None] * means, self.total[..., None]
        inflation = 1 + n * delta
        shared = r * (self.total - r * (digamma(r + self.total) - digamma(r)))
        slope = np.log1p(n * delta) / delta**2 - (total + 1 / delta) * n / inflation + shared[..., None]
        return (total - n) / inflation, slope

    def penalty(self, means: Array, population: Array, shrinkage: float) -> Array:
        """Return each provider's log penalty on means that differ from the population's."""
        divergence = population * np.log(population / means) - population + means
        anchored = self.overall * np.log(self.overall / means) - self.overall + means
        return np.asarray(-self.row_weight * (shrinkage * divergence.sum(axis=1) + _ANCHOR * anchored.sum(axis=1)))

    def population(self, means: Array) -> Array:
        """Geometric mean over providers, by type."""
        return np.asarray(np.exp(np.log(means).mean(axis=0)))

    def scores(self, means: Array, dispersion: Array) -> tuple[Array, Array, Array]:
        """Return derivatives by ln λ and by δ, and the information of one row on ln λ."""
        rate, slope = self._slopes(means, dispersion)
        return rate[..., None], slope, self.row_weight * means[..., None]

    def errors(self, means: Array, covariance: Array) -> Array:
        """Return standard errors of rates."""
        return means * np.sqrt(covariance[..., 0, 0])

    def unit_variance(self, population: Array) -> Array:
        """Variance of one row, including that between days."""
        return population / self.row_weight

    def sampling_variance(self, means: Array, dispersion: Array, weights: Array) -> Array:
        """Return the sampling variance of providers' means."""
        n = self.rows[..., None]
        weight = np.einsum("dk,dik->ik", weights, n / (1 + n * means * dispersion[:, None]))
        return np.asarray(means / np.maximum(weight, 1e-9))

    def widened(self, dispersion: float, population: Array, between: float) -> float:
        """Dispersion of an unknown provider, whose rates vary by ``between`` times a row's variance."""
        rates = between * float((1 / population).mean()) / self.row_weight
        return float(dispersion + rates + dispersion * rates)

    def natural(self, dispersion: Array) -> Array:
        """Return the effect's variance δ."""
        return dispersion

    def natural_errors(self, dispersion: Array, errors: Array) -> Array:
        """Return standard errors of δ."""
        return errors


class ValueData(SumData):
    """Values with a normal effect; the working dispersion is its variance τ²."""

    def __init__(self, history: History, spread: Array) -> None:
        super().__init__(history)
        self.spread = spread
        self.overall = np.asarray(self.total.sum() / np.maximum(self.rows.sum(), 1.0))
        days = self.rows > 0
        between = float(np.var(self.averages[..., 0][days])) if days.any() else 1.0
        within = float(np.mean(spread**2))
        self.unit = max(within, between)  # variance of one row, or of days if that is larger
        scale = max(between, within / max(float(self.rows.max(initial=1.0)), 1.0))
        self.low, self.high, self.start = 1e-6 * scale, 1e3 * scale, 0.2 * scale

    @property
    def averages(self) -> Array:
        """Mean value by day and provider."""
        return (self.total / np.maximum(self.rows, 1.0))[..., None]

    def log_likelihood(self, means: Array, dispersion: Array, providers: Selection = slice(None)) -> Array:
        """Return log-likelihoods of the selected providers' days under each type."""
        return real_log_likelihood(
            self.summaries[:, providers],
            means[providers],
            np.sqrt(dispersion[providers]),
            self.spread[providers],
            all_terms=True,
        )

    def _weight(self, dispersion: Array) -> Array:
        return real_weight(self.rows, np.sqrt(dispersion), self.spread)

    def steps(
        self, means: Array, dispersion: Array, weights: Array, population: Array, shrinkage: float
    ) -> tuple[Array, Array]:
        """Return weighted means, and the slope in ln τ²."""
        w = self._weight(dispersion)
        total = np.einsum("dk,di->ik", weights, w * self.averages[..., 0])
        total += (shrinkage * population + _ANCHOR * self.overall) / self.unit
        information = np.einsum("dk,di->ik", weights, w) + (shrinkage + _ANCHOR) / self.unit
        squares = (self.averages - means) ** 2 * w[..., None]
        slope = np.einsum("dk,dik->di", weights, 0.5 * (squares - 1)) * w * dispersion
        return total / information, slope

    def penalty(self, means: Array, population: Array, shrinkage: float) -> Array:
        """Return each provider's log penalty on means that differ from the population's."""
        divergence = shrinkage * (means - population) ** 2 + _ANCHOR * (means - self.overall) ** 2
        return np.asarray(-0.5 / self.unit * divergence.sum(axis=1))

    def population(self, means: Array) -> Array:
        """Mean over providers, by type."""
        return np.asarray(means.mean(axis=0))

    def scores(self, means: Array, dispersion: Array) -> tuple[Array, Array, Array]:
        """Return derivatives by means and by τ², and the information of one row on a mean."""
        w = self._weight(dispersion)[..., None]
        residuals = self.averages - means
        slope = 0.5 * (residuals**2 * w - 1) * w
        return (w * residuals)[..., None], slope, np.full((*means.shape, 1), 1 / self.unit)

    def errors(self, means: Array, covariance: Array) -> Array:
        """Return standard errors of means."""
        return np.sqrt(covariance[..., 0, 0])

    def unit_variance(self, population: Array) -> Array:
        """Variance of one row, or of days if that is larger."""
        return np.full(population.shape, self.unit)

    def sampling_variance(self, means: Array, dispersion: Array, weights: Array) -> Array:
        """Return the sampling variance of providers' means."""
        precision = np.einsum("dk,di->ik", weights, self._weight(dispersion))
        return np.asarray(1 / np.maximum(precision, 1e-9 / self.unit))

    def widened(self, dispersion: float, population: Array, between: float) -> float:
        """Dispersion τ of an unknown provider, whose means vary by ``between`` times a row's variance."""
        return float(np.sqrt(dispersion + between * self.unit))

    def natural(self, dispersion: Array) -> Array:
        """Return the effect's standard deviation τ."""
        return np.sqrt(dispersion)

    def natural_errors(self, dispersion: Array, errors: Array) -> Array:
        """Return standard errors of τ."""
        return root_error(dispersion, errors)


OutcomeData = LabelData | CountData | ValueData


def outcome_of(reduction: Reduction) -> str:
    """Infer the kind of outcome from a reduction.

    Examples
    --------
    >>> outcome_of(Counts(2)), outcome_of(Counts(5)), outcome_of(Moments())
    ('binary', 'categorical', 'real')
    """
    if reduction.labels is not None:
        return "binary" if reduction.labels == 2 else "categorical"
    if reduction.columns != 1:
        raise ParameterError("day types are learnt from one column; fit the prior of a family for several")
    return "count" if reduction.support.integer else "real"


def outcome_data(history: History, outcome: str, spread: float | None) -> OutcomeData:
    """Prepare a history for the fit of one kind of outcome; raise `DataError` if its summaries do not suit."""
    reduction = history.reduction
    if outcome in LABELS:
        if not isinstance(reduction, Counts) or (outcome == "binary" and reduction.size != 2):
            expected = "zeros and ones" if outcome == "binary" else "codes"
            raise DataError(f"{outcome} outcomes need counts of {expected}, not {reduction!r}")
        return LabelData(history)
    if not isinstance(reduction, Moments) or reduction.columns != 1 or not reduction.linear:
        raise DataError(f"{outcome} outcomes need the number of rows and the sum of one column, not {reduction!r}")
    if outcome == "real":
        return ValueData(history, spreads(history, spread))
    if any(reduction.centre) or (history.summaries[..., 1] < 0).any():
        raise DataError("count outcomes need sums of counts, which are not negative and not centred")
    return CountData(history)


def _unexplained(n: Array, total: Array) -> float:
    """Return the residual standard deviation of values with provider and day effects, one row per report."""
    present = n > 0
    x = np.where(present, total, 0.0)
    day, provider = np.zeros((len(x), 1)), np.zeros((1, x.shape[1]))

    def mean(values: Array, axis: int) -> Array:
        total = np.where(present, values, 0.0).sum(axis=axis, keepdims=True)
        return np.asarray(total / np.maximum(present.sum(axis=axis, keepdims=True), 1))

    for _ in range(20):
        day = mean(x - provider, axis=1)
        provider = mean(x - day, axis=0)
    residuals = np.where(present, x - day - provider, 0.0)
    freedom = max(1, int(present.sum()) - sum(x.shape) + 1)
    spread = float(np.sqrt((residuals**2).sum() / freedom))
    if not spread > 0:
        raise DataError("day and provider explain all values, so their spread cannot be estimated: give spread=")
    return spread


def spreads(history: History, spread: float | None) -> Array:
    """Return each provider's standard deviation of values within a day, shrunk towards the pooled estimate.

    One row a day does not determine it. In that case a third of the residual standard deviation is used, and the rest
    counts as dispersion: for one row only their sum matters, and sending a row twice gains little.
    """
    if spread is not None:
        if not (np.isfinite(spread) and spread > 0):
            raise ParameterError(f"spread must be above 0, not {spread!r}")
        return np.full(len(history.providers), float(spread))
    if not (isinstance(history.reduction, Moments) and history.reduction.squares):
        raise DataError(
            "sums alone do not determine the spread of values within a day: give sums of squares "
            "(Moments with squares=True), or spread="
        )
    n, total, squares = (history.summaries[..., i] for i in range(3))
    within = np.maximum(squares - total * total / np.maximum(n, 1.0), 0.0).sum(axis=0)
    freedom = np.maximum(n - 1, 0.0).sum(axis=0)
    if not freedom.any():
        return np.full(len(history.providers), _unexplained(n, total) / _UNEXPLAINED_OVER_SPREAD)
    if not within.sum() > 0:
        raise DataError("values do not vary within any day: give their spread (spread=, --spread)")
    pooled = within.sum() / freedom.sum()
    return np.asarray(np.sqrt((within + 3.0 * pooled) / (freedom + 3.0)))


def softmax_variance(probabilities: Array, covariance: Array) -> Array:
    """Return the variances of probabilities given the covariance of all logits except the last (delta method)."""
    free = probabilities[..., :-1]
    jacobian = -probabilities[..., :, None] * free[..., None, :]
    jacobian[..., :-1, :] += free[..., :, None] * np.eye(free.shape[-1])
    return np.asarray(np.einsum("...ca,...ab,...cb->...c", jacobian, covariance, jacobian))


def root_error(variance: Array, error: Array) -> Array:
    """Return √(variance + error) − √variance, a standard error of √variance that is finite at 0."""
    return np.sqrt(variance + error) - np.sqrt(variance)


def _rho(gamma: Array) -> Array:
    return np.asarray(gamma / (1 + gamma))
