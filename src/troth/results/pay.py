"""Payment from Python: from a table, a model and a rule to a result."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from troth.campaigns.describe import describe_campaign, with_first_defaults
from troth.campaigns.records.ledger import Ledger, LedgerError, first_entry, locked, read_ledger, remove_leftovers
from troth.campaigns.records.verify import campaign_of, check_ledger
from troth.campaigns.rounds import pay_rounds, used_seeds
from troth.campaigns.seed import Secret, load_secret, record_use, secret_path
from troth.campaigns.statistics_file import join_reports, read_statistics
from troth.campaigns.task_checks import known_tasks
from troth.campaigns.task_data import read_task_reports, reports_digest, same_tasks
from troth.campaigns.tasks import has_tasks, pay_tasks
from troth.campaigns.terms import Campaign, beside
from troth.core.contract import HasReduction, Model, check_is_model
from troth.core.errors import DataError, MissingCapabilityError, ParameterError
from troth.core.formats import counted
from troth.data import Report, read_reports
from troth.data.files import find_files
from troth.data.gather import gather_reports
from troth.data.request import listed
from troth.models import similar_family
from troth.results.result import Result
from troth.results.tasks import TaskResult, file_beside, recorded_file, result_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from decimal import Decimal

    from troth.data.tasks import TaskReports
    from troth.mechanisms import Rule

    ProgressCallback = Callable[[str, float, int], None]
    AnyResult = TypeVar("AnyResult", bound=Result)


def pay(
    data: Any,
    model: Model | None = None,
    rule: Rule | str | None = None,
    *,
    provider: str | None = None,
    day: str | None = None,
    task: str | None = None,
    budget: str | int | Decimal | None = None,
    price: str | int | Decimal | None = None,
    columns: Sequence[str] | str | None = None,
    public: Any = None,
    terms: Mapping[str, Mapping[str, Any]] | None = None,
    seed: int | str | Secret | None = None,
    ledger: str | Path | None = None,
    final: bool | None = None,
    beacon: str | None = None,
    progress: ProgressCallback | None = None,
    anyway: bool = False,
) -> Result:
    """Pay providers for the data they reported, so that telling the truth pays best.

    Parameters
    ----------
    data
        A pandas, Polars or Arrow frame, a path, pattern or folder (CSV, Parquet, JSON lines, Arrow, statistics), an
        Ibis table or a Spark frame; or a `Campaign` or a campaign file (``.toml``), which has all the terms.
    model
        One of `troth.models`, or a custom model.
    rule
        A rule or its name; by default, the rule that `troth init` writes, with options for this number of reports.
    provider, day
        The columns of providers' names and of days. Without a provider column, files are named after their providers.
    budget
        A decimal string such as ``"1000.00"``: for the campaign, or for each day of a table with days, unless
        ``terms`` state how many days share it.
    task, price
        The column of tasks, and the most that a report on a task can earn, such as ``"0.05"``. Each task is a round;
        all are settled together. Without a price, all reports share the budget evenly, including fabricated ones.
    columns
        The columns that the model reads, by default all others; the last one is the target of a regression.
    public
        Public data, as a table of any kind with the same columns. They are part of every provider's prior, so a copy of
        them earns no more than an empty report. With the column of days, each day has its own public data; a column of
        providers is ignored.
    terms
        Other terms, as tables of a campaign file: ``{"campaign": {"currency": "EUR"}, "limits": {"rows": 40},
        "groups": {"North": ["Ash", "Elm"]}}``. Models of single providers may be objects:
        ``{"model": {"providers": {"Elm": other_model}}}``.
    seed
        For rules that draw: a number or a `Secret`; by default, a new secret, which the ledger reveals.
    ledger
        A ledger file to create or continue; nobody in it is paid twice. By default, nothing is written.
    final
        Whether no other day follows, so that the last day is paid too; by default, true unless there is a ledger.
    beacon
        The value of the public beacon that the terms name, published after all reports were in.
    progress
        Called with the name of the current step, the amount that is done, and the total.
    anyway
        Whether to write a ledger even if the model does not fit the reports, which is an error by default. To check
        beforehand, pay without a ledger and read the result's ``verdict``.

    Examples
    --------
    >>> import troth
    >>> names = ["Ash"] * 4 + ["Birch"] * 4 + ["Elm"] * 4
    >>> clinics = {"clinic": names, "improved": [1, 1, 0, 1, 1, 1, 1, 0, 0, 0, 0, 1]}
    >>> model = troth.models.Bernoulli(alpha=1, beta=1)
    >>> rule = troth.OneTime(troth.exact_range(model, rows=[4] * 3))
    >>> terms = {"campaign": {"currency": "EUR"}}
    >>> print(troth.pay(clinics, model, rule, provider="clinic", budget="300.00", terms=terms))
    campaign: OneTime, budget 300.00 EUR, paid 234.95 EUR to 3 providers
      provider  rows    score  share of cap  payment EUR
      Ash          4   0.2019        83.24%        83.24
      Birch        4   0.2019        83.24%        83.24
      Elm          4  −0.7143        68.47%        68.47
      see .verdict: does the model fit, and who would have been better off sending nothing or less?
    """
    approve = None if anyway else _reject_unfit
    options: dict[str, Any] = {"ledger": ledger, "secret": _secret(seed), "beacon": beacon, "approve": approve}
    arguments: dict[str, Any] = {"model": model, "rule": rule, "provider": provider, "day": day, "task": task}
    arguments |= {"budget": budget, "price": price, "columns": columns, "public": public, "terms": terms}
    if isinstance(data, Campaign) or (model is None and isinstance(data, str | Path) and str(data).endswith(".toml")):
        for name, value in arguments.items():
            if value is not None:
                raise ParameterError(f"{name}= belongs in the campaign file; pass a frame or files to set it here")
        campaign = data if isinstance(data, Campaign) else Campaign.load(data)
        return pay_campaign(campaign, final=bool(final), progress=progress, **options)
    if model is None or (budget is None and price is None):
        if task is None:
            needs, example = "a model and a budget", 'pay(frame, model, provider=…, budget="1000.00")'
        else:
            needs = "a model, and for tasks a price or a budget"
            example = 'pay(frame, model, provider=…, task=…, price="0.05")'
        raise ParameterError(f"pay needs {needs}, such as {example}")
    if isinstance(model, str):
        family_named = f"troth.models.{similar_family(model)}(…)"
        raise ParameterError(f"{model!r} is a name, not a model: give an object, such as {family_named}")
    check_is_model(model)
    if isinstance(rule, type):
        raise ParameterError(f"{rule.__name__} is a class, not a rule: give an object, {rule.__name__}(…)")
    campaign = describe_campaign(data, **arguments | {"terms": terms or {}})
    if task is not None:
        return pay_task_campaign(campaign, data, public, **options)
    ended, reports = final if final is not None else ledger is None, _read(campaign, data, progress)
    if rule is None and not (terms or {}).get("mechanism"):
        begun = None if ledger is None else first_entry(Path(ledger)).get("terms")
        campaign = with_first_defaults(campaign, len(reports), begun if isinstance(begun, dict) else {})
    return _pay(campaign, reports, final=ended, progress=progress, **options)


def _reject_unfit(result: Result) -> bool:
    """Raise if the model does not fit, so that no ledger is written."""
    if result.verdict.stops:
        raise DataError(
            f"the model does not fit these reports: {result.verdict.remedy}; nothing was paid or written, and "
            "anyway=True pays regardless"
        )
    return True


def pay_campaign(
    campaign: Campaign,
    *,
    ledger: str | Path | None = None,
    final: bool = False,
    secret: Secret | None = None,
    beacon: str | None = None,
    progress: ProgressCallback | None = None,
    approve: Callable[[Result], bool] | None = None,
) -> Result:
    """Pay the payable rounds of a campaign file, with the secret stored beside it.

    ``approve`` receives the result before anything is written; unless it returns True, nothing is written.
    """
    secret_file: Path | None = None
    if secret is None and campaign.path is not None and campaign.draws and campaign.commitment is not None:
        secret_file = secret_path(campaign.path)
        secret = load_secret(secret_file)
    options: dict[str, Any] = {"ledger": ledger, "secret": secret, "secret_file": secret_file}
    options |= {"beacon": beacon, "approve": approve}
    if campaign.task is not None:
        return pay_task_campaign(campaign, _source(campaign), **options)
    skip = [Path(ledger).resolve()] if ledger is not None else []
    return _pay(campaign, read_campaign(campaign, progress, skip=skip), final=final, progress=progress, **options)


def read_campaign(
    campaign: Campaign, progress: ProgressCallback | None = None, skip: Collection[Path] = ()
) -> list[Report]:
    """Read all reports of a campaign file; public data in the same folder are skipped."""
    source = _source(campaign)
    if campaign.public_source is not None:
        skip = [*skip, *(path.resolve() for _, path in find_files(beside(campaign, campaign.public_source)))]
    return _read(campaign, source, progress, skip)


def _source(campaign: Campaign) -> list[str]:
    """Return the paths of a campaign file's reports."""
    if campaign.source is None:
        raise DataError("[data] source: is missing; name the file, folder or pattern with the reports")
    return beside(campaign, campaign.source)


def verify(
    ledger: str | Path | Ledger,
    *,
    head: str | None = None,
    model: Model | None = None,
    rule: Rule | None = None,
    file: bytes | None = None,
    progress: ProgressCallback | None = None,
) -> Result:
    """Check every byte of a ledger and recompute every payment in it.

    Parameters
    ----------
    head
        The hash of the last line, as noted earlier, which also detects a ledger that was truncated and closed again.
    model, rule
        The custom model and rule of the campaign, if any.
    file
        The file of shares, for a ledger of tasks that is not read from a path.

    Raises
    ------
    LedgerError
        At the first line that was changed, or that does not follow from the reports, the terms and the seed.
    """
    book = ledger if isinstance(ledger, Ledger) else read_ledger(ledger)
    place = "ledger" if isinstance(ledger, Ledger) else Path(ledger).name
    if head is not None and head != book.head:
        raise LedgerError(f"{place}: the head is {book.head}, not {head}: this is another ledger")
    terms = book.entries[0].get("terms") if book.entries else None
    if not isinstance(terms, dict) or not isinstance(terms.get("model"), dict):
        raise LedgerError(f"{place}, line 1: there are no terms: this is not a campaign ledger")
    if "family" not in terms["model"] and model is None:
        raise MissingCapabilityError(f"{place}: it was paid with a custom model; pass model=")
    if has_tasks(book) and not isinstance(ledger, Ledger):
        file = recorded_file(ledger, book)
    verifying = _step_progress(progress, "verifying")
    campaign = check_ledger(book, place, model=model, rule=rule, file=file, progress=verifying)
    return result_of(campaign, book, file)


def open_ledger(path: str | Path) -> Result:
    """Read a ledger's payments and check its hash chain, without recomputing payments."""
    book = read_ledger(path)
    file = recorded_file(path, book) if has_tasks(book) else None
    return result_of(campaign_of(book, Path(path).name), book, file)


def _pay(
    campaign: Campaign,
    reports: Sequence[Report],
    *,
    final: bool,
    progress: ProgressCallback | None,
    secret: Secret | None,
    beacon: str | None,
    **writing: Any,
) -> Result:
    def pay_into(book: Ledger) -> Result:
        options: dict[str, Any] = {"secret": secret, "beacon": beacon, "progress": _step_progress(progress, "paying")}
        return Result(campaign, book, tuple(pay_rounds(campaign, reports, book, final=final, **options)))

    return _write(pay_into, **writing)


def _write(
    pay_into: Callable[[Ledger], AnyResult],
    *,
    ledger: str | Path | None,
    secret_file: Path | None = None,
    approve: Callable[[Result], bool] | None = None,
) -> AnyResult:
    """Pay into a new or existing ledger in memory, and write it if there are payments and they are approved."""
    if ledger is None:
        return pay_into(Ledger())
    path = Path(ledger)
    if not path.parent.is_dir():
        raise DataError(f"{path}: there is no folder {path.parent}")
    with locked(path.resolve().parent):
        remove_leftovers(path.resolve())
        result = pay_into(read_ledger(path) if path.exists() else Ledger())
        result.is_dry_run = bool(result.paid_now) and approve is not None and not approve(result)
        if result.paid_now and not result.is_dry_run:
            if secret_file is not None:
                record_use(secret_file, used_seeds(result.ledger))
            result.write_ledger(path)
    return result


def pay_task_campaign(
    campaign: Campaign,
    data: Any,
    public: Any = None,
    *,
    ledger: str | Path | None = None,
    secret: Secret | None = None,
    beacon: str | None = None,
    **writing: Any,
) -> TaskResult:
    """Read reports on tasks, settle them together, and write the ledger and the file of shares."""
    reports = read_task_reports(campaign, data)
    gold = known_tasks(campaign, public)

    def pay_into(book: Ledger) -> TaskResult:
        options: dict[str, Any] = {}
        if ledger is not None:
            path = Path(ledger)
            if book.entries:
                return _paid_before(campaign, path, book, reports, gold)
            _reject_paid_elsewhere(campaign, path, reports)
            options = {"file_name": file_beside(path).name}
        file = pay_tasks(campaign, reports, gold, book, secret=secret, beacon=beacon, **options)
        return TaskResult(campaign, book, file, (None,))

    return _write(pay_into, ledger=ledger, **writing)


def _paid_before(
    campaign: Campaign, path: Path, book: Ledger, reports: TaskReports, public: TaskReports | None
) -> TaskResult:
    """Return the earlier payments for these tasks; raise if the ledger has other terms or reports."""
    if not has_tasks(book):
        raise LedgerError(f"{path}: the ledger is not one of tasks")
    paid_under = campaign_of(book, path.name)
    if paid_under.digest != campaign.digest:
        raise LedgerError(f"{path}: the ledger has other terms; settle further tasks with a separate ledger")
    if book.of("round")[0]["root"] != reports_digest(reports, public):
        raise DataError(
            f"{path}: these tasks differ from those that were paid: restore the data; or, for further tasks, leave "
            "out the paid ones and name another ledger (--ledger)"
        )
    return TaskResult(paid_under, book, recorded_file(path, book))


def _reject_paid_elsewhere(campaign: Campaign, path: Path, reports: TaskReports) -> None:
    """Raise if another ledger in the folder has paid some of the tasks under a campaign file of the same name."""
    if campaign.path is None:
        return
    for other in sorted(path.resolve().parent.glob("*.jsonl")):
        if other == path.resolve() or not _belongs_to(campaign, other):
            continue
        book = read_ledger(other)
        paid_tasks = TaskResult(campaign, book, recorded_file(other, book)).shares.column("task").unique()
        if repeated := same_tasks(reports.tasks, paid_tasks.to_pylist()):
            raise DataError(
                f"{path.name}: {other.name} has paid {counted(len(repeated), 'task')} of these already "
                f"({listed(repeated, 3)}); leave them out of the data, or they are paid twice"
            )


def _belongs_to(campaign: Campaign, ledger: Path) -> bool:
    """Whether a ledger belongs to a campaign of tasks with the same name and columns."""
    try:
        terms = first_entry(ledger)["terms"]
        recorded = terms["campaign"]["name"], terms["data"]["task"], terms["model"]["columns"]
    except (LookupError, TypeError):
        return False
    return recorded == (campaign.name, campaign.task, campaign.terms["model"].get("columns"))


def _read(
    campaign: Campaign, data: Any, progress: ProgressCallback | None, skip: Collection[Path] = ()
) -> list[Report]:
    if not isinstance(campaign.model, HasReduction):
        return gather_reports(campaign.model, data, campaign.reading)
    engine, reading = campaign.engine, _step_progress(progress, "reading")
    rows, files = read_reports(
        data, campaign.request, engine=engine, format=campaign.format, skip=skip, progress=reading
    )
    return join_reports(rows, read_statistics(campaign, files))


def _step_progress(progress: ProgressCallback | None, task: str) -> Callable[[float, int], None] | None:
    return None if progress is None else lambda done, total: progress(task, done, total)


def _secret(seed: int | str | Secret | None) -> Secret | None:
    if seed is None or isinstance(seed, Secret):
        return seed
    return Secret(sha256(str(seed).encode()).hexdigest(), rounds=4096)
