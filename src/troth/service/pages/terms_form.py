"""The form of a new campaign: what it asks for each family and rule, and the tables of a campaign file made of it."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from troth.mechanisms import DEFAULT_RULE, RULES, offered_rules
from troth.models import FAMILIES
from troth.service.errors import InvalidError

if TYPE_CHECKING:
    from troth.core.errors import TrothError
    from troth.mechanisms.options import Option
    from troth.service.pages.forms import Fields

WORDS = {
    "Bernoulli": "yes or no, with an unknown rate",
    "Categorical": "one of several labels",
    "Geometric": "failures before the first success",
    "NegativeBinomial": "failures before the r-th success",
    "Poisson": "counts",
    "Exponential": "waiting times",
    "Gamma": "positive numbers of a known shape",
    "Normal": "numbers with known noise",
    "NormalUnknownVariance": "numbers with unknown noise",
    "MultivariateNormal": "several numbers, known noise",
    "MultivariateNormalUnknownCovariance": "several numbers, unknown noise",
    "LinearRegression": "a number explained by others, known noise",
    "LinearRegressionUnknownNoise": "a number explained by others, unknown noise",
    "Finite": "symbols, and a few possible states of the world",
    "LatentClass": "a few possible classes of days",
    "ProviderNormal": "numbers, each provider with an own offset",
}
"""The families, in the order in which they are offered, and what data they are for."""

_EXAMPLES: dict[str, dict[str, str]] = {
    "Bernoulli": {"alpha": "1", "beta": "1"},
    "Categorical": {"alpha": "1, 1, 1"},
    "Geometric": {"alpha": "2", "beta": "2"},
    "NegativeBinomial": {"r": "3", "alpha": "2", "beta": "2"},
    "Poisson": {"shape": "2", "rate": "1"},
    "Exponential": {"shape": "3", "rate": "2"},
    "Gamma": {"known_shape": "2", "shape": "3", "rate": "2"},
    "Normal": {"mean": "0", "scale": "1", "noise": "1"},
    "NormalUnknownVariance": {"mean": "0", "strength": "1", "shape": "3", "scale": "2"},
    "MultivariateNormal": {"mean": "0, 0", "covariance": "1, 0; 0, 1", "noise": "1, 0; 0, 1"},
    "MultivariateNormalUnknownCovariance": {"mean": "0, 0", "strength": "1", "dof": "4", "scale": "1, 0; 0, 1"},
    "LinearRegression": {"mean": "0, 0", "precision": "1, 0; 0, 1", "noise": "1"},
    "LinearRegressionUnknownNoise": {"mean": "0, 0", "precision": "1, 0; 0, 1", "shape": "3", "scale": "2"},
    "Finite": {"prior": "0.5, 0.5", "likelihood": "0.8, 0.2; 0.3, 0.7"},
    "LatentClass": {"prior": "0.5, 0.5", "law": "real", "means": "0, 3", "dispersion": "0", "spread": "1"},
    "ProviderNormal": {"mean": "0", "scale": "1", "noise": "1", "dispersion": "0.5"},
}
_MEANING = {
    "alpha": "pseudo-count of successes",
    "beta": "pseudo-count of failures",
    "noise": "standard deviation of a row",
    "strength": "how many rows the prior is worth",
    "rate": "pseudo-exposure",
    "dof": "degrees of freedom",
    "precision": "of the coefficients, a matrix",
    "likelihood": "one row per state, one column per symbol",
}
_COLUMNS = {"LinearRegression": "x", "LinearRegressionUnknownNoise": "x"} | {
    family: "x, y" for family in WORDS if family.startswith("Multivariate")
}
_ONE_COLUMN = "value"


class Parameter(NamedTuple):
    """A parameter of a prior as the form asks for it."""

    name: str
    kind: str
    needed: bool
    meaning: str


def parameters_of(family: str) -> list[Parameter]:
    """Return the parameters of a family."""
    found = []
    for field in dataclasses.fields(FAMILIES[family]):
        if not field.init or field.name in ("reference", "normalised"):
            continue
        kind = str(field.type)
        shape = (
            "matrix" if "Matrix" in kind else "vector" if "Vector" in kind else "word" if kind == "str" else "number"
        )
        needed = field.default is dataclasses.MISSING
        found.append(Parameter(field.name, shape, needed, _meaning(family, field.name)))
    return found


def _meaning(family: str, name: str) -> str:
    if family == "Categorical" and name == "alpha":
        return "pseudo-counts of the labels"
    if family.startswith("Multivariate") and name == "noise":
        return "covariance of a row"
    return _MEANING.get(name, "")


def is_regression(family: str) -> bool:
    """Tell whether a family explains a target."""
    return family.startswith("LinearRegression")


def options_of(rule: str) -> dict[str, Option]:
    """Return the options that the form asks for, by the names of their fields."""
    return {f"option_{key}": option for key, option in RULES[rule].settings().items() if option.in_form}


def blank(family: str = "Bernoulli", rule: str = DEFAULT_RULE) -> dict[str, str]:
    """Return what an untouched form says."""
    typed = {"name": "", "budget": "1000.00", "currency": "EUR", "decimals": "2", "budget_per": "campaign", "days": ""}
    typed |= {"daily": "yes" if RULES[rule]().days > 1 else "", "family": family, "rule": rule}
    regression = is_regression(family)
    typed |= {"columns": _COLUMNS.get(family, _ONE_COLUMN), "categories": ""}
    typed |= {"target": "y" if regression else "", "intercept": "yes" if regression else ""}
    typed |= {name: option.text for name, option in options_of(rule).items()}
    typed |= {"bonded": "", "rows": "", "values_low": "", "values_high": ""}
    typed |= {"publish_at_once": "", "share_ledger": "", "providers": "5", "expected": "50", "toml": ""}
    return typed | _priors(family)


def _priors(family: str) -> dict[str, str]:
    return {f"prior_{p.name}": _EXAMPLES[family].get(p.name, "") for p in parameters_of(family)}


def typed_in(form: Fields) -> dict[str, str]:
    """Return what a form says; a family or rule that was just chosen brings its examples."""
    family = form.text("family") if form.text("family") in WORDS else "Bernoulli"
    rule = form.text("rule") if form.text("rule") in offered_rules() else DEFAULT_RULE
    typed = blank(family, rule)
    examples = {"family", "rule"}
    if form.text("shown") != family:
        examples |= {name for name in typed if name.startswith("prior_")} | {"target", "intercept"}
        if form.text("columns") in ("", _ONE_COLUMN, *_COLUMNS.values()):
            examples.add("columns")
    if form.text("shown_rule") != rule:
        examples |= {name for name in options_of(rule) if not form.has(name)}
    for name in typed:
        if name not in examples:
            typed[name] = form.text(name)
    return typed


def terms_of(typed: dict[str, str]) -> dict[str, Any]:
    """Return the tables of a campaign file that a form's texts make."""
    family, rule = typed["family"], typed["rule"]
    campaign: dict[str, Any] = {"name": typed["name"] or _missing("campaign", "name")}
    campaign |= {"budget": typed["budget"] or _missing("campaign", "budget")}
    if typed["currency"]:
        campaign["currency"] = typed["currency"]
    campaign["decimals"] = _whole("campaign", "decimals", typed["decimals"] or "2")
    terms: dict[str, Any] = {"campaign": campaign, "model": _model(typed, family), "mechanism": _rule(typed, rule)}
    if typed["daily"]:
        terms["data"] = {"day": "day"}
        if typed["budget_per"] == "day":
            campaign["budget_per"] = "day"
        if typed["days"]:
            campaign["days"] = _whole("campaign", "days", typed["days"])
    limits: dict[str, Any] = {}
    if typed["rows"]:
        limits["rows"] = _whole("limits", "rows", typed["rows"])
    if typed["values_low"] or typed["values_high"]:
        limits["values"] = [_number("limits", "values", typed[name] or "-") for name in ("values_low", "values_high")]
    if limits:
        terms["limits"] = limits
    return terms


def _model(typed: dict[str, str], family: str) -> dict[str, Any]:
    model: dict[str, Any] = {"family": family}
    columns = _words(typed["columns"])
    if columns:
        model["columns"] = columns
    if is_regression(family):
        if typed["target"]:
            model["target"] = typed["target"]
        if typed["intercept"]:
            model["intercept"] = True
    if typed["categories"]:
        model["categories"] = _words(typed["categories"])
    prior = {}
    for parameter in parameters_of(family):
        text = typed.get(f"prior_{parameter.name}", "")
        if text:
            prior[parameter.name] = _value(parameter, text)
    return {**model, "prior": prior}


def _rule(typed: dict[str, str], rule: str) -> dict[str, Any]:
    table: dict[str, Any] = {"rule": rule}
    for name, option in options_of(rule).items():
        if typed[name] or option.kind == "flag":
            try:
                table[option.key] = option.parse(typed[name])
            except ValueError as error:
                raise _wrong("mechanism", option.key, str(error)) from None
    if typed["bonded"]:
        table["bonded"] = True
    return table


def _missing(section: str, key: str) -> Any:
    raise _wrong(section, key, "is missing")


def _wrong(section: str, key: str, problem: str) -> InvalidError:
    return InvalidError(f"[{section}] {key}: {problem}", section=section, key=key)


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _whole(section: str, key: str, text: str) -> int:
    if not re.fullmatch(r"\d{1,15}", text, re.ASCII):
        raise _wrong(section, key, f"{text!r} is no whole number")
    return int(text)


def _number(section: str, key: str, text: str) -> int | float:
    try:
        return int(text) if re.fullmatch(r"-?\d{1,15}", text, re.ASCII) else float(text)
    except ValueError:
        raise _wrong(section, key, f"{text!r} is no number") from None


def _value(parameter: Parameter, text: str) -> Any:
    """Read a number, numbers with commas between them, or rows of numbers with semicolons between those."""
    if parameter.kind == "word":
        return text
    lines = [line for line in re.split(r"[;\n]", text) if line.strip()]
    table = [
        [_number("model.prior", parameter.name, cell) for cell in re.split(r"[,\s]+", line.strip())] for line in lines
    ]
    if parameter.kind == "matrix" and (len(table) > 1 or parameter.name not in ("means",)):
        return table
    if len(table) != 1:
        raise _wrong("model.prior", parameter.name, "must be one line of numbers")
    if parameter.kind == "number":
        if len(table[0]) != 1:
            raise _wrong("model.prior", parameter.name, "must be one number")
        return table[0][0]
    return table[0]


_FIELDS = {"values": "values_low", "day": "daily", "column": "columns"}


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
    candidates = (_FIELDS.get(str(key), key), f"prior_{key}", f"option_{key}", "family" if section == "model" else None)
    return next((name for name in candidates if name in typed), None) if section is not None else None
