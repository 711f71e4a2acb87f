"""What commands print about a service: campaigns, submissions, receipts and verdicts in lines of text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from troth.cli.output import show
from troth.core.errors import DataError
from troth.results.formats import counted, printable
from troth.results.tables import table_lines

if TYPE_CHECKING:
    from collections.abc import Sequence


def task_lines(pay: dict[str, Any]) -> list[str]:
    """Return a worker's sample of its own tasks."""
    rows = [[each["task"], each["answer"], f"{each['share']:.0%}", each["reason"]] for each in pay["sample"]]
    return [pay["meaning"], *(f"  {line}" for line in table_lines(["task", "answer", "share", "why"], rows))]


def refuse_unpaid(closed: dict[str, Any]) -> None:
    """Stop if a round that was closed could not be paid."""
    if closed["problem"] is not None:
        raise DataError(
            f"round {closed['number']} is closed and could not be paid: {closed['problem']}. "
            "Reopen it with troth round reopen, or end it unpaid with troth round set-aside"
        )


def would_be_paid(would: dict[str, Any]) -> list[str]:
    """Return what closing a round would pay, and the verdict on it."""
    lines = [
        f"{printable(each['provider']):<24}{day_text(each)} {each['share']:>8.2%} of the cap {each['payment']:>12}"
        for each in would["payments"]
    ]
    return [*lines, f"{would['total']} would be paid in all", *verdict_lines(would["verdict"])]


def verdict_lines(verdict: dict[str, Any] | None) -> list[str]:
    """Return a verdict, and who would have been better off otherwise."""
    if verdict is None:
        return []
    lines = [f"model {verdict['model']}: {verdict['meaning']}", *map(printable, verdict.get("notes", []))]
    if verdict["below_empty_report"] is None:
        return [*lines, "nor is it known who would have earned more with an empty or a smaller report"]
    over_days = on_day = ""
    if verdict["days"] > 1:
        over_days, on_day = f", on average over {verdict['days']} days", f", on day {verdict['last_day']} alone"
    better = {f"nothing{over_days}": verdict["below_empty_report"]}
    if verdict["gain_of_less"]:
        better[f"less{on_day}"] = verdict["better_with_less"]
    for what, gains in better.items():
        listed = ", ".join(f"{printable(name)} ({gain:.1%} of the cap)" for name, gain in gains.items())
        lines.append(f"better off with {what}: {listed or 'nobody'}")
    return lines


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
        parts.append(f"{shown['amount']} paid")
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
            summary = f"from {column['least']:g} to {column['greatest']:g}, mean {column['mean']:.6g}"
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
    ]
    if receipt["commitment"] is not None:
        rows.append(["commitment", receipt["commitment"]])
    if receipt["receipt"] is not None:
        rows.append(["signed by", receipt["receipt"]["key"]])
    return ["receipt", *(f"  {line}" for line in table_lines(None, rows))]


def show_lines(plain: Any, as_json: bool, lines: Sequence[str]) -> None:
    """Print data as JSON, or as lines that a terminal can show."""
    show(plain, as_json, *map(printable, lines))
