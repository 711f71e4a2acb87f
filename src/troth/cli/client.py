"""Commands that speak to a service from a shell, as a client of its API."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from troth.cli.output import progress
from troth.core.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from troth.client import Client

Server = Annotated[
    str | None,
    typer.Option("--server", envvar="TROTH_SERVER", help="Which service.", show_default="the last one signed in to"),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
TheCampaign = Annotated[
    str, typer.Argument(metavar="CAMPAIGN", help="The campaign's identifier or name.", show_default=False)
]
TheRound = Annotated[
    int | None, typer.Argument(metavar="[ROUND]", help="The round's number.", min=1, show_default="the latest")
]
PasswordStdin = Annotated[bool, typer.Option("--password-stdin", help="Read the password from standard input.")]
Insecure = Annotated[
    bool,
    typer.Option("--insecure", envvar="TROTH_INSECURE", help="Allow http:// beyond this machine: nothing is secret."),
]
DeadlineTime = Annotated[
    str | None, typer.Option("--deadline", help="When it closes by itself, such as 2026-05-04T12:00:00Z.")
]

rounds = typer.Typer(help="Open, close, pay and publish rounds.", no_args_is_help=True, rich_markup_mode=None)


def login(
    url: Annotated[str, typer.Argument(metavar="URL", help="The service's address.", show_default=False)],
    name: Annotated[str | None, typer.Option("--name", help="Your name there.", show_default="asked for")] = None,
    token: Annotated[
        str | None, typer.Option("--token", help="A token instead of a password, from the page of settings.")
    ] = None,
    days: Annotated[int, typer.Option("--days", help="How long to stay signed in.", min=1, max=366)] = 30,
    scope: Annotated[
        list[str] | None,
        typer.Option("--scope", help="read, submit or manage; may be given again.", show_default="all"),
    ] = None,
    password_stdin: PasswordStdin = False,
    insecure: Insecure = False,
    as_json: AsJson = False,
) -> None:
    """Sign in to a service and stay signed in on this machine."""
    from troth.client import Client

    client = Client(url, token, insecure=insecure)
    if token is not None:
        _keep(client, client.me(), insecure, as_json, token=token)
        return
    who = name or _ask("name")
    _sign_in(client, who, _password("password", password_stdin), days, scope or [], insecure, as_json)


def logout(server: Server = None, as_json: AsJson = False) -> None:
    """Sign out of a service: the token ends, and this machine forgets it."""
    from troth.client import RefusedError, UnreachableError
    from troth.client.credentials import connect, current, forget, load

    chosen = current(server)
    known = load()["servers"].get(chosen)
    if known is None:
        raise DataError(f"you are not signed in to {chosen}")
    ended = False
    if known.get("id") is not None:
        try:
            connect(chosen).revoke_token(known["id"])
            ended = True
        except (RefusedError, UnreachableError) as error:
            typer.echo(f"warning: the token is forgotten here but may still be valid there: {error}", err=True)
    forget(chosen)
    _show({"server": chosen, "ended": ended}, as_json, [f"signed out of {chosen}"])


def join(
    link: Annotated[str, typer.Argument(metavar="LINK", help="The one-time link you were sent.", show_default=False)],
    name: Annotated[
        str | None, typer.Option("--name", help="The account's name.", show_default="the provider's")
    ] = None,
    password_stdin: PasswordStdin = False,
    as_me: Annotated[bool, typer.Option("--as-me", help="Join with the account that is signed in here.")] = False,
    insecure: Insecure = False,
    as_json: AsJson = False,
) -> None:
    """Accept an invitation, or choose a password with a link to sign in; both sign you in."""
    from troth.client import Client
    from troth.client.api import read_link
    from troth.client.credentials import connect

    server, kind, secret = read_link(link)
    if as_me:
        if kind != "join":
            raise DataError("--as-me: is for invitations; this link signs in")
        _show(connect(server).join(secret), as_json, [f"joined at {server}; see troth campaigns"])
        return
    client = Client(server, insecure=insecure)
    password = _password("choose a password", password_stdin, twice=True)
    made = client.join(secret, name, password) if kind == "join" else client.choose_password(secret, password)
    _sign_in(client, made["name"], password, 30, [], insecure, as_json)


def campaigns(server: Server = None, as_json: AsJson = False) -> None:
    """List your campaigns."""
    found = _client(server).campaigns()
    rows = [[one["id"], one["name"], one["state"], f"{one['budget']} {one['currency']}".strip()] for one in found]
    _show(found, as_json, _table(["id", "name", "state", "budget"], rows) if found else ["no campaigns yet"])


def create(
    campaign: Annotated[Path, typer.Argument(metavar="CAMPAIGN.toml", help="The campaign file.", show_default=False)],
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

    from troth.campaigns.terms import Campaign

    terms = Campaign.load(campaign)  # mistakes are told before anything is sent
    plain = tomllib.loads(campaign.read_text(encoding="utf-8"))
    made = _client(server).create_campaign(plain, publish_at_once=publish_at_once, share_ledger=share_ledger)
    if terms.source is not None:
        typer.echo("note: files that the campaign file names stay here; providers send their own", err=True)
    _show(made, as_json, [made["id"]])


def invite(
    campaign: TheCampaign,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The provider's name.", show_default=False)],
    identity: Annotated[
        str | None,
        typer.Option("--identity", help="How you know who it is: an address, a contract.", show_default=False),
    ] = None,
    group: Annotated[str | None, typer.Option("--group", help="A label that related providers share.")] = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Add a provider and print its one-time link; for one who has not joined yet, print a new one."""
    client = _client(server)
    chosen = client.find_campaign(campaign)["id"]
    there = [one for one in client.providers(chosen) if one["name"] == name]
    if there:
        made = client.invite_again(chosen, there[0]["id"])
    elif identity is None:
        raise DataError("--identity: say how you know who this is; one provider must not be two")
    else:
        made = client.add_provider(chosen, name, identity, group)
    _show(made, as_json, [made["link"]])


def providers(campaign: TheCampaign, server: Server = None, as_json: AsJson = False) -> None:
    """List a campaign's providers."""
    client = _client(server)
    found = client.providers(client.find_campaign(campaign)["id"])
    rows = [[one["name"], one["identity"], one["group"] or "–", _standing(one)] for one in found]
    _show(found, as_json, _table(["name", "identity", "group", "state"], rows) if found else ["no providers yet"])


def submit(
    campaign: TheCampaign,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Your rows, or statistics of them.", show_default=False)],
    number: Annotated[
        int | None, typer.Option("--round", help="Which round.", min=1, show_default="the open one")
    ] = None,
    statistics: Annotated[
        bool, typer.Option("--statistics", help="Send statistics of the rows; the rows stay here.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Confirm without being asked.")] = False,
    replace: Annotated[bool, typer.Option("--replace", help="Replace the report that you have confirmed.")] = False,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Send data to a round, look at what was understood, and confirm it."""
    from troth.client.submission import check_receipt, prepare, send

    if not yes and not sys.stdin.isatty():
        raise DataError("nobody is there to confirm what was understood; say --yes to confirm it beforehand")
    client = _client(server)
    chosen = client.find_campaign(campaign)
    held = _held(client, chosen, number, "open", "no round is open")
    before = held.get("submission")
    if before is not None and not replace:
        raise DataError(f"you have reported to round {held['number']} already; say --replace to replace that report")
    package = prepare(client, chosen, held, file, statistics=statistics)
    with progress() as watch:
        sent = send(client, chosen["id"], held["number"], package, watch)
    check_receipt(package, sent)
    _tell(_understood(sent))
    if not yes and not typer.confirm("Is this right, and your report to this round?", err=True):
        raise DataError("nothing was confirmed, and what was sent does not count")
    receipt = client.confirm(chosen["id"], held["number"], sent["id"], before)
    _show(receipt, as_json, _receipt(chosen, receipt))


@rounds.command("open")
def open_round(
    campaign: TheCampaign,
    day: Annotated[str | None, typer.Option("--day", help="In a daily campaign.", show_default="the next one")] = None,
    deadline: DeadlineTime = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Open the next round; with the first one, providers and terms are fixed."""
    client = _client(server)
    held = client.open_round(client.find_campaign(campaign)["id"], day, deadline)
    _show(held, as_json, [_about(held)])


@rounds.command("close")
def close_round(
    campaign: TheCampaign,
    number: TheRound = None,
    final: Annotated[bool, typer.Option("--final", help="No day follows: pay this one too.")] = False,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Close a round and pay what has become payable."""
    client = _client(server)
    chosen = client.find_campaign(campaign)
    held = _held(client, chosen, number, "open", "no round is open")
    closed = client.close_round(chosen["id"], held["number"], final=final)
    _show(closed, as_json, [_about(closed)])
    _refuse_unpaid(closed)


@rounds.command("finish")
def finish(campaign: TheCampaign, server: Server = None, as_json: AsJson = False) -> None:
    """End a daily campaign whose last round is closed: the last day is paid too."""
    client = _client(server)
    ended = client.finish(client.find_campaign(campaign)["id"])
    last = client.rounds(ended["id"])[-1]
    _show(ended, as_json, [f"{_printable(ended['name'])}: {ended['state']}, {ended['paid']} {ended['currency']} paid"])
    _refuse_unpaid(last)


@rounds.command("publish")
def publish(campaign: TheCampaign, number: TheRound = None, server: Server = None, as_json: AsJson = False) -> None:
    """Show providers what they were paid, and why."""
    client = _client(server)
    chosen = client.find_campaign(campaign)
    held = _held(client, chosen, number, "paid", "no paid round waits to be published")
    shown = client.publish_round(chosen["id"], held["number"])
    _show(shown, as_json, [_about(shown)])


@rounds.command("reopen")
def reopen(
    campaign: TheCampaign,
    number: TheRound = None,
    deadline: DeadlineTime = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Open a round again that was closed and could not be paid."""
    client = _client(server)
    chosen = client.find_campaign(campaign)
    held = _held(client, chosen, number, "closed", "no round is closed and unpaid")
    again = client.reopen_round(chosen["id"], held["number"], deadline)
    _show(again, as_json, [_about(again)])


@rounds.command("show")
def show_rounds(campaign: TheCampaign, number: TheRound = None, server: Server = None, as_json: AsJson = False) -> None:
    """Show a campaign's rounds, or one of them."""
    client = _client(server)
    found = client.rounds(client.find_campaign(campaign)["id"])
    if number is not None:
        found = [one for one in found if one["number"] == number]
        if not found:
            raise DataError(f"there is no round {number}")
    _show(found if number is None else found[0], as_json, [_about(one) for one in found] or ["no rounds yet"])


def payments(campaign: TheCampaign, number: TheRound = None, server: Server = None, as_json: AsJson = False) -> None:
    """Show what a round pays: to everybody, or to you once it is published."""
    chosen, found = _payments(server, campaign, number)
    rows = [
        [one["provider"], f"{one['rows']:,}", _number(one["score"]), f"{one['share']:.2%}", one["payment"]]
        for one in found["payments"]
    ]
    heads = ["provider", "rows", "score", "share of cap", f"payment {chosen['currency']}".strip()]
    _show(found, as_json, [f"round {found['round']}{_day(found)}", *_table(heads, rows, right=1)])


def why(
    campaign: TheCampaign,
    number: TheRound = None,
    provider: Annotated[
        str | None, typer.Option("--provider", help="Whose payment, for the analyst.", show_default="everybody's")
    ] = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Explain payments with their own numbers."""
    chosen, found = _payments(server, campaign, number)
    picked = [one for one in found["payments"] if provider is None or one["provider"] == provider]
    if provider is not None and not picked:
        raise DataError(f"nothing was paid to {provider!r} in round {found['round']}")
    lines = [f"round {found['round']}{_day(found)}"] if picked else ["nothing was paid to you in this round"]
    for one in picked:
        lines.append(f"{one['provider']}: {one['rows']:,} rows, paid {one['payment']} {chosen['currency']}".rstrip())
        lines += [f"  {line}" for line in _table(None, [[s["what"], s["value"], s["meaning"]] for s in one["steps"]])]
    _show({**found, "payments": picked}, as_json, lines)


def export(
    campaign: TheCampaign,
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Where the files go.", show_default=False)],
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Save campaign file, ledger, payments and report: all that troth verify and troth statistics need."""
    from troth.campaigns.ledger import write_whole
    from troth.client import RefusedError

    client = _client(server)
    chosen = client.find_campaign(campaign)
    analyst = "provider" not in chosen
    wanted = {"campaign.toml": "campaign.toml", "ledger.jsonl": "ledger"}
    wanted |= {"payments.csv": "payments.csv", "report.html": "report"} if analyst else {}
    directory.mkdir(parents=True, exist_ok=True)
    written = {}
    for name, what in wanted.items():
        try:
            content = client.download(chosen["id"], what)
        except RefusedError as error:
            if error.status != 409:
                raise
            typer.echo(f"no {name}: {error}", err=True)
        else:
            write_whole(directory / name, content)
            written[name] = str(directory / name)
    checked = [f"check it: troth verify {written['ledger.jsonl']}"] if "ledger.jsonl" in written else []
    _show(written, as_json, [*(f"wrote {path}" for path in written.values()), *checked])


def add_to(app: typer.Typer) -> None:
    """Add the commands to the program."""
    for command in (login, logout, join, campaigns, create, invite, providers, submit, payments, why, export):
        app.command()(command)
    app.add_typer(rounds, name="round")


def _client(server: str | None) -> Client:
    from troth.client.credentials import connect

    return connect(server)


def _sign_in(
    client: Client, name: str, password: str, days: int, scopes: Sequence[str], insecure: bool, as_json: bool
) -> None:
    import platform

    label = f"command line on {platform.node()}"[:100] if platform.node().isprintable() else "command line"
    made = client.sign_in(name, password, label=label, scopes=scopes or ("read", "submit", "manage"), days=days)
    _keep(client, client.me(), insecure, as_json, token=made["token"], id=made["id"], expires=made["expires"])


def _keep(client: Client, me: dict[str, Any], insecure: bool, as_json: bool, **known: Any) -> None:
    from troth.client.credentials import keep

    path = keep(client.server, name=me["name"], insecure=insecure, **known)
    plain = {"server": client.server, **me, "expires": known.get("expires"), "kept": str(path)}
    _show(plain, as_json, [f"signed in to {client.server} as {me['name']}, {me['role']}; the token is in {path}"])


def _ask(what: str) -> str:
    if not sys.stdin.isatty():
        raise DataError(f"--{what}: is missing, and nobody is there to ask")
    return str(typer.prompt(what, err=True))


def _password(prompt: str, from_stdin: bool, *, twice: bool = False) -> str:
    if from_stdin:
        return sys.stdin.readline().rstrip("\r\n")
    if not sys.stdin.isatty():
        raise DataError("nobody is there to ask for the password; say --password-stdin to read it from standard input")
    return str(typer.prompt(prompt, hide_input=True, confirmation_prompt=twice, err=True))


def _held(client: Client, chosen: dict[str, Any], number: int | None, state: str, nothing: str) -> dict[str, Any]:
    """Return the round of a number, or the latest in a state."""
    found = client.rounds(chosen["id"])
    fitting = [one for one in found if (one["state"] == state if number is None else one["number"] == number)]
    if not fitting:
        raise DataError(
            f"{_printable(chosen['name'])}: " + (nothing if number is None else f"there is no round {number}")
        )
    return fitting[-1]


def _payments(server: str | None, campaign: str, number: int | None) -> tuple[dict[str, Any], dict[str, Any]]:
    client = _client(server)
    chosen = client.find_campaign(campaign)
    if number is None:
        paid = [one for one in client.rounds(chosen["id"]) if one["state"] in ("paid", "published")]
        if not paid:
            waiting = "published" if "provider" in chosen else "paid"
            raise DataError(f"{_printable(chosen['name'])}: no round is {waiting} yet")
        number = paid[-1]["number"]
    return chosen, client.payments(chosen["id"], number)


def _refuse_unpaid(held: dict[str, Any]) -> None:
    if held["problem"] is not None:
        raise DataError(
            f"round {held['number']} is closed and could not be paid: {held['problem']}. "
            "Open it again with troth round reopen"
        )


def _about(held: dict[str, Any]) -> str:
    parts = [f"round {held['number']}{_day(held)}: {held['state']}"]
    if "reports" in held:
        parts.append("1 report" if held["reports"] == 1 else f"{held['reports']:,} reports")
    if held["state"] == "open" and held["deadline"] is not None:
        parts.append(f"until {held['deadline']}")
    if held.get("submission") is not None:
        parts.append("you have reported")
    if held["state"] == "closed" and held.get("problem", "") is None:
        parts.append("paid once the next day is closed, or with troth round finish")
    if held.get("amount") is not None:
        parts.append(f"{held['amount']} paid")
    if held.get("head") is not None:
        parts.append(f"ledger {held['head'][:16]}…")
    return ", ".join(parts)


def _day(held: dict[str, Any]) -> str:
    return "" if held["day"] is None else f" of day {held['day']}"


def _standing(provider: dict[str, Any]) -> str:
    return "revoked" if provider["revoked"] else "joined" if provider["joined"] else "invited"


def _understood(sent: dict[str, Any]) -> list[str]:
    lines = [f"{sent['file']}: {sent['rows']:,} rows, SHA-256 {sent['sha256']}, as it is here"]
    for column in sent["columns"]:
        if column["labels"]:
            said = ", ".join(f"{label} {count:,}×" for label, count in column["labels"])
        else:
            said = f"from {column['least']:g} to {column['greatest']:g}, mean {column['mean']:.6g}"
        lines.append(f"  {column['name']}: {said}")
    return lines


def _receipt(chosen: dict[str, Any], receipt: dict[str, Any]) -> list[str]:
    about = [
        ["campaign", f"{chosen['name']} ({chosen['id']})"],
        ["round", f"{receipt['round']}{_day(receipt)}"],
        ["provider", receipt["provider"]],
        ["submission", receipt["id"]],
        ["file", receipt["file"]],
        ["rows", f"{receipt['rows']:,}"],
        ["sha256", receipt["sha256"]],
        ["data", receipt["data_digest"] or "–"],
        ["confirmed", receipt["confirmed"]],
    ]
    about += [] if receipt["commitment"] is None else [["commitment", receipt["commitment"]]]
    return ["receipt", *(f"  {line}" for line in _table(None, about))]


def _number(value: Any) -> str:
    return "–" if value is None else f"{float(value):.4f}"


def _table(heads: Sequence[str] | None, rows: Sequence[Sequence[str]], *, right: int | None = None) -> list[str]:
    """Return lines of columns; from the column ``right`` on, they end flush."""
    cells = [[_printable(cell) for cell in row] for row in ([heads, *rows] if heads is not None else rows)]
    if not cells:
        return []
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    first = len(widths) if right is None else right
    return [
        "  ".join(
            f"{cell:>{w}}" if i >= first else f"{cell:<{w}}"
            for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]


def _printable(text: str) -> str:
    from troth.results.explanation import printable

    return printable(text)


def _tell(lines: Sequence[str]) -> None:
    for line in lines:
        typer.echo(_printable(line), err=True)


def _show(plain: Any, as_json: bool, lines: Sequence[str]) -> None:
    if as_json:
        from troth.campaigns.canonical_json import as_json as text

        typer.echo(text(plain))
        return
    for line in lines:
        typer.echo(_printable(line))
