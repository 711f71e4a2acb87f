"""Certificates of tasks agree with enumeration of true and reported labels, with ranges and public guesses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import troth
from registry import SOAK, generator
from troth import models
from troth.campaigns.task_checks import audit_task_campaign, certify_task_campaign
from troth.campaigns.task_data import read_task_reports
from troth.campaigns.tasks import settle_tasks
from troth.certificates.tasks import certify_tasks, expected_shares
from troth.mechanisms.tasks import Tasks

BLURRED = models.Finite([0.5, 0.5], [[0.08, 0.01, 0.91], [0.12, 0.87, 0.01]])


def two_workers(model: Any, known: Any = None) -> Tasks:
    """Return two tasks, each with answers of two workers."""
    answers = np.eye(model.reduction.labels)[[0, 1, 1, 0]]
    worker = np.array([0, 1, 0, 1])
    return Tasks(np.array([0, 0, 1, 1]), worker, answers, (model,), np.array([0, 0]), np.array([0, 1]), known)


def most_gained(rule: troth.Rule, model: Any) -> float:
    expected = expected_shares(rule, model, [model])
    return float((expected - np.diag(expected)[:, None]).max())


def test_a_clipped_range_is_proved_up_to_what_clipping_costs() -> None:
    """The claim was that no answer gains, but a wrong label gains a quarter of the price."""
    rule = troth.OneTime(troth.clipped_range(BLURRED, [1, 1], low=-0.3))
    certificate = certify_tasks(two_workers(BLURRED), rule)
    gain, margin = most_gained(rule, BLURRED), certificate["truthful"].margin
    assert margin is not None
    assert 0.2 < gain <= margin
    assert certificate["uninformed answers earn at most the empty share"].verdict == "undecided"


def test_claims_of_random_tasks_are_what_enumeration_finds() -> None:
    rng = generator(31)
    for _ in range(40 if SOAK else 3):
        model = models.Finite(rng.dirichlet([2.0, 2.0]), rng.dirichlet(np.ones(3), size=2))
        exact = troth.exact_range(model, [1, 1])
        for rule in (
            troth.OneTime(exact),
            troth.OneTime(troth.clipped_range(model, [1, 1], low=-float(rng.uniform(0.05, 2)))),
            troth.LineUp(rivals=int(rng.integers(1, 4)), decoys=float("inf"), strict=0.3),
            troth.Brier(),
        ):
            certificate = certify_tasks(two_workers(model), rule)
            truthful, cost = certificate["truthful"], certificate["wrong labels cost"]
            assert truthful.verdict == "proved"
            assert most_gained(rule, model) <= (truthful.margin or 0.0) + 1e-12
            expected = expected_shares(rule, model, [model])
            losses = (np.diag(expected)[:, None] - expected)[~np.eye(3, dtype=bool)]
            assert cost.margin == pytest.approx(losses.min(), abs=1e-12)
            assert (cost.verdict == "proved") == (losses.min() > 1e-9)
    short = certify_tasks(two_workers(model), troth.OneTime(troth.ScoreRange(exact.low / 2, exact.high + 1)))
    assert short["truthful"].verdict == "undecided"


def test_whoever_works_alone_is_paid_in_full_under_a_forecast_of_nobody() -> None:
    claim = certify_tasks(two_workers(BLURRED), troth.Brier())["uninformed answers earn at most the empty share"]
    assert (claim.verdict, claim.margin, claim.witness) == ("refuted", 1.0, "a task with one answer")
    for rule in (troth.LineUp(decoys=float("inf")), troth.SyntheticPeers(draws=2)):
        assert (
            certify_tasks(two_workers(BLURRED), rule)["uninformed answers earn at most the empty share"].verdict
            == "proved"
        )


def test_wrong_labels_cost_what_they_cost_beside_a_public_guess() -> None:
    """If the class is almost known, a wrong label costs less than if it is unknown."""
    model, rule = models.Finite([0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]]), troth.LineUp(decoys=float("inf"))
    guess = np.log([[0.98, 0.02]] * 2)
    known = certify_tasks(two_workers(model, guess), rule)["wrong labels cost"].margin
    posterior: Any = troth.posterior(model, guess[0])
    expected = expected_shares(rule, posterior, [posterior])
    losses = (np.diag(expected)[:, None] - expected)[~np.eye(2, dtype=bool)]
    assert known == pytest.approx(losses.min(), abs=1e-12)
    unknown = certify_tasks(two_workers(model), rule)["wrong labels cost"].margin
    assert unknown is not None
    assert known is not None
    assert known < unknown / 2
    ranged = certify_tasks(two_workers(model, guess), troth.OneTime(troth.ScoreRange(-9, 9)))
    assert ranged["truthful"].verdict == "undecided"


def test_a_range_holds_for_everybodys_likelihood() -> None:
    """The range was computed for the population's likelihood, and a good worker's score stopped the round."""
    good = {"prior": [0.5, 0.5], "likelihood": [[0.99, 0.01], [0.01, 0.99]]}
    plain: dict[str, Any] = {
        "campaign": {"name": "x", "price": "0.05"},
        "model": {
            "family": "Finite",
            "columns": ["label"],
            "prior": [0.5, 0.5],
            "likelihood": [[0.9, 0.1], [0.2, 0.8]],
            "providers": {"ann": good, "bob": good},
        },
        "mechanism": {"rule": "OneTime", "range": "exact"},
        "limits": {"rows": 1},
        "data": {"provider": "worker", "task": "item"},
    }
    rng = generator(32)
    kind = np.repeat(rng.integers(0, 2, 20), 3)
    table = {"item": np.repeat(np.arange(20), 3), "worker": ["ann", "bob", "cy"] * 20, "label": kind}
    campaign = troth.Campaign.from_dict(plain)
    assert certify_task_campaign(campaign, table)["truthful"].verdict == "proved"
    assert not audit_task_campaign(campaign, table, simulations=200).lies.gaining()
    assert settle_tasks(campaign, read_task_reports(campaign, table), None, None).share.shape == (60,)
    with pytest.raises(troth.CampaignError, match="cannot settle tasks with public guesses"):
        troth.Campaign.from_dict({**plain, "public": {"tasks": {"1": [1, 0]}}})
