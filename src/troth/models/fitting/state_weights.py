"""Weights of finitely many states whose likelihood is known, by expectation and maximisation."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from troth.core.errors import DataError
from troth.core.past import History, statistics_of
from troth.core.support import Array
from troth.models.fitting.fitted import FittedPrior
from troth.models.fitting.marginal_likelihood import LEAST_DAYS

if TYPE_CHECKING:
    from troth.models.finite_states import FiniteStates


def fit_state_weights(make: Callable[[Array], FiniteStates], states: int, history: History) -> FittedPrior:
    """Fit the weights of known states, of which ``make`` makes a model.

    The likelihood of a history is concave in them.
    """
    weights = np.full(states, 1 / states)
    model = make(weights)
    present = np.asarray(history.present, dtype=bool).any(axis=1)
    if present.sum() < LEAST_DAYS:
        raise DataError(f"{int(present.sum())} days with reports: weights are fitted to at least {LEAST_DAYS}")
    t = statistics_of(model, np.asarray(history.summaries)[present], history.reduction).sum(axis=-2)[:, :states]
    peak = t.max(axis=-1, keepdims=True)
    if np.isneginf(peak).any():
        day = int(np.flatnonzero(present)[int(np.argmax(np.isneginf(peak[:, 0])))])
        raise DataError(f"day {history.days[day]}: no state could have produced these reports")
    chance = np.exp(t - peak)
    previous = -np.inf
    for _ in range(100_000):
        joint = chance * weights
        total = joint.sum(axis=1)
        reached = float(np.log(total).sum())
        weights = np.maximum((joint / total[:, None]).mean(axis=0), 1e-12)
        weights /= weights.sum()
        if reached - previous < 1e-10 * len(t):
            break
        previous = reached
    information = (chance / total[:, None]).T @ (chance / total[:, None])
    across = np.linalg.svd(np.ones((1, states)))[2][1:]  # directions in which weights still sum to 1
    covariance = across.T @ np.linalg.pinv(across @ information @ across.T) @ across
    vanished = tuple(f"prior[{k}]" for k in np.flatnonzero(weights < 1e-9))
    return FittedPrior(
        make(weights),
        float((np.log(total) + peak[:, 0]).sum()),
        {"prior": np.sqrt(np.maximum(np.diagonal(covariance), 0.0))},
        int(present.sum()),
        vanished,
    )
