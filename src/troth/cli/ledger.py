"""Commands on what was paid: check a ledger, write its page, explain a payment, and check a receipt offline."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from troth.cli.campaign import page_beside, reject_same_file
from troth.cli.options import AsJson, DayColumn, LedgerFile, ProviderColumn
from troth.cli.output import progress_bar, show, warn
from troth.core.errors import DataError, TrothError
from troth.core.formats import counted, printable

if TYPE_CHECKING:
    from troth.campaigns.terms import Campaign

_MALFORMED = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)


def verify(
    ledger: LedgerFile,
    head: Annotated[str | None, typer.Option(help="The hash of the last line, as noted earlier.")] = None,
    as_json: AsJson = False,
) -> None:
    """Check every byte of a ledger and recompute every payment in it."""
    from troth.campaigns.records.arithmetic import tolerance
    from troth.results.pay import verify as check

    with progress_bar() as progress:
        result = check(ledger, head=head, progress=progress)
    payments = sum(len(paid_round.payments) for paid_round in result.rounds)
    same_versions = tolerance(result.ledger) == 0
    plain = {
        "valid": True,
        "bit_for_bit": same_versions,
        "head": result.ledger.head,
        "rounds": len(result.rounds),
        "payments": payments,
        "paid": result.campaign.text(result.paid),
        "currency": result.campaign.currency,
    }
    committed = " and seeds" if result.campaign.commitment is not None else ""
    rounds = counted(len(result.rounds), "round")
    precision = "bit for bit" if same_versions else "to nine digits (other versions or another processor computed them)"
    text = (
        f"{ledger}: valid. {rounds}, {payments:,} payments recomputed {precision}, {result.campaign.show(result.paid)} "
        f"in total; hash chain{committed} checked"
    )
    show(plain, as_json, text, f"head {result.ledger.head}")


def report(
    ledger: LedgerFile,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Where to write the page.", show_default="report.html in the same folder"),
    ] = None,
    history: Annotated[
        Path | None,
        typer.Option(
            help="Past days, for the backtest on the page.",
            show_default="those that the campaign file beside the ledger names, if any",
        ),
    ] = None,
    provider: ProviderColumn = None,
    day: DayColumn = None,
    as_json: AsJson = False,
) -> None:
    """Rewrite a ledger's page, with a backtest if past days are given or named by the campaign file beside it."""
    from troth.results.pay import open_ledger

    page = output or page_beside(ledger)
    reject_same_file(ledger, page)
    result = open_ledger(ledger)
    if history is None and result.campaign.history is not None:
        result.campaign = _with_paths(result.campaign, ledger)
    with progress_bar() as progress:
        past = None
        if history is not None:
            from troth.campaigns.past import read_history

            past = read_history(result.campaign, str(history), provider=provider, day=day, progress=progress)
        result.write_page(page, history=past, progress=progress)
    show({"report": str(page)}, as_json, f"wrote {page}")


def _with_paths(campaign: Campaign, ledger: Path) -> Campaign:
    """Return the campaign from the file beside a ledger, which names past days, or else the ledger's own terms."""
    from troth.campaigns.past import campaign_beside

    with_paths = campaign_beside(ledger, campaign.digest)
    if with_paths is None:
        warn(f"no campaign file beside {ledger} has its terms, so the page has no backtest: name past days (--history)")
    return with_paths or campaign


def explain(
    ledger: LedgerFile,
    provider: Annotated[
        str | None,
        typer.Argument(metavar="PROVIDER", help="The provider who was paid.", show_default="the totals of all"),
    ] = None,
    day: Annotated[str | None, typer.Option(help="The day, in a daily campaign.", show_default="all days")] = None,
    as_json: AsJson = False,
) -> None:
    """Explain a payment step by step, or sum up the payments of all days."""
    from dataclasses import asdict

    from troth.core.settings import closest
    from troth.data.request import listed
    from troth.results.explanation import explain_days
    from troth.results.pay import open_ledger
    from troth.results.tables import aligned, shown_table, totals_table

    result = open_ledger(ledger)
    name_list = listed(list(result.totals))
    if provider is None:
        if day is not None:
            raise DataError(f"--day {day}: name a provider, one of {name_list}")
        sums = {name: result.campaign.text(total) for name, total in result.totals.items()}
        table = totals_table(result) if len(result.rounds) > 1 else shown_table(result)
        show(sums, as_json, result.headline(), *aligned(table))
        return
    if result.campaign.task is not None:
        show(asdict(result.payment(provider)), as_json, result.explain(provider))
        return
    payments = [entry for entry in result.by_provider.get(provider, ()) if day is None or str(entry[0]) == day]
    if not payments:
        on_day = "" if day is None else f" on day {day}"
        suggestion = closest(provider, list(result.totals))
        hint = f"did you mean {suggestion!r}?" if suggestion not in (None, provider) else f"providers are {name_list}"
        raise DataError(f"{ledger}: nothing was paid to {provider!r}{on_day}; {hint}")
    if len(payments) > 1:
        text = explain_days(result.campaign, payments)
    else:
        paid_on, _ = payments[0]
        text = ("" if paid_on is None else f"day {paid_on}  ") + result.explain(provider, paid_on)
    show([{"day": paid_on, **asdict(payment)} for paid_on, payment in payments], as_json, text)


def verify_receipt(
    receipt: Annotated[Path, typer.Argument(metavar="RECEIPT", help="The signed receipt.", show_default=False)],
    payments: Annotated[
        Path | None, typer.Option(help="What the round paid you, as troth payments --json prints it.")
    ] = None,
    key: Annotated[
        str | None, typer.Option(help="The service's public key.", show_default="the one on the receipt")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check a receipt offline: its signature, that its report is in the round, and that the payment follows.

    Exits with code 1 if a check fails, and with code 3 if all checks pass but the service withholds something to check.
    """
    from troth.campaigns.records.paid_round import Checked, check_paid_round
    from troth.campaigns.records.statements import RECEIPT, check_signature
    from troth.client.heads import compare_with_seen

    signed = read_object(receipt)
    signed = signed.get("receipt") or signed
    believed = [] if key is not None else ["that this is the service's key: note it when you first submit"]
    try:
        check_signature(signed, RECEIPT, key)
        signature = f"signed by {signed['key']}" + ("" if key else ", the key on the receipt")
        checked = Checked([signature], believed, [])
        day = "" if signed["day"] is None else f", day {signed['day']}"
        about = (
            f"{signed['provider']}, campaign {signed['campaign']}, round {signed['round']}{day}: {signed['rows']:,} "
            f"rows, received {signed['received']}, confirmed {signed['confirmed']}"
        )
    except TrothError:
        raise
    except _MALFORMED as error:
        raise DataError(f"{receipt}: this is not a receipt that a service signs: {error!r}") from None
    if payments is not None:
        try:
            payments_file = read_object(payments)
            checked += check_paid_round(signed, payments_file)
            if payments_file.get("line") is not None:
                if compare_with_seen(payments_file["line"]["head"]):
                    checked.passed.append("the head is the one that was seen on this machine")
                else:
                    checked.believed.append("that others see this head: this machine has seen none of this length")
        except TrothError:
            raise
        except _MALFORMED as error:
            raise DataError(f"{payments}: this is not what troth payments --json prints: {error!r}") from None
    valid = not checked.withheld
    lines = [f"{'valid' if valid else 'incomplete'}: {about}", *(f"  {line}" for line in checked.passed)]
    if not valid:
        lines += ["not checked, because the service withholds it:", *(f"  {line}" for line in checked.withheld)]
    if checked.believed:
        lines += ["you still have to trust:", *(f"  {line}" for line in checked.believed)]
    plain = {"valid": valid, "checked": checked.passed, "withheld": checked.withheld, "believed": checked.believed}
    show({**plain, "receipt": signed}, as_json, *map(printable, lines))
    if not valid:
        raise typer.Exit(3)


def read_object(path: Path) -> dict[str, Any]:
    """Read a JSON object from a file that another command wrote."""
    from troth.campaigns.records.canonical_json import read_json

    try:
        plain = read_json(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        plain = None
    if not isinstance(plain, dict):
        raise DataError(f"{path}: this is not a JSON object")
    return plain
