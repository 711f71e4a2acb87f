"""A first campaign for many tasks: labels by classes and a population of workers without a past, or values."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from troth.campaigns.starter.examples import Terms, new_folder, text_for, write_campaign
from troth.campaigns.starter.named_columns import column_meant
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
    """Write commented campaigns that settle all tasks of a table together; return each file and what it was made of.

    Texts and few whole numbers are labels, of which the names are all that is read off the data: neither the classes'
    frequencies nor how often workers are right may come from answers that are paid. Other numbers are values, whose
    prior and noise are guessed from the data to one digit, and must be replaced. Several columns of values are one
    campaign. Other columns are a campaign each, in a folder of its own.

    Parameters
    ----------
    directory, data
        A new or empty folder, and a file or folder that stays where it is.
    provider, task, columns
        Its columns of workers, of tasks and of what is paid for.
    family
        Any family of `troth.models` that can be guessed from a column; by default by the data.
    price, budget, currency
        The most for one report (0.05 unless there is a budget, which the reports share evenly without a price), the
        most for all of them, and the currency's code in ISO 4217, which says how many decimals payments have.
    """
    folder, source = new_folder(Path(directory)), Path(data)
    header = column_names(str(source))
    provider, task = column_meant(source, provider, header, "--provider"), column_meant(source, task, header, "--task")
    columns = [column_meant(source, name, header, "--column") for name in columns]
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
        place = folder if len(part) == len(columns) else folder / _folder_name(part[0])
        if place in drafts:
            raise DataError(f"{source}: two columns would have one folder; start their campaigns one by one")
        guessed = (guess_values if part[0] in values else guess_labels)(table, part, family_name)
        drafts[place] = text_for(place, source, guessed, DEFAULT_RULE, money), guessed
    return [(write_campaign(place, text, ["one", "another"]), guessed) for place, (text, guessed) in drafts.items()]


def _folder_name(column: str) -> str:
    return "".join(sign if sign.isalnum() or sign in "-_" else "_" for sign in column.strip()) or "column"
