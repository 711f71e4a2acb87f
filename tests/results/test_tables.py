"""Payments as text: what the numbers of a line are."""

from __future__ import annotations

import pytest

import troth
from troth.results.tables import totals_table


def test_a_mean_share_is_over_the_days_on_which_its_provider_reported() -> None:
    days = {"Ash": (1, 2, 3), "Birch": (1, 2, 3), "Elm": (2,)}
    rows = [(name, day, k % 2) for name, reported in days.items() for day in reported for k in range(4)]
    who, day, x = zip(*rows, strict=True)
    model, rule = troth.models.Bernoulli(1, 1), troth.SyntheticPeers(draws=4)
    result = troth.pay({"who": who, "day": day, "x": x}, model, rule, provider="who", day="day", budget="900", seed=1)
    table = totals_table(result)
    (of_elm,) = [
        payment.share for payments in result.rounds for payment in payments.payments if payment.provider == "Elm"
    ]
    assert [line[:2] for line in table.lines] == [["Ash", "3"], ["Birch", "3"], ["Elm", "1"]]
    assert table.shares[2] == pytest.approx(of_elm)
