"""Fix a campaign's secret and publish its hash in the campaign file, before anybody reports."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from troth.campaigns.ledger import locked, write_whole
from troth.campaigns.seed import draw_secret, save_secret, secret_path
from troth.campaigns.terms import Campaign
from troth.core.errors import DataError
from troth.mechanisms import DEFAULT_RULE

DAILY_ROUNDS = 4096
_HEADER = re.compile(r"""^[ \t]*\[[ \t]*["']?mechanism["']?[ \t]*\][ \t]*(#[^\n]*)?\r?\n""", re.MULTILINE)
_DOTTED = re.compile(r"^[ \t]*mechanism[ \t]*\.", re.MULTILINE)
_INLINE = re.compile(r"^[ \t]*mechanism[ \t]*=[ \t]*\{", re.MULTILINE)


def commit(path: str | Path) -> str:
    """Draw a secret, keep it beside the campaign file, write its hash into the file, and return that.

    Raises
    ------
    DataError
        If the campaign is committed already, or draws nothing that would need it.
    """
    path = Path(path)
    campaign = Campaign.load(path)
    if not campaign.draws:
        raise DataError(f"{path.name}: its rule draws nothing, so there is no seed to commit to")
    if campaign.commitment is not None:
        raise DataError(f"{path.name}: it is committed already; a commitment that was published must not be replaced")
    if (path.parent / "ledger.jsonl").exists():
        raise DataError(f"{path.name}: payments have begun (ledger.jsonl), so it is too late to commit to a seed")
    secret = draw_secret(DAILY_ROUNDS if campaign.daily else 1)
    with locked(path.resolve().parent):
        mark, text = _without_mark(path.read_bytes().decode("utf-8"))
        changed = _with_commitment(text, secret.commitment)
        if changed is None:
            raise DataError(
                f"{path.name}: no place was found for the commitment; put the rule into a table [mechanism]"
            )
        save_secret(secret, secret_path(path))
        try:
            write_whole(path, (mark + changed).encode())
        except BaseException:
            secret_path(path).unlink(missing_ok=True)
            raise
    return secret.commitment


def _without_mark(text: str) -> tuple[str, str]:
    """Split off the mark that some editors put before a text."""
    return (text[0], text[1:]) if text.startswith("\ufeff") else ("", text)


def _with_commitment(text: str, commitment: str) -> str | None:
    """Return the file with the commitment in it, or None if no way of writing it says what is meant."""
    end = "\r\n" if "\r\n" in text else "\n"
    entry = f'commitment = "{commitment}"'
    line = f"{entry}   # the seed's hash, published before anybody reports{end}"
    ways = [
        *(text[: m.end()] + line + text[m.end() :] for m in _HEADER.finditer(text)),
        *(text[: m.start()] + f"mechanism.{line}" + text[m.start() :] for m in _DOTTED.finditer(text)),
        *(text[: m.end()] + f" {entry}," + text[m.end() :] for m in _INLINE.finditer(text)),
        text.rstrip() + f'{end}{end}[mechanism]{end}rule = "{DEFAULT_RULE}"{end}{line}',
    ]
    before = tomllib.loads(text)
    for changed in ways:
        try:
            after = tomllib.loads(changed)
        except tomllib.TOMLDecodeError:
            continue
        mechanism = {**before.get("mechanism", {"rule": DEFAULT_RULE}), "commitment": commitment}
        if after == {**before, "mechanism": mechanism}:
            return changed
    return None
