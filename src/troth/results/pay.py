"""Paying from Python: a frame, files or a table in an engine, a model and a rule in; a result out."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from troth.campaigns.ledger import Ledger, LedgerError, locked, read_ledger, sweep, write_whole
from troth.campaigns.rounds import pay_rounds
from troth.campaigns.seed import Secret, load_secret, secret_path
from troth.campaigns.statistics_file import join_reports, read_statistics
from troth.campaigns.terms import Campaign, beside
from troth.campaigns.verify import campaign_of, check_ledger
from troth.core.contract import HasReduction, Model
from troth.core.errors import DataError, MissingCapabilityError, ParameterError
from troth.core.reductions import Moments
from troth.core.settings import plain_copy
from troth.data import Report, read_reports
from troth.data.gather import column_names, gather_reports
from troth.data.request import Request
from troth.mechanisms import DEFAULT_RULE, Rule
from troth.models import Family
from troth.results.result import Result

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from decimal import Decimal

    Watch = Callable[[str, int, int], None]


def pay(
    data: Any,
    model: Model | None = None,
    rule: Rule | str | None = None,
    *,
    provider: str | None = None,
    day: str | None = None,
    budget: str | int | Decimal | None = None,
    columns: Sequence[str] | str | None = None,
    target: str | None = None,
    intercept: bool = False,
    categories: Sequence[str] | None = None,
    name: str = "campaign",
    currency: str = "",
    decimals: int = 2,
    budget_per: str | None = None,
    days: int | None = None,
    providers: Sequence[str] = (),
    models: Mapping[str, Model] | None = None,
    rows: int | None = None,
    values: tuple[float, float] | None = None,
    groups: Mapping[str, Sequence[str]] | None = None,
    weights: Mapping[str, Any] | None = None,
    seed: int | str | Secret | None = None,
    final: bool | None = None,
    ledger: str | Path | None = None,
    engine: str = "threads",
    format: str | None = None,  # noqa: A002
    watch: Watch | None = None,
) -> Result:
    """Pay providers for the data they reported, so that telling the truth pays best.

    Parameters
    ----------
    data
        A pandas, Polars or Arrow frame, a path, pattern or folder (CSV, Parquet, JSON lines, Arrow, statistics), an
        Ibis table or a Spark frame; or a `Campaign` or a campaign file (``.toml``), which has all the rest in it.
    model
        One of `troth.models`, or a model of one's own.
    rule
        A rule or its name; the default rule, if none is given.
    provider, day
        The columns of providers' names and of days. Files without a provider column bear their providers' names.
    budget
        A decimal string such as ``"1000.00"``: for the campaign, or for each day with ``budget_per="day"``, which is
        what a table with days means unless ``days``, their number, is given.
    columns, target, intercept, categories
        What the model reads: by default all other columns, of which a regression explains the last.
    providers
        Everybody who is invited, if some may not report.
    models
        Models of providers that differ, by name.
    rows, values
        The most rows, and the least and greatest value, that a report may have.
    groups, weights
        Related providers by group, and announced shares of the budget.
    seed
        For rules that draw: a number or a `Secret`; by default a fresh secret, which the ledger reveals.
    final
        Whether the last day is the last: then it is paid too. By default it is, unless a ledger is continued.
    ledger
        A file to continue or to begin; nobody who is in it is paid twice.
    engine, format
        How files are read.
    watch
        Called with what is being done, how much of it is done, and how much there is.

    Examples
    --------
    >>> import troth
    >>> names = ["Ash"] * 4 + ["Birch"] * 4 + ["Elm"] * 4
    >>> clinics = {"clinic": names, "improved": [1, 1, 0, 1, 1, 1, 1, 0, 0, 0, 0, 1]}
    >>> model = troth.models.Bernoulli(alpha=1, beta=1)
    >>> rule = troth.OneTime(troth.exact_range(model, rows=[4] * 3))
    >>> print(troth.pay(clinics, model, rule, provider="clinic", budget="300.00", currency="EUR"))
    campaign: OneTime, budget 300.00 EUR, paid 234.95 EUR to 3 providers
      provider  rows    score  share of cap  payment EUR
      Ash          4   0.2019        83.24%        83.24
      Birch        4   0.2019        83.24%        83.24
      Elm          4  -0.7143        68.47%        68.47
    """
    if isinstance(data, Campaign) or (model is None and isinstance(data, str | Path) and str(data).endswith(".toml")):
        given: dict[str, Any] = {
            "model": model,
            "rule": rule,
            "provider": provider,
            "day": day,
            "budget": budget,
            "columns": columns,
        }
        given |= {
            "target": target,
            "categories": categories,
            "currency": currency or None,
            "rows": rows,
            "values": values,
        }
        given |= {"groups": groups, "weights": weights, "models": models, "days": days, "budget_per": budget_per}
        for name_, value in given.items():
            if value is not None:
                raise ParameterError(f"{name_}= is the campaign file's to say; pass a frame or files to say it here")
        campaign = data if isinstance(data, Campaign) else Campaign.load(data)
        return pay_campaign(campaign, ledger=ledger, final=bool(final), secret=_secret(seed), watch=watch)
    if model is None or budget is None:
        raise ParameterError('pay needs a model and a budget, such as pay(frame, model, provider=…, budget="1000.00")')
    mechanism = rule.to_settings() if isinstance(rule, Rule) else {"rule": rule or DEFAULT_RULE}
    own = None if isinstance(model, Family) else model
    chosen = _columns(data, model, provider, day, columns, target, intercept)
    plain: dict[str, Any] = {
        "campaign": {"name": name, "budget": str(budget), "decimals": decimals},
        "model": {"columns": chosen},
        "mechanism": mechanism or {"rule": repr(rule)},
        "data": {"provider": provider, "day": day, "engine": engine, "format": format, "providers": list(providers)},
        "limits": {"rows": rows, "values": None if values is None else list(values)},
        "groups": {label: list(members) for label, members in (groups or {}).items()},
        "weights": {who: str(weight) for who, weight in (weights or {}).items()},
    }
    if currency:
        plain["campaign"]["currency"] = currency
    if day is not None and (budget_per is not None or days is None):
        plain["campaign"]["budget_per"] = budget_per or "day"
    if days is not None:
        plain["campaign"]["days"] = days
    _describe(plain["model"], model, own, models, target, intercept, categories)
    for table in ("data", "limits"):
        plain[table] = {key: value for key, value in plain[table].items() if value not in (None, [], ())}
    own_rule = rule if isinstance(rule, Rule) and mechanism is None else None
    reports: list[Report] | None = None
    if own is not None and not isinstance(own, HasReduction):
        request = Request(Moments(), tuple(chosen), provider, day)
        reports = gather_reports(own, data, request)
    campaign = Campaign.from_dict(plain_copy(plain), model=own, rule=own_rule)
    if reports is None:
        reports = _read(campaign, data, watch)
    ended = final if final is not None else ledger is None
    return _pay(campaign, reports, ledger=ledger, final=ended, secret=_secret(seed), watch=watch)


def pay_campaign(
    campaign: Campaign,
    *,
    ledger: str | Path | None = None,
    final: bool = False,
    secret: Secret | None = None,
    watch: Watch | None = None,
) -> Result:
    """Pay what has become payable in a campaign file, with the secret that lies beside it."""
    if campaign.source is None:
        raise DataError("[data] source: is missing; name the file, folder or pattern with the reports")
    if secret is None and campaign.path is not None and campaign.draws and campaign.commitment is not None:
        secret = load_secret(secret_path(campaign.path))
    skip = [Path(ledger).resolve()] if ledger is not None else []
    reports = read_campaign(campaign, watch, skip=skip)
    return _pay(campaign, reports, ledger=ledger, final=final, secret=secret, watch=watch)


def read_campaign(campaign: Campaign, watch: Watch | None = None, skip: Collection[Path] = ()) -> list[Report]:
    """Read all reports of a campaign file; its source is relative to the file."""
    if campaign.source is None:
        raise DataError("[data] source: is missing; name the file, folder or pattern with the reports")
    return _read(campaign, beside(campaign, campaign.source), watch, skip)


def verify(
    ledger: str | Path | Ledger,
    *,
    head: str | None = None,
    model: Model | None = None,
    rule: Rule | None = None,
    watch: Watch | None = None,
) -> Result:
    """Check every byte of a ledger and recompute every payment in it.

    Parameters
    ----------
    head
        The hash of the last line, as noted earlier: then a ledger that was cut off and closed anew is found too.
    model, rule
        The model and rule of one's own that it was paid with, if there were any.

    Raises
    ------
    LedgerError
        At the first line that is not as it was, or not what the reports, the terms and the seed make it.
    """
    book = ledger if isinstance(ledger, Ledger) else read_ledger(ledger)
    place = "ledger" if isinstance(ledger, Ledger) else Path(ledger).name
    if head is not None and head != book.head:
        raise LedgerError(f"{place}: the head is {book.head}, not {head}: this is not the ledger that was noted")
    terms = book.entries[0].get("terms") if book.entries else None
    if not isinstance(terms, dict) or not isinstance(terms.get("model"), dict):
        raise LedgerError(f"{place}, line 1: there are no terms: this is no ledger of a campaign")
    if "family" not in terms["model"] and model is None:
        raise MissingCapabilityError(f"{place}: it was paid with a model of one's own; pass model=")
    told = None if watch is None else lambda done, total: watch("verifying", done, total)
    return Result(check_ledger(book, place, model=model, rule=rule, watch=told), book)


def open_ledger(path: str | Path) -> Result:
    """Read a ledger's payments without recomputing them; its chain of hashes is checked."""
    book = read_ledger(path)
    return Result(campaign_of(book, Path(path).name), book)


def _pay(
    campaign: Campaign,
    reports: Sequence[Report],
    *,
    ledger: str | Path | None,
    final: bool,
    secret: Secret | None,
    watch: Watch | None,
) -> Result:
    told = None if watch is None else lambda done, total: watch("paying", done, total)
    if ledger is None:
        book = Ledger()
        now = pay_rounds(campaign, reports, book, final=final, secret=secret, watch=told)
        return Result(campaign, book, tuple(now))
    path = Path(ledger)
    if not path.parent.is_dir():
        raise DataError(f"{path}: there is no folder {path.parent}")
    with locked(path.resolve().parent):
        sweep(path.resolve())
        book = read_ledger(path) if path.exists() else Ledger()
        now = pay_rounds(campaign, reports, book, final=final, secret=secret, watch=told)
        if now:
            write_whole(path, book.to_bytes())
    return Result(campaign, book, tuple(now))


def _read(campaign: Campaign, data: Any, watch: Watch | None, skip: Collection[Path] = ()) -> list[Report]:
    told = None if watch is None else lambda done, total: watch("reading", done, total)
    rows, files = read_reports(
        data, campaign.request, engine=campaign.engine, format=campaign.format, skip=skip, watch=told
    )
    return join_reports(rows, read_statistics(campaign, files))


def _columns(
    data: Any,
    model: Model,
    provider: str | None,
    day: str | None,
    columns: Sequence[str] | str | None,
    target: str | None,
    intercept: bool,
) -> list[str]:
    if columns is not None:
        return [columns] if isinstance(columns, str) else list(columns)
    left = [name for name in column_names(data) if name not in (provider, day, target)]
    if isinstance(model, HasReduction):
        needed = model.reduction.columns - intercept - (target is not None)
        if len(left) != needed:
            raise DataError(
                f"the model reads {needed} column(s), and beside provider and day there are {len(left)} "
                f"({', '.join(map(repr, left[:8]))}): say which with columns="
            )
    return left


def _describe(
    plain: dict[str, Any],
    model: Model,
    own: Model | None,
    models: Mapping[str, Model] | None,
    target: str | None,
    intercept: bool,
    categories: Sequence[str] | None,
) -> None:
    """Write a model of one of the families as the tables of a campaign file."""
    if own is None and isinstance(model, Family):
        described = model.to_dict()
        plain |= {key: value for key, value in described.items() if key != "prior" and key != "reference"}
        if "prior" in described:
            plain["prior"] = described["prior"]
        if described.get("reference") is not None:
            raise ParameterError("give models as they are, not as troth.combine made them; pay combines them itself")
        if hasattr(model, "precision") and target is None:
            target = plain["columns"].pop()
        others = {
            name: {
                key: value for key, value in other.to_dict().items() if key != "family" and value != described.get(key)
            }
            for name, other in (models or {}).items()
            if isinstance(other, Family)
        }
        if others:
            plain["providers"] = others
    elif models:
        raise ParameterError("models= is for the bundled families; make your own model of all providers")
    if target is not None:
        plain["target"] = target
    if intercept:
        plain["intercept"] = True
    if categories is not None:
        plain["categories"] = list(categories)


def _secret(seed: int | str | Secret | None) -> Secret | None:
    if seed is None or isinstance(seed, Secret):
        return seed
    return Secret(sha256(str(seed).encode()).hexdigest(), rounds=4096)
