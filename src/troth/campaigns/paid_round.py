"""What a provider can check of its payment without the service and without others' data, and what it must believe."""

from __future__ import annotations

from dataclasses import fields
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

from troth.campaigns.canonical_json import as_number, digest
from troth.campaigns.merkle import includes
from troth.campaigns.money import portion
from troth.campaigns.seed import derive_seed, follows
from troth.campaigns.statements import StatementError, receipt_leaf
from troth.campaigns.terms import Campaign
from troth.mechanisms import Figures

if TYPE_CHECKING:
    from collections.abc import Mapping

_LEDGER = "whoever has the ledger can recompute them with troth verify"
_OTHERS = "that the other reports are those of the other providers: each of them can check its own"
_CAP = "that the cap is your part of the budget: it depends on the other providers and their weights"
_ROUNDING = 5.1e-5  # shares are shown with four digits


class PaymentError(StatementError):
    """A payment that does not follow from what its provider is shown.

    Attributes
    ----------
    field : str
        What is wrong: ``"cap"``, ``"rows"``, ``"share"`` or ``"payment"``.
    """

    def __init__(self, field: str, message: str) -> None:
        self.field = field
        super().__init__(f"{field}: {message}")


class Checked(NamedTuple):
    """What was checked, and what remains to be believed, in words."""

    done: list[str]
    believed: list[str]


def check_paid_round(receipt: Mapping[str, Any], paid: Mapping[str, Any]) -> Checked:
    """Check the round that a provider was paid in against its receipt.

    Parameters
    ----------
    receipt
        A receipt whose signature is right.
    paid
        What the service shows the provider of the round: the answer of ``list_payments``, and as ``terms`` the tables
        of the campaign file, without which the share cannot be checked.

    Raises
    ------
    StatementError
        If the report is not in the round's tree, the seed is not made of it and of what was committed to, or the
        payment does not follow from the numbers that are shown with it.
    """
    if (paid["campaign"], paid["round"]) != (receipt["campaign"], receipt["round"]):
        raise StatementError("the payment is of another campaign or round than the receipt")
    proof = paid["proof"]
    if proof is None or not includes(
        paid["root"], proof["size"], proof["place"], receipt_leaf(receipt), proof["hashes"]
    ):
        raise StatementError("the report on the receipt is not among those that the round was paid by")
    done = [f"the report on the receipt is one of the {proof['size']} that the round was paid by"]
    terms, believed = paid.get("terms"), [_OTHERS]
    if terms is not None and "terms" in receipt:
        if digest(terms) != receipt["terms"]:
            raise StatementError("the terms are not those on the receipt")
        done.append("the terms are those on the receipt")
    elif terms is not None:
        believed.append("that the terms are those under which you reported: the receipt does not say")
    campaign = None if terms is None else Campaign.from_dict(dict(terms))
    for payment in paid["payments"]:
        if payment["provider"] == receipt["provider"]:
            if payment["rows"] != receipt["rows"]:
                raise PaymentError("rows", f"paid for {payment['rows']}, and the receipt is for {receipt['rows']}")
            of_payment = check_payment(campaign, payment)
            done, believed = done + of_payment.done, believed + of_payment.believed
    return Checked(done + _check_seed(receipt, paid), believed)


def check_payment(campaign: Campaign | None, payment: Mapping[str, Any]) -> Checked:
    """Compute a share again from the numbers that its provider is shown, and the cents from the share and the cap.

    ``campaign`` has the terms as the provider sees them; without them, or where tasks are settled together, the
    payment is compared with the share that is shown, and no more.
    """
    amount = payment["payment"]
    decimals = -int(Decimal(amount).as_tuple().exponent)
    paid, cap, deposit = (int(Decimal(payment[name]).scaleb(decimals)) for name in ("payment", "cap", "deposit"))
    if abs(paid - payment["share"] * cap) > _ROUNDING * cap + 1:
        raise PaymentError("payment", f"{amount} is not the share shown, {payment['share']:.4f} of {payment['cap']}")
    if campaign is None or campaign.task is not None:
        done = [f"the payment of {amount} is the share shown, of the cap shown"]
        return Checked(done, [f"that the share and the cap are what the rule makes of all reports: {_LEDGER}"])
    exact_cap = Fraction(payment["exact_cap"])
    if int(exact_cap) != cap or exact_cap > campaign.round_budget:
        raise PaymentError("cap", f"{payment['cap']} is not {exact_cap} minor units, or more than the budget")
    span = campaign.rule.share_shown(_figures(payment))
    if span is None:
        done = [f"the payment of {amount} is the share shown, of the cap shown"]
        why = f" ({payment['note']})" if payment["note"] else ""
        return Checked(done, [f"that the share is what the rule makes of all reports{why}: {_LEDGER}", _CAP])
    slack = _ROUNDING + 2 / max(cap, 1)
    if not span.least - slack <= payment["share"] <= span.most + slack:
        follows = f"{span.least:.4f}" if span.exact else f"{span.least:.4f} to {span.most:.4f}"
        raise PaymentError(
            "share", f"{payment['share']:.4f} is shown, but from the numbers shown {campaign.rule.name} makes {follows}"
        )
    least, most = (max(portion(end, exact_cap), -deposit) for end in span)
    if not least <= paid <= most:
        follows = campaign.text(least) if least == most else f"{campaign.text(least)} to {campaign.text(most)}"
        raise PaymentError("payment", f"{amount} is shown, but the share and the cap make {follows}")
    believed = [f"that the numbers behind the share are what the rule makes of all reports: {_LEDGER}", _CAP]
    if span.exact:
        done = [f"the share of {span.least:.4%} follows from the numbers shown and the terms"]
        return Checked([*done, f"the payment of {amount} is this share of the cap, to the smallest coin"], believed)
    done = [f"the payment of {amount} is one that the numbers shown allow under the terms"]
    rounded = "the numbers behind the share are not shown with all digits, because these would reveal others' data"
    span_text = f"{campaign.text(least)} and {campaign.text(most)}"
    return Checked(done, [*believed, f"where the payment lies between {span_text}: {rounded}"])


def _figures(payment: Mapping[str, Any]) -> Figures:
    plain = {field.name: payment[field.name] for field in fields(Figures)}
    plain |= {name: as_number(plain[name]) for name in ("log_pmi", "score", "low", "high")}
    return Figures(**plain | {"terms": {key: float(value) for key, value in plain["terms"].items()}})


def _check_seed(receipt: Mapping[str, Any], paid: Mapping[str, Any]) -> list[str]:
    link = paid["link"]
    if link is None:
        return []
    if receipt["commitment"] != paid["commitment"]:
        raise StatementError("the commitment is not the one on the receipt")
    if paid["commitment"] is not None and not follows(link, paid["commitment"], paid["paid_as"]):
        raise StatementError("the revealed secret is not the one that was committed to")
    if derive_seed(link, [paid["root"], *paid["next_roots"]], paid["beacon"]) != paid["seed"]:
        raise StatementError("the seed is not made of the revealed secret and the reports")
    done = ["the seed is made of the secret that was committed to and of all reports together"]
    if paid["beacon"] is not None:
        done.append(f"the seed depends on the beacon's value {paid['beacon']}: compare it with the beacon")
    return done
