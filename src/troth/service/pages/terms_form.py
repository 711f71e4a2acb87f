"""The form of a new campaign: what it asks for each family and rule, and the tables of a campaign file made of it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from troth.campaigns.mechanism import RULES
from troth.mechanisms import divergences
from troth.models import FAMILIES
from troth.service.errors import InvalidError

if TYPE_CHECKING:
    from troth.service.pages.forms import Fields

DIVERGENCES = tuple(divergences.ALL)
RULE_WORDS = {
    "SyntheticPeers": "one round, any model; draws with a committed seed",
    "MultiDay": "a campaign of days; pays a day once the next is in",
    "OneTime": "one round without a seed; needs most rows",
    "Brier": "finite models; quadratic score",
}


DEFAULT_FAMILY = next(iter(FAMILIES))


def blank(family: str = DEFAULT_FAMILY, rule: str = "SyntheticPeers") -> dict[str, str]:
    """Return what an untouched form says."""
    typed = {"name": "", "budget": "1000.00", "currency": "EUR", "decimals": "2", "budget_per": "campaign", "days": ""}
    typed |= {"daily": "yes" if rule == "MultiDay" else "", "family": family, "rule": rule}
    typed |= {**_columns_of(family), "intercept": ""}
    typed |= {"divergence": "logistic", "draws": "64", "range": "exact", "low": "-8", "form": "types"}
    typed |= {"bonded": "", "exchangeable": "", "rows": "", "values_low": "", "values_high": ""}
    typed |= {"publish_at_once": "", "share_ledger": "", "providers": "5", "expected": "50", "toml": ""}
    return typed | {f"prior_{parameter.name}": parameter.text for parameter in FAMILIES[family].parameters()}


def _columns_of(family: str) -> dict[str, str]:
    """Return the columns of a family's example."""
    example = FAMILIES[family].example
    labels = ", ".join(example.labels or ())
    return {"columns": ", ".join(example.columns), "target": example.target or "", "categories": labels}


def reads_labels(family: str) -> bool:
    """Tell whether data of a family may be labels instead of numbers."""
    return FAMILIES[family].example_model().reduction.labels is not None


def typed_in(form: Fields) -> dict[str, str]:
    """Return what a form says; a family or rule that was just chosen brings its examples."""
    family = form.text("family") if form.text("family") in FAMILIES else DEFAULT_FAMILY
    rule = form.text("rule") if form.text("rule") in RULES else "SyntheticPeers"
    typed = blank(family, rule)
    examples = {"family", "rule"}
    shown = form.text("shown")
    if shown != family:
        examples |= {name for name in typed if name.startswith("prior_")}
        before = _columns_of(shown) if shown in FAMILIES else {}
        examples |= {name for name in _columns_of(family) if form.text(name) in ("", before.get(name))}
    for name in typed:
        if name not in examples:
            typed[name] = form.text(name)
    for name, default in (("draws", "64"), ("divergence", "logistic"), ("range", "exact"), ("form", "types")):
        typed[name] = typed[name] or default
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
    if FAMILIES[family].explains_target:
        if typed["target"]:
            model["target"] = typed["target"]
        if typed["intercept"]:
            model["intercept"] = True
    if typed["categories"]:
        model["categories"] = _words(typed["categories"])
    prior = {}
    for parameter in FAMILIES[family].parameters():
        text = typed.get(f"prior_{parameter.name}", "")
        try:
            if text:
                prior[parameter.name] = parameter.kind.parse(text)
        except ValueError as error:
            raise InvalidError(f"[model.prior] {parameter.name}: {error}") from None
    return {**model, "prior": prior}


def _rule(typed: dict[str, str], rule: str) -> dict[str, Any]:
    table: dict[str, Any] = {"rule": rule}
    if rule in ("SyntheticPeers", "MultiDay"):
        table["divergence"] = typed["divergence"]
    if rule == "SyntheticPeers":
        table["draws"] = _whole("mechanism", "draws", typed["draws"])
    if rule == "MultiDay" and typed["exchangeable"]:
        table["exchangeable"] = True
    if rule == "OneTime":
        table["range"] = typed["range"]
        if typed["range"] == "clipped":
            table["low"] = _number("mechanism", "low", typed["low"] or "-8")
    if rule == "Brier":
        table["form"] = typed["form"]
    if typed["bonded"]:
        table["bonded"] = True
    return table


def _missing(section: str, key: str) -> Any:
    raise InvalidError(f"[{section}] {key}: is missing")


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _whole(section: str, key: str, text: str) -> int:
    if not re.fullmatch(r"\d{1,15}", text, re.ASCII):
        raise InvalidError(f"[{section}] {key}: {text!r} is no whole number")
    return int(text)


def _number(section: str, key: str, text: str) -> int | float:
    try:
        return int(text) if re.fullmatch(r"-?\d{1,15}", text, re.ASCII) else float(text)
    except ValueError:
        raise InvalidError(f"[{section}] {key}: {text!r} is no number") from None


_FIELDS = {"values": "values_low", "day": "daily", "column": "columns"}


def field_of(message: str, family: str) -> str | None:
    """Return the field of the form that an error is about.

    Examples
    --------
    >>> field_of("[campaign] budget: is missing", "Bernoulli")
    'budget'
    >>> field_of("[model]: alpha must be positive, not -1.0", "Bernoulli")
    'prior_alpha'
    """
    known = {parameter.name for parameter in FAMILIES[family].parameters()}
    match = re.match(r"\[([\w.]+)\]\s*(\w+)?", message)
    if match is None:
        return None
    section, key = match.groups()
    if section.startswith("model") and key not in ("columns", "column", "target", "intercept", "categories", "family"):
        for word in [key, *re.findall(r"\w+", message[match.end() :])]:
            if word in known:
                return f"prior_{word}"
        return "family"
    return None if key is None else _FIELDS.get(key, key)
