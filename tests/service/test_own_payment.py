"""A provider computes its share and its cents from what it is shown, and a payment that does not follow is found."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

import troth
from service.world import TERMS
from troth.campaigns.records.paid_round import PaymentError, check_payment
from troth.campaigns.settle import Payment, settle
from troth.campaigns.terms import Campaign
from troth.core.errors import DataError
from troth.data import Report
from troth.mechanisms.breakdown import Figures
from troth.mechanisms.disclosure import disclosed
from troth.service.campaigns import terms_for
from troth.service.payment_views import payment_view, shown_to_provider

NAMES = ("Ash", "Birch", "Elm")
COUNTS = {"Ash": (9, 2), "Birch": (8, 3), "Elm": (2, 9)}
EXACT: dict[str, dict[str, Any]] = {
    "default": {},
    "few decoys": {"decoys": 19, "rivals": 2},
    "bonded": {"decoys": 99, "bonded": True},
    "by lot, without ties": {"decoys": 9, "ties": "lot"},
}
BETWEEN: dict[str, dict[str, Any]] = {
    "strict": {"decoys": 99, "strict": 0.1},
    "panels": {"decoys": 99, "panels": 2},
    "all": {"decoys": "all"},
    "synthetic": {"rule": "SyntheticPeers", "draws": 4},
    "bonded synthetic": {"rule": "SyntheticPeers", "draws": 4, "bonded": True},
    "brier": {"rule": "Brier"},
}


@lru_cache(maxsize=32)
def terms_of(name: str) -> Campaign:
    plain = {
        **TERMS,
        "campaign": {**TERMS["campaign"], "budget": "1000.01"},
        "mechanism": {"rule": "LineUp", **{**EXACT, **BETWEEN}[name]},
        "data": {"providers": list(NAMES)},
        "weights": {"Ash": 0.5, "Birch": 0.3, "Elm": 0.2},
    }
    if name in ("default", "panels"):
        del plain["weights"]
    return Campaign.from_dict(plain)


def payments_of(name: str) -> list[Payment]:
    terms = terms_of(name)
    reports = [Report(who, None, sum(counts), np.array(counts, dtype=float)) for who, counts in COUNTS.items()]
    return settle(terms, reports, seed="sha256:" + "ab" * 32)


def view_of(name: str, payment: Payment) -> tuple[Campaign, dict[str, Any]]:
    """Return the terms and the payment as the service shows them to the provider, by way of JSON."""
    terms = terms_of(name)
    view = payment_view(terms, "0" * 16, shown_to_provider(terms, payment), id="0" * 16, state="pending")
    return Campaign.from_dict(terms_for(terms, payment.provider)), view.model_dump(mode="json")


def cents(text: str, more: int) -> str:
    minor = round(float(text) * 100) + more
    return f"{minor / 100:.2f}"


@pytest.mark.parametrize("name", [*EXACT, *BETWEEN])
def test_a_payment_as_it_was_made_is_right(name: str) -> None:
    for payment in payments_of(name):
        checked = check_payment(*view_of(name, payment))
        assert any("what the rule makes of all reports" in line for line in checked.believed)
        assert any("because these would reveal" in line for line in checked.believed) == (name in BETWEEN)


@pytest.mark.parametrize("name", EXACT)
def test_one_cent_more_or_less_is_found(name: str) -> None:
    for payment in payments_of(name):
        terms, view = view_of(name, payment)
        for more in (-1, 1):
            with pytest.raises(PaymentError, match=f"but the share and the cap give {view['payment']}") as wrong:
                check_payment(terms, {**view, "payment": cents(view["payment"], more)})
            assert wrong.value.field == "payment"


@pytest.mark.parametrize("name", EXACT)
def test_another_share_with_cents_that_go_with_it_is_found(name: str) -> None:
    for payment in payments_of(name):
        terms, view = view_of(name, payment)
        share = payment.share - 0.01 if payment.share > 0.5 else payment.share + 0.01
        paid = f"{int(share * Fraction(view['exact_cap'])) / 100:.2f}"
        with pytest.raises(PaymentError, match="the numbers shown give") as wrong:
            check_payment(terms, {**view, "share": round(share, 4), "payment": paid})
        assert wrong.value.field == "share"


@pytest.mark.parametrize("name", EXACT)
def test_another_place_or_another_option_is_found(name: str) -> None:
    payment = payments_of(name)[0]  # whose share is neither 0 nor 1
    assert payment.share not in (0, 1)
    terms, view = view_of(name, payment)
    better = {**view["terms"], "above": view["terms"]["above"] - 1}
    with pytest.raises(PaymentError, match="the numbers shown give"):
        check_payment(terms, {**view, "terms": better})
    plain = {**terms.plain, "mechanism": {**terms.plain["mechanism"], "rivals": 6}}
    with pytest.raises(PaymentError, match="the numbers shown give"):
        check_payment(Campaign.from_dict(plain), view)
    for impossible in ({"above": 2000.0}, {"above": -1.0}, {"above": 0.5}, {"decoys": 7.0}):
        with pytest.raises(DataError, match="has no place behind"):
            check_payment(terms, {**view, "terms": {**view["terms"], **impossible}})


def test_a_cap_that_is_rounded_otherwise_or_beyond_the_budget_is_found() -> None:
    terms, view = view_of("default", payments_of("default")[0])
    for cap in ("100002/3", "200002"):
        wrong_cap = f"{int(Fraction(cap)) / 100:.2f}" if cap == "200002" else "333.33"
        with pytest.raises(PaymentError) as wrong:
            share = float(view["payment"]) / float(wrong_cap)
            check_payment(terms, {**view, "cap": wrong_cap, "exact_cap": cap, "share": share})
        assert wrong.value.field == "cap"


@pytest.mark.parametrize("name", ["strict", "all", "synthetic", "brier"])
def test_where_digits_are_missing_a_payment_that_is_far_off_is_found(name: str) -> None:
    for payment in payments_of(name):
        terms, view = view_of(name, payment)
        share = payment.share + (0.1 if payment.share < 0.5 else -0.1)
        paid = f"{int(share * Fraction(view['exact_cap'])) / 100:.2f}"
        with pytest.raises(PaymentError, match="share"):
            check_payment(terms, {**view, "share": round(share, 4), "payment": paid})


def test_without_terms_the_share_is_said_to_be_unchecked() -> None:
    _, view = view_of("default", payments_of("default")[0])
    checked = check_payment(None, view)
    assert any("the share and the cap are what the rule makes" in line for line in checked.believed)
    with pytest.raises(PaymentError, match="not the share shown"):
        check_payment(None, {**view, "payment": cents(view["payment"], 900)})


def test_an_empty_share_that_depends_on_peers_is_shown_to_two_digits() -> None:
    """Under a quadratic score it tells how likely peers' data were; where it is the same for all, it tells nothing."""
    figures = Figures(log_pmi=None, score=0.5, low=0.0, high=1.0, terms={}, share=0.5, empty_share=0.53561)
    for rule, shown in ((troth.Brier(), 0.54), (troth.LineUp(strict=0.1), 0.5356)):
        assert disclosed(rule, figures).empty_share == shown
