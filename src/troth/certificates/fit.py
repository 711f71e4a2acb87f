"""Check whether the model fits the reports, before they are paid, because truthfulness assumes the model."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from troth.core.contract import Array, Generator, Model, Models, SamplesStatistics, WarnsAboutReports, design_of
from troth.core.errors import MissingCapabilityError, ParameterError
from troth.core.formats import html_table, probability, rounded_text
from troth.core.information import leave_one_out, log_pmi
from troth.core.provider_models import model_per_provider, shared_evidence

BOUND = (
    "if the model is wrong, no lie gains more than KL(p_true(peers|own) ‖ p_model(peers|own)) nats of score: "
    "a poor fit weakens the guarantee by as much as it misleads honest providers; troth.backtest tries lies on past "
    "days"
)


@dataclass(frozen=True)
class Fit:
    """A comparison of the reports' scores with scores simulated from the model.

    Attributes
    ----------
    p_value
        The probability, under the model, that the most extreme check is at least as extreme as observed.
    p_values
        The two-sided p-value of each check by itself.
    observed, expected
        The value of each check, and its mean under the model.
    level
        The significance level.
    simulations
        The number of simulations.
    warning
        Why the model's approximation is poor for these reports, even if they fit it; empty if it is good or unknown.
    """

    p_value: float
    p_values: dict[str, float]
    observed: dict[str, float]
    expected: dict[str, float]
    level: float
    simulations: int
    warning: str = field(default="", kw_only=True)

    @property
    def plausible(self) -> bool:
        """Whether the model fits: the p-value is not below the level."""
        return self.p_value >= self.level

    @property
    def verdict(self) -> str:
        """One of "fits", "doubtful" (below five times the level) and "does not fit" (below the level)."""
        return "does not fit" if not self.plausible else "doubtful" if self.p_value < 5 * self.level else "fits"

    @property
    def title(self) -> str:
        """The verdict and its p-value, in one line."""
        doubtful = ", and its fit is doubtful" if self.verdict == "doubtful" else ""
        verdict = "THE MODEL DOES NOT FIT these reports"
        if self.plausible:
            verdict = f"the model is plausible for these reports{doubtful}"
        return f"{verdict}: p = {probability(self.p_value, 4, self.level)} ({self.simulations:,} simulations)"

    def __str__(self) -> str:
        lines = [self.title]
        for name, p in self.p_values.items():
            numbers = f"{rounded_text(self.observed[name]):>10}, expected {rounded_text(self.expected[name]):>9}"
            lines.append(f"  {name:<38} {numbers}   p = {p:.4f}")
        return "\n".join([*lines, *([f"  {self.warning}"] if self.warning else []), f"  {BOUND}"])

    def _repr_html_(self) -> str:
        rows = [
            (name, rounded_text(self.observed[name]), rounded_text(self.expected[name]), f"{p:.4f}")
            for name, p in self.p_values.items()
        ]
        return html_table(self.title, ("check", "observed", "expected", "p"), rows, BOUND)


def check_fit(
    model: Models,
    statistics: Array,
    *,
    rows: Any = None,
    simulations: int = 2000,
    level: float = 0.01,
    rng: Generator | None = None,
) -> Fit:
    """Compare the scores of actual reports with scores of reports that the model draws with the same design.

    The checks are the mean of 1/PMI over matched pairs, which is 1 in expectation under the model, and the mean, the
    spread and the minimum of the scores. Each is compared with its simulated distribution. Simulations are compared
    with each other in the same way, so the p-value of all checks together is exact: under a correct model, it is below
    the level with probability at most that level.

    Parameters
    ----------
    statistics
        Reports, ``(provider, statistic)`` or ``(day, provider, statistic)``; days are pooled.
    rows
        Numbers of rows; needed only if the statistics do not determine them.

    Examples
    --------
    >>> import troth
    >>> model = troth.models.Bernoulli(1, 1)
    >>> check_fit(model, np.array([[30.0, 70.0], [33.0, 67.0], [28.0, 72.0]])).plausible
    True
    >>> check_fit(model, np.array([[90.0, 10.0], [10.0, 90.0], [50.0, 50.0]])).plausible
    False
    """
    if simulations < 2 / level:
        raise ParameterError(
            f"{simulations} simulations can hardly raise an alarm at level {level:g}: use at least {2 / level:.0f}"
        )
    rng = np.random.default_rng(20201206) if rng is None else rng
    t = np.asarray(statistics, dtype=np.float64)
    days = t if t.ndim > 2 else t[None]
    simulated = _checks(model, _simulate(model, days, rows, simulations, rng))
    actual = _checks(model, days[None])
    pooled = {name: np.concatenate([actual[name], simulated[name]]) for name in simulated}
    most_extreme = np.max([_distance(values) for values in pooled.values()], axis=0)
    return Fit(
        float((most_extreme >= most_extreme[0]).mean()),
        {name: _two_sided(values) for name, values in pooled.items()},
        {name: float(value[0]) for name, value in actual.items()},
        {name: float(sample.mean()) for name, sample in simulated.items()},
        level,
        simulations,
        warning=warning_about(model, t),
    )


def warning_about(model: Models, statistics: Array) -> str:
    """Return the warning of the first model that can give one about reports; empty if there is none."""
    first = next((member for member in model_per_provider(model) if isinstance(member, WarnsAboutReports)), None)
    return first.warning_about(statistics) if first is not None else ""


def why_unchecked(model: Model, width: int) -> str:
    """Return why the fit of a model cannot be checked on any reports; empty if it can.

    ``width`` is the length of its statistics.

    Examples
    --------
    >>> import troth
    >>> why_unchecked(troth.models.Bernoulli(1, 1), 2)
    ''
    """
    try:
        _simulate(model, np.zeros((1, 1, width)), np.zeros((1, 1)), 1, np.random.default_rng(0))
    except MissingCapabilityError as error:
        return str(error)
    return ""


def _distance(values: Array) -> Array:
    """Return distances from the median, in units of the distance of the 5% or 95% quantile on the same side."""
    low, middle, high = np.quantile(values, [0.05, 0.5, 0.95])
    unit = np.where(values < middle, middle - low, high - middle)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(values == middle, 0.0, np.abs(values - middle) / unit)


def _two_sided(values: Array) -> float:
    """Return the two-sided p-value of the first value: twice the fraction at least as extreme on its side."""
    return float(min(1.0, 2 * min((values >= values[0]).mean(), (values <= values[0]).mean())))


def _simulate(model: Any, days: Array, rows: Any, simulations: int, rng: Generator) -> Array:
    shared_evidence(model)
    models = model_per_provider(model, days.shape[-2])
    for member in models:
        if not isinstance(member, SamplesStatistics):
            raise MissingCapabilityError(
                f"{type(member).__name__} cannot draw fresh statistics, so its fit cannot be checked"
            )
    theta = models[0].draw_parameters(rng, (simulations, len(days)))
    out = np.empty((simulations, *days.shape))
    for provider, member in enumerate(models):
        sizes = None if rows is None else np.broadcast_to(rows, days.shape[:-1])[:, provider].astype(np.float64)
        design = design_of(member, days[:, provider], sizes)
        out[:, :, provider] = member.draw_statistics(rng, theta, design[None])
    return out


def _checks(model: Any, t: Array) -> dict[str, Array]:
    scores = np.maximum(log_pmi(model, t, leave_one_out(t)), -60.0).reshape(len(t), -1)
    return {
        "ln of the mean of 1/PMI": np.logaddexp.reduce(-scores, axis=1) - np.log(scores.shape[1]),
        "mean score": scores.mean(axis=1),
        "spread of scores": scores.std(axis=1),
        "least score": scores.min(axis=1),
    }
