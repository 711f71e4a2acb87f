"""A first campaign for labels of many tasks: a class for each label, and a population of workers without a past."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path

from troth.campaigns.currencies import minor_unit
from troth.campaigns.ledger import write_whole
from troth.campaigns.terms import Campaign
from troth.core.errors import DataError, ParameterError
from troth.core.reductions import Moments
from troth.data.gather import column_names, requested_table
from troth.data.request import Request

_MOST_LABELS = 50
_RIGHT = 0.7
"""How often an unknown worker is right, until something better is known."""


def init_tasks(
    directory: str | Path,
    data: str | Path,
    *,
    provider: str,
    task: str,
    column: str,
    price: str = "0.05",
    currency: str = "EUR",
) -> Path:
    """Write a commented campaign that settles all tasks of a table together; return the campaign file.

    The labels' names are all that is read off the data: neither the classes' frequencies nor how often workers are
    right may come from answers that are paid.

    Parameters
    ----------
    directory
        A new or empty folder.
    data
        A file or folder, which stays where it is.
    provider, task, column
        Its columns of workers, of tasks and of labels.
    price, currency
        The most for one label, and in which currency of ISO 4217, which says how many decimals payments have.
    """
    minor_unit(currency)
    folder, source = Path(directory), Path(data)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise DataError(f"{folder}: is there already; name a new folder")
    have = column_names(str(source))
    for option, name in (("--provider", provider), ("--task", task), ("--column", column)):
        if name not in have:
            raise DataError(f"{source}: there is no column {name!r} ({option}); there are {', '.join(map(repr, have))}")
    if len({provider, task, column}) < 3:
        raise ParameterError("--provider, --task and --column must be three columns")
    labels = _labels(source, column)
    text = _text(labels, source, folder, provider=provider, task=task, column=column, price=price, currency=currency)
    Campaign.from_dict(tomllib.loads(text))
    folder.mkdir(parents=True, exist_ok=True)
    return write_whole(folder / "campaign.toml", text.encode())


def _labels(source: Path, column: str) -> list[str]:
    """Return the labels that occur, in order; whole numbers as numbers."""
    table = requested_table(str(source), Request(Moments(), (column,), categories=("",)))
    values = {str(value).strip() for value in table.column(column).unique().to_pylist() if value is not None}
    if not 2 <= len(values) <= _MOST_LABELS:
        raise DataError(
            f"{source}: column {column!r} has {len(values):,} different values, and labels are 2 to {_MOST_LABELS}; "
            "for ratings write an example of a family of values with troth init, and add task and price to it"
        )
    numbers = all(label.removeprefix("-").isdecimal() for label in values)
    return sorted(values, key=int if numbers else str)


def _text(labels: list[str], source: Path, folder: Path, *, price: str, currency: str, **columns: str) -> str:
    count = len(labels)
    rest = (1 - _RIGHT) / (count - 1)
    table = [[round(_RIGHT if code == label else rest, 12) for label in range(count)] for code in range(count)]
    rows = ",\n".join(f"    {json.dumps(row)}" for row in table)
    place = Path(os.path.relpath(source.resolve(), folder.resolve())).as_posix()
    quoted = {key: json.dumps(name, ensure_ascii=False) for key, name in {**columns, "source": place}.items()}
    return f"""\
[campaign]
name = {json.dumps(source.stem, ensure_ascii=False)}
price = "{price}"          # the most for one label; a payment is the sum of shares times this, rounded down once
currency = "{currency}"

[model]
family = "Finite"       # each task has a class; given it, workers answer independently
columns = [{quoted["column"]}]
categories = {json.dumps(labels, ensure_ascii=False)}
# How often each class occurs, as you believed it before anybody answered.
prior = {json.dumps([round(1 / count, 12)] * count)}
# How an unknown worker answers: a line for each class, a column for each label. This is a guess, not read off the data:
# learn everybody's own law from past tasks with `troth fit campaign.toml past.csv --gold gold.csv`, never from labels
# that are being paid.
likelihood = [
{rows},
]

[mechanism]
rule = "LineUp"
rivals = 4              # a lazy answer earns 1/(rivals + 1) of the price on average
decoys = "all"          # the line has all that peers could answer: nothing is drawn
strict = 0.1            # the part of a share that makes every wrong label cost something

[data]
source = {quoted["source"]}
provider = {quoted["provider"]}
task = {quoted["task"]}
# public = "guesses.csv"   # what everybody knows, such as a language model's labels: copies earn the base share
"""
