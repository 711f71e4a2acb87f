"""Pay rounds into a ledger: find out which are payable, and record their payments.

A round is paid once its reports are in; under a rule that compares days, once the next day's reports are in or there is
no next day. What is in the ledger is never paid again, so paying is idempotent: a run after an interruption, or with a
new day, adds what is missing.
"""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from troth.campaigns.public import check_summary
from troth.campaigns.records.arithmetic import TOLERANCE, versions
from troth.campaigns.records.ledger import Ledger, LedgerError
from troth.campaigns.records.ledger_entries import (
    LATEST,
    format_of,
    payment_entry,
    recorded_public,
    recorded_reports,
    report_entry,
    report_root,
    seal,
    seal_payments,
)
from troth.campaigns.seed import Secret, draw_secret
from troth.campaigns.settle import reject_single_provider, settle
from troth.core.contract import DrawsAnswers, HasReduction
from troth.core.declarations import declared
from troth.core.errors import DataError
from troth.core.limits import MAX_ROWS
from troth.data.read import reports_by_day
from troth.data.request import Day, Report, day_order

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from troth.campaigns.settle import Payment
    from troth.campaigns.terms import Campaign
    from troth.core.contract import Model


def pay_rounds(
    campaign: Campaign,
    reports: Sequence[Report],
    ledger: Ledger,
    *,
    final: bool = False,
    secret: Secret | None = None,
    beacon: str | None = None,
    progress: Callable[[float, int], None] | None = None,
) -> list[Day]:
    """Pay all rounds that have become payable, and return their days.

    Parameters
    ----------
    reports
        All reports so far, including those that were paid before.
    final
        Whether no day follows the last one.
    secret
        The secret that the campaign has committed to, for rules that draw.
    beacon
        The value of the public beacon that the terms name, published after the reports were in.
    progress
        Called with the number of completed rounds, which may be fractional, and the total.
    """
    if not reports and not ledger.entries:
        raise DataError("there are no reports: the data have no rows")
    begin(campaign, ledger)
    recorded = {report.key: report for report in recorded_reports(ledger)}
    paid = [entry["day"] for entry in ledger.of("close")]
    _reject_changes(reports, recorded, paid)
    _reject_changed_public(campaign, recorded_public(ledger))
    all_reports = list({**{report.key: report for report in reports}, **recorded}.values())
    campaign.check_providers(sorted({report.provider for report in all_reports}))
    check_limits(campaign, all_reports)
    for report in reports:
        try:
            check_possible(campaign, report)
        except DataError as error:
            raise DataError(f"provider {report.provider!r}: {error}") from None
    by_day = reports_by_day(sorted(all_reports, key=lambda report: report.provider))
    days = list(by_day)
    reject_mixed_days([*days, *(campaign.public if campaign.public_by_day else ())])
    _check_days(campaign, days, paid, campaign.daily and any(entry["last"] for entry in ledger.of("round")))
    closed = final or (campaign.days is not None and len(days) == campaign.days)
    ready = [day for day in days if closed or len(later_days(campaign, days, day)) == campaign.rule.days - 1]
    payable = [day for day in ready if day not in paid]
    following_days = [later for day in payable for later in later_days(campaign, days, day)]
    needed_days = {*payable, *following_days}.difference(paid)
    reject_unpayable_days(campaign, [report for report in all_reports if report.day in needed_days])
    for done, day in enumerate(payable, 1):
        following = following_reports(campaign, by_day, day)
        link = link_of(campaign, secret, len(ledger.of("round")) + 1)
        last = day == days[-1] and (closed or not campaign.daily)
        stamp = {"last": last, "versions": versions(), "time": now()}
        round_progress = progress_of_round(progress, done, len(payable))
        write_round(campaign, ledger, by_day[day], following, recorded, link, beacon, stamp, round_progress)
    return payable


def progress_of_round(
    progress: Callable[[float, int], None] | None, number: int, rounds: int
) -> Callable[[float], None] | None:
    """Return a callback that reports the completed fraction of one round as progress through all rounds."""
    return None if progress is None else lambda fraction: progress(number - 1 + fraction, rounds)


def begin(campaign: Campaign, ledger: Ledger) -> None:
    """Begin an empty ledger with the campaign's terms, or check that it belongs to this campaign."""
    if not ledger.entries:
        ledger.append(
            {
                "entry": "campaign",
                "format": LATEST,
                "terms": campaign.terms,
                "digest": campaign.digest,
                "commitment": campaign.commitment,
                "versions": versions(),
                "time": now(),
            }
        )
    elif ledger.entries[0].get("digest") != campaign.digest:
        terms = ledger.entries[0].get("terms", {})
        if terms.get("public") != campaign.terms.get("public"):
            raise LedgerError(
                "the public data have changed since the first payment; restore them, or start a new campaign with "
                "its own ledger"
            )
        paid_name = terms.get("campaign", {}).get("name")
        raise LedgerError(
            f"the ledger belongs to campaign {paid_name!r}, and its terms differ from this file's; terms cannot change "
            "once payments have begun: restore the file, or start a new campaign with its own ledger"
        )
    format_of(ledger)


def write_round(
    campaign: Campaign,
    ledger: Ledger,
    reports: Sequence[Report],
    following: Sequence[Report] | None,
    known: dict[Any, Report],
    link: str | None,
    beacon: str | None,
    stamp: dict[str, Any],
    progress: Callable[[float], None] | None = None,
) -> None:
    """Write a round: the day's public data, reports not yet in the ledger, the head, the payments and the close."""
    if progress is not None:
        progress(0.0)
    check_beacon(campaign, beacon)
    if campaign.public_by_day and reports[0].day in campaign.public:
        ledger.append(report_entry(campaign.public[reports[0].day], "public"))
    for report in [*reports, *(following or ())]:
        if report.key not in known:
            known[report.key] = report
            ledger.append(report_entry(report))
    by_day = reports_by_day([*reports, *(following or ())])
    sealed = seal(ledger, link, [report_root(day_reports) for day_reports in by_day.values()], beacon)
    payments = settle(campaign, reports, following, sealed["seed"], progress)
    sealed |= seal_payments(ledger, campaign, reports, payments)
    round_key = {"day": reports[0].day, "number": len(ledger.of("round")) + 1}
    budget = campaign.round_budget
    next_day = written_days(campaign, list(dict.fromkeys(report.day for report in following or ())))
    ledger.append({"entry": "round", **round_key, "budget": campaign.text(budget), **sealed, "next": next_day, **stamp})
    write_payments(campaign, ledger, round_key, payments, budget)
    if progress is not None:
        progress(1.0)


def write_payments(
    campaign: Campaign, ledger: Ledger, round_key: dict[str, Any], payments: Sequence[Payment], budget: int
) -> None:
    """Write a round's payments, and close it with what is left of its budget."""
    for payment in payments:
        ledger.append(payment_entry(campaign, round_key["day"], payment))
    total = sum(payment.payment for payment in payments)
    ledger.append({"entry": "close", **round_key, "paid": campaign.text(total), "left": campaign.text(budget - total)})


def check_beacon(campaign: Campaign, beacon: str | None) -> None:
    """Require the beacon's value if the terms name a beacon, and reject it otherwise."""
    name = campaign.beacon if campaign.draws else None
    if name is not None and beacon is None:
        raise DataError(f"[mechanism] beacon: pass the value that {name!r} had after the reports were in")
    if name is None and beacon is not None:
        raise DataError("--beacon: these terms use no beacon; remove the option")


def used_seeds(ledger: Ledger) -> dict[int, str]:
    """Return the seeds of the rounds of a ledger, by number, for rounds that drew."""
    return {head["number"]: head["seed"] for head in ledger.of("round") if head["seed"] is not None}


def link_of(campaign: Campaign, secret: Secret | None, number: int) -> str | None:
    """Return the link that a round's seed derives from, or None if nothing is drawn."""
    if not campaign.draws:
        return None
    if campaign.commitment is None:
        return (secret or draw_secret()).link(1 if secret is None else number)
    if secret is None or secret.commitment != campaign.commitment:
        raise DataError("the secret does not match the campaign's commitment; find the right file")
    return secret.link(number)


def _reject_changes(reports: Sequence[Report], known: dict[Any, Report], paid: Sequence[Day]) -> None:
    """Reject data that differ from what was recorded; recorded reports may be missing from new data."""
    days = {day for _, day in known}
    for new in reports:
        old = known.get(new.key)
        state = "paid for" if new.day in paid else "used for payments"
        if old is None and new.day in days:
            raise DataError(
                f"{new}: this report came after the others were {state}; remove it, or start a new campaign"
            )
        if old is not None and _differ(old, new):
            raise DataError(
                f"{new}: the data have changed since they were {state} ({old.rows:,} rows then, {new.rows:,} now); "
                "restore them, or start a new campaign"
            )


def _reject_changed_public(campaign: Campaign, recorded: dict[Day, Report]) -> None:
    for day, old in recorded.items():
        new = campaign.public.get(day)
        if new is not None and _differ(old, new):
            raise DataError(
                f"day {day}: the public data have changed since they were used for payments ({old.rows:,} rows then, "
                f"{new.rows:,} now); restore them, or start a new campaign"
            )


def _differ(old: Report, new: Report) -> bool:
    scale = np.maximum(np.abs(old.summary), np.abs(new.summary)).max(initial=0.0)
    return old.rows != new.rows or not np.allclose(old.summary, new.summary, rtol=TOLERANCE, atol=TOLERANCE * scale)


def check_limits(campaign: Campaign, reports: Sequence[Report]) -> None:
    """Reject reports without rows, or with more than the campaign or the model allows."""
    for report in reports:
        if report.rows < 1:
            raise DataError(f"{report}: the report has no rows")
        if campaign.rows is not None and report.rows > campaign.rows:
            raise DataError(f"{report}: {report.rows:,} rows, but [limits] rows allows {campaign.rows:,}")
        model = campaign.model_of(report.provider)
        max_rows = declared(model).max_rows
        if report.rows > max_rows:
            raise DataError(f"{report}: {report.rows:,} rows, but {type(model).__name__} takes at most {max_rows:,}")


def reject_mixed_days(days: Sequence[Day]) -> None:
    """Reject days if some are dates and others integers."""
    if len({type(day) for day in days}) > 1:
        raise DataError(f"some days are whole numbers and others dates ({', '.join(map(str, days[:4]))}); use one kind")


def _check_days(campaign: Campaign, days: Sequence[Day], paid: Sequence[Day], ended: bool) -> None:
    if campaign.days is not None and len(days) > campaign.days:
        raise DataError(f"the data have {len(days)} days, but [campaign] days is {campaign.days}")
    if ended and any(day not in paid for day in days):
        raise DataError("the last day was paid, so the campaign is over: remove the days that came after it")
    latest = max(paid, key=day_order, default=None)
    skipped = [day for day in days if paid and day not in paid and day_order(day) < day_order(latest)]
    if skipped:
        raise DataError(f"day {skipped[0]} came after day {latest} was paid; days are paid in order: remove it")


def reject_same_nonce(reports: Sequence[Report]) -> None:
    """Reject reports that share a nonce."""
    nonces = [report.nonce for report in reports if report.nonce is not None]
    if len(set(nonces)) < len(nonces):
        raise DataError(
            "two reports have the same nonce, so one proof would hold for both: "
            "create one of them again with a new nonce"
        )


def reject_unpayable_days(campaign: Campaign, reports: Sequence[Report]) -> None:
    """Reject days that can never be paid, before another day's payment records their reports."""
    for day, count in Counter(report.day for report in reports).items():
        reject_single_provider(campaign, count, "" if day is None else f"day {day}: ")


def later_days(campaign: Campaign, days: Sequence[Day], day: Day) -> list[Day]:
    """Return the following days that the rule compares a day with, among those that have reports."""
    later = [other for other in days if day_order(other) > day_order(day)]
    return later[: campaign.rule.days - 1]


def following_reports(campaign: Campaign, by_day: Mapping[Day, list[Report]], day: Day) -> list[Report] | None:
    """Return the reports of the days that a day is compared with, or None if there are none."""
    return [report for later in later_days(campaign, list(by_day), day) for report in by_day[later]] or None


def written_days(campaign: Campaign, days: Sequence[Day]) -> Any:
    """Return the compared days as the ledger records them: a single day, or a list if the rule allows several."""
    if campaign.rule.days > 2:
        return list(days)
    return days[0] if days else None


def read_days(written: Any) -> list[Day]:
    """Return the compared days that the ledger records.

    Examples
    --------
    >>> read_days(None), read_days(2), read_days([2, 3])
    ([], [2], [2, 3])
    """
    if isinstance(written, list):
        return written
    return [] if written is None else [written]


def check_possible(campaign: Campaign, report: Report) -> None:
    """Reject a report that no data can produce."""
    model = campaign.model_of(report.provider)
    if isinstance(report.rows, bool) or not isinstance(report.rows, int) or report.rows < 0:
        raise DataError(f"rows must be a whole number of at least 0, not {report.rows!r}")
    if report.rows > MAX_ROWS:
        raise DataError(f"{report.rows:,} rows, but a report has at most {MAX_ROWS:,}")
    if not isinstance(model, HasReduction):
        return
    check_summary(report, model, campaign.columns, campaign.values)
    if report.features is not None:
        check_features(model, report)


def check_features(model: Model, report: Report) -> None:
    """Reject features that do not belong to the report: if all are kept, they must reproduce its design."""
    if not isinstance(model, DrawsAnswers):
        raise DataError(f"{type(model).__name__} does not use features")
    regression: Any = model
    features = regression.with_features(report.features, report.rows).features
    if len(features) == report.rows:
        design = regression.design(regression.from_summary(report.summary))
        if not np.allclose(regression.plan(features), design, rtol=1e-6, atol=1e-6 * np.abs(design).max()):
            raise DataError("the features do not belong to the rows of the summary")


def now() -> str:
    """Return the current time in UTC, in ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="seconds")
