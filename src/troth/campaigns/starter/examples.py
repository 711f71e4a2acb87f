"""Write a first campaign: an example of a family with simulated data, or a campaign for your data."""

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
from troth.campaigns.money import minor_unit, to_minor, to_text
from troth.campaigns.records.ledger import write_atomic
from troth.campaigns.settle import rehearse
from troth.campaigns.starter.guess import Guess, guess
from troth.campaigns.tables import take_model
from troth.campaigns.tasks import rehearse_tasks
from troth.campaigns.terms import Campaign
from troth.core.contract import SamplesData
from troth.core.errors import DataError, ParameterError
from troth.core.settings import Section, closest
from troth.mechanisms import DEFAULT_RULE, RULES, offered_rules
from troth.models import FAMILIES, Family, from_dict, named_family

if TYPE_CHECKING:
    from collections.abc import Mapping


def init(
    directory: str | Path,
    family: str | None = None,
    rule: str | None = None,
    *,
    daily: bool = False,
    budget: str = "1000.00",
    currency: str = "EUR",
) -> Path:
    """Write a commented campaign, with a small example dataset if the family can draw one; return the campaign file.

    Parameters
    ----------
    directory
        A new or empty folder.
    family
        Any family of `troth.models`; by default the first.
    rule
        The name of the payment rule, by default `troth.mechanisms.DEFAULT_RULE`.
    daily
        Make the example a campaign of five days.
    budget, currency
        The maximum that is spent, and its currency in ISO 4217, which determines the decimals of amounts.
    """
    family_name = next(iter(FAMILIES)) if family is None else named_family(family).__name__
    rule = _rule_named(rule)
    daily = daily or RULES[rule]().days > 1
    folder = new_folder(Path(directory))
    family_class, days = FAMILIES[family_name], 5 if daily else 0
    names = [f"{family_class.example.provider} {letter}" for letter in "ABCDEFGH"]
    data = _draw(family_class, names, days)
    path = write_campaign(folder, example_text(family_name, rule, Terms(budget=budget, currency=currency), days), names)
    (folder / "data").mkdir()
    for name, rows in data.items():
        write_csv(folder / "data" / f"{name}.csv", rows)
    return path


def start(
    directory: str | Path,
    data: str | Path,
    family: str | None = None,
    rule: str | None = None,
    *,
    budget: str = "1000.00",
    currency: str = "EUR",
    budget_per: str = "day",
    **columns: Any,
) -> tuple[Path, Guess]:
    """Write a commented campaign for given data; return the campaign file and the guess behind it.

    Parameters
    ----------
    directory, data
        A new or empty folder, and a file or folder that stays where it is.
    family
        Any family of `troth.models`; by default the first that suits the data.
    rule, budget, currency
        As for `init`.
    budget_per
        For data with days, whether the budget is for each ``"day"``, as in `troth.pay`, or for the ``"campaign"``.
    columns
        ``provider`` names the column of providers (without it, each file belongs to one provider), ``day`` the column
        of days, and ``column`` the one that is paid for. A regression predicts ``target`` from the columns in
        ``column``.
    """
    guessed = guess(Path(data), family, **columns)
    folder, money = new_folder(Path(directory)), Terms(budget=budget, currency=currency, budget_per=budget_per)
    text = text_for(folder, Path(data), guessed, _rule_named(rule), money)
    return write_campaign(folder, text, ["one", "another"]), guessed


def new_folder(folder: Path) -> Path:
    """Return a folder for a new campaign; raise if it is not empty."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise DataError(f"{folder}: exists and is not empty; name a new folder")
    return folder


def example_text(family: str, rule: str, terms: Terms, days: int = 0) -> str:
    """Return the commented campaign file of a family's example."""
    family_class = FAMILIES[family]
    example = family_class.example
    guessed = Guess(
        family=family,
        parameters=family_class.example_parameters(),
        columns=example.columns,
        target=example.target,
        labels=example.labels,
        days=days,
    )
    example_terms = replace(terms, name=f"Example: {example.story}", story=example.story, provider=example.provider)
    return campaign_text(guessed, rule, example_terms)


def text_for(folder: Path, data: Path, guessed: Guess, rule: str, money: Terms) -> str:
    """Return the commented campaign file for a guess about data, with a path relative to the campaign's folder."""
    if RULES[rule]().days > 1 and guessed.day is None:
        raise ParameterError(f"{rule} needs a daily campaign: name the column of days")
    if guessed.task is None:
        rows, limited = 10 ** len(str(guessed.max_rows)), bool(RULES[rule]().needs_rows)
        options = RULES[rule].first_defaults(guessed.reports)
    else:
        rows, limited = guessed.max_rows, guessed.max_rows > 1
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
    """Return the rule with a name, ignoring capitals and dashes."""
    names = tuple(offered_rules())
    rule = DEFAULT_RULE if name is None else closest(name, names)
    if rule is None:
        raise ParameterError(f"there is no rule {name!r}; there are {', '.join(names)}")
    return rule


def write_campaign(folder: Path, text: str, names: list[str]) -> Path:
    """Write a campaign file after a rehearsal of its payments, and commit to a seed if its rule draws."""
    campaign = Campaign.from_dict(tomllib.loads(text))
    (rehearse if campaign.task is None else rehearse_tasks)(campaign, names)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "campaign.toml"
    write_atomic(path, text.encode())
    if campaign.draws:
        commit(path)
    return path


@dataclass(frozen=True)
class Terms:
    """The settings of a new campaign file besides its data and rule; ``provider`` is the noun for a provider."""

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

    @property
    def amount(self) -> str | None:
        """The budget, with the decimals of its currency."""
        if self.budget is None:
            return None
        decimals = minor_unit(self.currency)
        return to_text(to_minor(self.budget, decimals, "[campaign] budget"), decimals)


def campaign_text(guessed: Guess, rule: str, terms: Terms) -> str:
    """Return a commented campaign file for a guess about data.

    The file is rendered from a text template instead of a TOML document, because most of it is comments for people who
    read and edit it. `write_campaign` parses the text before it writes it.
    """
    declared, needs_rows = FAMILIES[guessed.family].parameters(), RULES[rule]().needs_rows
    choices = {
        parameter.name: parameter.default
        for parameter in declared
        if parameter.kind.choices and not (parameter.required or parameter.known)
    }
    guessed = replace(guessed, parameters={**choices, **guessed.parameters})
    present = [parameter for parameter in declared if parameter.name in guessed.parameters]
    likelihood = [
        parameter
        for parameter in present
        if parameter.known or parameter.name in guessed.meanings or "prior" in guessed.parameters
    ]
    prior = [parameter for parameter in present if parameter not in likelihood]
    tables = _rendered("model", guessed=guessed, terms=terms, likelihood=likelihood, prior=prior)
    model = take_model(Section("model", tomllib.loads(tables)["model"]), None)["model"]
    values = FAMILIES[guessed.family].example.values
    return _rendered(
        "campaign",
        guessed=guessed,
        terms=terms,
        tables=tables,
        rule=rule,
        options=_options(rule, terms.options),
        compares_days=RULES[rule]().days > 1,
        decimals=minor_unit(terms.currency),
        called=guessed.provider or terms.provider,
        differing=[
            parameter.name
            for parameter in present
            if parameter.known and parameter.kind.numeric and parameter.name not in model.space
        ],
        values=list(values or _possible_values(model)),
        bounded=bool(needs_rows) and values is not None,
    )


def _rendered(template: str, **content: Any) -> str:
    """Render a template, and align comments: in templates a tab precedes them."""
    from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

    environment = Environment(
        loader=PackageLoader(__package__),
        undefined=StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
        autoescape=select_autoescape(),  # escapes only HTML, so nothing here
    )
    environment.filters |= {"toml": _to_toml, "by_row": _by_row}
    lines = environment.get_template(f"{template}.toml.jinja").render(**content).split("\n")
    return "\n".join(_aligned(line) for line in lines)


def _aligned(line: str) -> str:
    setting, _, comment = line.partition("\t")
    return f"{setting:<25} {comment}" if comment.strip("# ") else setting


def _possible_values(model: Family) -> tuple[float, float]:
    """Return the range of values that the model allows, cut off near ±100 if it is infinite."""
    support = model.reduction.support
    low = support.low if isfinite(support.low) else -100
    return low, support.high if isfinite(support.high) else max(100, low + 100)


def _options(rule: str, given: Mapping[str, Any]) -> list[tuple[str, Any, str]]:
    """Return the options of a rule that a new campaign file shows: name, value (given or default) and meaning."""
    options = {key: option for key, option in RULES[rule].settings().items() if option.in_file}
    defaults = {key: option.default if option.example is None else option.example for key, option in options.items()}
    return [(key, given.get(key, defaults[key]), option.meaning) for key, option in options.items()]


def _by_row(value: Any) -> str:
    """Return a value as TOML, with a line for each row of a matrix."""
    if not (isinstance(value, list) and isinstance(value[0], list)):
        return _to_toml(value)
    return "[\n" + "".join(f"    {_to_toml(row)},\n" for row in value) + "]"


def _to_toml(value: Any) -> str:
    """Return a string, a number or a list of them as TOML, where it is spelled as in JSON."""
    return json.dumps(value, ensure_ascii=False)


def _draw(family: type[Family], names: list[str], days: int) -> dict[str, list[dict[str, Any]]]:
    """Draw each provider's rows, with the same θ for all providers and a new θ each day; empty if it cannot draw."""
    example = family.example
    rng = np.random.default_rng(example.seed)
    model = family.example_model()
    if not isinstance(model, SamplesData):
        return {}
    columns = [*example.columns, *([] if example.target is None else [example.target])]
    modelled = columns if example.target is None else [example.target]
    data: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    start = date(2026, 5, 4)
    for day in range(max(1, days)):
        theta = model.draw_parameters(rng)
        for name in names:
            rows = model.draw_data(rng, theta, 24)
            table = np.column_stack([rows[0], rows[1]]) if isinstance(rows, tuple) else np.reshape(rows, (24, -1))
            stamp = {"day": (start + timedelta(days=day)).isoformat()} if days else {}
            for row in table:
                cells = zip(columns, row, strict=True)
                data[name].append({**stamp, **{c: _cell(x, example.labels, model, c in modelled) for c, x in cells}})
    return data


def _cell(value: float, labels: tuple[str, ...] | None, model: Any, modelled: bool) -> Any:
    if not modelled:
        return round(float(value), 6)
    if labels is not None:
        return labels[int(value)]
    return int(value) if model.support.integer else round(float(value), 6)


def write_csv(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write rows, which have the same keys, as CSV."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_atomic(path, text.getvalue().encode())
