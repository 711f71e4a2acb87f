"""A campaign's past days or tasks: read them, learn the model from them, and replay the known lies on past days."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from troth.campaigns.records.canonical_json import digest
from troth.campaigns.records.ledger import first_entry
from troth.campaigns.tables import TABLES
from troth.campaigns.task_data import read_public_tasks, reports_digest, task_request
from troth.campaigns.terms import Campaign, beside
from troth.campaigns.toml import to_toml
from troth.core.contract import HasPublicPoint, HasReduction, Model
from troth.core.errors import DataError, ParameterError, TrothError
from troth.core.formats import left_out
from troth.core.past import PastTasks
from troth.core.reductions.reduction import HasHistoryReduction, HasTarget
from troth.core.settings import plain_copy
from troth.data import read_reports
from troth.data.files import find_files
from troth.data.public import read_public
from troth.data.tasks import read_tasks
from troth.history import History, ModelComparison, compare_models
from troth.history.learn import candidates_for, default_family, fit
from troth.models import FAMILIES, Family, named_family
from troth.models.parameters import Numbers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from troth.core.reductions import Reduction
    from troth.data.tasks import TaskReports
    from troth.mechanisms import Rule
    from troth.models.fitting.fitted import Fitted

AS_DECLARED = "as declared"
"""The name, in a backtest, of the model in the campaign file."""

_COLUMN_KEYS = ("columns", "column", "target", "intercept", "categories", "scales", "levels")


def history_reduction(campaign: Campaign) -> Reduction:
    """Return the reduction that a history is read with: the model's own, unless it has one for histories."""
    model = campaign.model
    if not isinstance(model, HasReduction):
        raise DataError(f"{type(model).__name__} declares no reduction, so no history can be read for it")
    reduction = model.reduction
    return reduction.for_history() if isinstance(reduction, HasHistoryReduction) else reduction


def read_history(
    campaign: Campaign,
    source: Any,
    *,
    provider: str | None = None,
    day: str | None = None,
    progress: Callable[[str, int, int], None] | None = None,
    notice: Callable[[str], None] | None = None,
) -> History:
    """Read past days as summaries by day and provider, from any table that a campaign accepts.

    Labelled rows are kept as well, because their summaries depend on the point of expansion. Of more than 4 million
    numbers a random sample of rows is kept.

    Parameters
    ----------
    source
        A path, pattern or folder, a frame, an Ibis table or a Spark frame.
    provider, day
        The columns of providers and days, by default those of the campaign.
    notice
        Called with a message if rows are left out, or only a sample of them is kept.
    """
    day_column = day or campaign.day
    if day_column is None:
        raise DataError("a history needs a column of days: name it with --day, or as [data] day in the campaign")
    reduction = history_reduction(campaign)
    keeps_rows = isinstance(reduction, HasTarget)
    request = replace(campaign.request, provider=provider or campaign.provider, day=day_column, reduction=reduction)
    request = replace(request, features=keeps_rows, answers=keeps_rows)
    reading = None if progress is None else lambda done, total: progress("reading", done, total)
    reports, files = read_reports(source, request, engine=campaign.engine, format=campaign.format, progress=reading)
    if files:
        raise DataError(f"{Path(files[0]).name}: a history is read from rows, not from files of statistics")
    if not reports:
        raise DataError("the history has no rows")
    without_value, without_name = sum(report.dropped for report in reports), sum(report.unnamed for report in reports)
    for count, lacking in ((without_value, "value"), (without_name, "provider")):
        if count and notice is not None:
            notice(f"the history: {left_out(count, lacking)}")
    tables = {(report.day, report.provider): report.features for report in reports if report.features is not None}
    if len(tables) == len(reports):
        rows, sample = sum(report.rows for report in reports), sum(map(len, tables.values()))
        if sample < rows and notice is not None:
            notice(f"the history has {rows:,} rows: only a random sample of {sample:,} is used")
        return History.from_tables(tables, reduction)
    return History.from_reports([(report.day, report.provider, report.summary) for report in reports], reduction)


def history_digest(history: History) -> str:
    """Return the digest of a history: of its rows if they are kept, otherwise of its summaries."""
    if history.tables is not None:
        return digest([[*key, sha256(table.tobytes()).hexdigest()] for key, table in sorted(history.tables.items())])
    return digest([list(history.days), list(history.providers), history.summaries.tolist(), history.present.tolist()])


def fit_campaign(
    campaign: Campaign, history: History, family: str | type[Family] | None = None, **options: Any
) -> Fitted:
    """Learn the campaign's model from past days.

    Parameters
    ----------
    family
        By default the first that suits the data and learns a likelihood for each provider, such as day types with a
        dispersion per provider. If none suits, the prior of the campaign's own family is fitted.
    options
        Passed to `troth.fit`.
    """
    family_class = _family(campaign, family)
    if campaign.rule.needs_finite_data and history.reduction.labels is None:
        raise ParameterError(
            f"{campaign.rule.name} cannot pay {family_class.__name__} of counts or values, which could be "
            "infinitely many: choose another rule, or a column of labels"
        )
    return fit(history, family_class, **{**given_parameters(campaign, family_class), **options})


def given_parameters(campaign: Campaign, family: type[Family]) -> dict[str, Any]:
    """Return the campaign's values of the parameters that a history does not determine.

    A subclass that learns them from histories has none.
    """
    model, names = campaign.model, family.given_parameters
    if not isinstance(model, family) or model.given_parameters != names:
        return {}
    return {name: getattr(model, name) for name in names}


def read_fit_options(campaign: Campaign, family: str | None, arguments: Sequence[str]) -> dict[str, Any]:
    """Parse fit options that are written as ``name=value``, as the family declares them."""
    family_class = _family(campaign, family)
    kinds = {
        name: kind for name, kind in family_class.fit_options(history_reduction(campaign)).items() if kind is not None
    }
    options: dict[str, Any] = {}
    for argument in arguments:
        name, _, text = argument.partition("=")
        if name not in kinds:
            listed = ", ".join(kinds)
            raise ParameterError(
                f"--option {argument}: {family_class.__name__} has no such fit option; it has {listed}"
            )
        try:
            kind = kinds[name]
            value = kind.parse(text)  # the constructor checks how many numbers a list must have
            options[name] = value if isinstance(kind, Numbers) else kind.checked(name, value, None)
        except ValueError as error:
            raise ParameterError(f"--option {argument}: {error}") from None
    return options


def fitted_text(
    campaign: Campaign,
    learned: Fitted,
    past: History | TaskReports,
    source: str | None = None,
    *,
    provider: str | None = None,
    day: str | None = None,
    recent: int | None = None,
) -> str:
    """Return the campaign file with the learnt model in place of the old one, and a record of its history."""
    if isinstance(past, History):
        noun, source_facts = "days", {"digest": history_digest(past), "days": len(past.days)}
    else:
        noun, source_facts = "tasks", {"digest": f"sha256:{reports_digest(past, None)}", "tasks": len(past.tasks)}
    options = {"source": source, "provider": provider, "day": day, "recent": recent}
    plain = plain_copy(campaign.plain)
    columns = {key: plain["model"][key] for key in _COLUMN_KEYS if key in plain["model"]}
    table = learned.model_table()
    providers = table.pop("providers", {})
    family = {"family": table.pop("family")}
    plain["model"] = {**family, **columns, **table, **({"providers": providers} if providers else {})}
    settings = {key: value for key, value in options.items() if value is not None}
    plain["history"] = {**settings, **source_facts, "providers": len(past.providers)}
    head = f"# Written by `troth fit`: the model was learnt from past {noun}, the rest comes from the campaign.\n\n"
    return head + _as_new_campaign(plain, None)


class Learned(NamedTuple):
    """A family fitted to past tasks, their reports, the number of tasks with a gold answer, and notes for the user."""

    fitted: Fitted
    reports: TaskReports
    gold: int
    notes: tuple[str, ...]


def fit_tasks(campaign: Campaign, past: Any, gold: Any = None, family: str | None = None) -> Learned:
    """Learn a family, by default the campaign's own, from past tasks; each worker may have answered only a few.

    ``past`` is any table with the campaign's columns, of tasks that were paid for or are public. The learnt model can
    pay none of these tasks later. ``gold`` is a table of tasks and their true labels, for families with a class for
    each task.
    """
    family_class: type[Any] = type(campaign.model) if family is None else named_family(family)
    if not issubclass(family_class, Family):
        raise ParameterError(
            f"{family_class.__name__} cannot be learnt from past tasks: it is not a Family with fit_tasks"
        )
    if gold is not None and not family_class.uses_gold:
        users = ", ".join(name for name, family in FAMILIES.items() if family.uses_gold)
        raise ParameterError(
            f"{family_class.__name__} does not use gold answers; these families do: {users} (--family)"
        )
    if paid := paid_files(campaign, past):
        raise DataError(
            f"{paid[0]}: the campaign pays for these tasks ([data] source), and paid answers must not influence the "
            "confusion matrices that pay them: learn from other tasks"
        )
    request = replace(task_request(campaign), reduction=history_reduction(campaign))
    reports = read_tasks(past, request, campaign.rows or 1)
    classes, answered = None, 0
    if gold is not None:
        answers = read_public_tasks(campaign, gold, "gold answers", rows=1)
        answered = len(answers)
        of_task = dict(zip((answers.tasks[t] for t in answers.task), answers.summaries.argmax(axis=1), strict=True))
        classes = np.array([of_task.get(name, -1) for name in reports.tasks], dtype=np.intp)
    tasks = PastTasks(reports.task, reports.provider, reports.summaries, reports.providers, request.reduction, classes)
    fitted = family_class.fit_tasks(tasks, **given_parameters(campaign, family_class))
    gold_tasks = 0 if classes is None else int((classes >= 0).sum())
    labels = campaign.label_names(request.reduction.labels or 0)
    return Learned(
        fitted, reports, gold_tasks, (*_notes(reports.dropped, answered, gold_tasks), *fitted.caveats(labels))
    )


def _notes(dropped: int, gold: int, gold_tasks: int) -> Iterator[str]:
    if dropped:
        yield left_out(dropped, "value")
    if gold and not gold_tasks:
        yield f"none of the {gold:,} gold answers matches a past task, so no class is known: compare the names"
    elif gold > gold_tasks:
        yield f"{gold - gold_tasks:,} of {gold:,} gold answers are for tasks that nobody answered in the past: not used"


def reject_paid(path: Path) -> None:
    """Refuse to overwrite a campaign file if a ledger beside it was paid under its terms."""
    if not path.exists():
        return
    try:
        digest = Campaign.load(path).digest
    except TrothError:
        return
    for ledger in sorted(path.parent.glob("*.jsonl")):
        if first_entry(ledger).get("digest") == digest:
            raise DataError(
                f"{path}: {ledger.name} was paid under these terms, and continuing or repeating it needs this file; "
                "write the new campaign elsewhere with --output"
            )


def campaign_beside(ledger: Path, digest: str) -> Campaign | None:
    """Return the campaign with these terms whose file is beside a ledger: unlike the ledger, it knows its paths."""
    for path in sorted(ledger.parent.glob("*.toml")):
        try:
            campaign = Campaign.load(path)
        except TrothError:
            continue
        if campaign.digest == digest:
            return campaign
    return None


def paid_files(campaign: Campaign, source: Any) -> list[str]:
    """Return the names of the source's files that the campaign pays for, from which nothing may be learnt."""
    if campaign.source is None or not isinstance(source, str | Path):
        return []
    try:
        paid = {path.resolve() for _, path in find_files(beside(campaign, campaign.source))}
    except DataError:  # nothing to pay for yet
        return []
    return [path.name for _, path in find_files(source) if path.resolve() in paid]


def _as_new_campaign(plain: dict[str, Any], path: Path | None) -> str:
    """Check changed tables and return them as a campaign file, without the old campaign's commitment."""
    plain.get("mechanism", {}).pop("commitment", None)
    Campaign.from_dict(plain, path=path)
    return to_toml({name: plain[name] for name in TABLES if name in plain})


def recentred_text(campaign: Campaign, pilot: str | Path) -> str:
    """Return the campaign file with the point of expansion of a published pilot, and the digest of its file.

    The likelihood is expanded at the most probable coefficients given the pilot's rows and the prior. The prior stays,
    and the rows are not part of the evidence.
    """
    model: Any = campaign.model
    if not isinstance(model, HasPublicPoint):
        raise ParameterError(f"{type(model).__name__} does not use a public point, so a pilot has no effect")
    if paid := paid_files(campaign, str(pilot)):
        raise DataError(
            f"{paid[0]}: the campaign pays for these rows ([data] source), and reports must not move their own point "
            "of expansion: use other rows"
        )
    request = replace(campaign.request, day=None, features=True, answers=True)
    (report,) = read_public(str(pilot), request, model, engine=campaign.engine)
    if report.features is None or report.data_digest is None:
        raise DataError(f"{pilot}: a pilot is a file of rows")
    recentred = model.expanded_at_mode((report.features[:, :-1], report.features[:, -1]))
    plain = plain_copy(campaign.plain)
    if isinstance(prior := plain["model"].get("prior"), dict):
        prior.pop("point", None)
    plain["model"] |= {"point": recentred.public_coefficients.tolist(), "pilot": report.data_digest}
    head = "# Written by `troth fit --pilot`: the point comes from a published pilot, the rest from the campaign.\n\n"
    return head + _as_new_campaign(plain, campaign.path)


def backtest_campaign(
    campaign: Campaign,
    history: History,
    *,
    types: int | None = None,
    spread: float | None = None,
    recent: int | None = None,
    ahead: int | None = None,
    seed: int = 0,
    **options: Any,
) -> ModelComparison:
    """Replay the known lies on past days, under models that were not fitted to these days, and recommend a model.

    Every candidate is refitted to the days before each stretch. With ``recent``, models that learn a likelihood for
    each provider are also fitted to only the last ``recent`` of these days. The model in the campaign file is a
    candidate as it stands, unless it was learnt from a history.
    """
    candidates: dict[str, Any] = {}
    if campaign.history is None:
        candidates[AS_DECLARED] = campaign.models_for(history.providers)
    family = type(campaign.model)
    recent = recent or (campaign.history or {}).get("recent")
    settings: dict[str, Any] = {"seed": seed, "spread": spread, "types": types, "ahead": ahead}
    if types is None and campaign.history is not None and isinstance(campaign.model, Family):
        settings |= campaign.model.refit_options
    candidates |= candidates_for(history.reduction, recent, **settings)
    if issubclass(family, Family) and not family.suits_reduction(history.reduction):
        candidates[f"fitted {family.__name__}"] = lambda past: fit_campaign(campaign, past, family)

    def rule_for(models: Any) -> Rule:
        return campaign.rule_for(models if isinstance(models, Model) else list(models), len(history.providers))

    options.setdefault("groups", campaign.group_numbers(history.providers) if campaign.groups else None)
    return compare_models(history, candidates, rule_for, seed=seed, **options)


def campaign_history(campaign: Campaign) -> History | None:
    """Read the history that the campaign file names, if any."""
    source = campaign.history_source
    if source is None:
        return None
    settings = campaign.history or {}
    columns = {"provider": settings.get("provider"), "day": settings.get("day")}
    history = read_history(campaign, beside(campaign, source), **columns)
    if settings.get("digest") not in (None, history_digest(history)):
        raise DataError("[history] digest: this is not the history that the model was learnt from; run troth fit again")
    return history


def _family(campaign: Campaign, family: str | type[Family] | None) -> type[Family]:
    if family is not None:
        return named_family(family) if isinstance(family, str) else family
    default = default_family(history_reduction(campaign))
    if default is not None:
        return default
    if not isinstance(campaign.model, Family):
        raise ParameterError(f"{type(campaign.model).__name__} cannot be fitted to past days: it is not a Family")
    return type(campaign.model)
