"""Rounds that refute a promise of a rule: a negative payment, or one above the cap."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from troth.core.contract import SamplesData
from troth.core.errors import TrothError
from troth.core.provider_models import one_each
from troth.mechanisms import Round
from troth.models.parameters import nested_tuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from troth.core.contract import Models
    from troth.mechanisms import Rule

_ROUNDS, _MAX_ROWS, _DRAWS = 256, 32, 4


def extreme_round(
    rule: Rule, model: Models, rows: Sequence[int], groups: Sequence[Any] | None = None, *, lowest: bool
) -> tuple[float, Any] | None:
    """Return the lowest share of two providers who disagree, or the highest of two who agree, with their reports.

    Only the largest provider and its largest peer report, in simulations of the model: with different θ for the lowest
    share, and with the same θ for the highest. Returns None if the model cannot draw data, or there are no peers.
    """
    models = one_each(model, len(rows))
    labels = list(range(len(rows)) if groups is None else groups)
    order = sorted(range(len(rows)), key=lambda provider: -rows[provider])
    other = next((provider for provider in order if labels[provider] != labels[order[0]]), None)
    if other is None or not all(isinstance(model, SamplesData) for model in models):
        return None
    rng = np.random.default_rng(20201206)
    days = (rule.days,) if rule.days > 1 else ()
    pair = [(models[provider], min(int(rows[provider]), _MAX_ROWS)) for provider in (order[0], other)]
    try:
        theta = [pair[0][0].draw_parameters(rng, (_ROUNDS, *days)) for _ in range(2)]
        t = np.stack(
            [
                model.statistics(model.draw_data(rng, theta[lowest * side], count))
                for side, (model, count) in enumerate(pair)
            ],
            axis=-2,
        )
        sizes = np.array([float(count) for _, count in pair])
        this_round = Round([model for model, _ in pair], t, rows=sizes, rng=rng, lenient=True)
        share = np.nan_to_num(rule.drawing(_DRAWS).evaluate(this_round).share)
    except TrothError:
        return None
    index = np.unravel_index(int((share if lowest else -share).argmin()), share.shape)
    return float(share[index]), nested_tuple(t[index[0]])
