"""The probability of past days under a model, including the terms that cancel in log PMI."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from troth.core.contract import HasBaseMeasure, Indexes, Model
from troth.core.past import statistics_of
from troth.core.provider_models import one_each

if TYPE_CHECKING:
    from troth.core.contract import Array
    from troth.core.past import History
    from troth.core.reductions import Reduction


def log_marginal(model: Any, history: History, days: Indexes | None = None) -> Array:
    """Return log p of all reports of each day, without the terms that the models' ``score_measure`` names.

    ``model`` is one model, or one per provider. Reports of numbers count as rows if the history has squares, and
    otherwise as their means. A model without a base measure knows log p only up to terms that depend on its parameters;
    its days are NaN. ``days`` are indices of days, by default all.

    Examples
    --------
    >>> import troth
    >>> from troth.core.reductions import Counts
    >>> past = troth.history.from_summaries(Counts(2), [[[1, 1], [0, 1]]])
    >>> log_marginal(troth.models.Bernoulli(1, 1), past)  # ln of 1/12
    array([-2.48490665])
    """
    summaries = history.summaries if days is None else history.summaries[days]
    models = one_each(model, summaries.shape[1])
    if any(score_measure(member) is None for member in models):
        return np.full(len(summaries), np.nan)
    present = history.reduction.rows(summaries) > 0
    total = np.where(present[..., None], daily_statistics(model, summaries, history.reduction), 0.0).sum(axis=1)
    evidence = models[0].log_evidence(total) - models[0].log_evidence(np.zeros(total.shape[-1]))
    for provider, member in enumerate(models):
        base = member.base_measure(summaries[:, provider], history.reduction)
        evidence = evidence + np.where(present[:, provider], base, 0.0)
    return np.asarray(evidence)


def daily_statistics(model: Any, summaries: Array, reduction: Reduction) -> Array:
    """Return the statistics of summaries ``(day, provider, entry)`` under one model, or one per provider."""
    if isinstance(model, Model):
        return statistics_of(model, summaries, reduction)  # type: ignore[arg-type]
    return np.stack(
        [statistics_of(provider_model, summaries[:, i], reduction) for i, provider_model in enumerate(model)], axis=1
    )


def score_measure(model: Any) -> str | None:
    """Return the terms that a model's log scores leave out, or None if they are not comparable with others."""
    return model.score_measure if isinstance(model, HasBaseMeasure) else None
