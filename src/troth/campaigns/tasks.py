"""Settle all tasks of a campaign: from reports on tasks to one payment per provider, and the lines of the ledger.

Each report on a task has the same cap, the price. A provider's payment is the price times the sum of its shares,
rounded down once, and has one line in the ledger. Reports and shares are in a Parquet file (`task_data`), whose digest
is in the ledger; `verify` recomputes all of them.

The likelihoods are part of the terms, which the first line of the ledger fixes before any report is read, so they do
not depend on the reports that they pay. Likelihoods that were learnt from past tasks name their history, and these
tasks are rejected. In the service, each provider uploads its own file, and all files are settled together.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from hashlib import sha256
from math import ceil, floor, fsum
from typing import TYPE_CHECKING, Any

import numpy as np

from troth.campaigns.money import portion
from troth.campaigns.public import check_task_summaries
from troth.campaigns.records.arithmetic import versions
from troth.campaigns.records.ledger_entries import format_of, report_entry, report_root, seal, seal_payments
from troth.campaigns.rounds import begin, check_beacon, link_of, now, reject_same_nonce, write_payments
from troth.campaigns.seed import generator
from troth.campaigns.settle import Payment
from troth.campaigns.task_data import reject_past_tasks, reports_digest, write_file
from troth.core.errors import DataError, ReportError
from troth.core.provider_models import combine
from troth.core.settings import CampaignError
from troth.data.public import PUBLIC
from troth.data.request import Report
from troth.data.task_files import OwnTasks, join_tasks, split_tasks
from troth.data.tasks import TaskReports
from troth.mechanisms.tasks import Tasks, TaskShares

if TYPE_CHECKING:
    from collections.abc import Sequence

    from troth.campaigns.records.ledger import Ledger
    from troth.campaigns.seed import Secret
    from troth.campaigns.terms import Campaign
    from troth.core.contract import Array
    from troth.mechanisms import Rule


FILE_NAME = "ledger.tasks.parquet"
"""The name of the file of shares in the service, next to the ledger."""

MAX_REHEARSED = 2_000
"""The maximum number of tasks of a report that a rehearsal settles."""


def arrange(campaign: Campaign, reports: TaskReports, public: TaskReports | None) -> Tasks:
    """Give each provider its likelihood and its group, and each task its public data.

    The public guess has the likelihood of a provider called "public data", if the campaign declares one, and otherwise
    the population's.
    """
    models = {name: campaign.model_of(name) for name in (*reports.providers, PUBLIC)}
    distinct = list(dict.fromkeys([campaign.model, *models.values()]))
    combined = dict(zip(distinct, combine(distinct), strict=True))
    numbers = {model: number for number, model in enumerate(distinct)}
    known: Array | None = None
    if public is not None:
        model: Any = combined[models[PUBLIC]]
        statistics = np.asarray(model.from_summary(public.summaries), dtype=np.float64)
        task_numbers = {name: number for number, name in enumerate(reports.tasks)}
        tasks = np.array([task_numbers.get(public.tasks[task], -1) for task in public.task], dtype=np.intp)
        known = np.zeros((len(reports.tasks), statistics.shape[1]))
        known[tasks[tasks >= 0]] = statistics[tasks >= 0]
    return Tasks(
        reports.task,
        reports.provider,
        reports.summaries,
        tuple(combined.values()),
        np.array([numbers[models[name]] for name in reports.providers], dtype=np.intp),
        np.array(campaign.group_numbers(reports.providers), dtype=np.intp),
        known,
    )


def rule_on_tasks(campaign: Campaign, providers: Sequence[str]) -> Rule:
    """Return the rule, prepared for the likelihoods of all providers if it needs a range of scores."""
    models = campaign.models_for(providers) if campaign.rule.needs_rows else campaign.model
    return campaign.rule_for(models, len(providers))


def settle_tasks(campaign: Campaign, reports: TaskReports, public: TaskReports | None, seed: str | None) -> TaskShares:
    """Return the share of each report: a pure function of terms, reports and seed."""
    tasks = arrange(campaign, reports, public)
    try:
        shares = rule_on_tasks(campaign, reports.providers).evaluate_tasks(
            tasks, None if seed is None else generator(seed)
        )
    except ReportError as error:
        provider, task = reports.provider[error.provider], reports.task[error.provider]
        location = f"provider {reports.providers[provider]!r}, task {reports.tasks[task]!r}"
        raise DataError(f"{location}: {error.problem}") from None
    if not ((shares.share >= 0) & (shares.share <= 1)).all():
        raise DataError("a share is not between 0 and 1")
    return shares


def price_of(campaign: Campaign, reports: int) -> Fraction:
    """Return the cap of one report, in minor units, exactly: the price, or an equal part of the budget."""
    if campaign.price is None:
        return Fraction(campaign.budget, reports)
    if campaign.budget and campaign.price * reports > campaign.budget:
        max_cost = campaign.show(floor(campaign.price * reports))
        raise DataError(
            f"[campaign] budget: {reports:,} reports at this price may cost {max_cost}, more than the budget of "
            f"{campaign.show(campaign.budget)}"
        )
    return campaign.price


def payments_of(campaign: Campaign, reports: TaskReports, shares: TaskShares) -> list[Payment]:
    """Return one payment per provider: the price times the sum of its shares, rounded down once."""
    price = price_of(campaign, len(reports))
    payments = []
    for name, places in reports.by_provider():
        total = fsum(shares.share[places])  # exact, so independent of the order
        without_peers = int((shares.peers[places] == 0).sum())
        finite = shares.log_pmi[places][np.isfinite(shares.log_pmi[places])]
        payments.append(
            Payment(
                provider=name,
                rows=len(places),
                log_pmi=fsum(finite) / len(finite) if len(finite) else None,
                score=None,
                low=None,
                high=None,
                terms={"shares": total, "without_peers": float(without_peers)},
                share=total / len(places),
                empty_share=fsum(shares.empty_share[places]) / len(places),
                cap=floor(price * len(places)),
                payment=portion(total, price),
            )
        )
    return payments


def pay_tasks(
    campaign: Campaign,
    reports: TaskReports,
    public: TaskReports | None,
    ledger: Ledger,
    *,
    secret: Secret | None = None,
    beacon: str | None = None,
    file_name: str = "tasks.parquet",
    receipts: Sequence[Report] = (),
) -> bytes:
    """Settle all tasks, write the ledger, and return the file of shares that belongs beside it.

    ``receipts`` are the reports as the service confirmed them, each with its nonce and the digest of its tasks. The
    ledger then records them, and the seed derives from the root over them.
    """
    reject_past_tasks(campaign, reports)
    if ledger.entries:
        raise DataError("the ledger already has payments in it; settle further tasks with a separate ledger")
    begin(campaign, ledger)
    stamp = {"last": True, "versions": versions(), "time": now()}
    link = link_of(campaign, secret, 1)
    return write_tasks(campaign, ledger, reports, public, link, beacon, stamp, file_name, receipts)


def write_tasks(
    campaign: Campaign,
    ledger: Ledger,
    reports: TaskReports,
    public: TaskReports | None,
    link: str | None,
    beacon: str | None,
    stamp: dict[str, Any],
    file_name: str,
    receipts: Sequence[Report],
) -> bytes:
    """Append a settlement to a ledger that already has the terms, and return the file of shares.

    ``link`` is that of the campaign's secret, or None if the rule draws nothing.
    """
    campaign.check_providers(reports.providers)
    campaign.check_task_counts(reports.providers, np.bincount(reports.provider).tolist())
    check_beacon(campaign, beacon)
    root = reports_digest(reports, public)
    if receipts:
        _check_receipts(reports, receipts)
        root = report_root(receipts)
    for receipt in receipts:
        ledger.append(report_entry(receipt))
    sealed = seal(ledger, link, [root], beacon)
    shares = settle_tasks(campaign, reports, public, sealed["seed"])
    payments = payments_of(campaign, reports, shares)
    sealed |= seal_payments(ledger, campaign, receipts, payments) if receipts else {}
    file = write_file(reports, public, shares)
    max_cost = floor(price_of(campaign, len(reports)) * len(reports))
    counts = {"tasks": len(reports.tasks), "reports": len(reports), "providers": len(reports.providers)}
    if reports.dropped:
        counts["dropped"] = reports.dropped
    digest = f"sha256:{sha256(file).hexdigest()}"
    round_key, budget = {"day": None, "number": 1}, {"budget": campaign.text(max_cost)}
    tasks_budget, round_budget = (budget, {}) if format_of(ledger).budget == "tasks" else ({}, budget)
    ledger.append({"entry": "tasks", "file": file_name, "digest": digest, **counts, **tasks_budget})
    ledger.append({"entry": "round", **round_key, **round_budget, **sealed, "next": None, **stamp})
    write_payments(campaign, ledger, round_key, payments, max_cost)
    return file


def _check_receipts(reports: TaskReports, receipts: Sequence[Report]) -> None:
    """Raise unless the reports are those that were confirmed."""
    digests = {name: (len(own.names), own.digest) for name, own in split_tasks(reports)}
    confirmed = {receipt.provider: (receipt.rows, receipt.tasks) for receipt in receipts}
    for name in sorted(digests.keys() | confirmed.keys()):
        if digests.get(name) != confirmed.get(name):
            raise DataError(f"provider {name!r}: the reports on tasks differ from the confirmed ones")
    reject_same_nonce(receipts)


def has_tasks(ledger: Ledger) -> bool:
    """Return whether a ledger belongs to a campaign of tasks."""
    return bool(ledger.of("tasks"))


@dataclass(frozen=True, eq=False)
class TaskReport(Report):
    """One provider's reports on tasks: ``content`` is its `troth.data.task_files.OwnTasks` as bytes."""

    content: bytes = b""


def pay_task_reports(campaign: Campaign, reports: Sequence[TaskReport], ledger: Ledger, **options: Any) -> bytes:
    """Settle all tasks, write the ledger with all receipts, and return the file of shares."""
    own = {report.provider: replace(OwnTasks.from_bytes(report.content), dropped=report.dropped) for report in reports}
    receipts = sorted(reports, key=lambda report: report.provider)
    joined = join_tasks(own)
    return pay_tasks(campaign, joined, campaign.guesses, ledger, file_name=FILE_NAME, receipts=receipts, **options)


def check_own_tasks(campaign: Campaign, provider: str, own: OwnTasks) -> None:
    """Reject reports on tasks that no data can produce, or that are impossible under the provider's likelihood."""
    campaign.check_task_counts([provider], [len(own.names)])
    check_task_summaries(own.names, own.summaries, campaign.model_of(provider), campaign.columns, campaign.values)


def rehearse_tasks(campaign: Campaign, providers: Sequence[str], content: bytes | None = None) -> None:
    """Try to settle tasks with equal reports of all providers, by default one task with empty reports.

    What cannot be paid fails early. Of many tasks only those with the largest summaries are tried.
    """
    model: Any = campaign.model
    empty = OwnTasks(("",), np.zeros((1, model.reduction.width)))
    reports = empty if content is None else OwnTasks.from_bytes(content)
    if len(reports.names) > MAX_REHEARSED:
        largest = np.sort(np.argsort(-np.abs(reports.summaries).max(axis=1), kind="stable")[:MAX_REHEARSED])
        reports = OwnTasks(tuple(reports.names[task] for task in largest), reports.summaries[largest])
    seed = "sha256:" + "0" * 64 if campaign.draws else None
    settle_tasks(campaign, join_tasks(dict.fromkeys(providers, reports)), campaign.guesses, seed)


def planned_tasks(campaign: Campaign, providers: Sequence[str]) -> Tasks:
    """Return plausible tasks, with up to three providers on each, to try a rule on before anybody reports."""
    model: Any = campaign.model
    names, workers = sorted(providers), min(3, len(providers))
    task, offset = np.divmod(np.arange(len(names) * workers), workers)
    summaries = np.zeros((len(task), model.reduction.width))
    summaries[:, 0] = 1.0
    provider = (task + offset) % len(names)
    provider = provider[np.lexsort((provider, task))]
    task_names = tuple(map(str, range(len(names))))
    return arrange(campaign, TaskReports(task_names, tuple(names), task, provider, summaries), None)


def check_worst_case(campaign: Campaign) -> None:
    """Reject terms under which all providers together could earn more than the budget."""
    if campaign.price is None or campaign.max_tasks is None:
        return
    max_cost = campaign.price * campaign.max_tasks * len(campaign.providers)
    if max_cost > campaign.budget:
        raise CampaignError(
            f"[campaign] budget: {len(campaign.providers):,} providers with {campaign.max_tasks:,} tasks each may "
            f"earn {campaign.show(ceil(max_cost))}, more than the budget of {campaign.show(campaign.budget)}: raise "
            "it, or lower [limits] tasks",
            section="campaign",
            key="budget",
        )
