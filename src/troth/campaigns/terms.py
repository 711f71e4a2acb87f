"""The campaign file: who pays how much for what, checked to the last key before anything is read or written."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from troth import models
from troth.campaigns.canonical_json import digest
from troth.campaigns.model_file import check_digest, with_model_file
from troth.campaigns.money import to_minor, to_price, to_text
from troth.campaigns.public import check_public, describe_public, take_public
from troth.core.contract import DrawsAnswers, HasReduction, Model, combine
from troth.core.errors import DataError, IncompatibleModelsError, MissingCapabilityError, ParameterError
from troth.core.posterior import posterior
from troth.core.reductions import Moments
from troth.core.settings import CampaignError, Section, numbers, plain_copy
from troth.data.engines import ENGINES
from troth.data.files import FORMATS
from troth.data.public import PUBLIC, read_public
from troth.data.read import canonical_name
from troth.data.request import Request, level_names
from troth.mechanisms import default_rule, read_rule

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from troth.core.contract import Array
    from troth.data.files import Source
    from troth.data.request import Day, Report
    from troth.mechanisms import Rule
    from troth.models import Family

TABLES = ("campaign", "model", "history", "mechanism", "data", "public", "limits", "groups", "weights")
_TERMS_OF_DATA = ("provider", "day", "task", "providers", "missing", "keep_features")
_DATA_OF_MODEL = ("columns", "target", "intercept", "categories", "scales", "levels")
_LARGEST_FILE = 1 << 22
_WEIGHT = re.compile(r"[0-9]{0,40}\.?[0-9]{0,40}(e[+-]?[0-9]{1,3})?|[0-9]{1,40}/[0-9]{1,40}", re.IGNORECASE)


@dataclass(frozen=True, eq=False)
class Campaign:
    """A checked campaign: everything that payments depend on but the reports, and where those are.

    Make one with `Campaign.load`, from a file, or `Campaign.from_dict`, from the same tables as dictionaries.

    Attributes
    ----------
    budget
        What may be spent in all, or on each day, in minor units.
    days
        How many days share the budget, where it is not each day's.
    columns
        What the model reads of a row; None is a constant 1.
    providers
        Everybody who is invited, if the campaign says so; otherwise whoever reports.
    missing
        What is done with rows without a value: ``"refuse"`` or ``"drop"``.
    keep_features
        Whether features, or a sample of them, are kept in the ledger, for decoys from the likelihood itself.
    scales
        Public centre and scale of the columns of a regression that is standardised.
    levels
        The public list of labels of each column of a regression that holds labels.
    history, history_source
        What is known of the past days that the model was learnt from, and where they are.
    task, price, most_tasks
        The column of tasks, where each is a round and all are settled together, the most for one report on one, and on
        how many one provider may report.
    public_source, known
        Where the public data are, and their summaries by day (None is every day) where these have been read already.

    Examples
    --------
    >>> campaign = Campaign.from_dict({
    ...     "campaign": {"name": "clinics", "budget": "1000.00", "currency": "EUR"},
    ...     "model": {"family": "Bernoulli", "columns": ["improved"], "prior": {"alpha": 1, "beta": 1}},
    ...     "data": {"source": "clinics.csv", "provider": "clinic"},
    ... })
    >>> campaign.budget, campaign.model
    (100000, Bernoulli(alpha=1.0, beta=1.0))
    """

    name: str
    budget: int
    currency: str
    decimals: int
    per_day: bool
    days: int | None
    model: Model
    provider_models: Mapping[str, Model]
    columns: tuple[str | None, ...]
    categories: tuple[str, ...] | None
    rule: Rule
    commitment: str | None
    source: Source | None
    format: str | None
    engine: str
    provider: str | None
    day: str | None
    providers: tuple[str, ...]
    rows: int | None
    values: tuple[float, float] | None
    groups: Mapping[str, str]
    weights: Mapping[str, Fraction]
    plain: Mapping[str, Any]
    history: Mapping[str, Any] | None = None
    history_source: Source | None = None
    public_source: Source | None = None
    known: Mapping[Day, Report] | None = None
    beacon: str | None = None
    task: str | None = None
    price: Fraction | None = None
    most_tasks: int | None = None
    path: Path | None = None
    missing: str = "refuse"
    keep_features: bool = True
    scales: tuple[tuple[float, float] | None, ...] = ()
    levels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    about: str = ""

    @classmethod
    def load(cls, path: str | Path) -> Campaign:
        """Read a campaign file."""
        path = Path(path)
        return cls.from_dict(read_toml(path), path=path)

    @classmethod
    def from_dict(
        cls, plain: Any, *, path: Path | None = None, model: Model | None = None, rule: Rule | None = None
    ) -> Campaign:
        """Check tables of settings; a custom model or rule replaces what they cannot describe."""
        place = "" if path is None else f"{path.name}: "
        plain = with_model_file(plain, path)
        top = Section("", plain, file="" if path is None else path.name)
        sections = {name: top.table(name) for name in TABLES}
        top.done(TABLES)
        for name in ("campaign", "model"):
            if name not in plain:
                raise CampaignError(f"{place}the table [{name}] is missing; `troth init DIR` writes an example")
        campaign = cls(
            **_money(sections["campaign"]),
            **_limits(sections["limits"]),
            **_model(sections["model"], model),
            rule=default_rule() if rule is None else rule,
            commitment=sections["mechanism"].digest("commitment", "commit"),
            beacon=sections["mechanism"].text("beacon"),
            **_data(sections["data"]),
            **_history(sections["history"]),
            known=take_public(sections["public"]),
            groups=_groups(sections["groups"]),
            weights=_weights(sections["weights"]),
            plain=plain_copy(plain),
            path=path,
        )
        if rule is None:
            given = read_rule(sections["mechanism"], None if campaign.task is None else campaign.model)
            campaign = replace(campaign, rule=given)
        campaign._check_together(sections)
        return campaign

    @property
    def daily(self) -> bool:
        """Whether it has days."""
        return self.day is not None

    @property
    def waits(self) -> bool:
        """Whether a day is paid only once the next one is in."""
        return self.rule.days > 1

    @property
    def draws(self) -> bool:
        """Whether payments need a seed."""
        return self.rule.needs_seed

    @property
    def round_budget(self) -> int:
        """What may be spent on a round, in minor units; days that share a budget share it evenly."""
        return self.budget if self.per_day or not self.daily else self.budget // (self.days or 1)

    @property
    def request(self) -> Request:
        """What is asked of a table."""
        if not isinstance(self.model, HasReduction):
            raise MissingCapabilityError(
                f"{type(self.model).__name__} does not say how to reduce rows: it needs a reduction"
            )
        return Request(
            self.model.reduction,
            self.columns,
            self.provider,
            self.day,
            self.categories,
            self.values,
            self.missing,
            self.scales,
            self.levels,
            self.keep_features and self.draws and not self.waits and isinstance(self.model, DrawsAnswers),
        )

    @cached_property
    def public(self) -> Mapping[Day, Report]:
        """What everybody knows, as one report under None, or as one for each day; read once, where it is a file."""
        if self.known is None and self.public_source is not None and self.task is None:
            return self.read_public(beside(self, self.public_source))
        return self.known or {}

    @property
    def public_by_day(self) -> bool:
        """Whether each day has public data of its own."""
        return self.task is None and self.public_source is not None and None not in self.public

    def read_public(self, data: Any) -> dict[Day, Report]:
        """Reduce public data to what `public` returns, from any table that a campaign may have."""
        reduction = self.model.reduction if isinstance(self.model, HasReduction) else Moments()
        request = Request(
            reduction,
            self.columns,
            None,
            self.day,
            self.categories,
            missing=self.missing,
            scales=self.scales,
            levels=self.levels,
        )
        reports = read_public(data, request, self.model, engine=self.engine)
        return {report.day: report for report in reports}

    def on(self, day: Day) -> Campaign:
        """Return the campaign as it is on a day, with that day's public data."""
        if not self.public_by_day:
            return self
        if self.waits:
            raise DataError(
                f"{PUBLIC}: they have the column {self.day!r}, but {self.rule.name} compares days, whose public data "
                "must be the same: remove the column, or choose a rule that pays each day by itself"
            )
        return replace(self, known={None: self.public[day]} if day in self.public else {}, public_source=None)

    def model_of(self, provider: str) -> Model:
        """Return a provider's own model, as the campaign declares it."""
        return self.provider_models.get(provider, self.model)

    def models_for(self, providers: Sequence[str]) -> Model | list[Model]:
        """Return one model, or one per provider with statistics in one space, given what everybody knows."""
        models: Model | list[Model] = self.model
        if any(name in self.provider_models for name in providers):
            models = combine([self.model, *(self.model_of(name) for name in providers)])[1:]
        known = self.public.get(None)
        if known is None:
            return models
        return posterior(models, self.statistics(self.model, known.summary))

    def statistics(self, model: Any, summary: Array) -> Array:
        """Return the statistics under one of `models_for` of a summary that was made for the declared model.

        A custom model without a reduction reports its statistics.
        """
        if isinstance(model, HasReduction) and isinstance(self.model, HasReduction):
            declared = self.model.reduction
            summary = summary if model.reduction == declared else declared.convert(summary, model.reduction)
        return np.asarray(model.from_summary(summary) if hasattr(model, "from_summary") else summary, dtype=np.float64)

    def rule_for(self, model: Model | list[Model], providers: int) -> Rule:
        """Return the rule, prepared for a number of providers with the most rows that reports may have."""
        return self.rule.prepared(model, None if self.rows is None else [self.rows] * providers, self.values)

    def group_of(self, name: str) -> tuple[str, str]:
        """Return a label that related providers share, and nobody else."""
        return ("group", self.groups[name]) if name in self.groups else ("provider", name)

    def caps_for(self, providers: Sequence[str]) -> list[Fraction]:
        """Return the most that each provider may earn in a round, in minor units, exactly.

        Everybody has the same cap; a group of related providers has one between them; announced weights go first.
        """
        everybody = self.providers or tuple(providers)
        budget = Fraction(self.round_budget)
        if self.weights:
            return [budget * self.weights[name] for name in providers]
        labels = {name: self.group_of(name) for name in everybody}
        sizes = Counter(labels.values())
        return [budget / (len(sizes) * sizes[labels[name]]) for name in providers]

    def text(self, minor: int) -> str:
        """Return minor units as a decimal string."""
        return to_text(minor, self.decimals)

    def show(self, minor: int) -> str:
        """Return minor units as people write them, with the currency."""
        sign, digits = ("-", self.text(minor)[1:]) if minor < 0 else ("", self.text(minor))
        whole, dot, rest = digits.partition(".")
        return f"{sign}{int(whole):,}{dot}{rest}" + (f" {self.currency}" if self.currency else "")

    @cached_property
    def terms(self) -> dict[str, Any]:
        """What payments depend on but the reports: the file's tables without the place of the data."""
        plain = plain_copy(self.plain)
        data = {key: plain.get("data", {}).get(key) for key in _TERMS_OF_DATA}
        if self.public_by_day or (self.task is not None and self.public_source is not None):
            data["public"] = plain["data"]["public"]
        elif None in self.public:
            plain["public"] = describe_public(self.public[None])
        plain["data"] = {key: value for key, value in data.items() if value is not None}
        plain.get("history", {}).pop("source", None)
        return {key: table for key, table in plain.items() if table}

    @cached_property
    def digest(self) -> str:
        """Digest of the terms."""
        return digest(self.terms)

    def check_providers(self, names: Sequence[str]) -> None:
        """Refuse reports of people who are not invited, and groups and weights of people who do not report."""
        place = "" if self.path is None else f"{self.path.name}: "
        invited = set(self.providers) or set(names)
        for name in names:
            if name not in invited:
                raise DataError(f"provider {name!r} is not among [data] providers; add it there, or remove its rows")
        models = {} if self.history is not None else self.provider_models  # a history may know more people
        for table, named in (("model.providers", models), ("groups", self.groups), ("weights", self.weights)):
            for name in named:
                if name not in invited:
                    raise CampaignError(f"{place}[{table}] names {name!r}, who is no provider; check the spelling")
        for name in sorted(invited) if self.weights else ():
            if name not in self.weights:
                raise CampaignError(f"{place}[weights] has no weight for provider {name!r}")

    def check_tasks_providers(self, names: Sequence[str]) -> None:
        """Refuse reports of people who are not invited; laws may be those of more people than work now."""
        invited = set(self.providers) or set(names)
        unknown = next((name for name in names if name not in invited), None)
        if unknown is not None:
            raise DataError(f"provider {unknown!r} is not among [data] providers; add it there, or remove its rows")
        stranger = next((name for name in self.groups if name not in invited), None)
        if stranger is not None:
            raise CampaignError(f"[groups] names {stranger!r}, who worked on no task; check the spelling")

    def check_task_counts(self, names: Sequence[str], counts: Sequence[int]) -> None:
        """Refuse providers that report on more tasks than they may."""
        for name, count in zip(names, counts, strict=True):
            if self.most_tasks is not None and count > self.most_tasks:
                raise DataError(f"provider {name!r}: {count:,} tasks, but [limits] tasks allows {self.most_tasks:,}")

    def _check_tasks(self, sections: Mapping[str, Section]) -> None:
        """Refuse what does not go with tasks that are settled together."""
        data, money = sections["data"], sections["campaign"]
        if self.task is None:
            given = money.fail if self.price is not None else sections["limits"].fail
            key = "tasks" if self.price is None else "price"
            raise given(key, "is for reports on tasks; name the column that holds them as [data] task")
        if self.known is not None:
            message = "is for data about one thing; name a table with a line for each task as [data] public"
            raise sections["public"].fail("summary", message)
        if self.day is not None:
            raise data.fail("day", "is given beside task; keep one of them: a column of days may be that of tasks")
        if self.provider is None:
            raise data.fail("provider", "is missing; name the column of those who worked on the tasks")
        if self.weights:
            raise sections["weights"].wrong("weights share a budget, and tasks have a price for each report")
        if self.waits or not self.rule.individually_rational:
            raise sections["mechanism"].wrong(f"{self.rule.name} cannot settle tasks, which are paid each by itself")

    def _check_together(self, sections: Mapping[str, Section]) -> None:
        if self.known is not None and self.public_source is not None:
            raise sections["data"].fail("public", "is given beside [public]; keep one of them")
        try:
            check_public(self.known or {}, self.model, self.columns)
        except DataError as error:
            raise sections["public"].fail("summary", str(error)) from None
        if self.task is not None or self.price is not None or self.most_tasks is not None:
            self._check_tasks(sections)
        if self.waits and self.day is None:
            raise sections["data"].fail("day", f"{self.rule.name} compares days; name the column that holds them")
        if self.rule.needs_rows and self.rows is None:
            raise sections["mechanism"].wrong(
                f"{self.rule.name} needs [limits] rows, the most rows that a report may have: {self.rule.needs_rows}"
            )
        if self.daily and not self.per_day and self.days is None:
            raise sections["campaign"].wrong(
                'a daily campaign needs days (how many share the budget), or budget_per = "day"'
            )
        for key, given in (("days", self.days is not None), ("budget_per", self.per_day)):
            if given and not self.daily:
                raise sections["campaign"].fail(key, "there are no days without [data] day")
        overrides = sections["model"].inner("providers", {})
        try:
            combine([self.model, *self.provider_models.values()])
        except IncompatibleModelsError as error:
            raise overrides.wrong(str(error)) from None
        for name, model in self.provider_models.items():
            if (
                isinstance(model, HasReduction)
                and isinstance(self.model, HasReduction)
                and model.reduction != self.model.reduction
            ):
                raise overrides.fail(repr(name), "must have as many symbols as [model]")


def beside(campaign: Campaign, source: Source) -> list[str]:
    """Return sources relative to the campaign file; signs in the names of its own folders are no patterns."""
    base = "" if campaign.path is None else str(campaign.path.parent)
    sources = []
    for entry in map(str, [source] if isinstance(source, str | Path) else source):
        is_pattern = any(sign in entry for sign in "*?[") and not (Path(base) / entry).exists()
        sources.append(str(Path(escape(base) if is_pattern else base) / entry))
    return sources


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file, with errors that name the line."""
    try:
        if path.stat().st_size > _LARGEST_FILE:
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


def _money(section: Section) -> dict[str, Any]:
    settings = {
        "name": section.text("name", needed=True),
        "about": section.text("about", ""),
        "currency": section.text("currency", ""),
        "decimals": section.whole("decimals", 2, most=8),
    }
    if "budget" not in section.left and "price" not in section.left:
        raise section.fail("budget", 'is missing; give a decimal string such as "1000.00"')
    try:
        settings["price"] = to_price(section.take("price"), settings["decimals"], f"{section.place} price")
        settings["budget"] = to_minor(section.take("budget", "0"), settings["decimals"], f"{section.place} budget")
    except ParameterError as error:
        raise CampaignError(str(error), section=section.name, key="budget") from None
    settings["per_day"] = section.text("budget_per", "campaign", among=("campaign", "day")) == "day"
    settings["days"] = section.whole("days", least=1, most=100_000)
    section.done(("name", "about", "budget", "price", "budget_per", "days", "currency", "decimals"))
    return settings


def _limits(section: Section) -> dict[str, Any]:
    rows = section.whole("rows", least=1, most=10**9)
    values = section.take("values")
    if values is not None:
        try:
            low, high = numbers(values)
            if not (float("-inf") < low <= high < float("inf")):
                raise ValueError(values)
        except (TypeError, ValueError):
            raise section.fail("values", f"must be a pair [low, high] of numbers, not {values!r}") from None
        values = (float(low), float(high))
    tasks = section.whole("tasks", least=1, most=10**9)
    section.done(("rows", "values", "tasks"))
    return {"rows": rows, "values": values, "most_tasks": tasks}


def _model(section: Section, own: Model | None) -> dict[str, Any]:
    if "column" in section.left and "columns" in section.left:
        raise section.fail("column", "is given beside columns; keep one of them")
    columns = section.texts("columns") or section.texts("column")
    target = section.text("target")
    intercept = section.flag("intercept")
    categories = section.texts("categories") or None
    overrides = section.table("providers")
    scales = section.table("scales")
    announced = section.text("digest")
    levels = _levels(section.table("levels"), columns)
    every: list[str | None] = [*([None] if intercept else []), *columns, *([target] if target is not None else [])]
    provider_models: dict[str, Model] = {}
    model: Model
    if own is not None:
        model = own
        section.left.clear()
    else:
        family, parameters = _parameters(section)
        regression: Any = models.FAMILIES[family]
        if scales.left and regression.explains_target:
            features = len(level_names(every, levels)) - 1
            parameters = {**regression.standard_prior(features, parameters), **parameters}
        model = _make_model(section, family, parameters)
        if announced is not None:
            try:
                check_digest(model, announced, "the model")
            except DataError as error:
                raise section.fail("digest", str(error)) from None
        for name in list(overrides.left):
            table = overrides.table(name)
            _, changed = _parameters(table, family)
            if canonical_name(name) in provider_models:
                raise overrides.fail(repr(name), "is given twice, but for spaces around it")
            provider_models[canonical_name(name)] = _make_model(table, family, {**parameters, **changed})
        if levels and not model.explains_target:
            raise section.fail("levels", "are for regressions only")
        _check_columns(section, model, columns, target, intercept, len(level_names(every, levels)))
    if categories is not None:
        if len({label.strip() for label in categories}) < len(categories):
            raise section.fail("categories", "has a label twice, but for spaces around it")
        size = model.reduction.labels if isinstance(model, HasReduction) else None
        if size is None:
            raise section.fail("categories", f"{type(model).__name__} reads numbers, not labels")
        if size != len(categories):
            raise section.fail("categories", f"there are {len(categories)} labels for {size} codes of the model")
    return {
        "model": model,
        "provider_models": provider_models,
        "columns": tuple(every),
        "scales": _scales(scales, every, model),
        "levels": levels,
        "categories": None if categories is None else tuple(label.strip() for label in categories),
    }


def _levels(section: Section, columns: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Take the public labels of columns that hold labels; the first is the one that the others are compared with."""
    levels: dict[str, tuple[str, ...]] = {}
    for name in [name for name in columns if name in section.left]:
        labels = tuple(label.strip() for label in section.texts(name))
        if len(set(labels)) < max(2, len(labels)):
            raise section.fail(name, "must be a list of at least two different labels")
        levels[name] = labels
    section.done(columns)
    return levels


def _scales(section: Section, columns: Sequence[str | None], model: Any) -> tuple[tuple[float, float] | None, ...]:
    """Take the public centre and scale of columns of a regression."""
    if section.left and not getattr(model, "explains_target", False):
        raise section.wrong("are for regressions only")
    scales: list[tuple[float, float] | None] = []
    for name in columns:
        pair = None if name is None else section.take(name)
        if pair is not None:
            try:
                centre, scale = map(float, numbers(pair))
                if not (abs(centre) < float("inf") and 0 < scale < float("inf")):
                    raise ValueError(pair)
            except (TypeError, ValueError):
                raise section.fail(str(name), f"must be [centre, scale] with a scale above 0, not {pair!r}") from None
            pair = (centre, scale)
        scales.append(pair)
    section.done([name for name in columns if name is not None])
    return tuple(scales) if any(scales) else ()


def _check_columns(
    section: Section,
    model: Family,
    columns: tuple[str, ...],
    target: str | None,
    intercept: bool,
    given: int,
) -> None:
    if model.explains_target and target is None:
        raise section.fail("target", "is missing; name the column that the regression explains")
    if not model.explains_target and (target is not None or intercept):
        raise section.fail("target" if target is not None else "intercept", "is for regressions only")
    if target is not None and target in columns:
        raise section.fail("target", f"{target!r} is among the columns that explain it")
    if not columns and not intercept:
        raise section.fail("columns", "is missing; name the column (or columns) that the model reads")
    needed = model.reduction.columns
    if given != needed:
        counted = f"{len(columns)} columns" + (", an intercept" if intercept else "") + (", a target" if target else "")
        size = needed - 1 if model.explains_target else needed
        raise section.fail("columns", f"there are {counted}, but the model's parameters are for {size}")


def _parameters(section: Section, family: str | None = None) -> tuple[str, dict[str, Any]]:
    """Take a family and its parameters, which may be in the table itself or in one called prior."""
    if family is None:
        family = section.text("family", needed=True, among=tuple(models.FAMILIES))
    declared = models.FAMILIES[str(family)].parameters()
    known = [parameter.name for parameter in declared]
    prior = section.take("prior", {})
    if isinstance(prior, dict):
        inner = section.inner("prior", prior)
        parameters = {name: inner.take(name) for name in known if name in inner.left}
        inner.done(known)
    elif "prior" in known:
        parameters = {"prior": prior}
    else:
        raise section.fail("prior", f"must be a table with {', '.join(known)}, not {prior!r}")
    for name in known:
        if name in section.left and name in parameters:
            raise section.fail(name, "is given twice, here and under prior")
        if name in section.left:
            parameters[name] = section.take(name)
    section.done(("family", "file", "digest", *_DATA_OF_MODEL, "prior", "providers", *known))
    for name in (parameter.name for parameter in declared if parameter.kind.numeric and parameter.name in parameters):
        try:
            numbers(parameters[name])
        except ValueError:
            raise section.fail(name, f"must be a number, or a list of numbers, not {parameters[name]!r}") from None
    return str(family), parameters


def _make_model(section: Section, family: str, parameters: dict[str, Any]) -> Family:
    declared = models.FAMILIES[family].parameters()
    missing = [each.name for each in declared if each.required and each.name not in parameters]
    if missing:
        message = f"{section.place}: {family} needs {', '.join(missing)}; put it under [model.prior]"
        raise CampaignError(message, section=section.name, key=missing[0])
    try:
        return models.from_dict({"family": family, **parameters})
    except ParameterError as error:
        raise CampaignError(f"{section.place}: {error}", section=section.name, key=error.parameter) from None


def _source(section: Section, key: str = "source") -> Source | None:
    sources = section.texts(key)
    return sources[0] if len(sources) == 1 else sources or None


def _data(section: Section) -> dict[str, Any]:
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
        raise section.fail("providers", "names one provider twice, but for spaces around it")
    section.done(tuple(settings))
    settings["public_source"] = settings.pop("public")
    return settings


def _history(section: Section) -> dict[str, Any]:
    """Take what is known of the past days that the model was learnt from."""
    if not section.left:
        return {}
    source = _source(section)
    settings = {
        "digest": section.digest("digest", "fit"),
        "days": section.whole("days", least=1),
        "providers": section.whole("providers", least=1),
        "provider": section.text("provider"),
        "day": section.text("day"),
        "recent": section.whole("recent", least=1),
    }
    section.done(("source", *settings))
    return {"history": settings, "history_source": source}


def _groups(section: Section) -> dict[str, str]:
    groups: dict[str, str] = {}
    for label in list(section.left):
        for name in map(canonical_name, section.texts(label)):
            if name in groups:
                raise section.fail(label, f"{name!r} is in group {groups[name]!r} already")
            groups[name] = label
    return groups


def _weights(section: Section) -> dict[str, Fraction]:
    weights: dict[str, Fraction] = {}
    for name, value in section.left.items():
        try:
            weight = Fraction(str(value)) if _WEIGHT.fullmatch(str(value).strip()) else None
        except (ValueError, ZeroDivisionError):
            weight = None
        if weight is None or not 0 <= weight <= 1:
            raise section.fail(
                repr(name), f"must be a number from 0 to 1, the provider's share of the budget, not {value!r}"
            )
        if canonical_name(name) in weights:
            raise section.fail(repr(name), "is given twice, but for spaces around it")
        weights[canonical_name(name)] = weight
    total = sum(weights.values())
    if total > 1:
        raise section.wrong(f"the weights add up to {float(total):.9g}, more than 1")
    return weights
