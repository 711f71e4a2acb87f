"""A campaign to start from: an example of a family with drawn data, or one for your data."""

from __future__ import annotations

import csv
import io
import json
import os
import tomllib
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from troth.campaigns.commit import commit
from troth.campaigns.ledger import write_whole
from troth.campaigns.money import minor_unit
from troth.campaigns.settle import rehearse
from troth.campaigns.starter.guess import Guess, guess
from troth.campaigns.tables import take_model
from troth.campaigns.task_reports import rehearse_tasks
from troth.campaigns.terms import Campaign
from troth.core.errors import DataError, ParameterError
from troth.core.settings import Section, closest
from troth.mechanisms import DEFAULT_RULE, RULES, offered_rules
from troth.models import FAMILIES, Family, from_dict, named_family

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def init(
    directory: str | Path,
    family: str | None = None,
    rule: str | None = None,
    *,
    daily: bool = False,
    data: str | Path | None = None,
    provider: str | None = None,
    column: str | Sequence[str] | None = None,
    target: str | None = None,
    day: str | None = None,
    budget: str = "1000.00",
    currency: str = "EUR",
    budget_per: str = "day",
) -> Path:
    """Write a commented campaign with a small example dataset, or one for given data; return the campaign file.

    Parameters
    ----------
    directory
        A new or empty folder.
    family
        Any of `troth.models`; the first by default, or the first that given data look like.
    rule
        The name of the payment rule; the default one if none is given.
    daily
        Make the example a campaign of five days.
    data
        A file or folder to write the campaign for. It stays where it is.
    provider, column, day
        The data's column of providers (without it each file is a provider's), the one that is paid for, and that of days.
    target
        The column that a regression explains by the others.
    budget, currency
        What may be spent, and in which currency of ISO 4217, which says how many decimals amounts have.
    budget_per
        Of given data with days: whether the budget is for each ``"day"``, as in `troth.pay`, or for the ``"campaign"``.
    """
    if data is not None:
        guessed = guess(Path(data), family, provider=provider, column=column, target=target, day=day)
        money = Terms(budget=budget, currency=currency, budget_per=budget_per)
        return init_for(Path(directory), Path(data), guessed, rule, money)
    if provider is not None or column is not None or day is not None or target is not None:
        raise ParameterError("--provider, --column, --target and --day need --data")
    chosen = next(iter(FAMILIES)) if family is None else named_family(family).__name__
    rule = _rule_named(rule)
    daily = daily or RULES[rule]().days > 1
    folder = new_folder(Path(directory))
    shown, days = FAMILIES[chosen], 5 if daily else 0
    names = [f"{shown.example.provider} {letter}" for letter in "ABCDEFGH"]
    path = write_campaign(folder, example_text(chosen, rule, Terms(budget=budget, currency=currency), days), names)
    (folder / "data").mkdir()
    for name, rows in _draw(shown, names, days).items():
        write_csv(folder / "data" / f"{name}.csv", rows)
    return path


def new_folder(folder: Path) -> Path:
    """Return a folder to write a campaign into, unless something is there already."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise DataError(f"{folder}: exists and is not empty; name a new folder")
    return folder


def init_for(directory: Path, data: Path, guessed: Guess, rule: str | None, money: Terms) -> Path:
    """Write a campaign for given data, which stay where they are."""
    folder = new_folder(directory)
    return write_campaign(folder, text_for(folder, data, guessed, _rule_named(rule), money), ["one", "another"])


def example_text(family: str, rule: str, terms: Terms, days: int = 0) -> str:
    """Return the commented campaign file of a family's example."""
    shown = FAMILIES[family]
    example = shown.example
    guessed = Guess(
        family=family,
        parameters=shown.example_parameters(),
        columns=example.columns,
        target=example.target,
        labels=example.labels,
        days=days,
    )
    named = replace(terms, name=f"Example: {example.story}", story=example.story, provider=example.provider)
    return campaign_text(guessed, rule, named)


def text_for(folder: Path, data: Path, guessed: Guess, rule: str, money: Terms) -> str:
    """Return the commented campaign file, to be written into a folder, for what data seem to hold."""
    if RULES[rule]().days > 1 and guessed.day is None:
        raise ParameterError(f"{rule} pays a campaign of days: say which column has the days")
    rows, limited = 10 ** len(str(guessed.most_rows)), bool(RULES[rule]().needs_rows)
    options = RULES[rule].first_defaults(guessed.reports)
    if guessed.task is not None:
        rows, limited = guessed.most_rows, guessed.most_rows > 1
        options = RULES[rule].task_defaults(from_dict({"family": guessed.family, **guessed.parameters}), rows)
    terms = replace(
        money,
        name=data.stem,
        story=f"what {data.name} holds",
        options=options,
        source=Path(os.path.relpath(data.resolve(), folder.resolve())).as_posix(),
        rows=rows,
        limited=limited,
        intercept=guessed.target is not None,
    )
    return campaign_text(guessed, rule, terms)


def _rule_named(name: str | None) -> str:
    """Return the rule of a name, which may be spelled with other capitals or dashes."""
    known = tuple(offered_rules())
    chosen = DEFAULT_RULE if name is None else closest(name, known)
    if chosen is None:
        raise ParameterError(f"there is no rule {name!r}; there are {', '.join(known)}")
    return chosen


def write_campaign(folder: Path, text: str, names: list[str]) -> Path:
    """Write a campaign file if its rule can pay reports of its model, and commit to a seed if it draws."""
    campaign = Campaign.from_dict(tomllib.loads(text))
    (rehearse if campaign.task is None else rehearse_tasks)(campaign, names)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "campaign.toml"
    write_whole(path, text.encode())
    if campaign.draws:
        commit(path)
    return path


@dataclass(frozen=True)
class Terms:
    """What a campaign file says beside what its data hold and its rule; a provider is called by ``provider``."""

    name: str = ""
    story: str = ""
    budget: str | None = "1000.00"
    price: str | None = None
    currency: str = "EUR"
    budget_per: str = "campaign"
    options: Mapping[str, Any] = field(default_factory=dict)
    source: str = "data"
    provider: str = "provider"
    rows: int = 60
    limited: bool = True
    intercept: bool = False


def campaign_text(guessed: Guess, rule: str, terms: Terms) -> str:
    """Return a commented campaign file for what data hold.

    It is a text template, not a TOML document that is built and written: most of it is comments, and people read and
    edit it. `write_campaign` parses the text before it writes it.
    """
    tables = _model_tables(guessed, intercept=terms.intercept)
    model = take_model(Section("model", tomllib.loads(tables)["model"]), None)["model"]
    daily, called = guessed.days > 0, guessed.provider or terms.provider
    last = "; the last is paid by its own rule" if RULES[rule]().days > 1 else ""
    shared = _commented(f"days = {guessed.days}", f"they share the budget{last}")
    days = f'budget_per = "campaign"   # or "day"\n{shared}\n'
    if terms.budget_per == "day":
        days = _commented('budget_per = "day"', 'the budget is for each day; "campaign" and days = … share it') + "\n"
    rows = _commented(f"{'' if terms.limited else '# '}rows = {terms.rows}", "the most rows that a report may have")
    provider = _commented(f"provider = {_quoted(guessed.provider)}", "the column of providers")
    if guessed.provider is None:
        without = "the column of providers; without it each file is named after its provider"
        provider = _commented(f'# provider = "{called}"', without)
    day = _commented('# day = "day"', "the column of days, for a daily campaign")
    if daily:
        day = _commented(f"day = {_quoted(guessed.day or 'day')}", "dates or whole numbers")
    if guessed.task is not None:
        task = _commented(
            f"task = {_quoted(guessed.task)}", "the column of tasks: each is a round, all are settled together"
        )
        day = f"{task}\n{_PUBLIC}"
    money = []
    if terms.price is not None:
        money.append(_commented(f'price = "{terms.price}"', "the most for one report on a task"))
    if terms.budget is not None:
        money.append(_commented(f'budget = "{terms.budget}"', "a decimal string; the sum of payments never exceeds it"))
    source = _commented(f"source = {_quoted(terms.source)}", "a file, a folder or a pattern: " + _FORMATS)
    example_values = FAMILIES[guessed.family].example.values
    values = f"values = {list(example_values or _possible_values(model))}"
    if not RULES[rule]().needs_rows or example_values is None:
        values = "# " + values
    missing = _commented(f'missing = "{"drop" if guessed.missing else "refuse"}"', _MISSING)
    ended = terms.story if terms.story.endswith("?") else terms.story + "."
    return f"""# A campaign: {ended} Pay it with `troth pay campaign.toml`.

[campaign]
name = {_quoted(terms.name)}
{_LINE.join(money)}
{days if daily else ""}currency = "{terms.currency}"
{_commented(f"decimals = {minor_unit(terms.currency)}", "of the smallest coin")}

{tables}
{_provider_lines(model, called, guessed.parameters)}[mechanism]
rule = "{rule}"
{option_lines(rule, terms.options)}
[data]
{source}
{provider}
{day}
{missing}
# providers = ["…"]       # everybody who is invited, if some may not report
# engine = "spark"        # where files are read: threads (here) or spark

{"# [limits]" if rows[0] == values[0] == "#" else "[limits]"}
{rows}
{_commented(values, "the least and the greatest value of a row")}

# [groups]                # related accounts: never each other's peers, one cap between them
# "one owner" = ["{called} A", "{called} B"]
"""


def _possible_values(model: Family) -> tuple[float, float]:
    """Return the least and the greatest value that the model allows, up to 100 where there is none."""
    support = model.reduction.support
    low = support.low if isfinite(support.low) else -100
    return low, support.high if isfinite(support.high) else max(100, low + 100)


def _provider_lines(model: Family, provider: str, parameters: Mapping[str, Any]) -> str:
    """Return a commented table of the parameters that may differ between providers, if there are any."""
    lines = []
    for parameter in model.parameters():
        differs = parameter.known and parameter.kind.numeric and parameter.name not in model.space
        if differs and parameter.name in parameters:
            lines += f"{parameter.name} = {_by_row(parameters[parameter.name])}".splitlines()
    if not lines:
        return ""
    head = [f'[model.providers."{provider} B"]', *lines]
    return (
        "# A provider with its own likelihood; all share the prior:\n" + "".join(f"# {line}\n" for line in head) + "\n"
    )


def option_lines(rule: str, given: Mapping[str, Any]) -> str:
    """Return the commented options of a rule, as a new campaign file shows them, some of them given."""
    lines = []
    for key, option in RULES[rule].settings().items():
        if option.in_file:
            value = given.get(key, option.default if option.example is None else option.example)
            lines.append(_commented(f"{key} = {json.dumps(value)}", option.meaning) + "\n")
    return "".join(lines)


def _model_tables(guessed: Guess, *, intercept: bool) -> str:
    """Return the tables [model] and [model.prior]; of a family with a parameter called prior, the first alone."""
    seen = guessed.from_data
    columns = ", ".join(map(_quoted, guessed.columns))
    lines = [f'family = "{guessed.family}"', _commented(f"columns = [{columns}]", "columns that the model reads")]
    if guessed.target is not None:
        lines += [
            _commented(f"target = {_quoted(guessed.target)}", "what it explains"),
            _commented(f"{'' if intercept else '# '}intercept = true", "put a constant 1 before the columns"),
        ]
    if guessed.labels is not None:
        labels = ", ".join(map(_quoted, guessed.labels))
        lines.append(_commented(f"categories = [{labels}]", "labels of the codes 0, 1, …"))
    if guessed.meanings:
        lines += _NOT_READ_OFF
    prior: list[str] = []
    for parameter in FAMILIES[guessed.family].parameters():
        if parameter.name in guessed.parameters:
            value, known = guessed.parameters[parameter.name], parameter.known or "prior" in guessed.parameters
            from_data = "; guessed, like the prior" if seen and known else ""
            if parameter.name in guessed.meanings:
                lines += [f"# {guessed.meanings[parameter.name]}", f"{parameter.name} = {_by_row(value)}"]
            else:
                setting = _commented(f"{parameter.name} = {json.dumps(value)}", parameter.meaning + from_data)
                (lines if known else prior).append(setting)
    if seen and guessed.task is not None:
        lines.append(_commented("guessed = true", "read off the data that are paid; remove this line once replaced"))
    if prior:
        guessed_from = _GUESSED if guessed.task is None else _GUESSED_FROM_TASKS
        lines += ["", _commented("[model.prior]", "what is known before anybody reports"), *guessed_from * seen, *prior]
    if guessed.scales:
        lines += ["", _commented("[model.scales]", "public: a column is read as (value − centre)/scale"), *_SCALES]
        lines += [f"{_quoted(name)} = [{centre}, {scale}]" for name, (centre, scale) in guessed.scales.items()]
    if guessed.levels:
        lines += ["", _commented("[model.levels]", "public: all labels of a column, each compared with the first")]
        lines += [f"{_quoted(name)} = [{', '.join(map(_quoted, labels))}]" for name, labels in guessed.levels.items()]
    return "\n".join(["[model]", *lines, ""])


_LINE = "\n"
_FORMATS = "CSV, Parquet, JSON lines, Arrow, spreadsheets, statistics"
_PUBLIC = (
    '# public = "guesses.csv"  # what everybody knows, such as a language model\'s answers: copies earn the empty share'
)
_MISSING = 'rows with missing values: "refuse" stops, "drop" skips them and records how many'
_SCALES = ("# Guessed from these data, like the prior in these units: replace them by what you knew beforehand.",)
_GUESSED = (
    "# Guessed from these data. Replace it by what you knew before anybody reported, or learn it from past",
    "# days with `troth fit`: a prior that depends on the reports makes lies pay.",
)
_NOT_READ_OFF = (
    "# What follows is a guess, not read off the data: learn a confusion matrix for each worker from past tasks with",
    "# `troth fit campaign.toml past.csv --gold gold.csv`, never from labels that are being paid.",
)
_GUESSED_FROM_TASKS = (
    "# Guessed from these data. Replace it by what you knew before anybody answered: a prior that depends on the",
    "# answers makes lies pay.",
)


def _by_row(value: Any) -> str:
    """Return a number or a vector in one line, a matrix with a line for each row."""
    if not (isinstance(value, list) and isinstance(value[0], list)):
        return json.dumps(value)
    return "[\n" + "".join(f"    {json.dumps(row)},\n" for row in value) + "]"


def _commented(setting: str, comment: str) -> str:
    return f"{setting:<25} # {comment}" if comment else setting


def _quoted(text: str | None) -> str:
    return json.dumps(text, ensure_ascii=False)


def _draw(family: type[Family], names: list[str], days: int) -> dict[str, list[dict[str, Any]]]:
    """Draw everybody's rows: the same θ for all, and a fresh one each day."""
    example = family.example
    rng = np.random.default_rng(example.seed)
    model: Any = family.example_model()
    columns = [*example.columns, *([] if example.target is None else [example.target])]
    explained = columns if example.target is None else [example.target]
    data: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    start = date(2026, 5, 4)
    for day in range(max(1, days)):
        theta = model.draw_parameters(rng)
        for name in names:
            rows = model.draw_data(rng, theta, 24)
            table = np.column_stack([rows[0], rows[1]]) if isinstance(rows, tuple) else np.reshape(rows, (24, -1))
            for row in table:
                stamp = {"day": (start + timedelta(days=day)).isoformat()} if days else {}
                cells = zip(columns, row, strict=True)
                data[name].append({**stamp, **{c: _entry(x, example.labels, model, c in explained) for c, x in cells}})
    return data


def _entry(value: float, labels: tuple[str, ...] | None, model: Any, explained: bool) -> Any:
    if not explained:
        return round(float(value), 6)
    if labels is not None:
        return labels[int(value)]
    return int(value) if model.support.integer else round(float(value), 6)


def write_csv(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write rows with the same keys."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_whole(path, text.getvalue().encode())
