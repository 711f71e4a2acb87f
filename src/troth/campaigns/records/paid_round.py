"""Check a provider's payment without the service and without others' data, and list what remains to be trusted."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from fractions import Fraction
from math import floor, isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

from troth.campaigns.money import portion
from troth.campaigns.records.canonical_json import digest
from troth.campaigns.records.ledger_entries import payment_leaf, read_figures
from troth.campaigns.records.merkle import includes, leaf
from troth.campaigns.records.statements import HEAD, StatementError, check_signature, joint_nonce, receipt_leaf
from troth.campaigns.seed import derive_seed, follows
from troth.campaigns.terms import Campaign
from troth.mechanisms.disclosure import SHARE_TOLERANCE, rounded_from

if TYPE_CHECKING:
    from collections.abc import Mapping

_LEDGER = "anybody with the ledger can recompute them with troth verify"
_OTHERS = "that the other reports come from the other providers: each can check its own"
_CAP = "that the cap is your part of the budget: it depends on the other providers and their weights"


class PaymentError(StatementError):
    """A payment that does not follow from the numbers that its provider is shown; ``field`` is the one at fault."""

    def __init__(self, field: str, message: str) -> None:
        self.field = field
        super().__init__(f"{field}: {message}")


class Checked(NamedTuple):
    """The messages of a check: what was confirmed, what you still have to trust, and what the service withheld."""

    passed: list[str]
    believed: list[str]
    withheld: list[str]

    def __add__(self, other: Checked) -> Checked:  # type: ignore[override]
        """Return the results of two checks together."""
        return Checked(*(first + second for first, second in zip(self, other, strict=True)))


def check_paid_round(receipt: Mapping[str, Any], paid: Mapping[str, Any]) -> Checked:
    """Check a paid round against a provider's receipt, whose signature was verified before.

    ``paid`` is what the service shows the provider: the answer of ``list_payments``, and under ``terms`` the tables of
    the campaign file, without which the share cannot be checked. It raises if the report is not in the round's tree, if
    the seed does not derive from the reports and the committed secret, or if the payment does not follow from the
    numbers that are shown with it.
    """
    if (paid["campaign"], paid["round"]) != (receipt["campaign"], receipt["round"]):
        raise StatementError("the payment and the receipt are for different campaigns or rounds")
    if paid["day"] != receipt["day"]:
        raise StatementError(f"the payment is for day {paid['day']}, but the receipt for day {receipt['day']}")
    proof = paid["proof"]
    if proof is None or not includes(
        paid["root"], proof["size"], proof["place"], receipt_leaf(receipt), proof["hashes"]
    ):
        raise StatementError("the report on the receipt is not among those that the round was paid for")
    checked = Checked([], [_OTHERS], []) + _check_line(receipt, paid)
    terms = paid.get("terms")
    if terms is not None and "terms" in receipt:
        if digest(terms) != receipt["terms"]:
            raise StatementError("the terms differ from those on the receipt")
        checked.passed.append("the terms are those on the receipt")
    elif terms is not None:
        checked.believed.append("that the terms are those under which you reported: the receipt does not say")
    else:
        checked.withheld.append("the terms, which are needed to check the share")
    campaign = None if terms is None else Campaign.from_dict(dict(terms))
    payment = _own_payment(receipt, paid)
    if payment is None:
        checked.withheld.append(f"the payment to {receipt['provider']}")
    else:
        if payment["rows"] != receipt["rows"]:
            raise PaymentError("rows", f"paid for {payment['rows']}, but the receipt is for {receipt['rows']}")
        checked += check_payment(campaign, payment)
    return checked + _check_seed(receipt, paid, campaign)


def _own_payment(receipt: Mapping[str, Any], paid: Mapping[str, Any]) -> Mapping[str, Any] | None:
    own = [payment for payment in paid["payments"] if payment["provider"] == receipt["provider"]]
    if len(own) > 1:
        raise StatementError(f"there are {len(own)} payments to {receipt['provider']} in one round")
    return own[0] if own else None


def _check_line(receipt: Mapping[str, Any], paid: Mapping[str, Any]) -> Checked:
    """Check that the round is a line of the ledger whose head is signed, and that the line matches what is shown."""
    proof, line = paid["proof"], paid.get("line")
    passed = [f"the report on the receipt is one of the {proof['size']} that the round was paid for"]
    if line is None:
        return Checked(
            [],
            ["that the round was paid for the report on the receipt: no signed head says so"],
            ["the line of the ledger that has the round; it is shown once all earlier rounds are published"],
        )
    head = line["head"]
    check_signature(head, HEAD, receipt["key"])
    content = leaf(f"{line['text']}\n".encode())
    included = includes(head["root"], head["lines"], line["place"], content, line["hashes"])
    if head["campaign"] != receipt["campaign"] or not included:
        raise StatementError("the round is not a line of the ledger whose head is signed")
    entry = json.loads(line["text"])
    expected = {"entry": "round", "day": receipt["day"], "number": paid["paid_as"]}
    expected |= {name: paid[name] for name in ("root", "link", "beacon", "seed")}
    for name, value in expected.items():
        if entry.get(name) != value:
            raise StatementError(f"{name} is {value!r}, but {entry.get(name)!r} in the ledger")
    passed.append(
        f"the round is line {line['place'] + 1} of the {head['lines']} under the head {head['root']}, signed at "
        f"{head['time']}: compare both with other providers"
    )
    if "reports" not in entry:  # formats before 4
        return Checked(passed, ["the number of reports and the payment: this ledger does not record them by round"], [])
    if entry["reports"] != proof["size"]:
        raise StatementError(f"the round has {proof['size']} reports, but {entry['reports']} in the ledger")
    payment = _own_payment(receipt, paid)
    if payment is not None:
        nonce = joint_nonce(receipt["nonce"], receipt["own_nonce"])
        content = payment_leaf(payment["rows"], payment["cap"], payment["payment"], nonce)
        if not includes(entry["payments"], proof["size"], proof["place"], content, paid["payment_hashes"] or []):
            raise StatementError(f"the payment of {payment['payment']} is not the one in the ledger")
        passed.append("the payment is the one in the ledger")
    return Checked(passed, [], [])


def check_payment(campaign: Campaign | None, payment: Mapping[str, Any]) -> Checked:
    """Recompute a share from the numbers that its provider is shown, and the payment from the share and the cap.

    ``campaign`` has the terms as the provider sees them. Without terms, the payment is only compared with the share
    that is shown. For tasks it is recomputed from the price and the sum of shares.
    """
    amount = payment["payment"]
    if not isfinite(payment["share"]):
        raise PaymentError("share", f"{payment['share']} is not a share")
    amounts = [_amount(payment[name]) for name in ("payment", "cap", "deposit")]
    paid, cap, deposit = (int(amount.scaleb(-int(amounts[0].as_tuple().exponent))) for amount in amounts)
    if abs(paid - payment["share"] * cap) > SHARE_TOLERANCE * cap + 1:
        raise PaymentError(
            "payment", f"shown as {amount}, which is not the share shown, {payment['share']:.4f} of {payment['cap']}"
        )
    if campaign is None or (campaign.task is not None and campaign.price is None):
        passed = [f"the payment of {amount} is the share shown, of the cap shown"]
        return Checked(passed, [f"that the share and the cap are what the rule makes of all reports: {_LEDGER}"], [])
    if campaign.task is not None:
        return _check_tasks(campaign, payment, paid, cap)
    if not re.fullmatch(r"\d{1,30}(/\d{1,30})?", payment["exact_cap"], re.ASCII):
        raise PaymentError("cap", f"{payment['exact_cap']!r} is not a fraction")
    exact_cap = Fraction(payment["exact_cap"])
    if int(exact_cap) != cap or exact_cap > campaign.round_budget:
        raise PaymentError("cap", f"{payment['cap']} is not {exact_cap} minor units, or more than the budget")
    span = campaign.rule.share_shown(read_figures(payment))
    if span is None:
        passed = [f"the payment of {amount} is the share shown, of the cap shown"]
        reason = f" ({payment['note']})" if payment["note"] else ""
        return Checked(passed, [f"that the share is what the rule makes of all reports{reason}: {_LEDGER}", _CAP], [])
    if not span.contains(payment["share"], SHARE_TOLERANCE + 2 / max(cap, 1)):
        raise PaymentError(
            "share",
            f"shown as {payment['share']:.4f}, but by {campaign.rule.name} the numbers shown give {span}",
        )
    low, high = (max(portion(end, exact_cap), -deposit) for end in span)
    if not low <= paid <= high:
        expected = campaign.text(low) if low == high else f"{campaign.text(low)} to {campaign.text(high)}"
        raise PaymentError("payment", f"shown as {amount}, but the share and the cap give {expected}")
    believed = [f"that the numbers behind the share are what the rule makes of all reports: {_LEDGER}", _CAP]
    if span.exact:
        passed = [f"the share of {span.low:.4%} follows from the numbers shown and the terms"]
        return Checked(
            [*passed, f"the payment of {amount} is this share of the cap, to the smallest coin"], believed, []
        )
    passed = [f"the payment of {amount} is one that the numbers shown allow under the terms"]
    rounded = "the numbers behind the share are not shown with all digits, because these would reveal others' data"
    span_text = f"{campaign.text(low)} and {campaign.text(high)}"
    return Checked(passed, [*believed, f"where exactly the payment lies between {span_text}: {rounded}"], [])


def _check_tasks(campaign: Campaign, payment: Mapping[str, Any], paid: int, cap: int) -> Checked:
    """Check a payment for tasks: price times sum of shares, rounded down; the cap is the price of all its tasks."""
    price, tasks, shares = campaign.price or Fraction(), payment["rows"], payment["terms"]["shares"]
    if cap != floor(price * tasks):
        earned = campaign.text(floor(price * tasks))
        raise PaymentError("cap", f"shown as {payment['cap']}, but {tasks} tasks at this price give {earned}")
    low, high = (portion(end, price) for end in rounded_from(float(shares)).within(0.0, float(tasks)))
    if not low <= paid <= high:
        earned = f"{campaign.text(low)} to {campaign.text(high)}"
        raise PaymentError("payment", f"shown as {payment['payment']}, but shares of {shares} give {earned}")
    passed = [f"the payment of {payment['payment']} is the price times the sum of shares shown, {shares}"]
    return Checked(
        [*passed, f"the cap is the price of {tasks} tasks"],
        [f"that the sum of shares is what the rule makes of all reports: {_LEDGER}"],
        [],
    )


def _amount(text: Any) -> Decimal:
    """Parse an amount of money."""
    if not isinstance(text, str) or not re.fullmatch(r"-?\d{1,20}(\.\d{1,9})?", text, re.ASCII):
        raise ValueError(f"{text!r} is not an amount of money")
    return Decimal(text)


def _check_seed(receipt: Mapping[str, Any], paid: Mapping[str, Any], campaign: Campaign | None) -> Checked:
    link, commitment = paid["link"], receipt["commitment"]
    if link is None or paid["seed"] is None:
        drawn = commitment is not None if campaign is None else campaign.draws
        withheld = ["the secret and the seed, which are needed to check the commitment"]
        return Checked([], [], withheld if drawn else [])
    if commitment != paid["commitment"]:
        raise StatementError("the commitment is not the one on the receipt")
    if commitment is not None and not follows(link, commitment, paid["paid_as"]):
        raise StatementError("the revealed secret is not the one that was committed to")
    if derive_seed(link, [paid["root"], *paid["next_roots"]], paid["beacon"]) != paid["seed"]:
        raise StatementError("the seed does not derive from the revealed secret and the reports")
    if commitment is None:
        return Checked([], ["that nobody chose the secret of the seed: the terms commit to none"], [])
    passed = ["the seed derives from the committed secret and all reports together"]
    if paid["beacon"] is not None:
        passed.append(f"the seed depends on the beacon's value {paid['beacon']}: compare it with the beacon")
    return Checked(passed, [], [])
