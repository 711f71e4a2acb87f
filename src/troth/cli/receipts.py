"""What a provider can check without the service, and without the others' data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from troth.cli.options import AsJson
from troth.cli.output import printable, show
from troth.core.errors import DataError, TrothError

_MALFORMED = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)


def verify_receipt(
    receipt: Annotated[Path, typer.Argument(metavar="RECEIPT", help="The signed receipt.", show_default=False)],
    payments: Annotated[
        Path | None, typer.Option("--payments", help="What the round paid you, as troth payments --json prints it.")
    ] = None,
    key: Annotated[
        str | None, typer.Option("--key", help="The service's public key.", show_default="the one on the receipt")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check a receipt offline: who signed it, that the round was paid by its report, and that the payment follows.

    It ends with 1 if something is wrong, and with 3 if nothing is, but something is withheld that could be checked.
    """
    from troth.campaigns.paid_round import Checked, check_paid_round
    from troth.campaigns.statements import RECEIPT, check_signature
    from troth.client.heads import compare_with_seen

    signed = _read(receipt)
    signed = signed.get("receipt") or signed
    believed = [] if key is not None else ["that this is the service's key: note it when you first submit"]
    try:
        check_signature(signed, RECEIPT, key)
        by = f"signed by {signed['key']}" + ("" if key else ", the key that it names itself")
        checked, about = Checked([by], believed, []), _about(signed)
    except TrothError:
        raise
    except _MALFORMED as error:
        raise DataError(f"{receipt}: this is not a receipt that a service signs: {error!r}") from None
    if payments is not None:
        try:
            shown = _read(payments)
            checked += check_paid_round(signed, shown)
            if shown.get("line") is not None:
                if compare_with_seen(shown["line"]["head"]):
                    checked.done.append("the head is the one that was seen on this machine")
                else:
                    checked.believed.append("that others see this head: none of this length was seen on this machine")
        except TrothError:
            raise
        except _MALFORMED as error:
            raise DataError(f"{payments}: this is not what troth payments --json prints: {error!r}") from None
    valid = not checked.withheld
    lines = [f"{'valid' if valid else 'incomplete'}: {about}", *(f"  {line}" for line in checked.done)]
    lines += ["not checked, because it is withheld:", *(f"  {line}" for line in checked.withheld)] if not valid else []
    lines += ["to be believed:", *(f"  {line}" for line in checked.believed)] if checked.believed else []
    plain = {"valid": valid, "checked": checked.done, "withheld": checked.withheld, "believed": checked.believed}
    show({**plain, "receipt": signed}, as_json, *map(printable, lines))
    if not valid:
        raise typer.Exit(3)


def _about(signed: dict[str, Any]) -> str:
    day = "" if signed["day"] is None else f", day {signed['day']}"
    return (
        f"{signed['provider']}, campaign {signed['campaign']}, round {signed['round']}{day}: {signed['rows']:,} rows, "
        f"received {signed['received']}, confirmed {signed['confirmed']}"
    )


def _read(path: Path) -> dict[str, Any]:
    try:
        plain = json.loads(path.read_text(encoding="utf-8"), parse_constant=_no_number)
    except (ValueError, RecursionError):
        plain = None
    if not isinstance(plain, dict):
        raise DataError(f"{path}: this is not a JSON object")
    return plain


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is not a number in JSON")
