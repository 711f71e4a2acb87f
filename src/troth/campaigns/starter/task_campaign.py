"""Write first campaigns for tasks: of labels, with a prior for workers without a history, or of values."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from troth.campaigns.starter.examples import Terms, new_folder, text_for, write_campaign
from troth.campaigns.starter.named_columns import find_column
from troth.campaigns.starter.task_guess import guess_labels, guess_values, holds_values, read_task_table
from troth.core.errors import DataError, ParameterError
from troth.data.gather import column_names
from troth.mechanisms import DEFAULT_RULE
from troth.models import FAMILIES, named_family
from troth.models.first_guess import GuessesFromVectors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from troth.campaigns.starter.guess import Guess


def start_tasks(
    directory: str | Path,
    data: str | Path,
    *,
    provider: str,
    task: str,
    columns: Sequence[str],
    family: str | None = None,
    price: str | None = None,
    budget: str | None = None,
    currency: str = "EUR",
) -> list[tuple[Path, Guess]]:
    """Write commented campaigns that settle all tasks of a table together; return each file and the guess behind it.

    A column with text or only a few integers holds labels. Only the names of labels are taken from the data: neither
    the frequencies of classes nor the accuracy of workers may be learnt from answers that are paid. Other numbers are
    values. Their prior and noise are guessed from the data to one digit, and must be replaced. Several columns of
    values make one campaign; otherwise each column gets its own campaign in its own folder.

    Parameters
    ----------
    directory, data
        A new or empty folder, and a file or folder that stays where it is.
    provider, task, columns
        The columns of workers, of tasks and of answers that are paid for.
    family
        Any family of `troth.models` that can be guessed from a column; by default it depends on the data.
    price, budget, currency
        The cap of one report (by default 0.05, or an equal part of the budget if there is one), the maximum for all
        reports, and the currency in ISO 4217, which determines the decimals of payments.
    """
    folder, source = new_folder(Path(directory)), Path(data)
    header = column_names(str(source))
    provider, task = find_column(source, provider, header, "--provider"), find_column(source, task, header, "--task")
    columns = [find_column(source, name, header, "--column") for name in columns]
    if len({provider, task, *columns}) < 2 + len(columns):
        raise ParameterError("--provider, --task and --column must be different columns")
    family_name = None if family is None else named_family(family).__name__
    table = read_task_table(source, provider, task, columns)
    values = [name for name in columns if holds_values(table, name, family_name)]
    joint = len(values) == len(columns) and (
        family_name is None or isinstance(FAMILIES[family_name], GuessesFromVectors)
    )
    price = "0.05" if price is None and budget is None else price
    money = Terms(price=price, budget=budget, currency=currency)
    drafts: dict[Path, tuple[str, Guess]] = {}
    for part in [columns] if joint else [[name] for name in columns]:
        target = folder if len(part) == len(columns) else folder / _folder_name(part[0])
        if target in drafts:
            raise DataError(f"{source}: two columns would have one folder; start their campaigns one by one")
        guessed = (guess_values if part[0] in values else guess_labels)(table, part, family_name)
        drafts[target] = text_for(target, source, guessed, DEFAULT_RULE, money), guessed
    return [(write_campaign(target, text, ["one", "another"]), guessed) for target, (text, guessed) in drafts.items()]


def _folder_name(column: str) -> str:
    return "".join(c if c.isalnum() or c in "-_" else "_" for c in column.strip()) or "column"
