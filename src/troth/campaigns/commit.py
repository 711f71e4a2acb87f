"""Fix a campaign's secret and publish its hash in the campaign file, before anybody reports."""

from __future__ import annotations

from pathlib import Path

from troth.campaigns.records.ledger import locked, write_whole
from troth.campaigns.seed import draw_secret, load_secret, save_secret, secret_path
from troth.campaigns.terms import Campaign
from troth.core.errors import DataError

DAILY_ROUNDS = 4096


def commit(path: str | Path, *, new_file: bool = False) -> str:
    """Draw a secret, keep it beside the campaign file, write its hash into the file, and return the hash.

    A ``new_file``, which was just written, keeps the secret beside it, and a ledger there is another campaign's.

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
        raise DataError(f"{path.name}: it already has a commitment; a published commitment must not be replaced")
    if (path.parent / "ledger.jsonl").exists() and not new_file:
        raise DataError(f"{path.name}: payments have begun (ledger.jsonl), so it is too late to commit to a seed")
    if new_file and secret_path(path).exists():
        secret = load_secret(secret_path(path))
        write_whole(path, _with_commitment(path.read_text(encoding="utf-8"), secret.commitment).encode())
        return secret.commitment
    secret = draw_secret(DAILY_ROUNDS if campaign.daily else 1)
    with locked(path.resolve().parent):
        content = _with_commitment(path.read_bytes().decode("utf-8"), secret.commitment)
        save_secret(secret, secret_path(path))
        try:
            write_whole(path, content.encode())
        except BaseException:
            secret_path(path).unlink(missing_ok=True)
            raise
    return secret.commitment


def _with_commitment(text: str, commitment: str) -> str:
    r"""Return a campaign file with the commitment in its [mechanism], whichever way that is written.

    Examples
    --------
    >>> print(_with_commitment('[mechanism] # how to pay\ndraws = 64\n', "sha256:0f"))
    [mechanism] # how to pay
    draws = 64
    commitment = "sha256:0f" # the seed's hash, published before anybody reports
    <BLANKLINE>
    """
    import tomlkit

    mark = "\ufeff" if text.startswith("\ufeff") else ""  # some editors put it before a text
    newline = "\r\n" if "\r\n" in text else "\n"
    document = tomlkit.parse(text.removeprefix(mark).replace("\r\n", "\n"))
    mechanism = document.setdefault("mechanism", tomlkit.table())
    mechanism["commitment"] = commitment
    if not isinstance(mechanism, tomlkit.items.InlineTable):
        mechanism["commitment"].comment("the seed's hash, published before anybody reports")
    return mark + tomlkit.dumps(document).replace("\n", newline)
