"""Fix a campaign's secret and publish its hash in the campaign file, before anybody reports."""

from __future__ import annotations

import re
from pathlib import Path

from troth.campaigns.ledger import locked, write_whole
from troth.campaigns.seed import draw_secret, save_secret, secret_path
from troth.campaigns.spec import Campaign
from troth.errors import DataError

DAILY_ROUNDS = 4096
_HEADER = re.compile(r"^[ \t]*\[mechanism\][ \t]*(#.*)?$", re.MULTILINE)


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
    secret = draw_secret(DAILY_ROUNDS if campaign.daily else 1)
    with locked(path):
        text = path.read_text(encoding="utf-8")
        line = f'commitment = "{secret.commitment}"   # the seed\'s hash, published before anybody reports'
        header = _HEADER.search(text)
        if header is not None:
            changed = text[: header.end()] + "\n" + line + text[header.end() :]
        else:
            changed = text.rstrip("\n") + f'\n\n[mechanism]\nrule = "SyntheticPeers"\n{line}\n'
        save_secret(secret, secret_path(path))
        try:
            write_whole(path, changed.encode())
            written = Campaign.load(path).commitment
        except BaseException:
            secret_path(path).unlink(missing_ok=True)
            raise
        if written != secret.commitment:
            write_whole(path, text.encode())
            secret_path(path).unlink(missing_ok=True)
            raise DataError(f"{path.name}: no place was found for the commitment; add a [mechanism] table with a rule")
    return secret.commitment
