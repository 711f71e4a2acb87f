"""What commands print about a service: campaigns, submissions, receipts and verdicts in lines of text."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import typer

from troth.cli.output import STOPPED, say_unfit, show
from troth.core.errors import DataError
from troth.core.formats import brief, counted, money, number, printable, share
from troth.results.tables import table_lines
from troth.results.verdict_lines import lines_of

if TYPE_CHECKING:
    from collections.abc import Sequence


def task_lines(pay: dict[str, Any]) -> list[str]:
    """Return a worker's sample of its own tasks."""
    rows = [[each["task"], each["answer"], f"{each['share']:.0%}", each["reason"]] for each in pay["sample"]]
    return [pay["meaning"], *(f"  {line}" for line in table_lines(["task", "answer", "share", "why"], rows))]


def refuse_unpaid(campaign: str, closed: dict[str, Any], *, anyway: bool = False) -> None:
    """Stop if a round that was closed could not be paid; with exit code 3 if the model does not fit."""
    if closed["problem"] is None:
        return
    number, verdict = closed["number"], closed["verdict"]
    otherwise = "Reopen it with troth round reopen, or end it unpaid with troth round set-aside"
    if anyway or verdict is None or not verdict["stops"]:
        raise DataError(f"round {number} is closed and could not be paid: {closed['problem']}. {otherwise}")
    again = f"troth round close {shlex.quote(campaign)} {number} --anyway"
    typer.echo(f"round {number} is closed, and nothing was paid. {otherwise}", err=True)
    say_unfit(verdict["remedy"], again, stopped=True)
    raise typer.Exit(STOPPED)


def would_be_paid(campaign: dict[str, Any], would: dict[str, Any]) -> list[str]:
    """Return what closing a round of a campaign would pay, and the verdict on it."""
    currency, rows = campaign["currency"], "rows" if campaign["task"] is None else "tasks"
    daily = any(each["day"] is not None for each in would["payments"])
    head = ["day"] * daily + ["provider", rows, "share of cap", f"payment {currency}".strip()]
    lines = [[str(each["day"])] * daily + payment_cells(each) for each in would["payments"]]
    providers = len({each["provider"] for each in would["payments"]})
    return [
        f"would pay {money(would['total'])} {currency}".rstrip() + f" to {counted(providers, 'provider')}",
        *(f"  {line}" for line in table_lines(head, lines, right=1 + daily)),
        "",
        *verdict_lines(would["verdict"], providers),
    ]


def payment_cells(payment: dict[str, Any]) -> list[str]:
    """Return who is paid what, as cells of a table: with its score, if the service says one."""
    scored = "score" in payment
    score = float(payment["score"]) if scored and payment["score"] is not None else None
    cells = [payment["provider"], f"{payment['rows']:,}"] + [number(score)] * scored
    return [*cells, share(payment["share"]), money(payment["payment"])]


def verdict_lines(verdict: dict[str, Any] | None, providers: int | None = None) -> list[str]:
    """Return a verdict, who would have been better off otherwise, and what to look at in the data."""
    return [] if verdict is None else [*lines_of(verdict, providers), *verdict.get("notes", [])]


def about_round(shown: dict[str, Any]) -> str:
    """Return the state of a round and what comes next."""
    parts = [f"round {shown['number']}{day_text(shown)}: {shown['state']}"]
    if "reports" in shown:
        parts.append(counted(shown["reports"], "report"))
    if shown["state"] == "open" and shown["deadline"] is not None:
        parts.append(f"until {shown['deadline']}")
    if shown.get("submission") is not None:
        parts.append("you have reported")
    if shown["state"] == "closed" and shown.get("problem", "") is None:
        parts.append("paid once the next day is closed, or with troth round finish")
    if shown.get("amount") is not None:
        parts.append(f"{money(shown['amount'])} paid")
    if shown.get("unchecked") is not None:
        parts.append(f"the model is not checked ({printable(shown['unchecked'])})")
    if shown.get("head") is not None:
        parts.append(f"ledger {shown['head'][:16]}…")
    return ", ".join(parts)


def day_text(shown: dict[str, Any]) -> str:
    """Return the day of a round, if it has one."""
    return "" if shown["day"] is None else f" of day {shown['day']}"


def as_read(submission: dict[str, Any]) -> list[str]:
    """Return how the service read a file."""
    rows = counted(submission["rows"], "row" if submission["tasks"] is None else "task")
    lines = [f"{submission['file']}: {rows}, SHA-256 {submission['sha256']}, the same as here"]
    for column in submission["columns"]:
        if column["labels"]:
            summary = ", ".join(f"{label} {count:,}×" for label, count in column["labels"])
        elif column["mean"] is not None:
            summary = f"from {brief(column['least'])} to {brief(column['greatest'])}, mean {brief(column['mean'])}"
        else:
            continue
        lines.append(f"  {column['name']}: {summary}")
    return lines


def receipt_lines(chosen: dict[str, Any], receipt: dict[str, Any]) -> list[str]:
    """Return a receipt."""
    rows = [
        ["campaign", f"{chosen['name']} ({chosen['id']})"],
        ["round", f"{receipt['round']}{day_text(receipt)}"],
        ["provider", receipt["provider"]],
        ["submission", receipt["id"]],
        ["file", receipt["file"]],
        ["rows", f"{receipt['rows']:,}"],
        ["sha256", receipt["sha256"]],
        ["data", receipt["data_digest"] or "–"],
        ["confirmed", receipt["confirmed"]],
        *([] if receipt["commitment"] is None else [["commitment", receipt["commitment"]]]),
        ["signed by", receipt["receipt"]["key"]],
    ]
    return ["receipt", *(f"  {line}" for line in table_lines(None, rows))]


def show_lines(plain: Any, as_json: bool, lines: Sequence[str]) -> None:
    """Print data as JSON, or as lines that a terminal can show."""
    show(plain, as_json, *map(printable, lines))
