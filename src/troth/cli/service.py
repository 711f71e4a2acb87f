"""Commands that start and maintain a service."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from troth.core.errors import MissingCapabilityError

if TYPE_CHECKING:
    from troth.service.store import Store

Database = Annotated[
    str, typer.Option(envvar="TROTH_DATABASE", help="A file for SQLite, or postgresql://user@host/name.")
]
PublicUrl = Annotated[
    str | None,
    typer.Option(envvar="TROTH_URL", help="The public address of the service.", show_default="http://HOST:PORT"),
]

KeyFolderOption = Annotated[
    Path | None,
    typer.Option(
        envvar="TROTH_KEYS",
        help="A folder for the signing key, secrets of rounds and signed heads: not in the database.",
        show_default="next to the database",
    ),
]

service = typer.Typer(help="Maintain a service's database.", no_args_is_help=True, rich_markup_mode=None)


def serve(
    database: Database = "troth.db",
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port to listen on.", min=1, max=65535)] = 8000,
    url: PublicUrl = None,
    workers: Annotated[int, typer.Option(help="The number of server processes.", min=1, max=64)] = 1,
    proxies: Annotated[
        str | None, typer.Option(help="Addresses of trusted reverse proxies, separated by commas.", show_default="none")
    ] = None,
    upload: Annotated[int, typer.Option(help="The maximum size of an upload, in megabytes.", min=1, max=4096)] = 64,
    keys: KeyFolderOption = None,
    require_sandbox: Annotated[
        bool, typer.Option("--require-sandbox", help="Refuse to start if uploads cannot be read in a sandbox.")
    ] = False,
    publish_heads: Annotated[
        list[str] | None, typer.Option(help="A file or https:// address for signed heads of ledgers; can be repeated.")
    ] = None,
) -> None:
    """Start the service: campaigns in a browser, with accounts, invitations and deadlines."""
    _require_packages()
    from troth.service.app import Settings
    from troth.service.heads import TARGETS
    from troth.service.serve import check_url
    from troth.service.serve import serve as start
    from troth.service.uploads import Limits

    _use_keys(keys)
    if publish_heads:
        os.environ[TARGETS] = json.dumps(publish_heads)
    shown_host = "127.0.0.1" if host in ("0.0.0.0", "::") else host  # noqa: S104 (compared, not bound)
    address, limits = check_url(url or f"http://{shown_host}:{port}"), Limits(bytes=upload << 20)
    settings = Settings(database, address, limits, require_sandbox=require_sandbox)
    start(settings, host=host, port=port, workers=workers, proxies=proxies, echo=typer.echo)


@service.callback()
def _require_packages() -> None:
    from importlib.util import find_spec

    for name in ("fastapi", "sqlalchemy", "alembic", "argon2", "uvicorn", "jinja2", "cryptography"):
        if find_spec(name) is None:
            raise MissingCapabilityError("the service needs more packages: pip install -e '.[service]' in your clone")


@service.command()
def link(
    name: Annotated[str, typer.Argument(help="The account's name.", show_default=False)],
    database: Database = "troth.db",
    url: Annotated[
        str, typer.Option(envvar="TROTH_URL", help="The public address of the service.")
    ] = "http://127.0.0.1:8000",
    new_analyst: Annotated[bool, typer.Option("--new-analyst", help="Create an analyst with that name.")] = False,
) -> None:
    """Print a one-time sign-in link, for somebody who lost their password."""
    from troth.service.serve import check_url, new_link

    typer.echo(new_link(_open(database), check_url(url), name, create=new_analyst))


@service.command()
def backup(
    target: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="Where to write the copy (SQLite).", show_default=False)
    ] = None,
    database: Database = "troth.db",
) -> None:
    """Copy the database, while it is in use."""
    from troth.service.serve import backup as copy

    typer.echo(f"copied to {copy(_open(database), target)}")


@service.command("sign-everybody-out")
def sign_everybody_out(database: Database = "troth.db") -> None:
    """End all sessions, tokens and unused links, for example after a leak; passwords stay valid."""
    from troth.service.accounts import end_all_sessions

    with _open(database).write() as tx:
        end_all_sessions(tx)
    typer.echo("everybody must sign in again")


@service.command("heads")
def print_heads(database: Database = "troth.db", keys: KeyFolderOption = None) -> None:
    """Print the signed heads of all ledgers, so that you can publish them."""
    from troth.service.serve import all_heads

    _use_keys(keys)
    for head in all_heads(_open(database)):
        typer.echo(f"campaign {head['campaign']}  epoch {head['epoch']}  lines {head['lines']}  {head['time']}")
        typer.echo(f"  root       {head['root']}\n  key        {head['key']}\n  signature  {head['signature']}")


@service.command("new-epoch")
def new_epoch(
    campaign: Annotated[str, typer.Argument(metavar="CAMPAIGN", help="Its identifier.", show_default=False)],
    database: Database = "troth.db",
    keys: KeyFolderOption = None,
) -> None:
    """Continue from a restored, older database: everybody who has seen a later head of the ledger is warned."""
    from troth.service.serve import begin_epoch

    _use_keys(keys)
    typer.echo(f"epoch {begin_epoch(_open(database), campaign)} of campaign {campaign} has begun")


def _use_keys(keys: Path | None) -> None:
    if keys is not None:
        os.environ["TROTH_KEYS"] = str(keys.resolve())


def _open(database: str) -> Store:
    """Open an existing database, and migrate it to the current version."""
    from troth.core.errors import DataError
    from troth.service.migrate import migrate
    from troth.service.store import Store

    store = Store(database)
    if store.file is not None and not store.file.exists():
        raise DataError(f"{database}: there is no such database; troth serve creates it")
    migrate(store)
    return store
