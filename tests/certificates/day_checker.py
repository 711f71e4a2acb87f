"""Check on drawn rounds that every family can be paid as certified, under every rule.

This includes families whose data cannot be listed. Under rules that compare days, peers with different features must
not distinguish the days.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import troth
from registry import EXAMPLES, VARYING, generator
from troth import models

PROVIDERS, ROWS, FEATURES = 3, 4, 2
RATES = np.array([0.2, 0.5, 0.8])
SLOPES = np.array([-2.0, 2.0])


def _of_labels(x: Any) -> Any:
    return np.sum(x) * np.log(RATES) + np.sum(1 - np.asarray(x)) * np.log1p(-RATES)


def _of_answers(data: Any) -> Any:
    z, y = (np.asarray(part, dtype=float) for part in data)
    margin = SLOPES[:, None] * z.sum(axis=-1).reshape(1, -1)
    return (y * margin - np.logaddexp(0, margin)).sum(axis=-1)


def _answer(rng: Any, candidate: int, z: Any) -> Any:
    return (rng.random(len(z)) < 1 / (1 + np.exp(-SLOPES[candidate] * np.asarray(z).sum(axis=-1)))) * 1.0


PAIRS = models.Candidates([0.5, 0.5], _of_answers, _answer, pairs=True)
_AT_HAND = generator(8).normal(size=(ROWS, FEATURES))
FAMILIES: dict[str, Any] = {
    **EXAMPLES,
    **VARYING,
    "logistic": models.LogisticRegression([0.3, -0.2], 1.0),
    "softmax": models.SoftmaxRegression([0.0] * 4, 1.0, classes=2),
    "poisson regression": models.PoissonRegression([0.3, -0.2], 1.0),
    "logistic, varying": models.VaryingLogisticRegression([0.3, -0.2], 1.0),
    "softmax, varying": models.VaryingSoftmaxRegression([0.0] * 4, 1.0, classes=2),
    "poisson regression, varying": models.VaryingPoissonRegression([0.3, -0.2], 1.0),
    "logistic candidates": models.LogisticCandidates([[0.5, -1.0], [1.5, 0.0], [-0.5, 1.0]]),
    "softmax candidates": models.SoftmaxCandidates([[0, 1, 0, -1, 0, 0], [1, 0, 0, 0, 0, 1.0]], classes=3),
    "poisson candidates": models.PoissonCandidates([[0.2, -0.3], [-0.4, 0.5]]),
    "linear candidates": models.LinearCandidates([[0.5, -1.0], [1.5, 0.0]], noise=[0.7, 1.4]),
    "reported candidates": models.ReportedCandidates(
        means=[[-0.5, -1.3], [-1.3, -0.5]], covariances=[[0.3, -0.3, 0.3], [0.3, -0.3, 0.3]]
    ),
    "candidates": models.Candidates(
        [0.2, 0.5, 0.3], _of_labels, lambda rng, k, rows: (rng.random(rows) < RATES[k]) * 1.0
    ),
    "candidates with features": PAIRS,
    "candidates, features at hand": PAIRS.with_features(_AT_HAND),
}


def draw_days(model: Any, days: int, features: Any) -> Any:
    """Draw statistics ``(day, provider, statistic)`` with the same number of rows and each day's features."""
    rng, pairs = generator(9), getattr(getattr(model, "model", model), "explains_target", False)
    t = []
    for day in range(days):
        theta = model.draw_parameters(rng, ())
        rows = [features(day, provider) if pairs else ROWS for provider in range(PROVIDERS)]
        t.append([model.statistics(model.draw_data(rng, theta, size)) for size in rows])
    return np.array(t)


def wrongly_certified(model: Any, rule: troth.Rule) -> list[str]:
    """Return the names of incorrect claims about a model under a rule.

    "payable": the certificate contradicts whether a drawn round can be paid. "truthful": claimed as proved, although a
    made-up report is not paid like an empty one when all of its peers have different features on the next day.
    """
    certificate = troth.certify(model, [ROWS] * PROVIDERS, rule)
    refused = [claim.name for claim in certificate.claims] == ["payable"]
    z = generator(7).normal(size=(PROVIDERS, ROWS, FEATURES))
    wrong = ["payable"] if refused == _is_paid(model, rule, draw_days(model, rule.days, lambda _, i: z[i])) else []
    pairs = getattr(model, "explains_target", False)
    if refused or rule.days == 1 or not pairs or certificate["truthful"].verdict != "proved":
        return wrong
    t = draw_days(model, rule.days, lambda day, i: z[i] * (0.1 if i and day % 2 else 1.0))
    t[:, 0] = t[0, 0]
    try:
        paid = _evaluated(model, rule, t)
    except troth.UnequalSizesError:
        return wrong
    empty = rule.empty_share(model, t, rows=np.full(t.shape[:-1], float(ROWS)), rng=np.random.default_rng(1))
    return wrong + ["truthful"] * (not np.isclose(paid.share[0, 0], empty[0, 0], atol=1e-9))


def _is_paid(model: Any, rule: troth.Rule, t: Any) -> bool:
    try:
        _evaluated(model, rule, t)
    except (troth.MissingCapabilityError, troth.UnboundedRangeError, troth.UnequalSizesError):
        return False
    return True


def _evaluated(model: Any, rule: troth.Rule, t: Any) -> troth.Breakdown:
    rule = rule.prepared(model, [ROWS] * PROVIDERS)
    reports = t if rule.days > 1 else t[0]
    rows = np.where(reports.any(axis=-1), float(ROWS), 0.0)
    return rule.evaluate(troth.Round(model, reports, rows=rows, rng=np.random.default_rng(1)))
