"""Commands that talk to a service from a shell, as a client of its API."""

from __future__ import annotations

import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from troth.cli.options import AsJson, CampaignFile
from troth.cli.output import progress_bar, warn
from troth.cli.service_connection import CampaignArgument, Server, compare_head, find_campaign, find_round, open_client
from troth.cli.service_lines import receipt_lines, show_lines, submission_lines
from troth.cli.service_rounds import export, payments, payouts, why
from troth.core.errors import DataError
from troth.core.formats import money, printable
from troth.operations import SCOPES
from troth.results.tables import table_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from troth.client import Client

PasswordStdin = Annotated[bool, typer.Option("--password-stdin", help="Read the password from standard input.")]
Insecure = Annotated[
    bool, typer.Option("--insecure", envvar="TROTH_INSECURE", help="Allow http:// to other machines: not encrypted.")
]


def login(
    url: Annotated[str, typer.Argument(metavar="URL", help="The service's address.", show_default=False)],
    name: Annotated[
        str | None, typer.Option(help="Your account name on that service.", show_default="prompted")
    ] = None,
    token: Annotated[str | None, typer.Option(help="A token instead of a password, from the settings page.")] = None,
    days: Annotated[int, typer.Option(help="How long to stay signed in.", min=1, max=366)] = 30,
    scope: Annotated[
        list[str] | None, typer.Option(help="read, submit or manage; can be repeated.", show_default="all")
    ] = None,
    password_stdin: PasswordStdin = False,
    insecure: Insecure = False,
    as_json: AsJson = False,
) -> None:
    """Sign in to a service and stay signed in on this machine."""
    from troth.client import Client

    client = Client(url, token, insecure=insecure)
    if token is not None:
        _remember(client, insecure, as_json, token=token)
        return
    if name is None and not sys.stdin.isatty():
        raise DataError("--name is missing, and standard input is not a terminal, so it cannot be asked for")
    account = name or str(typer.prompt("name", err=True))
    _sign_in(client, account, _password("password", password_stdin), days, scope or [], insecure, as_json)


def logout(server: Server = None, as_json: AsJson = False) -> None:
    """Sign out of a service: the token is revoked, and removed from this machine."""
    from troth.client import RefusedError, UnreachableError
    from troth.client.credentials import connect, current, forget, load

    server_url = current(server)
    account = load()["servers"].get(server_url)
    if account is None:
        raise DataError(f"you are not signed in to {server_url}")
    revoked = False
    if account.get("id") is not None:
        try:
            connect(server_url).revoke_token(account["id"])
            revoked = True
        except (RefusedError, UnreachableError) as error:
            warn(f"the token is removed here but may still be valid there: {error}")
    forget(server_url)
    show_lines({"server": server_url, "revoked": revoked}, as_json, [f"signed out of {server_url}"])


def join(
    link: Annotated[str, typer.Argument(metavar="LINK", help="The one-time link you were sent.", show_default=False)],
    name: Annotated[str | None, typer.Option(help="The account's name.", show_default="the provider's")] = None,
    password_stdin: PasswordStdin = False,
    as_me: Annotated[bool, typer.Option("--as-me", help="Join with the account that is signed in here.")] = False,
    insecure: Insecure = False,
    as_json: AsJson = False,
) -> None:
    """Accept an invitation, or choose a password with a sign-in link; both sign you in."""
    from troth.client import Client
    from troth.client.api import read_link
    from troth.client.credentials import connect

    server, kind, secret = read_link(link)
    if name is not None and kind != "join":
        raise DataError("--name works only with an invitation; this link belongs to an existing account")
    if as_me:
        if kind != "join":
            raise DataError("--as-me works only with an invitation; this is a sign-in link")
        accepted = connect(server).accept_invitation(invitation=secret)
        show_lines(accepted, as_json, [f"joined at {server}; see troth campaigns"])
        return
    client = Client(server, insecure=insecure)
    password = _password("choose a password", password_stdin, confirm=True)
    if kind == "join":
        account = client.accept_invitation(invitation=secret, name=name, password=password)
    else:
        account = client.choose_password(link=secret, password=password)
    _sign_in(client, account["name"], password, 30, [], insecure, as_json)


def campaigns(server: Server = None, as_json: AsJson = False) -> None:
    """List your campaigns."""
    client = open_client(server)
    all_campaigns = client.list_campaigns()
    for campaign in all_campaigns:
        if campaign.get("head") is not None:
            compare_head(client, campaign)
    rows = [
        [
            campaign["id"],
            campaign["name"],
            campaign["state"],
            f"{money(campaign['budget'])} {campaign['currency']}".strip(),
        ]
        for campaign in all_campaigns
    ]
    show_lines(
        all_campaigns,
        as_json,
        table_lines(["id", "name", "state", "budget"], rows) if all_campaigns else ["no campaigns yet"],
    )


def create(
    campaign: CampaignFile,
    publish_at_once: Annotated[
        bool, typer.Option("--publish-at-once", help="Show providers their payments as soon as a round is paid.")
    ] = False,
    share_ledger: Annotated[
        bool, typer.Option("--share-ledger", help="Let providers read the whole ledger once it is published.")
    ] = False,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Create a campaign from a campaign file, and print its identifier."""
    import tomllib

    from troth.campaigns.task_data import describe_public_tasks
    from troth.campaigns.terms import Campaign

    terms = Campaign.load(campaign)  # mistakes are reported before anything is sent
    tables = tomllib.loads(campaign.read_text(encoding="utf-8"))
    tables["model"] = terms.plain["model"]  # with the parameters from a file that it names
    committed = tables.get("mechanism", {}).pop("commitment", None) is not None
    if terms.public_source is not None:
        if terms.public_by_day:
            raise DataError(
                f"[data] public: has the column {terms.day!r}, but a service needs the same public data on every day: "
                "remove the column, or pay with troth pay"
            )
        del tables["data"]["public"]
        tables["public"] = terms.terms["public"] if terms.task is None else describe_public_tasks(terms)
    created = open_client(server).create_campaign(
        terms=tables, publish_at_once=publish_at_once, share_ledger=share_ledger
    )
    if committed:
        typer.echo(
            "note: commitment is left out: the service makes its own secret, and yours is not used",
            err=True,
        )
    if terms.source is not None:
        typer.echo("note: files that the campaign file names are not sent; providers send their own", err=True)
    show_lines(created, as_json, [created["id"]])


def invite(
    campaign: CampaignArgument,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The provider's name.", show_default=False)],
    identity: Annotated[
        str | None,
        typer.Option(
            help="How you verified who it is: an address, a contract. Required for a new provider.", show_default=False
        ),
    ] = None,
    group: Annotated[str | None, typer.Option(help="A label that related providers share.")] = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Add a provider and print its one-time link; for one who has not joined yet, print a new one."""
    client, campaign_view = find_campaign(server, campaign)
    members = [member["id"] for member in client.list_providers(campaign_view["id"]) if member["name"] == name]
    if members:
        invited = client.invite_again(campaign_view["id"], members[0])
    elif identity is None:
        raise DataError("--identity: say how you verified who this is; nobody may be a provider twice")
    else:
        invited = client.add_provider(campaign_view["id"], name=name, identity=identity, group=group)
    show_lines(invited, as_json, [invited["link"]])


def providers(campaign: CampaignArgument, server: Server = None, as_json: AsJson = False) -> None:
    """List a campaign's providers."""
    client, campaign_view = find_campaign(server, campaign)
    members = client.list_providers(campaign_view["id"])
    rows = []
    for member in members:
        state = "revoked" if member["revoked"] else "joined" if member["joined"] else "invited"
        rows.append([member["name"], member["identity"], member["group"] or "–", state])
    show_lines(
        members, as_json, table_lines(["name", "identity", "group", "state"], rows) if rows else ["no providers yet"]
    )


def submit(
    campaign: CampaignArgument,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Your rows, or statistics made from them.", show_default=False)
    ],
    number: Annotated[
        int | None, typer.Option("--round", help="Which round.", min=1, show_default="the open one")
    ] = None,
    statistics: Annotated[
        bool, typer.Option("--statistics", help="Send statistics of the rows, not the rows.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Confirm without being asked.")] = False,
    replace: Annotated[bool, typer.Option("--replace", help="Replace the report that you have confirmed.")] = False,
    keep: Annotated[
        Path | None, typer.Option("--receipt", help="Save the signed receipt, for troth verify-receipt.")
    ] = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Send data to a round, check how it was read, and confirm it."""
    import secrets

    from troth.client.submission import check_digest, check_signed, prepare

    if not yes and not sys.stdin.isatty():
        raise DataError("standard input is not a terminal; pass --yes to confirm without being asked")
    client, campaign_view = find_campaign(server, campaign)
    number = find_round(client, campaign_view, number, ("open",), "no round is open")
    current = client.show_round(campaign_view["id"], number)
    earlier = current.get("submission")
    if earlier is not None and not replace:
        raise DataError(f"you have already reported in round {number}; pass --replace to replace that report")
    package = prepare(client, campaign_view, current, file, statistics=statistics)
    with progress_bar() as progress:
        submission = client.submit_file(
            campaign_view["id"], number, package.content, name=package.name, progress=partial(progress, "sending")
        )
    while submission["state"] == "waiting":
        time.sleep(1.0)
        submission = client.show_submission(campaign_view["id"], number, submission["id"])
    if submission["state"] == "refused":
        raise DataError(submission["problem"])
    check_digest(package, submission)
    for line in submission_lines(submission):
        typer.echo(printable(line), err=True)
    if not yes and not typer.confirm("Is this correct, and is it your report for this round?", err=True):
        raise DataError("nothing was confirmed: what you sent does not count")
    nonce = secrets.token_hex(32)
    receipt = client.confirm_submission(campaign_view["id"], number, submission["id"], replaces=earlier, nonce=nonce)
    signed = check_signed(submission, receipt, nonce)
    if keep is not None:
        from troth.campaigns.private_files import replace_private
        from troth.campaigns.records.canonical_json import as_json as write_json

        replace_private(keep, (write_json(signed) + "\n").encode())
    show_lines(receipt, as_json, receipt_lines(campaign_view, receipt))


COMMANDS = (login, logout, join, campaigns, create, invite, providers, submit, payments, why, export, payouts)


def _sign_in(
    client: Client, name: str, password: str, days: int, scopes: Sequence[str], insecure: bool, as_json: bool
) -> None:
    import platform

    label = f"command line on {platform.node()}"[:100] if platform.node().isprintable() else "command line"
    token = client.sign_in(name, password, label=label, scopes=scopes or SCOPES, days=days)
    _remember(client, insecure, as_json, token=token["token"], id=token["id"], expires=token["expires"])


def _remember(client: Client, insecure: bool, as_json: bool, **token: Any) -> None:
    from troth.client.credentials import store

    me = client.me()
    path = store(client.server, name=me["name"], insecure=insecure, **token)
    signed_in = {"server": client.server, **me, "expires": token.get("expires"), "stored": str(path)}
    identity = ", ".join(dict.fromkeys((me["name"], me["role"])))
    show_lines(signed_in, as_json, [f"signed in to {client.server} as {identity}; the token is in {path}"])


def _password(prompt: str, from_stdin: bool, *, confirm: bool = False) -> str:
    if from_stdin:
        return sys.stdin.readline().rstrip("\r\n")
    if not sys.stdin.isatty():
        raise DataError("standard input is not a terminal; pass --password-stdin to read the password from it")
    return str(typer.prompt(prompt, hide_input=True, confirmation_prompt=confirm, err=True))
