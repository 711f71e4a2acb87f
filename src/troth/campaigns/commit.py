"""Fix a campaign's secret and publish its hash in the campaign file, before anybody reports."""

from __future__ import annotations

from pathlib import Path

from troth.campaigns.records.ledger import locked, write_atomic
from troth.campaigns.seed import draw_secret, load_secret, save_secret, secret_path
from troth.campaigns.terms import Campaign
from troth.core.errors import DataError

DAILY_ROUNDS = 4096


def commit(path: str | Path, *, new_file: bool = False) -> str:
    """Draw a secret, save it beside the campaign file, write its hash into the file, and return the hash.

    A ``new_file`` has just been written: it reuses a secret that is already beside it, and a ledger there belongs to
    another campaign.

    Raises
    ------
    DataError
        If the campaign already has a commitment, or its rule draws nothing.
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
        write_atomic(path, _with_commitment(path.read_text(encoding="utf-8"), secret.commitment).encode())
        return secret.commitment
    secret = draw_secret(DAILY_ROUNDS if campaign.daily else 1)
    with locked(path.resolve().parent):
        content = _with_commitment(path.read_bytes().decode("utf-8"), secret.commitment)
        save_secret(secret, secret_path(path))
        try:
            write_atomic(path, content.encode())
        except BaseException:
            secret_path(path).unlink(missing_ok=True)
            raise
    return secret.commitment


def _with_commitment(text: str, commitment: str) -> str:
    r"""Return a campaign file with the commitment in its table [mechanism], whatever its TOML syntax.

    Examples
    --------
    >>> print(_with_commitment('[mechanism] # how to pay\ndraws = 64\n', "sha256:0f"))
    [mechanism] # how to pay
    draws = 64
    commitment = "sha256:0f" # the seed's hash, published before anybody reports
    <BLANKLINE>
    """
    import tomlkit

    byte_order_mark = "\ufeff" if text.startswith("\ufeff") else ""
    newline = "\r\n" if "\r\n" in text else "\n"
    document = tomlkit.parse(text.removeprefix(byte_order_mark).replace("\r\n", "\n"))
    mechanism = document.setdefault("mechanism", tomlkit.table())
    mechanism["commitment"] = commitment
    if not isinstance(mechanism, tomlkit.items.InlineTable):
        mechanism["commitment"].comment("the seed's hash, published before anybody reports")
    return byte_order_mark + tomlkit.dumps(document).replace("\n", newline)
