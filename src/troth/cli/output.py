"""The output of commands: results on standard output, progress and warnings on standard error."""

from __future__ import annotations

import sys
from contextlib import ExitStack, contextmanager
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any

import typer

from troth.core.formats import left_out, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from rich.progress import TaskID

    from troth.results.result import Result

    ProgressCallback = Callable[[str, float, int], None]


STOPPED = 3  # the exit code if the model does not fit
at_exit = ExitStack()  # callbacks that run when the command ends, even if it failed


def show(plain: Any, as_json: bool, *lines: str, warnings: Iterable[str] = ()) -> None:
    """Print plain data as JSON, or else warnings and lines of text."""
    if as_json:
        from troth.campaigns.records.canonical_json import as_json as write_json

        lines, warnings = (write_json(plain),), ()
    for warning in warnings:
        warn(warning)
    for line in lines:
        typer.echo(line)


def print_result(result: Result) -> None:
    """Print payments, with bars if standard output is a terminal."""
    from troth.results.tables import text_lines

    in_terminal = sys.stdout is not None and sys.stdout.isatty()
    headline, *table = text_lines(result, get_terminal_size().columns if in_terminal else 0)
    typer.secho(headline, bold=True)
    typer.echo("\n".join(table))


def report_poor_fit(remedy: str, command: str, *, stopped: bool) -> None:
    """Print on standard error that the model does not fit, what to do, and the command that pays regardless."""
    problem = "error: the model does not fit these reports"
    if not stopped:
        problem = f"warning: the model does not fit these reports, and payment would stop with exit code {STOPPED}"
    typer.echo(printable(f"{problem}: {remedy}; {command} pays regardless"), err=True)


def rows_left_out(*reports: dict[str, Any]) -> list[str]:
    """Return sentences that say how many rows of reports were left out."""
    totals = {
        lacking: sum(report.get(key) or 0 for report in reports)
        for key, lacking in (("dropped", "value"), ("unnamed", "provider"))
    }
    return [left_out(count, lacking) for lacking, count in totals.items() if count]


def warn(message: str) -> None:
    """Print a warning on standard error."""
    typer.echo(f"warning: {printable(message)}", err=True)


@contextmanager
def progress_bar() -> Iterator[ProgressCallback]:
    """Yield a function that updates a progress bar, given the name of a task, how much is done, and the total.

    Nothing is drawn unless standard error is a terminal.
    """
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda task, done, total: None  # noqa: ARG005
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description:<10}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        tasks: dict[str, TaskID] = {}

        def progress(task: str, done: float, total: int) -> None:
            if task not in tasks:
                tasks[task] = bar.add_task(task, total=None)
            bar.update(tasks[task], completed=done, total=total if done else None)  # a bar without a total pulses

        yield progress
