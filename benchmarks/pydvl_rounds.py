"""Rounds for the comparison with pyDVL: providers' rows, a test set, and what liars report instead."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import xlogy

import troth
from benchmarks.pydvl_values import Report, Task
from troth import strategies

ROWS, TEST_ROWS, FEATURES, NOISE = 40, 200, 5, 2.0
LIES = ("fabricate", "corrupt 20%", "report typical", "replicate", "withhold half", "copy a peer", "send nothing")


def _rate() -> Any:
    from benchmarks.label_rate import LabelRate

    return LabelRate()


def _ridge() -> Any:
    from sklearn.linear_model import Ridge

    return Ridge(alpha=NOISE**2, fit_intercept=False)  # the posterior mean of the model below


@dataclass(frozen=True)
class Setting:
    """A model for Troth, and the same problem as a task for pyDVL."""

    name: str
    model: Any
    task: Task


LABELS = Setting(
    "yes-or-no labels",
    troth.models.Bernoulli(1, 1),
    Task(
        _rate,
        lambda p, y: float(np.mean(xlogy(y, p) + xlogy(1 - y, 1 - p))),
        lambda p, y: (y == (p > 0.5)).astype(np.float64),
        -float(np.log(2)),
    ),
)
REGRESSION = Setting(
    "regression with 5 features",
    troth.models.LinearRegression(np.zeros(FEATURES), np.eye(FEATURES), NOISE),
    Task(
        _ridge,
        lambda p, y: float(-np.mean((y - p) ** 2) / (2 * NOISE**2)),
        lambda p, y: np.exp(-((y - p) ** 2) / (2 * NOISE**2)),
        -(FEATURES + NOISE**2) / (2 * NOISE**2),
    ),
)
SETTINGS = (LABELS, REGRESSION)


@dataclass(frozen=True)
class World:
    """Honest data on two days, ``rows[day][provider]``, a test set of the first day, and what each liar would send."""

    rows: list[list[Any]]
    test: Any
    lies: list[dict[tuple[int, str], Any]] = field(repr=False)


def plays(providers: int) -> list[dict[int, str]]:
    """Return who lies and how: one provider at a time; of 1,000, four with each lie together, to save valuations."""
    if providers < 1000:
        return [{0: lie} for lie in LIES]
    return [{4 * k + j: lie for k, lie in enumerate(LIES) for j in range(4)}]


def draw(setting: Setting, providers: int, seed: int) -> World:
    """Draw one round: θ for two days from the prior, all rows, the test set and every lie."""
    rng, model = np.random.default_rng((seed, providers)), setting.model
    rows, lies = [], []
    test: Any = None
    for day in range(2):
        theta = model.draw_parameters(rng, ())
        drawn = model.draw_data(rng, np.broadcast_to(theta, (providers, *theta.shape)), ROWS)
        rows.append([_provider(drawn, i) for i in range(providers)])
        if day == 0:
            test = model.draw_data(rng, theta, TEST_ROWS)
        lies.append(
            {(i, lie): _lie(rng, model, rows[day], i, lie) for play in plays(providers) for i, lie in play.items()}
        )
    return World(rows, test, lies)


def reported(world: World, play: dict[int, str], day: int = 0) -> list[Any]:
    """Return all reported rows of a day, given who lies."""
    rows = list(world.rows[day])
    for i, lie in play.items():
        rows[i] = world.lies[day][i, lie]
    return rows


def statistics(setting: Setting, world: World) -> Iterator[Any]:
    """Yield the statistics of the truth and of each play, ``(day, provider, statistic)``."""
    model = setting.model
    truth = np.stack([model.statistics(together(rows)) for rows in world.rows])
    yield truth
    for play in plays(len(world.rows[0])):
        t = truth.copy()
        for day, lies in enumerate(world.lies):
            for i, lie in play.items():
                t[day, i] = model.statistics(lies[i, lie])
        yield t


def as_reports(data: list[Any]) -> list[Report]:
    """Return rows as pyDVL takes them: features and answers; labels get a constant feature."""
    return [rows if isinstance(rows, tuple) else (np.zeros((len(rows), 1)), rows) for rows in data]


def together(rows: list[Any]) -> Any:
    """Stack all rows in one array, or in one of features and one of answers."""
    return tuple(np.stack(part) for part in zip(*rows, strict=True)) if isinstance(rows[0], tuple) else np.stack(rows)


def _lie(rng: Any, model: Any, rows: list[Any], liar: int, lie: str) -> Any:
    own = rows[liar]
    if lie == "copy a peer":
        return rows[(liar + len(rows) // 2) % len(rows)]
    if lie == "corrupt 20%":
        corrupt = np.arange(ROWS) < ROWS // 5
        return (
            (own[0], np.where(corrupt, -own[1], own[1])) if isinstance(own, tuple) else np.where(corrupt, 1 - own, own)
        )
    strategy = {
        "fabricate": strategies.FabricateFromPrior(),
        "report typical": strategies.ReportTypical(),
        "replicate": strategies.Replicate(2),
        "withhold half": strategies.Withhold(0.5),
        "send nothing": strategies.Nothing(),
    }[lie]
    return strategy.change_rows(rng, model, own)


def _provider(data: Any, i: int) -> Any:
    return (data[0][i], data[1][i]) if isinstance(data, tuple) else data[i]
