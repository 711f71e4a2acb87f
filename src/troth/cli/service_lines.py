"""What commands print about a service: rounds, submissions, receipts and verdicts as lines of text."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import typer

from troth.cli.output import STOPPED, report_poor_fit, rows_left_out, show
from troth.core.errors import DataError
from troth.core.formats import brief, counted, money, number, printable, share
from troth.results.tables import table_lines
from troth.results.verdict_lines import lines_of

if TYPE_CHECKING:
    from collections.abc import Sequence


def task_lines(pay: dict[str, Any]) -> list[str]:
    """Return a sample of a worker's own tasks."""
    rows = [[task["task"], task["answer"], f"{task['share']:.0%}", task["reason"]] for task in pay["sample"]]
    return [pay["meaning"], *(f"  {line}" for line in table_lines(["task", "answer", "share", "why"], rows))]


def reject_unpaid(campaign: str, closed: dict[str, Any], *, anyway: bool = False) -> None:
    """Stop if a closed round could not be paid, with exit code 3 if the model does not fit."""
    if closed["problem"] is None:
        return
    number, verdict = closed["number"], closed["verdict"]
    remedy = "Reopen it with troth round reopen, or end it unpaid with troth round set-aside"
    if anyway or verdict is None or not verdict["stops"]:
        raise DataError(f"round {number} is closed and could not be paid: {closed['problem']}. {remedy}")
    command = f"troth round close {shlex.quote(campaign)} {number} --anyway"
    typer.echo(f"round {number} is closed, and nothing was paid. {remedy}", err=True)
    report_poor_fit(verdict["remedy"], command, stopped=True)
    raise typer.Exit(STOPPED)


def preview_lines(campaign: dict[str, Any], preview: dict[str, Any]) -> list[str]:
    """Return what closing a round of a campaign would pay, and the verdict on it."""
    currency, rows = campaign["currency"], "rows" if campaign["task"] is None else "tasks"
    daily = any(payment["day"] is not None for payment in preview["payments"])
    head = ["day"] * daily + ["provider", rows, "share of cap", f"payment {currency}".strip()]
    lines = [[str(payment["day"])] * daily + payment_cells(payment) for payment in preview["payments"]]
    providers = len({payment["provider"] for payment in preview["payments"]})
    note = "the amounts paid will differ a little: the rule draws, and the round's seed is known only once it is closed"
    return [
        f"would pay {money(preview['total'])} {currency}".rstrip() + f" to {counted(providers, 'provider')}",
        *(f"  {line}" for line in table_lines(head, lines, right=1 + daily)),
        *([note] if lines and preview["draws"] else []),
        "",
        *verdict_lines(preview["verdict"], providers),
    ]


def payment_cells(payment: dict[str, Any]) -> list[str]:
    """Return a payment as the cells of a row, with its score if the service sends one."""
    has_score = "score" in payment
    score = float(payment["score"]) if has_score and payment["score"] is not None else None
    cells = [payment["provider"], f"{payment['rows']:,}"] + [number(score)] * has_score
    return [*cells, share(payment["share"]), money(payment["payment"])]


def verdict_lines(verdict: dict[str, Any] | None, providers: int | None = None) -> list[str]:
    """Return a verdict on a round, including its notes about the data."""
    return [] if verdict is None else [*lines_of(verdict, providers), *verdict.get("notes", [])]


def about_round(round_view: dict[str, Any]) -> str:
    """Return the state of a round and what comes next."""
    parts = [f"round {round_view['number']}{day_text(round_view)}: {round_view['state']}"]
    if "reports" in round_view:
        parts.append(counted(round_view["reports"], "report"))
    if round_view["state"] == "open" and round_view["deadline"] is not None:
        parts.append(f"until {round_view['deadline']}")
    if round_view.get("submission") is not None:
        parts.append("you have reported")
    if round_view["state"] == "closed" and round_view.get("problem", "") is None:
        parts.append("paid once the next day is closed, or with troth round finish")
    if round_view.get("amount") is not None:
        parts.append(f"{money(round_view['amount'])} paid")
    if round_view.get("unchecked") is not None:
        parts.append(f"the model is not checked ({printable(round_view['unchecked'])})")
    if round_view.get("head") is not None:
        parts.append(f"ledger {round_view['head'][:16]}…")
    return ", ".join(parts)


def day_text(view: dict[str, Any]) -> str:
    """Return the day of a round, if it has one."""
    return "" if view["day"] is None else f" of day {view['day']}"


def submission_lines(submission: dict[str, Any]) -> list[str]:
    """Return how the service read a submission."""
    rows = counted(submission["rows"], "row" if submission["tasks"] is None else "task")
    lines = [f"{submission['file']}: {rows}, SHA-256 {submission['sha256']}, the same as here"]
    lines += [f"  {line}" for line in rows_left_out(submission)]
    for column in submission["columns"]:
        if column["labels"]:
            summary = ", ".join(f"{label} {count:,}×" for label, count in column["labels"])
        elif column["mean"] is not None:
            summary = f"from {brief(column['minimum'])} to {brief(column['maximum'])}, mean {brief(column['mean'])}"
        else:
            continue
        lines.append(f"  {column['name']}: {summary}")
    return lines


def receipt_lines(campaign_view: dict[str, Any], receipt: dict[str, Any]) -> list[str]:
    """Return a receipt."""
    rows = [
        ["campaign", f"{campaign_view['name']} ({campaign_view['id']})"],
        ["round", f"{receipt['round']}{day_text(receipt)}"],
        ["provider", receipt["provider"]],
        ["submission", receipt["id"]],
        ["file", receipt["file"]],
        ["rows", f"{receipt['rows']:,}"],
        *(["note", line] for line in rows_left_out(receipt)),
        ["sha256", receipt["sha256"]],
        ["data", receipt["data_digest"] or "–"],
        ["confirmed", receipt["confirmed"]],
        *([] if receipt["commitment"] is None else [["commitment", receipt["commitment"]]]),
        ["signed by", receipt["receipt"]["key"]],
    ]
    return ["receipt", *(f"  {line}" for line in table_lines(None, rows))]


def show_lines(plain: Any, as_json: bool, lines: Sequence[str]) -> None:
    """Print data as JSON, or as lines without control characters."""
    show(plain, as_json, *map(printable, lines))
