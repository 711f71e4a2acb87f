"""Is the model plausible for these reports? Truthfulness holds under the model, so this is asked before paying."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from troth.core.contract import Array, Generator, Model, Models, SamplesStatistics, shared_evidence
from troth.core.errors import MissingCapabilityError, ParameterError
from troth.core.information import leave_one_out, log_pmi

BOUND = (
    "if the model is wrong, no lie gains more than KL(p_true(peers|own) ‖ p_model(peers|own)) nats of score: "
    "a poor fit weakens the guarantee by as much as it misleads the honest; troth.backtest tries lies on past days"
)


@dataclass(frozen=True)
class Fit:
    """How the reports' scores compare with scores simulated from the model.

    Attributes
    ----------
    p_values
        For each check, the probability of something at least as odd under the model.
    observed, expected
        The checks' values, and their means under the model.
    plausible
        Whether no check is odder than the level allows, taken together.
    """

    p_values: dict[str, float]
    observed: dict[str, float]
    expected: dict[str, float]
    level: float
    simulations: int

    @property
    def p_value(self) -> float:
        """The probability of a check at least as odd as the oddest, corrected for their number."""
        return min(1.0, min(self.p_values.values()) * len(self.p_values))

    @property
    def plausible(self) -> bool:
        """Whether the reports could come from the model."""
        return self.p_value >= self.level

    @property
    def verdict(self) -> str:
        """One of "fits", "doubtful" (below five times the level) and "does not fit" (below the level)."""
        return "does not fit" if not self.plausible else "doubtful" if self.p_value < 5 * self.level else "fits"

    def __str__(self) -> str:
        verdict = "the model is plausible for" if self.plausible else "THE MODEL DOES NOT FIT"
        lines = [f"{verdict} these reports ({self.simulations:,} simulations)"]
        for name, p in self.p_values.items():
            numbers = f"{self.observed[name]:>10.4g}, expected {self.expected[name]:>9.4g}"
            lines.append(f"  {name:<38} {numbers}   p = {p:.4f}")
        return "\n".join([*lines, f"  {BOUND}"])


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

    Under the model E[1/PMI] over matched pairs is 1. Beside that mean, the mean, the spread and the least of the scores
    are compared with their simulated distribution.

    Parameters
    ----------
    statistics
        Reports, ``(provider, statistic)`` or ``(day, provider, statistic)``; days are pooled.
    rows
        Numbers of rows, only where statistics do not say them.

    Examples
    --------
    >>> import troth
    >>> model = troth.models.Bernoulli(1, 1)
    >>> check_fit(model, np.array([[30.0, 70.0], [33.0, 67.0], [28.0, 72.0]])).plausible
    True
    >>> check_fit(model, np.array([[90.0, 10.0], [10.0, 90.0], [50.0, 50.0]])).plausible
    False
    """
    if simulations < 8 / level:
        raise ParameterError(
            f"{simulations} simulations can never raise an alarm at level {level:g}: take at least {8 / level:.0f}"
        )
    rng = np.random.default_rng(20201206) if rng is None else rng
    t = np.asarray(statistics, dtype=np.float64)
    days = t if t.ndim > 2 else t[None]
    drawn = _checks(model, _simulate(model, days, rows, simulations, rng))
    observed = {name: float(value[0]) for name, value in _checks(model, days[None]).items()}
    expected = {name: float(sample.mean()) for name, sample in drawn.items()}
    p_values = {}
    for name, value in observed.items():
        tail = min((drawn[name] >= value).sum(), (drawn[name] <= value).sum())
        p_values[name] = float(min(1.0, 2 * (1 + tail) / (1 + simulations)))
    return Fit(p_values, observed, expected, level, simulations)


def _simulate(model: Any, days: Array, rows: Any, simulations: int, rng: Generator) -> Array:
    shared_evidence(model)
    models: list[Any] = [model] * days.shape[-2] if isinstance(model, Model) else list(model)
    for one in models:
        if not isinstance(one, SamplesStatistics):
            raise MissingCapabilityError(
                f"{type(one).__name__} cannot draw fresh statistics, so its fit cannot be checked"
            )
    theta = models[0].draw_parameters(rng, (simulations, len(days)))
    out = np.empty((simulations, *days.shape))
    for provider, one in enumerate(models):
        try:
            design = one.design(days[:, provider])
        except MissingCapabilityError:
            if rows is None:
                raise
            design = one.plan(np.broadcast_to(np.asarray(rows, dtype=np.float64), days.shape[:-1])[:, provider])
        out[:, :, provider] = one.draw_statistics(rng, theta, design[None])
    return out


def _checks(model: Any, t: Array) -> dict[str, Array]:
    scores = np.maximum(log_pmi(model, t, leave_one_out(t)), -60.0).reshape(len(t), -1)
    return {
        "mean of 1/PMI": np.exp(-scores).mean(axis=1),
        "mean score": scores.mean(axis=1),
        "spread of scores": scores.std(axis=1),
        "least score": scores.min(axis=1),
    }
