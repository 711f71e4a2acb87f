"""Describe a model and a rule, given as Python objects, as the tables of a campaign file."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from troth.campaigns.terms import Campaign
from troth.core.contract import HasReduction, Model, explains_target
from troth.core.errors import DataError, ParameterError
from troth.core.settings import plain_copy
from troth.data.gather import column_names
from troth.data.public import PUBLIC
from troth.data.request import listed
from troth.mechanisms import DEFAULT_RULE, Rule
from troth.models import Family, is_registered

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from decimal import Decimal


def describe_campaign(
    data: Any,
    model: Model,
    rule: Rule | str | None,
    *,
    provider: str | None,
    day: str | None,
    budget: str | int | Decimal | None,
    columns: Sequence[str] | str | None,
    terms: Mapping[str, Mapping[str, Any]],
    public: Any = None,
    task: str | None = None,
    price: str | int | Decimal | None = None,
) -> Campaign:
    """Return the campaign that pays for data with a model and a rule, under the given terms."""
    tables: dict[str, dict[str, Any]] = plain_copy(dict(terms))
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise ParameterError(f"terms: [{name}] must be a table of settings, not {table!r}")
    money = tables.setdefault("campaign", {})
    money.setdefault("name", "campaign")
    if day is not None and "days" not in money:
        money.setdefault("budget_per", "day")
    if "weights" in tables:
        tables["weights"] = {name: str(weight) for name, weight in tables["weights"].items()}
    if rule is None:
        rule = tables.get("mechanism", {}).pop("rule", DEFAULT_RULE)
    mechanism = rule.to_settings() if isinstance(rule, Rule) else {"rule": rule}
    custom_rule = rule if isinstance(rule, Rule) and mechanism is None else None
    custom_model = None if is_registered(model) else model
    columns = tables.get("model", {}).pop("columns", None) if columns is None else columns
    if task is not None:
        header = column_names(data)
        for key, column in (("provider", provider), ("task", task)):
            if column is not None and column not in header:
                raise DataError(f"there is no column {column!r} ({key}=); there are {listed(header)}")
    names = _columns(data, model, provider, day or task, columns, tables.get("model", {}))
    given_columns = {"provider": provider, "day": day, "task": task, "public": None if public is None else PUBLIC}
    amounts = {"budget": budget, "price": price}
    described: dict[str, dict[str, Any]] = {
        "campaign": {key: str(amount) for key, amount in amounts.items() if amount is not None},
        "model": _describe_model(model, names, tables.get("model", {})),
        "mechanism": mechanism or {"rule": repr(rule)},
        "data": {key: name for key, name in given_columns.items() if name is not None},
    }
    for name, table in described.items():
        for key in table:
            if key in tables.get(name, {}):
                raise ParameterError(f"terms: [{name}] {key} is given twice; leave it out here")
        tables[name] = {**table, **tables.get(name, {})}
    campaign = Campaign.from_dict(tables, model=custom_model, rule=custom_rule)
    return campaign if public is None or task is not None else replace(campaign, known=campaign.read_public(public))


def with_first_defaults(campaign: Campaign, reports: int, recorded_terms: Mapping[str, Any]) -> Campaign:
    """Return a campaign whose default rule has the options that `troth init` writes for this number of reports.

    If a ledger is continued, the options in its ``recorded_terms`` stay.
    """
    rule, mechanism = campaign.rule, campaign.plain["mechanism"]
    options, recorded = type(rule).first_defaults(reports), recorded_terms.get("mechanism", {})
    if recorded.get("rule") == mechanism["rule"]:
        options = {key: value for key, value in recorded.items() if key != "rule"}
    plain = {**campaign.plain, "mechanism": {**mechanism, **options}}
    return replace(campaign, rule=type(rule)(**options), plain=plain)


def _columns(
    data: Any,
    model: Model,
    provider: str | None,
    day: str | None,
    columns: Sequence[str] | str | None,
    table: Mapping[str, Any],
) -> list[str]:
    """Return the columns that the model reads, without a named target: by default all columns not used otherwise."""
    if columns is not None:
        return [columns] if isinstance(columns, str) else list(columns)
    target = table.get("target")
    unused = [name for name in column_names(data) if name not in (provider, day, target)]
    if isinstance(model, HasReduction):
        extra = sum(len(labels) - 2 for labels in table.get("levels", {}).values())
        needed = model.reduction.columns - bool(table.get("intercept")) - (target is not None) - extra
        if len(unused) != needed:
            raise DataError(
                f"the model reads {needed} column(s), but besides provider and day there are {len(unused)} "
                f"({listed(unused, 8)}): name them with columns="
            )
    return unused


def _describe_model(model: Model, columns: list[str], table: dict[str, Any]) -> dict[str, Any]:
    """Return a model as the table [model], and convert models of single providers in ``table`` to tables."""
    described = model.to_dict() if isinstance(model, Family) else {}  # raises if the model holds functions
    if described.pop("reference", None) is not None:
        raise ParameterError("give the original models, not the result of troth.combine; pay combines them")
    if not is_registered(model):
        if "providers" in table:
            raise ParameterError(
                "terms: [model.providers] is for registered families; a custom model applies to all providers"
            )
        return {"columns": columns}
    for name, other in table.get("providers", {}).items():
        if isinstance(other, Family):
            if type(other) is not type(model):
                raise ParameterError(
                    f"terms: [model.providers] takes models of the same family, {type(model).__name__}; that of "
                    f"{name!r} is of {type(other).__name__}"
                )
            settings = other.to_dict().items()
            table["providers"][name] = {key: value for key, value in settings if value != described.get(key)}
    if explains_target(model) and "target" not in table:
        *columns, target = columns
        return {"columns": columns, "target": target, **described}
    return {"columns": columns, **described}
