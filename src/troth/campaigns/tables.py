"""Parse the tables of a campaign file: the valid values of each key, and remedies for invalid ones."""

from __future__ import annotations

import re
import tomllib
from fractions import Fraction
from math import isfinite
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from troth import models
from troth.campaigns.model_file import check_digest
from troth.campaigns.money import minor_unit, to_minor, to_price
from troth.core.contract import HasReduction, HasSupport, Model, explains_target
from troth.core.errors import DataError, ParameterError
from troth.core.registry import IF_CUSTOM
from troth.core.settings import CampaignError, Section, numbers
from troth.data.engines import ENGINES
from troth.data.files import FORMATS
from troth.data.read import canonical_name
from troth.data.request import level_names

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from troth.data.files import Source
    from troth.models import Family

TABLES = ("campaign", "model", "history", "mechanism", "data", "public", "limits", "groups", "weights")
_MAX_FILE_BYTES = 1 << 22
_WEIGHT = re.compile(r"[0-9]{0,40}\.?[0-9]{0,40}(e[+-]?[0-9]{1,3})?|[0-9]{1,40}/[0-9]{1,40}", re.IGNORECASE)


@runtime_checkable
class _HasStandardPrior(Protocol):
    """A regression that has a prior for columns on public scales."""

    def standard_prior(self, coefficients: int, given: Mapping[str, Any], /) -> dict[str, Any]:
        """Return the parameters that are not given, for a number of coefficients."""


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file; errors name the line."""
    try:
        if path.stat().st_size > _MAX_FILE_BYTES:
            raise CampaignError(f"{path.name}: too large for a campaign file")
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise CampaignError(f"{path}: there is no such file; `troth init DIR` writes an example") from None
    except IsADirectoryError:
        raise CampaignError(f"{path}: is a folder; name the campaign file in it") from None
    except tomllib.TOMLDecodeError as error:
        raise CampaignError(f"{path.name}: not valid TOML: {error}") from None
    except (ValueError, OSError, RecursionError) as error:
        raise CampaignError(f"{path.name}: cannot be read: {error}") from None


def take_money(section: Section) -> dict[str, Any]:
    """Read [campaign]: the name, the budget or price, and the currency."""
    currency = section.text("currency", "")
    if not currency.isprintable():
        raise section.error_at("currency", f"has characters that cannot be printed: {currency!r}")
    settings = {
        "name": section.text("name", required=True),
        "about": section.text("about", ""),
        "currency": currency,
        "decimals": section.integer("decimals", minor_unit(currency, default=2), maximum=8),
    }
    if "budget" not in section.remaining and "price" not in section.remaining:
        raise section.error_at("budget", 'is missing; give a decimal string such as "1000.00"')
    try:
        settings["price"] = to_price(section.take("price"), settings["decimals"], f"{section.place} price")
        settings["budget"] = to_minor(section.take("budget", "0"), settings["decimals"], f"{section.place} budget")
    except ParameterError as error:
        key = "price" if "price" not in settings else "budget"
        raise CampaignError(str(error), section=section.name, key=key) from None
    settings["per_day"] = section.text("budget_per", "campaign", among=("campaign", "day")) == "day"
    settings["days"] = section.integer("days", minimum=1, maximum=100_000)
    section.reject_unknown(("name", "about", "budget", "price", "budget_per", "days", "currency", "decimals"))
    return settings


def take_limits(section: Section) -> dict[str, Any]:
    """Read [limits]: the maximum numbers of rows and tasks of a report, and the range of its values."""
    rows = section.integer("rows", minimum=1, maximum=10**9)
    values = _pair(section, "values", lambda low, high: low <= high, "must be a pair [low, high] of numbers")
    tasks = section.integer("tasks", minimum=1, maximum=10**9)
    section.reject_unknown(("rows", "values", "tasks"))
    return {"rows": rows, "values": values, "max_tasks": tasks}


def _pair(
    section: Section, key: str, is_valid: Callable[[float, float], bool], problem: str
) -> tuple[float, float] | None:
    """Read two finite numbers that satisfy a condition, or return None if the key is missing."""
    value = section.take(key)
    if value is None:
        return None
    try:
        first, second = map(float, numbers(value))
        if not (isfinite(first) and isfinite(second) and is_valid(first, second)):
            raise ValueError(value)
    except (TypeError, ValueError):
        raise section.error_at(key, f"{problem}, not {value!r}") from None
    return first, second


def take_model(section: Section, custom: Model | None) -> dict[str, Any]:
    """Read [model]: the family with its parameters, and the columns that it reads. A custom model replaces them."""
    if "column" in section.remaining and "columns" in section.remaining:
        raise section.error_at("column", "give column or columns, not both")
    columns = section.texts("columns") or section.texts("column")
    target = section.text("target")
    intercept = section.flag("intercept")
    categories = section.texts("categories") or None
    overrides = section.table("providers")
    scales = section.table("scales")
    announced = section.text("digest")
    section.digest("pilot", "fit")  # for the record: anybody with the pilot can recompute the point
    guessed = section.flag("guessed")
    levels = _levels(section.table("levels"), columns)
    all_columns: list[str | None] = [
        *([None] if intercept else []),
        *columns,
        *([target] if target is not None else []),
    ]
    provider_models: Mapping[str, Model] = {}
    model: Model
    if custom is not None:
        model = custom
        section.remaining.clear()
    else:
        width = len(level_names(all_columns, levels))
        model, provider_models = _take_family(section, overrides, width - 1 if scales.remaining else None)
        if announced is not None:
            try:
                check_digest(model, announced, "the model")
            except DataError as error:
                raise section.error_at("digest", str(error)) from None
        if levels and not model.explains_target:
            raise section.error_at("levels", "are for regressions only")
        _check_columns(section, model, columns, target, intercept, width)
    if categories is not None:
        _check_categories(section, model, categories)
    return {
        "model": model,
        "provider_models": provider_models,
        "columns": tuple(all_columns),
        "guessed": guessed,
        "scales": _scales(scales, all_columns, model, levels),
        "levels": levels,
        "categories": None if categories is None else tuple(label.strip() for label in categories),
    }


def _take_family(section: Section, overrides: Section, scaled: int | None) -> tuple[Family, dict[str, Family]]:
    """Return the model and those of single providers; on ``scaled`` features a regression's prior is optional."""
    name, parameters = _parameters(section)
    family: type = models.FAMILIES[name]
    if scaled is not None and isinstance(family, _HasStandardPrior):
        parameters = {**family.standard_prior(scaled, parameters), **parameters}
    provider_models: dict[str, Family] = {}
    model = _make_model(section, name, parameters)
    for provider in list(overrides.remaining):
        table = overrides.table(provider)
        _, changed = _parameters(table, name)
        if canonical_name(provider) in provider_models:
            raise overrides.error_at(repr(provider), "appears twice (ignoring surrounding spaces)")
        provider_models[canonical_name(provider)] = _make_model(table, name, {**parameters, **changed})
    return model, provider_models


def _check_categories(section: Section, model: Model, labels: Sequence[str]) -> None:
    """Require distinct labels, one for each code of the model."""
    if len({label.strip() for label in labels}) < len(labels):
        raise section.error_at("categories", "a label appears twice (ignoring surrounding spaces)")
    size = model.reduction.labels if isinstance(model, HasReduction) else None
    if size is None:
        raise section.error_at("categories", f"{type(model).__name__} reads numbers, not labels")
    if size != len(labels):
        raise section.error_at("categories", f"there are {len(labels)} labels for {size} codes of the model")


def _levels(section: Section, columns: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Read the public labels of columns that hold labels; the first label is the baseline."""
    levels: dict[str, tuple[str, ...]] = {}
    for name in [name for name in columns if name in section.remaining]:
        labels = tuple(label.strip() for label in section.texts(name))
        if len(set(labels)) < max(2, len(labels)):
            raise section.error_at(name, "must be a list of at least two different labels")
        levels[name] = labels
    section.reject_unknown(columns)
    return levels


def _scales(
    section: Section, columns: Sequence[str | None], model: Any, levels: Mapping[str, Any]
) -> tuple[tuple[float, float] | None, ...]:
    """Read the public centre and scale of a regression's columns; labels and counts have none."""
    if section.remaining and not explains_target(model):
        raise section.error("are for regressions only")
    for scaled in section.remaining:
        if scaled in levels:
            raise section.error_at(scaled, "has labels under [model.levels], which have no scale: remove one of them")
        if scaled == columns[-1] and isinstance(model, HasSupport) and model.support.integer:
            raise section.error_at(scaled, "is the target, and labels and counts have no scale: remove it")
    problem = "must be [centre, scale] with a scale above 0"
    scales = [None if name is None else _pair(section, name, lambda _, scale: scale > 0, problem) for name in columns]
    section.reject_unknown([name for name in columns if name is not None])
    return tuple(scales) if any(scales) else ()


def _check_columns(
    section: Section,
    model: Family,
    columns: tuple[str, ...],
    target: str | None,
    intercept: bool,
    width: int,
) -> None:
    if model.explains_target and target is None:
        raise section.error_at("target", "is missing; name the column that the regression predicts")
    if not model.explains_target and (target is not None or intercept):
        raise section.error_at("target" if target is not None else "intercept", "is for regressions only")
    if target is not None and target in columns:
        raise section.error_at("target", f"{target!r} is among the columns that explain it")
    if not columns and not intercept:
        raise section.error_at("columns", "is missing; name the column (or columns) that the model reads")
    needed = model.reduction.columns
    if width != needed:
        counted = f"{len(columns)} columns" + (", an intercept" if intercept else "") + (", a target" if target else "")
        size = needed - 1 if model.explains_target else needed
        hint = "; every number needs its own column, also each number of a list" if len(columns) < size else ""
        raise section.error_at("columns", f"there are {counted}, but the model's parameters are for {size}{hint}")


def _parameters(section: Section, family: str | None = None) -> tuple[str, dict[str, Any]]:
    """Read a family and its parameters, which are in the table itself or in its table prior.

    The table of one provider has no family of its own: it has parameters of the given ``family``.
    """
    other_keys: tuple[str, ...] = ("prior",)
    if family is None:
        family = section.text("family", required=True, among=tuple(models.FAMILIES), custom=IF_CUSTOM)
        other_keys = (*models.RESERVED_KEYS, "prior")
    declared = models.FAMILIES[str(family)].parameters()
    names = [parameter.name for parameter in declared]
    prior = section.take("prior", {})
    if isinstance(prior, dict):
        inner = section.subsection("prior", prior)
        parameters = {name: inner.take(name) for name in names if name in inner.remaining}
        inner.reject_unknown(names)
    elif "prior" in names:
        parameters = {"prior": prior}
    else:
        raise section.error_at("prior", f"must be a table with {', '.join(names)}, not {prior!r}")
    for name in names:
        if name in section.remaining and name in parameters:
            raise section.error_at(name, "is given twice, here and under prior")
        if name in section.remaining:
            parameters[name] = section.take(name)
    section.reject_unknown((*other_keys, *names))
    for name in (parameter.name for parameter in declared if parameter.kind.numeric and parameter.name in parameters):
        try:
            numbers(parameters[name])
        except ValueError:
            raise section.error_at(name, f"must be a number, or a list of numbers, not {parameters[name]!r}") from None
    return str(family), parameters


def _make_model(section: Section, family: str, parameters: dict[str, Any]) -> Family:
    declared = models.FAMILIES[family].parameters()
    missing = [parameter.name for parameter in declared if parameter.required and parameter.name not in parameters]
    if missing:
        message = f"{section.place}: {family} needs {', '.join(missing)}; put it under [model.prior]"
        raise CampaignError(message, section=section.name, key=missing[0])
    try:
        return models.FAMILIES[family](**parameters)
    except ParameterError as error:
        raise CampaignError(f"{section.place}: {error}", section=section.name, key=error.parameter) from None


def _source(section: Section, key: str = "source") -> Source | None:
    sources = section.texts(key)
    return sources[0] if len(sources) == 1 else sources or None


def take_data(section: Section) -> dict[str, Any]:
    """Read [data]: the source of the reports and the names of their columns."""
    settings = {
        "source": _source(section),
        "public": _source(section, "public"),
        "format": section.text("format", among=sorted(set(FORMATS.values()) - {"statistics"})),
        "engine": section.text("engine", "threads", among=tuple(ENGINES)),
        "provider": section.text("provider"),
        "day": section.text("day"),
        "task": section.text("task"),
        "providers": tuple(canonical_name(name) for name in section.texts("providers")),
        "missing": section.text("missing", "refuse", among=("refuse", "drop")),
        "keep_features": section.flag("keep_features", default=True),
    }
    if len(set(settings["providers"])) < len(settings["providers"]):
        raise section.error_at("providers", "a provider appears twice (ignoring surrounding spaces)")
    section.reject_unknown(tuple(settings))
    settings["public_source"] = settings.pop("public")
    return settings


def take_history(section: Section) -> dict[str, Any]:
    """Read [history]: the record of the past days or tasks that the model was learnt from."""
    if not section.remaining:
        return {}
    source = _source(section)
    settings = {
        "digest": section.digest("digest", "fit"),
        "days": section.integer("days", minimum=1),
        "tasks": section.integer("tasks", minimum=1),
        "providers": section.integer("providers", minimum=1),
        "provider": section.text("provider"),
        "day": section.text("day"),
        "recent": section.integer("recent", minimum=1),
    }
    section.reject_unknown(("source", *settings))
    return {"history": settings, "history_source": source}


def take_groups(section: Section) -> dict[str, str]:
    """Read [groups]: the group of each related provider."""
    groups: dict[str, str] = {}
    for label in list(section.remaining):
        for name in map(canonical_name, section.texts(label)):
            if name in groups:
                raise section.error_at(label, f"{name!r} is already in group {groups[name]!r}")
            groups[name] = label
    return groups


def take_weights(section: Section) -> dict[str, Fraction]:
    """Read [weights]: each provider's share of the budget."""
    weights: dict[str, Fraction] = {}
    for name, value in section.remaining.items():
        try:
            weight = Fraction(str(value)) if _WEIGHT.fullmatch(str(value).strip()) else None
        except (ValueError, ZeroDivisionError):
            weight = None
        if weight is None or not 0 <= weight <= 1:
            raise section.error_at(
                repr(name), f"must be a number from 0 to 1, the provider's share of the budget, not {value!r}"
            )
        if canonical_name(name) in weights:
            raise section.error_at(repr(name), "appears twice (ignoring surrounding spaces)")
        weights[canonical_name(name)] = weight
    total = sum(weights.values())
    if total > 1:
        raise section.error(f"the weights add up to {float(total):.9g}, more than 1")
    return weights
