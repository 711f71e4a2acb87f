"""Commands about rounds and payments of a service: open, close, publish, explain, export, pay out."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from troth.cli.ledger import read_object
from troth.cli.options import AsJson
from troth.cli.output import STOPPED, report_poor_fit, warn
from troth.cli.service_connection import CampaignArgument, RoundArgument, Server, find_campaign, find_round, open_client
from troth.cli.service_lines import (
    about_round,
    day_text,
    payment_cells,
    preview_lines,
    reject_unpaid,
    show_lines,
    task_lines,
    verdict_lines,
)
from troth.core.errors import DataError
from troth.core.formats import counted, money, printable
from troth.results.tables import table_lines

DeadlineTime = Annotated[str | None, typer.Option(help="When it closes automatically, such as 2026-05-04T12:00:00Z.")]

_RESTORED = "the service's database was restored from an older copy. Do not pay out batch {}, and void what was paid"

rounds = typer.Typer(help="Open, close, pay and publish rounds.", no_args_is_help=True, rich_markup_mode=None)


@rounds.command("open")
def open_round(
    campaign: CampaignArgument,
    day: Annotated[str | None, typer.Option(help="The day, in a daily campaign.", show_default="the next one")] = None,
    deadline: DeadlineTime = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Open the next round; the first one fixes providers and terms."""
    client, campaign_view = find_campaign(server, campaign)
    opened = client.open_round(campaign_view["id"], day=day, deadline=deadline)
    show_lines(opened, as_json, [about_round(opened)])


@rounds.command("close")
def close_round(
    campaign: CampaignArgument,
    number: RoundArgument = None,
    final: Annotated[bool, typer.Option("--final", help="This is the last day: pay it too.")] = False,
    beacon: Annotated[
        str | None, typer.Option(help="The value of the beacon named in the terms, for a closed round.")
    ] = None,
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Pay even if the model does not fit, and even a stopped round.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be paid; close, pay and reveal nothing.")
    ] = False,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Close a round and pay what has become payable. If the model does not fit, exit with code 3 instead."""
    states = ("open", "closed") if anyway else ("open",) if beacon is None else ("closed",)
    client, campaign_view = find_campaign(server, campaign)
    number = find_round(client, campaign_view, number, states, f"no round is {states[0]}")
    if dry_run:
        preview = client.dry_run(campaign_view["id"], number, final=final)
        show_lines(preview, as_json, preview_lines(campaign_view, preview))
        typer.echo("nothing was closed, paid or revealed: this was a dry run", err=True)
        if preview["verdict"] is not None and preview["verdict"]["stops"]:
            command = f"troth round close {shlex.quote(campaign)} {number} --anyway"
            report_poor_fit(preview["verdict"]["remedy"], command, stopped=False)
            raise typer.Exit(0 if anyway else STOPPED)
        return
    closed = client.close_round(campaign_view["id"], number, final=final, beacon=beacon, anyway=anyway)
    show_lines(closed, as_json, [about_round(closed), *verdict_lines(closed["verdict"], closed["reports"])])
    reject_unpaid(campaign, closed, anyway=anyway)


@rounds.command("finish")
def finish(campaign: CampaignArgument, server: Server = None, as_json: AsJson = False) -> None:
    """End a daily campaign whose last round is closed: the last day is paid too."""
    client, campaign_view = find_campaign(server, campaign)
    ended = client.finish_campaign(campaign_view["id"])
    last = client.list_rounds(ended["id"])[-1]
    show_lines(
        ended,
        as_json,
        [f"{printable(ended['name'])}: {ended['state']}, {money(ended['paid'])} {ended['currency']} paid"],
    )
    reject_unpaid(campaign, last)


@rounds.command("publish")
def publish(
    campaign: CampaignArgument, number: RoundArgument = None, server: Server = None, as_json: AsJson = False
) -> None:
    """Show providers their payments, and why."""
    client, campaign_view = find_campaign(server, campaign)
    number = find_round(client, campaign_view, number, ("paid",), "no paid round is waiting to be published")
    published = client.publish_round(campaign_view["id"], number)
    show_lines(published, as_json, [about_round(published)])


@rounds.command("reopen")
def reopen(
    campaign: CampaignArgument,
    number: RoundArgument = None,
    deadline: DeadlineTime = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Reopen a round that was closed and could not be paid."""
    client, campaign_view = find_campaign(server, campaign)
    number = find_round(client, campaign_view, number, ("closed",), "no round is closed and unpaid")
    reopened = client.reopen_round(campaign_view["id"], number, deadline=deadline)
    show_lines(reopened, as_json, [about_round(reopened)])


@rounds.command("set-aside")
def set_aside(
    campaign: CampaignArgument, number: RoundArgument = None, server: Server = None, as_json: AsJson = False
) -> None:
    """End a round that was closed and could not be paid: nobody is paid for it, and later days continue."""
    client, campaign_view = find_campaign(server, campaign)
    number = find_round(client, campaign_view, number, ("closed",), "no round is closed and unpaid")
    ended = client.set_round_aside(campaign_view["id"], number)
    show_lines(ended, as_json, [about_round(ended)])


@rounds.command("show")
def show_rounds(
    campaign: CampaignArgument, number: RoundArgument = None, server: Server = None, as_json: AsJson = False
) -> None:
    """Show a campaign's rounds, or one of them."""
    client, campaign_view = find_campaign(server, campaign)
    if number is None:
        all_rounds = client.list_rounds(campaign_view["id"])
        show_lines(all_rounds, as_json, [about_round(round_row) for round_row in all_rounds] or ["no rounds yet"])
    else:
        chosen_round = client.show_round(campaign_view["id"], number)
        show_lines(chosen_round, as_json, [about_round(chosen_round), *verdict_lines(chosen_round.get("verdict"))])


def payments(
    campaign: CampaignArgument, number: RoundArgument = None, server: Server = None, as_json: AsJson = False
) -> None:
    """Show what a round pays: to everybody, or to you once it is published."""
    campaign_view, paid = _payments(server, campaign, number)
    rows = [payment_cells(payment) for payment in paid["payments"]]
    noun = "rows" if campaign_view["task"] is None else "tasks"
    header = ["provider", noun, "score", "share of cap", f"payment {campaign_view['currency']}".strip()]
    show_lines(paid, as_json, [f"round {paid['round']}{day_text(paid)}", *table_lines(header, rows, right=1)])


def why(
    campaign: CampaignArgument,
    number: RoundArgument = None,
    provider: Annotated[
        str | None, typer.Option(help="For the analyst: the provider who was paid.", show_default="all providers")
    ] = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Explain payments step by step."""
    campaign_view, paid = _payments(server, campaign, number)
    selected = [payment for payment in paid["payments"] if provider is None or payment["provider"] == provider]
    if provider is not None and not selected:
        raise DataError(f"nothing was paid to {provider!r} in round {paid['round']}")
    noun = "row" if campaign_view["task"] is None else "task"
    lines = [f"round {paid['round']}{day_text(paid)}"] if selected else ["nothing was paid to you in this round"]
    for payment in selected:
        rows = counted(payment["rows"], noun)
        lines.append(f"{payment['provider']}: {rows}, paid {payment['payment']} {campaign_view['currency']}".rstrip())
        steps = [[step["what"], step["value"], step["meaning"]] for step in payment["steps"]]
        lines += [f"  {line}" for line in table_lines(None, steps)]
    if selected and campaign_view["task"] is not None and "provider" in campaign_view:
        paid["tasks"] = open_client(server).show_tasks(campaign_view["id"], paid["round"])
        lines += task_lines(paid["tasks"])
    show_lines({**paid, "payments": selected}, as_json, lines)


def export(
    campaign: CampaignArgument,
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Where to write the files.", show_default=False)],
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Save the campaign file, ledger, payments and page: everything that troth verify and troth statistics need.

    The ledger is compared with the head that the service has signed.
    """
    from troth.campaigns.records.ledger import Ledger, write_atomic
    from troth.client import RefusedError
    from troth.client.heads import check_lines, signed_head

    client, campaign_view = find_campaign(server, campaign)
    head = signed_head(client, campaign_view)
    downloads = {"campaign.toml": client.campaign_file, "ledger.jsonl": client.ledger_file}
    if campaign_view["task"] is not None:
        downloads["ledger.tasks.parquet"] = client.shares_file
    if "provider" not in campaign_view:
        downloads |= {"payments.csv": client.payments_file, "report.html": client.page_file}
    directory.mkdir(parents=True, exist_ok=True)
    files = {}
    for name, download in downloads.items():
        try:
            content = download(campaign_view["id"])
        except RefusedError as error:
            if error.status != 409:
                raise
            typer.echo(f"no {name}: {error}", err=True)
        else:
            write_atomic(directory / name, content, private=True)  # most contain data of all providers
            files[name] = str(directory / name)
            if name == "ledger.jsonl":
                try:
                    check_lines(head, Ledger.from_bytes(content, files[name]))
                except DataError as error:
                    warn(f"{error}. Compare with what others have seen, and ask the analyst")
    advice = [f"check it: troth verify {files['ledger.jsonl']}"] if "ledger.jsonl" in files else []
    show_lines(files, as_json, [*(f"wrote {path}" for path in files.values()), *advice])


def payouts(
    campaign: CampaignArgument,
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The folder for batches.", show_default=False)],
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Export payouts in numbered batches: pay out each file once, and everybody is paid once."""
    from troth.campaigns.private_files import replace_private
    from troth.campaigns.records.canonical_json import as_json as write_json
    from troth.client import RefusedError

    client, campaign_view = find_campaign(server, campaign)
    try:
        client.export_payouts(campaign_view["id"])
    except RefusedError as error:
        if error.status != 409:
            raise
    batches = {payout["batch"] for payout in client.list_payouts(campaign_view["id"])["payouts"]} - {None}
    directory.mkdir(parents=True, exist_ok=True)
    stem, exported = f"payouts-{campaign_view['id']}-", dict[str, str]()
    for path in directory.glob(f"{stem}*.json"):
        try:
            exported |= {line["id"]: path.name for line in read_object(path)["payments"]}
        except (LookupError, TypeError):
            raise DataError(f"{path}: this is not a batch that `troth payouts` wrote") from None
    files = []
    for batch in sorted(batches):
        name, content = f"{stem}{batch:04d}", client.show_payouts(campaign_view["id"], batch)
        for line in content["payments"]:
            if line["id"] in exported and exported[line["id"]] != f"{name}.json":
                problem = f"payment {line['id']} of batch {batch} is already in {directory / exported[line['id']]}"
                raise DataError(f"{problem}: {_RESTORED.format(batch)}")
        for ending in ("json", "csv"):
            path = directory / f"{name}.{ending}"
            if not path.exists():
                csv = client.payouts_file(campaign_view["id"], batch) if ending == "csv" else b""
                replace_private(path, csv or (write_json(content) + "\n").encode())
                files.append(str(path))
            elif {payment["id"] for payment in content["payments"]} - exported.keys():
                other = f"{path} has payments that differ from batch {batch} of the service"
                raise DataError(f"{other}: {_RESTORED.format(batch)}")
    show_lines({"written": files}, as_json, [f"wrote {path}" for path in files] or ["nothing new to pay out"])


def _payments(server: str | None, campaign: str, number: int | None) -> tuple[dict[str, Any], dict[str, Any]]:
    client, campaign_view = find_campaign(server, campaign)
    waiting = "published" if "provider" in campaign_view else "paid"
    number = find_round(client, campaign_view, number, ("paid", "published"), f"no round is {waiting} yet")
    return campaign_view, {**client.list_payments(campaign_view["id"], number), "terms": campaign_view["terms"]}
