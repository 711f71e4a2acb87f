"""The form for a new campaign: its fields for each family and rule, and the campaign file that it produces."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from troth.campaigns.money import minor_unit
from troth.core.errors import TrothError
from troth.core.settings import parse_number
from troth.mechanisms import DEFAULT_RULE, RULES, offered_rules
from troth.mechanisms.options import Integer, Option
from troth.mechanisms.settings import settings_of
from troth.models import FAMILIES
from troth.models.first_guess import GuessesFromColumn
from troth.models.parameters import Parameter
from troth.service.errors import InvalidError
from troth.service.pages.forms import Fields

DEFAULT_FAMILY = next(
    name for name, family in FAMILIES.items() if isinstance(family, GuessesFromColumn) and not family.independent_rows
)
"""The first family that can be guessed from a column and lets providers differ, as `troth init` proposes."""
_PROVIDERS = 5  # the default for the preview
_parse_integer = Integer("", 0).parse


def options_of(rule: str) -> dict[str, Option]:
    """Return the options that the form asks for, by field."""
    return {f"option_{key}": option for key, option in settings_of(rule).items() if option.in_form}


def _default_options(rule: str) -> dict[str, str]:
    """Return the options of a rule in an untouched form, by field, as `troth init` writes them."""
    defaults = RULES[rule].first_defaults(_PROVIDERS)
    return {name: str(defaults.get(option.key, option.text)) for name, option in options_of(rule).items()}


def parameters_of(family: str) -> dict[str, Parameter]:
    """Return the parameters of a family, both of the prior and known ones, by field."""
    return {
        f"{'known' if parameter.known else 'prior'}_{parameter.name}": parameter
        for parameter in FAMILIES[family].parameters()
    }


def blank(family: str = DEFAULT_FAMILY, rule: str = DEFAULT_RULE) -> dict[str, str]:
    """Return the values of an untouched form, by field."""
    empty = "name about decimals days task price tasks intercept scales levels rows values_low values_high toml"
    typed = dict.fromkeys([*empty.split(), "publish_at_once", "share_ledger"], "")
    typed |= {"budget": "1000.00", "currency": "EUR", "budget_per": "day"}
    typed |= {"daily": "yes" if RULES[rule]().days > 1 else "", "family": family, "rule": rule}
    typed |= {"providers": str(_PROVIDERS), "expected": "50", **_columns_of(family), **_default_options(rule)}
    return typed | {name: parameter.text for name, parameter in parameters_of(family).items()}


def _columns_of(family: str) -> dict[str, str]:
    """Return the columns of a family's example, by field."""
    example = FAMILIES[family].example
    labels = ", ".join(example.labels or ())
    return {"columns": ", ".join(example.columns), "target": example.target or "", "categories": labels}


def reads_labels(family: str) -> bool:
    """Return whether data of a family may be labels instead of numbers."""
    return FAMILIES[family].example_model().reduction.labels is not None


def typed_in(form: Fields) -> dict[str, str]:
    """Return the values of a submitted form; a newly chosen family or rule brings its own examples."""
    family = form.text("family") if form.text("family") in FAMILIES else DEFAULT_FAMILY
    rule = form.text("rule") if form.text("rule") in offered_rules() else DEFAULT_RULE
    typed = blank(family, rule)
    examples = {"family", "rule"}
    shown_family = form.text("shown")
    if shown_family != family:
        examples |= {*parameters_of(family)}
        before = _columns_of(shown_family) if shown_family in FAMILIES else {}
        examples |= {name for name in _columns_of(family) if form.text(name) in ("", before.get(name))}
    if form.text("shown_rule") != rule:
        examples |= {name for name in options_of(rule) if not form.has(name)}
    return typed | {name: form.text(name) for name in typed if name not in examples}


def terms_of(typed: dict[str, str]) -> dict[str, Any]:
    """Convert the values of a form to the tables of a campaign file."""
    for key in ("name", "budget"):
        if not typed[key]:
            raise InvalidError.in_terms("campaign", key, "is missing")
    campaign: dict[str, Any] = {key: typed[key] for key in ("name", "about", "budget", "currency") if typed[key]}
    if typed["decimals"]:
        campaign["decimals"] = _decimals(typed["decimals"], typed["currency"])
    terms = {"campaign": campaign, "model": _model(typed), "mechanism": _rule(typed)}
    if typed["daily"]:
        terms["data"] = {"day": "day"}
        if typed["budget_per"] == "day":
            campaign["budget_per"] = "day"
        if typed["days"]:
            campaign["days"] = _read("campaign", "days", _parse_integer, typed["days"])
    if typed["task"]:
        terms["data"] = {**terms.get("data", {}), "task": typed["task"]}
    if typed["price"]:
        campaign["price"] = typed["price"]
    limits: dict[str, Any] = {
        key: _read("limits", key, _parse_integer, typed[key]) for key in ("rows", "tasks") if typed[key]
    }
    if typed["values_low"] or typed["values_high"]:
        limits["values"] = [_bound(name, typed[name]) for name in ("values_low", "values_high")]
    if limits:
        terms["limits"] = limits
    return terms


def _decimals(text: str, currency: str) -> int:
    """Parse the decimals of a currency, which must agree with ISO 4217 if that lists the currency."""
    decimals: int = _read("campaign", "decimals", _parse_integer, text)
    if (listed := minor_unit(currency, default=decimals)) != decimals:
        problem = f"{currency} has {listed} by ISO 4217, not {decimals}; leave this empty"
        raise InvalidError.in_terms("campaign", "decimals", problem)
    return decimals


def _model(typed: dict[str, str]) -> dict[str, Any]:
    model: dict[str, Any] = {"family": typed["family"]}
    family = FAMILIES[typed["family"]]
    columns = _words(typed["columns"])
    if columns:
        model["columns"] = columns
    if family.explains_target:
        if typed["target"]:
            model["target"] = typed["target"]
        if typed["intercept"]:
            model["intercept"] = True
        if scales := _by_column("scales", typed, columns):
            model["scales"] = {
                name: [_read("model", "scales", parse_number, x) for x in pair] for name, pair in scales.items()
            }
        if levels := _by_column("levels", typed, columns):
            model["levels"] = levels
    if typed["categories"]:
        model["categories"] = _words(typed["categories"])
    return model | _parameters(typed)


def _parameters(typed: dict[str, str]) -> dict[str, Any]:
    """Return a model's parameters in the layout of `troth init`: those of the prior in a table of their own.

    If one of them is called prior, all are in the table [model]. Untouched defaults are omitted.
    """
    fields = {
        name: parameter
        for name, parameter in parameters_of(typed["family"]).items()
        if typed[name] and (parameter.example is not None or typed[name] != parameter.text)
    }
    in_one_table = any(parameter.name == "prior" for parameter in fields.values())
    parameters: dict[str, Any] = {}
    prior: dict[str, Any] = {}
    for name, parameter in fields.items():
        table, section = (parameters, "model") if in_one_table or parameter.known else (prior, "model.prior")
        table[parameter.name] = _read(section, parameter.name, parameter.kind.parse, typed[name])
    return {**parameters, "prior": prior} if prior else parameters


def _by_column(key: str, typed: dict[str, str], columns: list[str]) -> dict[str, list[str]]:
    """Parse ``column: word, word; column: …`` as words by column."""
    table: dict[str, list[str]] = {}
    names = [*columns, typed["target"]] if typed["target"] else columns
    for part in filter(None, map(str.strip, typed[key].split(";"))):
        name = next((name for name in names if re.match(rf"{re.escape(name)}\s*:", part)), None)
        if name is None or name in table:
            problem = "appears twice" if name else "must begin with one of the columns and a colon"
            raise InvalidError.in_terms("model", key, f"{part!r} {problem}")
        table[name] = _words(part[len(name) :].lstrip().removeprefix(":"))
    return table


def _rule(typed: dict[str, str]) -> dict[str, Any]:
    table: dict[str, Any] = {"rule": typed["rule"]}
    defaults = _default_options(typed["rule"])
    for name, option in options_of(typed["rule"]).items():
        omits_default = typed["task"] or option.kind == "flag"  # tasks have other defaults
        if (typed[name] or option.kind == "flag") and not (omits_default and typed[name] == defaults[name]):
            table[option.key] = _read("mechanism", option.key, option.parse, typed[name])
    return table


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _read(section: str, key: str, parse: Callable[[str], Any], text: str) -> Any:
    """Parse a field; if it is invalid, raise an error that names it."""
    try:
        return parse(text)
    except ValueError as error:
        raise InvalidError.in_terms(section, key, str(error)) from None


def _bound(field: str, text: str) -> int | float:
    """Parse one limit of values; an error names its own field, although a campaign file has one key for both."""
    try:
        return parse_number(text)
    except ValueError as error:
        problem = str(error) if text else "needs both ends"
        raise InvalidError(f"[limits] values: {problem}", section="limits", key=field) from None


_FIELDS = {"values": "values_low", "day": "daily", "column": "columns"}
_PREFIXES = {"model": ("prior_", "known_"), "mechanism": ("option_",)}


def field_of(error: TrothError, typed: dict[str, str]) -> str | None:
    """Return the field of the form that an error is about.

    Examples
    --------
    >>> field_of(InvalidError("[campaign] budget: is missing", section="campaign", key="budget"), blank())
    'budget'
    >>> field_of(InvalidError("alpha must be positive", section="model", key="alpha"), blank("Bernoulli"))
    'prior_alpha'
    """
    section, key = getattr(error, "section", None), getattr(error, "key", None)
    if section is None:
        return None
    table, _, inner = str(section).partition(".")
    if inner in ("scales", "levels"):  # whose keys are columns
        return inner
    fields = [f"{prefix}{key}" for prefix in _PREFIXES.get(table, ())]
    fields += [_FIELDS.get(str(key), str(key)), "family" if table == "model" else ""]
    return next((name for name in fields if name in typed), None)
