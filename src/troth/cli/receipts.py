"""What a provider can check without the service, and without the others' data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from troth.cli.options import AsJson
from troth.cli.output import show
from troth.core.errors import DataError, TrothError


def verify_receipt(
    receipt: Annotated[Path, typer.Argument(metavar="RECEIPT", help="The signed receipt.", show_default=False)],
    payments: Annotated[
        Path | None,
        typer.Option("--payments", help="What the round paid you, as troth payments --json prints it."),
    ] = None,
    key: Annotated[
        str | None, typer.Option("--key", help="The service's public key.", show_default="the one on the receipt")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check a receipt offline: who signed it, that the round was paid by its report, and that the payment follows."""
    from troth.campaigns.paid_round import check_paid_round
    from troth.campaigns.statements import RECEIPT, check_signature
    from troth.results.explanation import printable

    signed = _read(receipt)
    signed = signed.get("receipt") or signed
    check_signature(signed, RECEIPT, key)
    believed = [] if key is not None else ["that this is the service's key: note it when you first submit"]
    checked = [f"signed by {signed['key']}" + ("" if key is not None else ", the key that it names itself")]
    if payments is not None:
        try:
            of_round = check_paid_round(signed, _read(payments))
        except TrothError:
            raise
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"{payments}: this is not what troth payments --json prints: {error}") from None
        checked, believed = checked + of_round.done, believed + of_round.believed
    day = "" if signed["day"] is None else f", day {signed['day']}"
    about = (
        f"{signed['provider']}, campaign {signed['campaign']}, round {signed['round']}{day}: {signed['rows']:,} rows"
    )
    lines = [
        f"valid: {about}, received {signed['received']}, confirmed {signed['confirmed']}",
        *(f"  {line}" for line in checked),
    ]
    lines += ["to be believed:", *(f"  {line}" for line in believed)] if believed else []
    plain = {"valid": True, "checked": checked, "believed": believed, "receipt": signed}
    show(plain, as_json, *map(printable, lines))


def _read(path: Path) -> dict[str, Any]:
    try:
        plain = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        plain = None
    if not isinstance(plain, dict):
        raise DataError(f"{path}: this is not a JSON object")
    return plain
