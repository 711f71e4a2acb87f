"""The campaign file: its terms, all validated before any data are read or anything is written."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from troth.campaigns.model_file import with_model_file
from troth.campaigns.money import to_decimal, to_text
from troth.campaigns.public import check_public, check_task_summaries, describe_public, take_guesses, take_public
from troth.campaigns.records.canonical_json import digest
from troth.campaigns.tables import (
    TABLES,
    read_toml,
    take_data,
    take_groups,
    take_history,
    take_limits,
    take_model,
    take_money,
    take_weights,
)
from troth.core.contract import DrawsAnswers, HasReduction, HasSummary, Model
from troth.core.errors import DataError, IncompatibleModelsError, MissingCapabilityError
from troth.core.formats import money
from troth.core.posterior import posterior
from troth.core.provider_models import combine
from troth.core.reductions import Moments
from troth.core.settings import CampaignError, Section, plain_copy
from troth.data.public import PUBLIC, read_public
from troth.data.request import Request
from troth.mechanisms import read_rule

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from decimal import Decimal

    from troth.core.contract import Array
    from troth.data.files import Source
    from troth.data.request import Day, Report
    from troth.data.tasks import TaskReports
    from troth.mechanisms import Rule

_TERMS_OF_DATA = ("provider", "day", "task", "providers", "missing", "keep_features")


@dataclass(frozen=True, eq=False)
class Campaign:
    """A validated campaign: everything that payments depend on except the reports, and where to find these.

    Create one from a file with `Campaign.load`, or from the same tables as dictionaries with `Campaign.from_dict`.

    Attributes
    ----------
    budget
        The maximum that is spent in total, or on each day, in minor units.
    days
        How many days share the budget, unless it is for each day.
    columns
        The columns that the model reads; None is a constant 1.
    providers
        The invited providers; if empty, everybody may report.
    missing
        How rows with missing values are treated: ``"refuse"`` or ``"drop"``.
    keep_features
        Whether the ledger keeps features, or a sample of them, so that decoys can be drawn from the likelihood itself.
    scales
        The public centre and scale of each column of a standardised regression.
    levels
        The public labels of each column of a regression that holds labels.
    guessed
        Whether the prior was estimated from the data that are paid for.
    history, history_source
        The record of the past days or tasks that the model was learnt from, and where they are.
    task, price, max_tasks
        The column of tasks, the price of a report on a task, and the maximum number of tasks per provider. Each task is
        a round; all are settled together.
    public_source, known, guesses
        Where the public data are and, once they have been read, their summaries by day (None for every day) or by task.

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
    guesses: TaskReports | None = None
    beacon: str | None = None
    task: str | None = None
    price: Fraction | None = None
    max_tasks: int | None = None
    guessed: bool = False
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
        """Validate tables of settings; a custom model or rule replaces those in the tables."""
        place = "" if path is None else f"{path.name}: "
        plain = with_model_file(plain, path)
        top = Section("", plain, file="" if path is None else path.name)
        sections = {name: top.table(name) for name in TABLES}
        top.reject_unknown(TABLES)
        for name in ("campaign", "model"):
            if name not in plain:
                raise CampaignError(f"{place}the table [{name}] is missing; `troth init DIR` writes an example")
        settings: dict[str, Any] = {
            **take_money(sections["campaign"]),
            **take_limits(sections["limits"]),
            **take_model(sections["model"], model),
            "commitment": sections["mechanism"].digest("commitment", "commit"),
            "beacon": sections["mechanism"].text("beacon"),
            **take_data(sections["data"]),
            **take_history(sections["history"]),
            "guesses": take_guesses(sections["public"]),  # before take_public, which rejects tasks
            "known": take_public(sections["public"]),
            "groups": take_groups(sections["groups"]),
            "weights": take_weights(sections["weights"]),
        }
        if rule is None:
            rule = read_rule(sections["mechanism"], None if settings["task"] is None else settings["model"])
        campaign = cls(**settings, rule=rule, plain=plain_copy(plain), path=path)
        campaign._check_together(sections)
        return campaign

    @property
    def daily(self) -> bool:
        """Whether the campaign has days."""
        return self.day is not None

    @property
    def waits(self) -> bool:
        """Whether a day is paid only after the next one, because the rule compares days."""
        return self.rule.days > 1

    @property
    def draws(self) -> bool:
        """Whether payments need a seed."""
        return self.rule.needs_seed

    @property
    def round_budget(self) -> int:
        """The budget of a round, in minor units; days that share a budget share it evenly."""
        return self.budget if self.per_day or not self.daily else self.budget // (self.days or 1)

    @property
    def request(self) -> Request:
        """How to read a table of reports; raises if the model has no reduction."""
        if not isinstance(self.model, HasReduction):
            raise MissingCapabilityError(f"{type(self.model).__name__} has no reduction of rows: it needs one")
        return self.reading

    @property
    def reading(self) -> Request:
        """How to read a table of reports; without a reduction of the model, as plain numbers."""
        return Request(
            self.model.reduction if isinstance(self.model, HasReduction) else Moments(),
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
        """The public data: one report under None, or one for each day. A file is read only once."""
        if self.known is None and self.public_source is not None and self.task is None:
            return self.read_public(beside(self, self.public_source))
        return self.known or {}

    @property
    def public_by_day(self) -> bool:
        """Whether each day has its own public data."""
        return self.task is None and self.public_source is not None and None not in self.public

    def read_public(self, data: Any) -> dict[Day, Report]:
        """Reduce a table of public data, of any kind that a campaign accepts, to the form of `public`."""
        request = replace(self.reading, features=False)
        reports = read_public(data, request, self.model, engine=self.engine)
        return {report.day: report for report in reports}

    def on(self, day: Day) -> Campaign:
        """Return the campaign of one day, with that day's public data."""
        if not self.public_by_day:
            return self
        if self.waits:
            raise DataError(
                f"{PUBLIC}: the column {self.day!r} gives each day its own public data, but "
                f"{self.rule.name} compares days and needs the same for all: "
                "remove the column, or choose a rule that pays days separately"
            )
        return replace(self, known={None: self.public[day]} if day in self.public else {}, public_source=None)

    def model_of(self, provider: str) -> Model:
        """Return a provider's own model, as the campaign declares it."""
        return self.provider_models.get(provider, self.model)

    def models_for(self, providers: Sequence[str]) -> Model | list[Model]:
        """Return one model, or one per provider with statistics in a common space, updated with the public data."""
        models: Model | list[Model] = self.model
        if any(name in self.provider_models for name in providers):
            models = combine([self.model, *(self.model_of(name) for name in providers)])[1:]
        public_report = self.public.get(None)
        if public_report is None:
            return models
        return posterior(models, self.statistics(self.model, public_report.summary))

    def statistics(self, model: Any, summary: Array) -> Array:
        """Return the statistics, under a model of `models_for`, of a summary under the declared model.

        A custom model without a reduction reports its statistics.
        """
        if isinstance(model, HasReduction) and isinstance(self.model, HasReduction):
            declared = self.model.reduction
            summary = summary if model.reduction == declared else declared.convert(summary, model.reduction)
        statistics = model.from_summary(summary) if isinstance(model, HasSummary) else summary
        return np.asarray(statistics, dtype=np.float64)

    def statistics_of(self, models: Model | Sequence[Model], summaries: Sequence[Array]) -> Array:
        """Return the statistics of each provider's summary, under one model or one per provider."""
        if isinstance(models, Model):
            return self.statistics(models, np.array(summaries))
        return np.array([self.statistics(model, summary) for model, summary in zip(models, summaries, strict=True)])

    def label_names(self, size: int) -> list[str]:
        """Return the names of labels: the categories if declared, otherwise the codes."""
        return list(self.categories or map(str, range(size)))

    def rule_for(self, model: Model | list[Model], providers: int) -> Rule:
        """Return the rule, prepared for a number of providers and the limits on rows and values."""
        return self.rule.prepared(model, None if self.rows is None else [self.rows] * providers, self.values)

    def group_of(self, name: str) -> tuple[str, str]:
        """Return a key that related providers share with each other only."""
        return ("group", self.groups[name]) if name in self.groups else ("provider", name)

    def group_numbers(self, names: Sequence[str]) -> list[int]:
        """Return the number of each provider's group, from 0, in order of first occurrence."""
        numbers: dict[tuple[str, str], int] = {}
        return [numbers.setdefault(self.group_of(name), len(numbers)) for name in names]

    def caps_for(self, providers: Sequence[str]) -> list[Fraction]:
        """Return each provider's cap in a round, in minor units, exactly.

        Announced weights are shares of the budget. Without weights all caps are equal, and a group of related providers
        shares one.
        """
        names = self.providers or tuple(providers)
        budget = Fraction(self.round_budget)
        if self.weights:
            return [budget * self.weights[name] for name in providers]
        labels = {name: self.group_of(name) for name in names}
        sizes = Counter(labels.values())
        return [budget / (len(sizes) * sizes[labels[name]]) for name in providers]

    def text(self, minor: int) -> str:
        """Return minor units as a decimal string."""
        return to_text(minor, self.decimals)

    def amount(self, minor: int) -> Decimal:
        """Return minor units as a decimal number."""
        return to_decimal(minor, self.decimals)

    def show(self, minor: int) -> str:
        """Return minor units formatted for people, with the currency."""
        return f"{money(self.amount(minor))} {self.currency}".rstrip()

    @cached_property
    def terms(self) -> dict[str, Any]:
        """All that payments depend on besides the reports: the file's tables without the location of the data."""
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
        """The digest of the terms."""
        return digest(self.terms)

    def check_providers(self, names: Sequence[str]) -> None:
        """Reject providers who are not invited, and tables that name anybody else."""
        if self.task is not None and PUBLIC in names:
            raise DataError(f"{PUBLIC!r} is reserved for public data; rename this provider")
        place = "" if self.path is None else f"{self.path.name}: "
        invited = set(self.providers) or set(names)
        for name in names:
            if name not in invited:
                raise DataError(f"provider {name!r} is not among [data] providers; add it there, or remove its rows")
        learnt = self.history is not None or self.task is not None  # may have likelihoods of absent providers
        models = {} if learnt else self.provider_models
        for table, listed in (("model.providers", models), ("groups", self.groups), ("weights", self.weights)):
            for name in listed:
                if name not in invited:
                    raise CampaignError(f"{place}[{table}] names {name!r}, who is not a provider; check the spelling")
        for name in sorted(invited) if self.weights else ():
            if name not in self.weights:
                raise CampaignError(f"{place}[weights] has no weight for provider {name!r}")

    def check_task_counts(self, names: Sequence[str], counts: Sequence[int]) -> None:
        """Reject providers that report on more tasks than [limits] tasks allows."""
        for name, count in zip(names, counts, strict=True):
            if self.max_tasks is not None and count > self.max_tasks:
                raise DataError(f"provider {name!r}: {count:,} tasks, but [limits] tasks allows {self.max_tasks:,}")

    def _check_tasks(self, sections: Mapping[str, Section]) -> None:
        """Reject settings that are incompatible with tasks, and settings of tasks without tasks."""
        data, money = sections["data"], sections["campaign"]
        if self.task is None:
            error_at = money.error_at if self.price is not None else sections["limits"].error_at
            key = "tasks" if self.price is None else "price"
            raise error_at(key, "is for reports on tasks; name the column that holds them as [data] task")
        if self.known is not None:
            message = "is for campaigns without tasks; name a table with a line for each task as [data] public"
            raise sections["public"].error_at("summary", message)
        if self.guesses is not None:
            try:
                check_task_summaries(self.guesses.tasks, self.guesses.summaries, self.model_of(PUBLIC), self.columns)
            except DataError as error:
                raise sections["public"].error_at("tasks", str(error)) from None
        if self.day is not None:
            raise data.error_at("day", "give day or task, not both; a day column can serve as task")
        if self.provider is None:
            raise data.error_at("provider", "is missing; name the column of workers")
        if self.weights:
            raise sections["weights"].error("weights divide a budget, but tasks have a price for each report")
        if self.waits or not self.rule.individually_rational:
            raise sections["mechanism"].error(
                f"{self.rule.name} cannot pay tasks, because each task is paid separately"
            )
        if self.rule.needs_rows and (self.guesses is not None or self.public_source is not None):
            message = f"{self.rule.name} cannot settle tasks with public guesses: {self.rule.needs_rows}, without these"
            raise sections["mechanism"].error(message)

    def _check_together(self, sections: Mapping[str, Section]) -> None:
        if self.guesses is not None and self.task is None:
            raise sections["public"].error_at("tasks", "is for campaigns of tasks; name their column as [data] task")
        if (self.known is not None or self.guesses is not None) and self.public_source is not None:
            raise sections["data"].error_at("public", "is given, although there is a table [public]; keep one of them")
        try:
            check_public(self.known or {}, self.model, self.columns)
        except DataError as error:
            raise sections["public"].error_at("summary", str(error)) from None
        if self.task is not None or self.price is not None or self.max_tasks is not None:
            self._check_tasks(sections)
        if self.waits and self.day is None:
            raise sections["data"].error_at("day", f"{self.rule.name} compares days; name the column that holds them")
        if self.rule.needs_rows and self.rows is None:
            raise sections["mechanism"].error(
                f"{self.rule.name} needs [limits] rows, the maximum number of rows in a report: {self.rule.needs_rows}"
            )
        for model in (self.model, *self.provider_models.values()):
            if refused := self.rule.refuses(model):
                raise sections["mechanism"].error_at(*refused)
        if self.daily and not self.per_day and self.days is None:
            raise sections["campaign"].error(
                'a daily campaign needs days (how many share the budget), or budget_per = "day"'
            )
        for key, is_set in (("days", self.days is not None), ("budget_per", self.per_day)):
            if is_set and not self.daily:
                raise sections["campaign"].error_at(key, "there are no days without [data] day")
        overrides = sections["model"].subsection("providers", {})
        try:
            combine([self.model, *self.provider_models.values()])
        except IncompatibleModelsError as error:
            raise overrides.error(str(error)) from None
        for name, model in self.provider_models.items():
            if (
                isinstance(model, HasReduction)
                and isinstance(self.model, HasReduction)
                and model.reduction != self.model.reduction
            ):
                raise overrides.error_at(repr(name), "must have the same number of symbols as [model]")


def beside(campaign: Campaign, source: Source) -> list[str]:
    """Return paths or patterns of a source, relative to the campaign file's folder, whose own name is no pattern."""
    base = "" if campaign.path is None else str(campaign.path.parent)
    sources = []
    for entry in map(str, [source] if isinstance(source, str | Path) else source):
        is_pattern = any(character in entry for character in "*?[") and not (Path(base) / entry).exists()
        sources.append(str(Path(escape(base) if is_pattern else base) / entry))
    return sources
