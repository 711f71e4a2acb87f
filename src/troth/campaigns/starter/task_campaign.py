"""A first campaign for many tasks: labels by classes and a population of workers without a past, or values."""

from __future__ import annotations

import json
import os
import tomllib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from troth.campaigns.currencies import minor_unit
from troth.campaigns.ledger import write_whole
from troth.campaigns.starter.examples import option_lines
from troth.campaigns.starter.look import label_count, merged_spellings
from troth.campaigns.starter.task_values import families_of_tasks, guess_values, value_text
from troth.campaigns.terms import Campaign
from troth.core.errors import DataError, ParameterError
from troth.core.reductions import Moments
from troth.data.gather import column_names, requested_table
from troth.data.read import task_name
from troth.data.request import NO_VALUE, Request
from troth.mechanisms import DEFAULT_RULE, RULES
from troth.models import FAMILIES, from_dict, named_family
from troth.models.first_guess import GuessesFromLabels, GuessesFromVectors

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_MOST_LABELS, _FEW_NUMBERS = 50, 10
_SKEWED = 0.1  # beyond its even part, from which a label is said to be frequent
_USUAL = 0.9  # of reports, from which several labels in a report are not an error


@dataclass(frozen=True)
class TaskStart:
    """A campaign that was written: its file, its family, the columns it pays for, and what a reader should know.

    ``labels`` says whether it pays for labels, and ``gold`` whether true labels of past tasks help to learn its model.
    """

    path: Path
    family: str
    columns: tuple[str, ...]
    notes: tuple[str, ...]
    labels: bool
    gold: bool


@dataclass(frozen=True)
class _Columns:
    """Where the data are, and their columns of workers and tasks."""

    source: Path
    provider: str
    task: str


def init_tasks(directory: str | Path, data: str | Path, *, column: str | Sequence[str], **options: Any) -> Path:
    """Write campaigns as `start_tasks` does; return the first campaign file."""
    return start_tasks(directory, data, columns=[column] if isinstance(column, str) else column, **options)[0].path


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
) -> list[TaskStart]:
    """Write commented campaigns that settle all tasks of a table together.

    Texts and few whole numbers are labels, of which the names are all that is read off the data: neither the classes'
    frequencies nor how often workers are right may come from answers that are paid. Other numbers are values, whose
    prior and noise are guessed from the data to one digit, and must be replaced. Several columns of values are one
    campaign. Other columns are a campaign each, in a folder of its own.

    Parameters
    ----------
    directory
        A new or empty folder.
    data
        A file or folder, which stays where it is.
    provider, task, columns
        Its columns of workers, of tasks and of what is paid for.
    family
        Any family of `troth.models` that can be guessed from a column; by default by the data.
    price, budget, currency
        The most for one report (0.05 unless there is a budget, which the reports share evenly without a price), the
        most in all if there is such, and in which currency of ISO 4217, which says how many decimals payments have.
    """
    minor_unit(currency)
    folder, source = Path(directory), Path(data)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise DataError(f"{folder}: already exists; name a new folder")
    _check_columns(source, {"--provider": [provider], "--task": [task], "--column": list(columns)})
    named = _Columns(source, provider, task)
    chosen = None if family is None else named_family(family).__name__
    values = [name for name in columns if _are_values(source, name, chosen)]
    joint = len(values) == len(columns) and (chosen is None or isinstance(FAMILIES[chosen], GuessesFromVectors))
    together = [list(columns)] if joint else [[name] for name in columns]
    price = "0.05" if price is None and budget is None else price
    money = {"price": price, "budget": budget, "currency": currency}
    drafts = []
    for part in together:
        place = folder if len(together) == 1 else folder / _folder_name(part[0])
        is_value = part[0] in values
        drafts.append((place, *(_draft_values if is_value else _draft_labels)(named, part, chosen, place, money)))
    if len({place for place, *_ in drafts}) < len(drafts):
        raise DataError(f"{source}: two columns would have one folder; start their campaigns one by one")
    return [_write(place, text, used, notes) for place, text, used, notes in drafts]


def _check_columns(source: Path, named: dict[str, list[str]]) -> None:
    have = column_names(str(source))
    for option, names in named.items():
        for name in names:
            if name not in have:
                listed = ", ".join(map(repr, have))
                raise DataError(f"{source}: there is no column {name!r} ({option}); there are {listed}")
    every = [name for names in named.values() for name in names]
    if len(set(every)) < len(every):
        raise ParameterError("--provider, --task and --column must be different columns")


def _folder_name(column: str) -> str:
    return "".join(sign if sign.isalnum() or sign in "-_" else "_" for sign in column.strip()) or "column"


def _write(folder: Path, text: str, family: str, notes: Sequence[str]) -> TaskStart:
    from troth.campaigns.commit import commit
    from troth.campaigns.task_reports import rehearse_tasks

    campaign = Campaign.from_dict(tomllib.loads(text))
    rehearse_tasks(campaign, ["one", "another"])
    folder.mkdir(parents=True, exist_ok=True)
    path = write_whole(folder / "campaign.toml", text.encode())
    if campaign.draws:
        commit(path)
    named = tuple(name for name in campaign.columns if name is not None)
    labels = campaign.request.reduction.labels is not None
    return TaskStart(path, family, named, tuple(notes), labels, FAMILIES[family].uses_gold)


def _written(source: Path, column: str) -> Counter[str]:
    """Count the values of a column as they are written, missing ones as an empty text."""
    table = requested_table(str(source), Request(Moments(), (column,), categories=("",)))
    counts: Counter[str] = Counter()
    for entry in table.column(column).value_counts().to_pylist():
        value = entry["values"]
        whole = isinstance(value, float) and value.is_integer()
        text = "" if value is None else str(int(value) if whole else value).strip()
        counts["" if text.lower() in NO_VALUE else text] += entry["counts"]
    return counts


def _are_values(source: Path, column: str, family: str | None) -> bool:
    """Whether a column is paid for as numbers, or by a family that is named, and not as labels of classes."""
    if family is not None:
        return FAMILIES[family] is not _classes()
    texts = [text for text in _written(source, column) if text]
    return bool(texts) and all(map(_is_number, texts)) and not _few_whole(texts)


def _few_whole(texts: Sequence[str]) -> bool:
    return len(texts) <= _FEW_NUMBERS and all(float(text).is_integer() for text in texts)


def _is_number(text: str) -> bool:
    try:
        return "_" not in text and abs(float(text)) < float("inf")
    except ValueError:
        return False


def _draft_values(
    named: _Columns, columns: list[str], family: str | None, folder: Path, money: dict[str, str | None]
) -> tuple[str, str, list[str]]:
    """Return the text of a campaign of values, its family, and notes."""
    guessed = guess_values(named.source, named.provider, named.task, columns, family)
    notes = [*guessed.notes, *([_left_out(guessed.missing)] if guessed.missing else [])]
    for column in columns if family is None else ():
        texts = [text for text in _written(named.source, column) if text]
        if len(texts) <= _MOST_LABELS and all(float(text).is_integer() for text in texts):
            notes.append(
                f"column {column!r} has {len(texts)} different whole numbers, which are taken for amounts; if they are "
                f"labels, say --family {_classes().__name__}"
            )
    if guessed.seen:
        listed = ", ".join(map(repr, columns))
        notes.append(
            f"{listed}: the prior was guessed from the data: replace it by what you knew before anybody answered"
        )
    repeats = _repeats(named, columns)
    if repeats.several:
        notes.append(repeats.allowed)
    return value_text(guessed, named.source, folder, money, repeats.most), guessed.family, notes


def _draft_labels(
    named: _Columns, columns: list[str], family: str | None, folder: Path, money: dict[str, str | None]
) -> tuple[str, str, list[str]]:
    """Return the text of a campaign of labels, its family, and notes."""
    (column,) = columns
    counts = _written(named.source, column)
    missing = counts.pop("", 0)
    labels, notes = merged_spellings(column, counts)
    if len(labels) == 1:
        raise DataError(
            f"{named.source}: column {column!r} has no other label than {labels[0]!r}; name a file in which every "
            "label occurs that workers may give"
        )
    if not 2 <= len(labels) <= _MOST_LABELS:
        raise DataError(
            f"{named.source}: column {column!r} has {len(labels):,} different labels, and there must be 2 to "
            f"{_MOST_LABELS}; if it holds free text it cannot be paid as labels"
        )
    numbers = all(map(_is_number, labels))
    if numbers and len(labels) > 2 and family is None:
        others = guess_values(named.source, named.provider, named.task, columns, None).family
        notes.append(
            f"column {column!r} has {len(labels)} different whole numbers, which are taken for labels: that one is "
            f"near another counts for nothing. If they are ratings, say --family {others}"
        )
    rare = [label for label in labels if counts[label] == 1] if sum(counts.values()) >= 10 * len(labels) else []
    if rare:
        listed = ", ".join(map(repr, rare[:6]))
        notes.append(f"column {column!r}: {listed} {'is' if len(rare) == 1 else 'are'} there once: check the spelling")
    most = max(labels, key=counts.__getitem__)
    share = sum(count for text, count in counts.items() if text.lower() == most.lower()) / sum(counts.values())
    if share - 1 / len(labels) > _SKEWED:
        notes.append(
            f"column {column!r}: {share:.0%} of the labels are {most!r}, and the prior that is written expects all "
            "equally often: say in [model] prior what you expected before anybody answered, or learn it from past tasks"
        )
    if missing:
        notes.append(_left_out(missing))
    labels = sorted(labels, key=float if numbers else str)
    repeats, rows = _repeats(named, columns), 1
    if repeats.several > _USUAL * repeats.reports:
        rows = repeats.most
        notes.append(
            f"{repeats.allowed}. If each task has a rate of its own, as a day has, say --family {_rates(labels)}"
        )
    elif repeats.several:
        notes.append(
            f"{repeats}: a label that is there twice looks like an error, and nothing is paid until one "
            f"of them is removed; if several rows are one report, add [limits] rows = {repeats.most}"
        )
    text = _text(labels, named, column, folder, money, "drop" if missing else "refuse", rows)
    return text, _classes().__name__, notes


@dataclass(frozen=True)
class _Repeats:
    """How many reports there are, how many have several rows, and the most rows of one."""

    reports: int
    several: int
    most: int

    def __str__(self) -> str:
        return (
            f"{self.several:,} of {self.reports:,} reports of a worker on a task have several rows, up to {self.most:,}"
        )

    @property
    def allowed(self) -> str:
        """What to say where they may."""
        return f"{self}: the campaign allows them with [limits] rows = {self.most}"


def _repeats(named: _Columns, columns: Sequence[str]) -> _Repeats:
    """Count rows with a value by worker and task."""
    request = Request(Moments(), tuple(columns), named.provider, named.task, categories=("",))
    table = requested_table(str(named.source), request)
    spell: tuple[tuple[str, Callable[[str], str]], ...]
    spell = (named.provider, str.strip), (named.task, task_name), (columns[0], str.strip)
    written = [[one(str(value)) for value in table.column(name).to_pylist()] for name, one in spell]
    counts = Counter((who, what) for who, what, value in zip(*written, strict=True) if value.lower() not in NO_VALUE)
    sizes = counts.values()
    return _Repeats(len(counts), sum(size > 1 for size in sizes), max(sizes, default=1))


def _left_out(missing: int) -> str:
    rows = "1 row has" if missing == 1 else f"{missing:,} rows have"
    return f'{rows} no value: the campaign says missing = "drop", and the ledger counts them'


def _text(
    labels: list[str],
    named: _Columns,
    column: str,
    folder: Path,
    money: dict[str, str | None],
    missing: str,
    rows: int,
) -> str:
    first = _classes().first_guess_of_labels(len(labels))
    place = Path(os.path.relpath(named.source.resolve(), folder.resolve())).as_posix()
    quoted = {"column": column, "provider": named.provider, "task": named.task, "source": place}
    quoted = {key: json.dumps(name, ensure_ascii=False) for key, name in quoted.items()}
    meaning = {
        "price": "the most for one label: times the sum of shares it is paid, rounded down once",
        "budget": "the most that all labels may cost" + ("" if money["price"] else ", which they share evenly"),
    }
    limits = "".join(
        f'{key} = "{money[key]}"'.ljust(23) + f" # {text}\n" for key, text in meaning.items() if money[key]
    )
    several = "" if rows == 1 else f"\n[limits]\nrows = {rows}                # the most rows of a worker on a task\n"
    parameters = "".join(
        f"# {first.meanings[name]}\n{name} = {_lines(value)}\n" for name, value in first.parameters.items()
    )
    model = from_dict({"family": _classes().__name__, **first.parameters})
    options = option_lines(DEFAULT_RULE, RULES[DEFAULT_RULE].task_defaults(model, rows))
    return f"""\
[campaign]
name = {json.dumps(named.source.stem, ensure_ascii=False)}
{limits}currency = "{money["currency"]}"

[model]
family = "{_classes().__name__}"       # each task has a class; given it, workers answer independently
columns = [{quoted["column"]}]
categories = {json.dumps(labels, ensure_ascii=False)}
# What follows is a guess, not read off the data: learn a confusion matrix for each worker from past tasks with
# `troth fit campaign.toml past.csv --gold gold.csv`, never from labels that are being paid.
{parameters}
[mechanism]
rule = "{DEFAULT_RULE}"
{options}
[data]
source = {quoted["source"]}
provider = {quoted["provider"]}
task = {quoted["task"]}
missing = "{missing}"      # rows without a label: "refuse" pays nobody, "drop" leaves them out
# public = "guesses.csv"   # what everybody knows, such as a language model's labels: copies earn the base share
{several}"""


def _classes() -> Any:
    """Return the family of labels whose tasks each have a class."""
    return next(family for family in FAMILIES.values() if isinstance(family, GuessesFromLabels))


def _rates(labels: Sequence[str]) -> str:
    """Return the family of rows whose tasks each have a rate of these labels."""
    return next(name for name in families_of_tasks() if label_count(FAMILIES[name]) >= min(3, len(labels)))


def _lines(value: Any) -> str:
    """Return a number or a vector in one line, a matrix with a line for each row."""
    if not (isinstance(value, list) and isinstance(value[0], list)):
        return json.dumps(value)
    return "[\n" + "".join(f"    {json.dumps(row)},\n" for row in value) + "]"
