"""Fit a normal prior, and each provider's offset and dispersion, to past days; offsets may follow a random walk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from troth.core.contract import Array
from troth.core.errors import DataError, ParameterError
from troth.core.formats import rounded_text
from troth.core.past import History
from troth.core.reductions import Moments
from troth.models.fitting.day_types.fit import MIN_DAYS, ProgressCallback, usable_providers
from troth.models.fitting.day_types.fitted import inverse
from troth.models.fitting.day_types.outcomes import root_error, spreads
from troth.models.fitting.fitted import BLUE, GREY, MAX_PROVIDERS, FittedProviders, name_rows
from troth.models.numerics.dispersed import real_weight

if TYPE_CHECKING:
    from troth.models.provider_normal import ProviderNormal

_LOG_VARIANCE_SD = 2.0  # prior standard deviation of providers' log variances
_MAX_ITERATIONS = 2000
_TOLERANCE = 1e-8
_STEP_SIZES = (1.0, 0.25, 0.05, 0.0)
_STEP_VARIANCES = np.concatenate([[0.0], 10.0 ** np.arange(-5.0, 0.6, 0.5)])  # relative to a residual's variance
_NOISE_SHARES = np.array([0.05, 0.2, 0.4, 0.6, 0.8, 1.0])  # of the dispersion's variance; the rest is the walk's


@dataclass(frozen=True)
class FittedOffsets(FittedProviders["ProviderNormal"]):
    """A prior, offsets and dispersions learnt from a history.

    An unknown provider has no offset, and a dispersion that includes the variance of offsets. ``errors`` contains the
    standard errors of the prior's ``"mean"`` and ``"scale"``, and for each provider under ``"providers"`` those of its
    ``"offset"`` and ``"dispersion"``.
    """

    errors: Mapping[str, Any]
    offsets: float  # standard deviation of providers' offsets
    trace: tuple[float, ...] = field(repr=False)  # the penalised log-likelihood after each EM step of the last run
    notes: tuple[str, ...] = ()

    def title_and_lines(self) -> tuple[str, list[str]]:
        """Return the prior of a day's mean, and each provider's offset and dispersion."""
        p = self.population
        title = (
            f"a day's mean is {rounded_text(p.mean)} ± {p.scale:.4g}; {len(self.models)} offsets ± {self.offsets:.4g}"
        )
        offsets = [
            f"{name}: offset {rounded_text(m.offset, sign=True)}, dispersion {m.dispersion:.4g}"
            for name, m in self.models.items()
        ]
        return title, [*offsets, *(f"note: {note}" for note in self.notes)]

    def draw(self, axes: Sequence[Any], history: History) -> None:
        """Draw the mean of each day, each provider's offset and the dispersions."""
        first, second, third = axes
        rows, centre = history.rows.sum(axis=1), history.reduction.centre[0]  # type: ignore[attr-defined]
        means = history.summaries[..., 1].sum(axis=1) / np.maximum(rows, 1) + centre
        first.plot(np.arange(len(means)), means, color=GREY, linewidth=0.8)
        first.axhline(self.population.mean, color=BLUE)
        first.set_title("mean of each day, and the prior's mean", loc="left")
        names = list(self.models)[:MAX_PROVIDERS]
        offsets = [self.models[name].offset for name in names]
        errors = [self.errors["providers"].get(name, {}).get("offset", 0.0) for name in names]
        second.errorbar(offsets, range(len(names)), xerr=errors, fmt="o", color=BLUE, capsize=2)
        second.axvline(0, color="black", linewidth=0.8)
        name_rows(second, names)
        second.set_title("each provider's offset", loc="left")
        self._draw_dispersions(third)


@dataclass(frozen=True)
class _State:
    mean: float
    scale: float
    offset: Array
    variance: Array  # τ² by provider
    centre: float  # mean of ln τ²
    shrinkage: float  # prior precision of the offsets


@dataclass(frozen=True)
class _Days:
    """Means, numbers of rows and within-day spreads of reports, and the smallest allowed τ²."""

    average: Array
    rows: Array
    spread: Array
    min_variance: float

    def weight(self, variance: Array) -> Array:
        return real_weight(self.rows, np.sqrt(variance), self.spread)


def fit_offsets(
    family: type[ProviderNormal],
    history: History,
    *,
    spread: float | None = None,
    ahead: int | None = None,
    progress: ProgressCallback | None = None,
) -> FittedOffsets:
    """Fit θ ~ N(mean, scale²) of a day, and providers' offsets and dispersions, by penalised marginal likelihood.

    The mean of n rows is N(θ + b, τ² + σ²/n). EM integrates θ out. Offsets b have a normal prior around 0, whose
    variance is that of the estimated offsets in excess of sampling noise, and ln τ² is shrunk towards its mean over
    providers. σ is ``spread``, by default estimated from sums of squares within days. With ``ahead``, offsets and the
    level of days follow random walks around this fit (`fit_random_walk`).
    """
    if ahead is not None and ahead < 1:
        raise ParameterError(f"ahead must be at least 1 day, not {ahead}")
    reduction = history.reduction
    if not isinstance(reduction, Moments) or reduction.columns != 1 or not reduction.linear:
        raise DataError(f"a normal fit needs the number of rows and the sum of one column, not {reduction!r}")
    if len(history.days) < MIN_DAYS:
        raise DataError(f"the history has {len(history.days)} days; a fit needs at least {MIN_DAYS}")
    own, notes = usable_providers(history, "real")
    part = history.select(providers=own)
    rows = part.rows
    average = part.summaries[..., 1] / np.maximum(rows, 1.0) + reduction.centre[0]
    present = rows > 0
    mean, total_variance = float(average[present].mean()), float(np.var(average[present]))
    data = _Days(np.where(present, average, 0.0), rows, spreads(part, spread), 1e-6 * total_variance)
    start = _State(
        mean=mean,
        scale=np.sqrt(0.5 * total_variance),
        offset=np.zeros(len(own)),
        variance=np.full(len(own), 0.2 * total_variance),
        centre=float(np.log(0.2 * total_variance)),
        shrinkage=1e-3 / total_variance,
    )
    state, _ = _maximise(data, start)
    progress = progress or (lambda share, step: None)  # noqa: ARG005
    progress(0.5, "normal, first start")
    sampling_variance = 1 / np.maximum(data.weight(state.variance).sum(axis=0), 1e-300)
    between = max(float(np.var(state.offset, ddof=1) - sampling_variance.mean()), 1e-4 * total_variance)
    state, trace = _maximise(data, replace(state, shrinkage=1 / between))
    progress(1.0, "normal")
    if len(trace) > _MAX_ITERATIONS:
        notes.append(f"the fit had not converged after {_MAX_ITERATIONS} steps")
    return _result(family, history, part, data, state, between, trace, notes, ahead)


def _posterior(data: _Days, state: _State) -> tuple[Array, Array, Array]:
    """Return the posterior mean and variance of each day's θ, and ln p(day) up to a constant."""
    w = data.weight(state.variance)
    residuals = data.average - state.offset - state.mean
    precision = state.scale**-2 + w.sum(axis=1)
    shift = (w * residuals).sum(axis=1) / precision
    logs = np.log(np.where(data.rows > 0, w, 1.0)).sum(axis=1)
    fit = shift**2 * precision - (w * residuals**2).sum(axis=1)
    evidence = 0.5 * (logs - np.log(precision) - 2 * np.log(state.scale) + fit)
    return state.mean + shift, 1 / precision, evidence


def _squared_deviations(variance: Array, centre: float) -> Array:
    """Return squared deviations of ln τ² from its centre, in prior standard deviations."""
    return np.asarray(((np.log(variance) - centre) / _LOG_VARIANCE_SD) ** 2)


def _objective(state: _State, evidence: Array) -> float:
    """Return the penalised log-likelihood."""
    penalties = state.shrinkage * state.offset**2 + _squared_deviations(state.variance, state.centre)
    return float(evidence.sum() + (-0.5 * penalties).sum())


def _maximise(data: _Days, state: _State) -> tuple[_State, list[float]]:
    mean, posterior_variance, evidence = _posterior(data, state)
    trace = [_objective(state, evidence)]
    for _ in range(_MAX_ITERATIONS):
        state = _step(data, state, mean, posterior_variance)
        mean, posterior_variance, evidence = _posterior(data, state)
        trace.append(_objective(state, evidence))
        if trace[-1] - trace[-2] < _TOLERANCE:
            break
    return state, trace


def _expected(data: _Days, variance: Array, squares: Array) -> Array:
    """Return each provider's expected log-likelihood given ``squares``, the expectations of (ȳ − b − θ)²."""
    w = data.weight(variance)
    return np.asarray(0.5 * (np.log(np.where(data.rows > 0, w, 1.0)) - w * squares).sum(axis=0))


def _step(data: _Days, state: _State, mean: Array, posterior_variance: Array) -> _State:
    """Maximise over prior and offsets; shorten the step of the variances until the objective does not fall."""
    w = data.weight(state.variance)
    offset = (w * (data.average - mean[:, None])).sum(axis=0) / (w.sum(axis=0) + state.shrinkage)
    squares = (data.average - mean[:, None] - offset) ** 2 + posterior_variance[:, None]
    slope = 0.5 * (squares * w - 1) * w * state.variance
    log = np.log(state.variance)
    gradient = slope.sum(axis=0) - (log - state.centre) / _LOG_VARIANCE_SD**2
    step = np.clip(gradient / ((slope**2).sum(axis=0) + _LOG_VARIANCE_SD**-2), -1.0, 1.0)

    def objective(variance: Array) -> Array:
        return np.asarray(_expected(data, variance, squares) - 0.5 * _squared_deviations(variance, state.centre))

    before = objective(state.variance)
    variance, pending = state.variance, np.ones(len(log), dtype=bool)
    for share in _STEP_SIZES:
        moved = np.maximum(np.exp(log + share * step), data.min_variance) if share else state.variance
        variance = np.where(pending, moved, variance)
        pending &= ~(objective(variance) >= before)
        if not pending.any():
            break
    average = float(mean.mean())
    shift = float(offset.mean())  # absorbed by the prior's mean: the likelihood stays, and the penalty falls
    return replace(
        state,
        mean=average + shift,
        scale=float(np.sqrt(np.mean(posterior_variance + (mean - average) ** 2))),
        offset=offset - shift,
        variance=variance,
        centre=float(np.log(variance).mean()),
    )


def _result(
    family: type[ProviderNormal],
    history: History,
    part: History,
    data: _Days,
    state: _State,
    between: float,
    trace: list[float],
    notes: list[str],
    ahead: int | None,
) -> FittedOffsets:
    mean, posterior_variance, evidence = _posterior(data, state)
    w = data.weight(state.variance)
    residuals = data.average - mean[:, None] - state.offset
    prior = np.stack(
        [
            (mean - state.mean) / state.scale**2,
            ((posterior_variance + (mean - state.mean) ** 2) / state.scale**2 - 1) / state.scale,
        ],
        axis=1,
    )
    squares = residuals**2 + posterior_variance[:, None]
    by_variance = 0.5 * (squares * w - 1) * w
    scores = np.concatenate([prior, w * residuals, by_variance], axis=1)
    count = len(part.providers)
    extra = np.concatenate([np.zeros(2), np.full(count, state.shrinkage), np.zeros(count)])
    errors = np.sqrt(np.maximum(np.diagonal(inverse(scores.T @ scores + np.diag(extra))), 0.0))
    gain = _expected(data, state.variance, squares) - _expected(data, np.full(count, data.min_variance), squares)
    offset, dispersion = state.offset, np.where(gain > 0, np.sqrt(state.variance), 0.0)
    if ahead is not None:
        residuals = np.where(data.rows > 0, data.average - mean[:, None], np.nan)
        noise = data.spread**2 / np.maximum(data.rows, 1) + posterior_variance[:, None]
        walk = fit_random_walk(residuals, dispersion**2, noise, ahead)
        offset, dispersion = walk.level, np.sqrt(walk.noise_share * dispersion**2 + walk.variance)
        day_walk = fit_random_walk(mean[:, None], np.array([state.scale**2]), posterior_variance[:, None], ahead)
        scale = float(np.sqrt(day_walk.noise_share * state.scale**2 + day_walk.variance[0]))
        state = replace(state, mean=float(day_walk.level[0]), scale=scale)
        notes.append(
            f"offsets drift by {np.sqrt(walk.step_variance):.2g} a day, days by {np.sqrt(day_walk.step_variance):.2g}; "
            f"dispersions and the prior are for the next {ahead} days"
        )
    own = {
        name: family(state.mean, state.scale, float(data.spread[i]), float(offset[i]), float(dispersion[i]))
        for i, name in enumerate(part.providers)
    }
    population_dispersion = float(np.sqrt(np.exp(state.centre) + between))
    population_spread = float(np.sqrt(np.mean(data.spread**2)))
    population = family(state.mean, state.scale, population_spread, 0.0, population_dispersion)
    standard_errors: dict[str, Any] = {"mean": float(errors[0]), "scale": float(errors[1]), "providers": {}}
    for i, name in enumerate(part.providers):
        dispersion_error = root_error(state.variance[i], errors[2 + count + i])
        standard_errors["providers"][name] = {"offset": float(errors[2 + i]), "dispersion": float(dispersion_error)}
    models = {name: own.get(name, population) for name in history.providers}
    diagnostics = (standard_errors, float(np.sqrt(between)), tuple(trace), tuple(notes))
    return FittedOffsets(models, population, float(evidence.mean()), *diagnostics)


class RandomWalk(NamedTuple):
    """The fit of a local level model to residuals."""

    level: Array  # after the last day
    variance: Array  # of the level, averaged over the days ahead
    noise_share: float  # c
    step_variance: float  # q


def fit_random_walk(residuals: Array, dispersion: Array, noise: Array, ahead: int) -> RandomWalk:
    """Fit the local level model r_t = b_t + e_t, b_t = b_{t−1} + u_t to each provider's residuals by Kalman filtering.

    e_t has variance c·τ² + σ²/n and u_t variance q. The share c and the variance q, relative to the mean square of
    residuals, maximise the likelihood over a grid and are common to all providers; q = 0 is a constant offset. The
    variance of an offset ``h`` days later is that after the last day plus hq, averaged over h = 1 … ``ahead``.
    ``residuals``, NaN where there is no report, and ``noise``, σ²/n, are ``(day, provider)``; ``dispersion`` is τ².
    """
    present = ~np.isnan(residuals)
    unit = float(np.nanmean(np.where(present, residuals - np.nanmean(residuals, axis=0), np.nan) ** 2))
    grids = np.meshgrid(_NOISE_SHARES, _STEP_VARIANCES * unit, indexing="ij")
    share, step = (grid.ravel()[:, None] for grid in grids)
    start = np.nanmean(residuals[: max(5, len(residuals) // 10)], axis=0)
    level = np.nan_to_num(np.broadcast_to(start, (len(share), residuals.shape[1])))
    variance = np.full(level.shape, unit)
    log_likelihood = np.zeros(len(share))
    for day, observed in enumerate(residuals):
        variance = variance + step
        total = variance + share * dispersion + np.where(present[day], noise[day], 1.0)
        innovation = np.where(present[day], observed - level, 0.0)
        log_likelihood -= 0.5 * np.where(present[day], np.log(total) + innovation**2 / total, 0.0).sum(axis=1)
        gain = np.where(present[day], variance / total, 0.0)
        level, variance = level + gain * innovation, variance * (1 - gain)
    best = int(np.argmax(log_likelihood))
    future_variance = variance[best] + float(step[best, 0]) * (ahead + 1) / 2
    return RandomWalk(level[best], future_variance, float(share[best, 0]), float(step[best, 0]))
