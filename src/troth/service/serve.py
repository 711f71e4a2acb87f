"""Start and maintain the service: sign-in links, backups, heads of ledgers."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import uvicorn
from sqlalchemy import func, select, update

from troth.campaigns.private_files import readable_by_others
from troth.core.errors import DataError
from troth.service import accounts, confinement, heads, ledgers
from troth.service.app import AS_JSON, SETTINGS, Settings
from troth.service.connections import allow_many_files
from troth.service.migrate import back_up, copy_sqlite, migrate
from troth.service.sandbox import Sandbox, Waiting
from troth.service.schema import accounts as account_table
from troth.service.schema import campaigns as campaign_table
from troth.service.schema import rounds as round_table
from troth.service.store import Store
from troth.service.worker_processes import Bounds

SHUTDOWN_SECONDS = 10
"""How long running requests may take to finish when the service stops."""


def serve(
    settings: Settings,
    *,
    host: str,
    port: int,
    workers: int = 1,
    proxies: str | None = None,
    echo: Callable[[str], None],
) -> None:
    """Upgrade the database, print a sign-in link if nobody has a password yet, and serve until stopped.

    ``proxies`` are addresses of reverse proxies that are trusted to report clients' addresses.
    """
    store = Store(settings.database)
    check_sandbox(settings.require_sandbox, echo, store.private)
    for path in sorted(map(Path, store.private)):
        for file in (path, *(path.glob("*") if path.is_dir() else ())):
            if readable_by_others(file):
                echo(f"warning: other users can read {file}, which is private: run chmod go= {file}")
    backup = migrate(store)
    if backup is not None:
        echo(f"the database was upgraded; a copy from before is in {backup}")
    link = first_link(store, settings.url)
    store.close()
    echo(f"Troth is at {settings.url}")
    if link is not None:
        echo(f"sign in, once, at {link}")
    os.environ[SETTINGS] = AS_JSON.dump_json(settings).decode()
    allow_many_files()
    uvicorn.run(
        "troth.service.app:from_environment",
        factory=True,
        http="troth.service.connections:Connection",
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        host=host,
        port=port,
        workers=workers,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=proxies is not None,
        forwarded_allow_ips=proxies,
    )


def check_sandbox(required: bool, echo: Callable[[str], None], private: frozenset[str] = frozenset()) -> None:
    """Check the confinement of the process that reads uploads: warn about gaps, or raise if it is ``required``."""
    waiting = Waiting([])
    waiting.private |= private
    gaps = Sandbox(waiting).run(confinement.missing, bounds=Bounds(memory=1 << 28, seconds=5.0))
    waiting.close()
    if gaps and required:
        raise DataError(f"--require-sandbox: {'; '.join(gaps)}")
    for gap in gaps:
        echo(f"warning: {gap}")


def first_link(store: Store, url: str) -> str | None:
    """Return a one-time link for the first analyst, or None once somebody has a password."""
    with store.write() as tx:
        if tx.scalar(select(func.count()).select_from(account_table).where(account_table.c.password.is_not(None))):
            return None
        first = tx.scalar(select(account_table.c.id).where(account_table.c.role == "analyst"))
        account = first or accounts.create_account(tx, "analyst", "analyst")
        return f"{url}/enter/{accounts.sign_in_link(tx, account)}"


def new_link(store: Store, url: str, name: str, *, create: bool = False) -> str:
    """Return a one-time sign-in link for an account; with ``create``, for a new analyst."""
    with store.write() as tx:
        by_name = select(account_table.c.id).where(accounts.has_name(name))
        account = accounts.create_account(tx, name, "analyst") if create else tx.scalar(by_name)
        if account is None:
            raise DataError(f"there is no account {name!r}")
        return f"{url}/enter/{accounts.sign_in_link(tx, account)}"


def backup(store: Store, target: Path | None) -> str:
    """Copy the database while it is in use, and return the location of the copy."""
    if store.file is None or target is None:
        return back_up(store, "copy")
    if target.exists():
        raise DataError(f"{target}: already exists; choose another name")
    copy_sqlite(store.file, target)
    return str(target)


def all_heads(store: Store) -> list[dict[str, Any]]:
    """Return the last signed head of every campaign."""
    with store.read() as tx:
        campaigns = tx.scalars(select(campaign_table.c.id).order_by(campaign_table.c.created)).all()
    return [signed[-1] for campaign in campaigns if (signed := store.keys.heads(campaign))]


def begin_epoch(store: Store, campaign: str) -> int:
    """Begin a new epoch of a campaign's heads, and return its number."""
    with store.write() as tx:
        if tx.execute(select(campaign_table.c.id).where(campaign_table.c.id == campaign)).first() is None:
            raise DataError(f"there is no campaign {campaign!r}")
        head = heads.new_epoch(store.keys, campaign, ledgers.load_ledger(tx, campaign))
        unpaid = (round_table.c.campaign == campaign) & (round_table.c.state == "closed")
        tx.execute(update(round_table).where(unpaid).values(problem=None, settled=None, attempts=0))
    return int(head["epoch"])


def check_url(url: str) -> str:
    """Check the address at which people reach the service, and return it without a slash at the end."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path.strip("/") or parts.query:
        raise DataError(f"--url: {url} must be http:// or https:// and a host, such as https://troth.example.org")
    return url.rstrip("/")
