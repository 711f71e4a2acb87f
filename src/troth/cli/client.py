"""Commands that speak to a service from a shell, as a client of its API."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from troth.cli.options import AsJson, CampaignFile
from troth.cli.output import progress, show, warn, watch_as
from troth.core.errors import DataError
from troth.operations import SCOPES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from troth.client import Client

Server = Annotated[
    str | None,
    typer.Option("--server", envvar="TROTH_SERVER", help="Which service.", show_default="the last one signed in to"),
]
TheCampaign = Annotated[
    str, typer.Argument(metavar="CAMPAIGN", help="The campaign's identifier or name.", show_default=False)
]
TheRound = Annotated[
    int | None, typer.Argument(metavar="[ROUND]", help="The round's number.", min=1, show_default="the latest")
]
PasswordStdin = Annotated[bool, typer.Option("--password-stdin", help="Read the password from standard input.")]
Insecure = Annotated[
    bool,
    typer.Option("--insecure", envvar="TROTH_INSECURE", help="Allow http:// to other machines: not encrypted."),
]
DeadlineTime = Annotated[
    str | None, typer.Option("--deadline", help="When it closes automatically, such as 2026-05-04T12:00:00Z.")
]

rounds = typer.Typer(help="Open, close, pay and publish rounds.", no_args_is_help=True, rich_markup_mode=None)


def login(
    url: Annotated[str, typer.Argument(metavar="URL", help="The service's address.", show_default=False)],
    name: Annotated[str | None, typer.Option("--name", help="Your name there.", show_default="asked for")] = None,
    token: Annotated[
        str | None, typer.Option("--token", help="A token instead of a password, from the settings page.")
    ] = None,
    days: Annotated[int, typer.Option("--days", help="How long to stay signed in.", min=1, max=366)] = 30,
    scope: Annotated[
        list[str] | None,
        typer.Option("--scope", help="read, submit or manage; can be repeated.", show_default="all"),
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
    account = name or _ask_name()
    _sign_in(client, account, _password("password", password_stdin), days, scope or [], insecure, as_json)


def logout(server: Server = None, as_json: AsJson = False) -> None:
    """Sign out of a service: the token is revoked, and removed from this machine."""
    from troth.client import RefusedError, UnreachableError
    from troth.client.credentials import connect, current, forget, load

    chosen = current(server)
    account = load()["servers"].get(chosen)
    if account is None:
        raise DataError(f"you are not signed in to {chosen}")
    revoked = False
    if account.get("id") is not None:
        try:
            connect(chosen).revoke_token(account["id"])
            revoked = True
        except (RefusedError, UnreachableError) as error:
            warn(f"the token is removed here but may still be valid there: {error}")
    forget(chosen)
    _show({"server": chosen, "revoked": revoked}, as_json, [f"signed out of {chosen}"])


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
    """Accept an invitation, or choose a password with a sign-in link; both sign you in."""
    from troth.client import Client
    from troth.client.api import read_link
    from troth.client.credentials import connect

    server, kind, secret = read_link(link)
    if as_me:
        if kind != "join":
            raise DataError("--as-me: works with an invitation; this is a sign-in link")
        accepted = connect(server).accept_invitation(invitation=secret)
        _show(accepted, as_json, [f"joined at {server}; see troth campaigns"])
        return
    client = Client(server, insecure=insecure)
    password = _password("choose a password", password_stdin, twice=True)
    if kind == "join":
        account = client.accept_invitation(invitation=secret, name=name, password=password)
    else:
        account = client.choose_password(link=secret, password=password)
    _sign_in(client, account["name"], password, 30, [], insecure, as_json)


def campaigns(server: Server = None, as_json: AsJson = False) -> None:
    """List your campaigns."""
    mine = _client(server).list_campaigns()
    rows = [[each["id"], each["name"], each["state"], f"{each['budget']} {each['currency']}".strip()] for each in mine]
    _show(mine, as_json, _table(["id", "name", "state", "budget"], rows) if mine else ["no campaigns yet"])


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

    from troth.campaigns.terms import Campaign

    terms = Campaign.load(campaign)  # mistakes are reported before anything is sent
    tables = tomllib.loads(campaign.read_text(encoding="utf-8"))
    tables["model"] = terms.plain["model"]  # with the parameters from a file that it names
    if terms.public_source is not None:
        if terms.task is not None:
            raise DataError("[data] public: a service takes no public guesses of tasks; pay these with troth pay")
        if terms.public_by_day:
            raise DataError(
                f"[data] public: has the column {terms.day!r}, and a service takes public data that are the same on "
                "every day: remove the column, or pay with troth pay"
            )
        del tables["data"]["public"]
        tables["public"] = terms.terms["public"]
    created = _client(server).create_campaign(terms=tables, publish_at_once=publish_at_once, share_ledger=share_ledger)
    if terms.source is not None:
        typer.echo("note: files that the campaign file names are not sent; providers send their own", err=True)
    _show(created, as_json, [created["id"]])


def invite(
    campaign: TheCampaign,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The provider's name.", show_default=False)],
    identity: Annotated[
        str | None,
        typer.Option("--identity", help="How you verified who it is: an address, a contract.", show_default=False),
    ] = None,
    group: Annotated[str | None, typer.Option("--group", help="A label that related providers share.")] = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Add a provider and print its one-time link; for one who has not joined yet, print a new one."""
    client, chosen = _find_campaign(server, campaign)
    members = [each["id"] for each in client.list_providers(chosen["id"]) if each["name"] == name]
    if members:
        invited = client.invite_again(chosen["id"], members[0])
    elif identity is None:
        raise DataError("--identity: say how you verified who this is; nobody may be a provider twice")
    else:
        invited = client.add_provider(chosen["id"], name=name, identity=identity, group=group)
    _show(invited, as_json, [invited["link"]])


def providers(campaign: TheCampaign, server: Server = None, as_json: AsJson = False) -> None:
    """List a campaign's providers."""
    client, chosen = _find_campaign(server, campaign)
    everybody = client.list_providers(chosen["id"])
    rows = []
    for each in everybody:
        state = "revoked" if each["revoked"] else "joined" if each["joined"] else "invited"
        rows.append([each["name"], each["identity"], each["group"] or "–", state])
    _show(everybody, as_json, _table(["name", "identity", "group", "state"], rows) if rows else ["no providers yet"])


def submit(
    campaign: TheCampaign,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Your rows, or statistics of them.", show_default=False)],
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

    from troth.client.submission import check_receipt, check_signed, prepare

    if not yes and not sys.stdin.isatty():
        raise DataError("standard input is not a terminal; pass --yes to confirm without being asked")
    client, chosen, current = _find_round(server, campaign, number, "open", "no round is open")
    number, earlier = current["number"], current.get("submission")
    if earlier is not None and not replace:
        raise DataError(f"you have already reported to round {number}; pass --replace to replace that report")
    package = prepare(client, chosen, current, file, statistics=statistics)
    with progress() as watch:
        submission = client.submit_file(
            chosen["id"], number, package.content, name=package.name, watch=watch_as(watch, "sending")
        )
    while submission["state"] == "waiting":
        time.sleep(1.0)
        submission = client.show_submission(chosen["id"], number, submission["id"])
    if submission["state"] == "refused":
        raise DataError(submission["problem"])
    check_receipt(package, submission)
    for line in _as_read(submission):
        typer.echo(_printable(line), err=True)
    if not yes and not typer.confirm("Is this correct, and your report to this round?", err=True):
        raise DataError("nothing was confirmed, and what was sent does not count")
    nonce = secrets.token_hex(32)
    receipt = client.confirm_submission(chosen["id"], number, submission["id"], replaces=earlier, nonce=nonce)
    signed = check_signed(submission, receipt, nonce)
    if keep is not None:
        from troth.campaigns.canonical_json import as_json as write_json
        from troth.campaigns.private_files import replace_private

        replace_private(keep, (write_json(signed) + "\n").encode())
    _show(receipt, as_json, _receipt(chosen, receipt))


@rounds.command("open")
def open_round(
    campaign: TheCampaign,
    day: Annotated[str | None, typer.Option("--day", help="In a daily campaign.", show_default="the next one")] = None,
    deadline: DeadlineTime = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Open the next round; the first one fixes providers and terms."""
    client, chosen = _find_campaign(server, campaign)
    opened = client.open_round(chosen["id"], day=day, deadline=deadline)
    _show(opened, as_json, [_about(opened)])


@rounds.command("close")
def close_round(
    campaign: TheCampaign,
    number: TheRound = None,
    final: Annotated[bool, typer.Option("--final", help="This is the last day: pay it too.")] = False,
    beacon: Annotated[
        str | None,
        typer.Option("--beacon", help="The value of the beacon that the terms name, for a round that is closed."),
    ] = None,
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Pay even if the model does not fit, also a round that stopped for that.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be paid; close, pay and reveal nothing.")
    ] = False,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Close a round and pay what has become payable, unless the model does not fit."""
    client, chosen = _find_campaign(server, campaign)
    if number is None:
        states = ("open", "closed") if anyway else ("open",) if beacon is None else ("closed",)
        numbers = [each["number"] for each in client.list_rounds(chosen["id"]) if each["state"] in states]
        if not numbers:
            raise DataError(f"{_printable(chosen['name'])}: no round is {states[0]}")
        number = numbers[-1]
    if dry_run:
        would = client.dry_run(chosen["id"], number, final=final)
        _show(would, as_json, _would_be_paid(would))
        return
    closed = client.close_round(chosen["id"], number, final=final, beacon=beacon, anyway=anyway)
    _show(closed, as_json, [_about(closed), *_verdict_lines(closed["verdict"])])
    _refuse_unpaid(closed)


@rounds.command("finish")
def finish(campaign: TheCampaign, server: Server = None, as_json: AsJson = False) -> None:
    """End a daily campaign whose last round is closed: the last day is paid too."""
    client, chosen = _find_campaign(server, campaign)
    ended = client.finish_campaign(chosen["id"])
    last = client.list_rounds(ended["id"])[-1]
    _show(ended, as_json, [f"{_printable(ended['name'])}: {ended['state']}, {ended['paid']} {ended['currency']} paid"])
    _refuse_unpaid(last)


@rounds.command("publish")
def publish(campaign: TheCampaign, number: TheRound = None, server: Server = None, as_json: AsJson = False) -> None:
    """Show providers what they were paid, and why."""
    client, chosen, paid = _find_round(server, campaign, number, "paid", "no paid round waits to be published")
    published = client.publish_round(chosen["id"], paid["number"])
    _show(published, as_json, [_about(published)])


@rounds.command("reopen")
def reopen(
    campaign: TheCampaign,
    number: TheRound = None,
    deadline: DeadlineTime = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Reopen a round that was closed and could not be paid."""
    client, chosen, closed = _find_round(server, campaign, number, "closed", "no round is closed and unpaid")
    reopened = client.reopen_round(chosen["id"], closed["number"], deadline=deadline)
    _show(reopened, as_json, [_about(reopened)])


@rounds.command("set-aside")
def set_aside(campaign: TheCampaign, number: TheRound = None, server: Server = None, as_json: AsJson = False) -> None:
    """End a round that was closed and could not be paid: nobody is paid for it, and later days go on."""
    client, chosen, closed = _find_round(server, campaign, number, "closed", "no round is closed and unpaid")
    ended = client.set_round_aside(chosen["id"], closed["number"])
    _show(ended, as_json, [_about(ended)])


@rounds.command("show")
def show_rounds(campaign: TheCampaign, number: TheRound = None, server: Server = None, as_json: AsJson = False) -> None:
    """Show a campaign's rounds, or one of them."""
    client, chosen = _find_campaign(server, campaign)
    if number is None:
        every = client.list_rounds(chosen["id"])
        _show(every, as_json, [_about(each) for each in every] or ["no rounds yet"])
    else:
        chosen_round = client.show_round(chosen["id"], number)
        _show(chosen_round, as_json, [_about(chosen_round)])


def payments(campaign: TheCampaign, number: TheRound = None, server: Server = None, as_json: AsJson = False) -> None:
    """Show what a round pays: to everybody, or to you once it is published."""
    chosen, paid = _payments(server, campaign, number)
    rows = []
    for each in paid["payments"]:
        score = "–" if each["score"] is None else f"{float(each['score']):.4f}"
        rows.append([each["provider"], f"{each['rows']:,}", score, f"{each['share']:.2%}", each["payment"]])
    what = "rows" if chosen["task"] is None else "tasks"
    heads = ["provider", what, "score", "share of cap", f"payment {chosen['currency']}".strip()]
    _show(paid, as_json, [f"round {paid['round']}{_day(paid)}", *_table(heads, rows, right=1)])


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
    chosen, paid = _payments(server, campaign, number)
    picked = [each for each in paid["payments"] if provider is None or each["provider"] == provider]
    if provider is not None and not picked:
        raise DataError(f"nothing was paid to {provider!r} in round {paid['round']}")
    what = "row" if chosen["task"] is None else "task"
    lines = [f"round {paid['round']}{_day(paid)}"] if picked else ["nothing was paid to you in this round"]
    for each in picked:
        lines.append(
            f"{each['provider']}: {_counted(each['rows'], what)}, paid {each['payment']} {chosen['currency']}".rstrip()
        )
        steps = [[step["what"], step["value"], step["meaning"]] for step in each["steps"]]
        lines += [f"  {line}" for line in _table(None, steps)]
    if picked and chosen["task"] is not None and "provider" in chosen:
        paid["tasks"] = _client(server).show_tasks(chosen["id"], paid["round"])
        lines += _task_lines(paid["tasks"])
    _show({**paid, "payments": picked}, as_json, lines)


def export(
    campaign: TheCampaign,
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Where the files go.", show_default=False)],
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Save campaign file, ledger, payments and page: all that troth verify and troth statistics need."""
    from troth.campaigns.ledger import write_whole
    from troth.client import RefusedError

    client, chosen = _find_campaign(server, campaign)
    downloads = {"campaign.toml": client.campaign_file, "ledger.jsonl": client.ledger_file}
    if chosen["task"] is not None:
        downloads["ledger.tasks.parquet"] = client.shares_file
    if "provider" not in chosen:
        downloads |= {"payments.csv": client.payments_file, "report.html": client.report_file}
    directory.mkdir(parents=True, exist_ok=True)
    written = {}
    for name, download in downloads.items():
        try:
            content = download(chosen["id"])
        except RefusedError as error:
            if error.status != 409:
                raise
            typer.echo(f"no {name}: {error}", err=True)
        else:
            write_whole(directory / name, content)
            written[name] = str(directory / name)
    advice = [f"check it: troth verify {written['ledger.jsonl']}"] if "ledger.jsonl" in written else []
    _show(written, as_json, [*(f"wrote {path}" for path in written.values()), *advice])


def payouts(
    campaign: TheCampaign,
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Where batches go.", show_default=False)],
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Export what is to be paid out, in numbered batches: pay out each file once, and everybody is paid once."""
    from troth.campaigns.canonical_json import as_json as write_json
    from troth.campaigns.private_files import replace_private
    from troth.client import RefusedError

    client, chosen = _find_campaign(server, campaign)
    try:
        client.export_payouts(chosen["id"])
    except RefusedError as error:
        if error.status != 409:
            raise
    batches = {each["batch"] for each in client.list_payouts(chosen["id"])["payouts"]} - {None}
    directory.mkdir(parents=True, exist_ok=True)
    written = []
    for batch in sorted(batches):
        for ending in ("json", "csv"):
            path = directory / f"payouts-{chosen['id']}-{batch:04d}.{ending}"
            if not path.exists():
                content = client.payouts_file(chosen["id"], batch) if ending == "csv" else b""
                content = content or (write_json(client.show_payouts(chosen["id"], batch)) + "\n").encode()
                replace_private(path, content)
                written.append(str(path))
    _show({"written": written}, as_json, [f"wrote {path}" for path in written] or ["nothing new to pay out"])


def add_to(app: typer.Typer) -> list[str]:
    """Add the commands to the program, and return their names."""
    commands = (login, logout, join, campaigns, create, invite, providers, submit, payments, why, export, payouts)
    for command in commands:
        app.command()(command)
    app.add_typer(rounds, name="round")
    return [*(command.__name__ for command in commands), "round"]


def _task_lines(pay: dict[str, Any]) -> list[str]:
    """Return a worker's sample of its own tasks."""
    rows = [[each["task"], each["answer"], f"{each['share']:.0%}", each["reason"]] for each in pay["sample"]]
    return [pay["meaning"], *(f"  {line}" for line in _table(["task", "answer", "share", "why"], rows))]


def _client(server: str | None) -> Client:
    from troth.client.credentials import connect

    return connect(server)


def _find_campaign(server: str | None, campaign: str) -> tuple[Client, dict[str, Any]]:
    client = _client(server)
    return client, client.find_campaign(campaign)


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
    _show(signed_in, as_json, [f"signed in to {client.server} as {me['name']}, {me['role']}; the token is in {path}"])


def _ask_name() -> str:
    if not sys.stdin.isatty():
        raise DataError("--name: is missing, and standard input is not a terminal to ask on")
    return str(typer.prompt("name", err=True))


def _password(prompt: str, from_stdin: bool, *, twice: bool = False) -> str:
    if from_stdin:
        return sys.stdin.readline().rstrip("\r\n")
    if not sys.stdin.isatty():
        raise DataError("standard input is not a terminal; pass --password-stdin to read the password from it")
    return str(typer.prompt(prompt, hide_input=True, confirmation_prompt=twice, err=True))


def _find_round(
    server: str | None, campaign: str, number: int | None, state: str, none: str
) -> tuple[Client, dict[str, Any], dict[str, Any]]:
    """Return the client, the campaign, and its round with a number or the latest in a state."""
    client, chosen = _find_campaign(server, campaign)
    if number is not None:
        return client, chosen, client.show_round(chosen["id"], number)
    rounds_in_state = [each for each in client.list_rounds(chosen["id"]) if each["state"] == state]
    if not rounds_in_state:
        raise DataError(f"{_printable(chosen['name'])}: {none}")
    return client, chosen, rounds_in_state[-1]


def _payments(server: str | None, campaign: str, number: int | None) -> tuple[dict[str, Any], dict[str, Any]]:
    from troth.client.heads import watch_head

    client, chosen = _find_campaign(server, campaign)
    if number is None:
        paid = [each for each in client.list_rounds(chosen["id"]) if each["state"] in ("paid", "published")]
        if not paid:
            waiting = "published" if "provider" in chosen else "paid"
            raise DataError(f"{_printable(chosen['name'])}: no round is {waiting} yet")
        number = paid[-1]["number"]
    shown = client.list_payments(chosen["id"], number)
    wrong = watch_head(client, chosen["id"])
    if wrong is not None:
        warn(f"{wrong}. Compare with what others have seen, and ask the analyst")
    return chosen, shown


def _refuse_unpaid(closed: dict[str, Any]) -> None:
    if closed["problem"] is not None:
        raise DataError(
            f"round {closed['number']} is closed and could not be paid: {closed['problem']}. "
            "Reopen it with troth round reopen, or end it unpaid with troth round set-aside"
        )


def _would_be_paid(would: dict[str, Any]) -> list[str]:
    lines = [
        f"{_printable(each['provider']):<24}{_day(each)} {each['share']:>8.2%} of the cap {each['payment']:>12}"
        for each in would["payments"]
    ]
    return [*lines, f"{would['total']} would be paid in all", *_verdict_lines(would["verdict"])]


def _verdict_lines(verdict: dict[str, Any] | None) -> list[str]:
    if verdict is None:
        return []
    lines = [f"model {verdict['model']}: {verdict['meaning']}"]
    less = {"less": verdict["better_with_less"]} if verdict["gain_of_less"] else {}
    for what, gains in {"nothing": verdict["below_empty_report"], **less}.items():
        listed = ", ".join(f"{_printable(name)} ({gain:.1%} of the cap)" for name, gain in gains.items())
        lines.append(f"better off with {what}: {listed or 'nobody'}")
    return lines


def _about(shown: dict[str, Any]) -> str:
    parts = [f"round {shown['number']}{_day(shown)}: {shown['state']}"]
    if "reports" in shown:
        parts.append("1 report" if shown["reports"] == 1 else f"{shown['reports']:,} reports")
    if shown["state"] == "open" and shown["deadline"] is not None:
        parts.append(f"until {shown['deadline']}")
    if shown.get("submission") is not None:
        parts.append("you have reported")
    if shown["state"] == "closed" and shown.get("problem", "") is None:
        parts.append("paid once the next day is closed, or with troth round finish")
    if shown.get("amount") is not None:
        parts.append(f"{shown['amount']} paid")
    if shown.get("head") is not None:
        parts.append(f"ledger {shown['head'][:16]}…")
    return ", ".join(parts)


def _day(shown: dict[str, Any]) -> str:
    return "" if shown["day"] is None else f" of day {shown['day']}"


def _as_read(submission: dict[str, Any]) -> list[str]:
    rows = _counted(submission["rows"], "row" if submission["tasks"] is None else "task")
    lines = [f"{submission['file']}: {rows}, SHA-256 {submission['sha256']}, the same as here"]
    for column in submission["columns"]:
        if column["labels"]:
            summary = ", ".join(f"{label} {count:,}×" for label, count in column["labels"])
        else:
            summary = f"from {column['least']:g} to {column['greatest']:g}, mean {column['mean']:.6g}"
        lines.append(f"  {column['name']}: {summary}")
    return lines


def _receipt(chosen: dict[str, Any], receipt: dict[str, Any]) -> list[str]:
    rows = [
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
    if receipt["commitment"] is not None:
        rows.append(["commitment", receipt["commitment"]])
    if receipt["receipt"] is not None:
        rows.append(["signed by", receipt["receipt"]["key"]])
    return ["receipt", *(f"  {line}" for line in _table(None, rows))]


def _table(heads: Sequence[str] | None, rows: Sequence[Sequence[str]], *, right: int | None = None) -> list[str]:
    """Return lines of aligned columns; from the column ``right`` on, aligned to the right."""
    lines = [[_printable(cell) for cell in row] for row in ([heads, *rows] if heads is not None else rows)]
    columns = []
    for place, column in enumerate(zip(*lines, strict=True)):
        width = max(map(len, column))
        to_the_right = right is not None and place >= right
        columns.append([cell.rjust(width) if to_the_right else cell.ljust(width) for cell in column])
    return ["  ".join(cells).rstrip() for cells in zip(*columns, strict=True)]


def _counted(rows: int, what: str = "row") -> str:
    from troth.results.formats import counted

    return counted(rows, what)


def _printable(text: str) -> str:
    from troth.results.explanation import printable

    return printable(text)


def _show(plain: Any, as_json: bool, lines: Sequence[str]) -> None:
    show(plain, as_json, *map(_printable, lines))
