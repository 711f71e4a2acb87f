"""The result of a campaign of tasks: one payment per provider, explained task by task."""

from __future__ import annotations

import re
from functools import cached_property
from math import fsum, sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from troth.campaigns.records.ledger import Ledger, LedgerError, write_atomic
from troth.campaigns.records.verify import check_file
from troth.campaigns.task_checks import check_reports
from troth.campaigns.task_data import read_file, read_shares
from troth.campaigns.tasks import has_tasks
from troth.core.errors import TrothError
from troth.core.formats import counted, left_out, printable
from troth.core.reductions.reduction import DescribesSummary, counted_labels
from troth.data.public import PUBLIC
from troth.data.read import similar_names
from troth.results.explanation import explain
from troth.results.result import Result, csv_text, escape_formula
from troth.results.verdict import TaskVerdict

if TYPE_CHECKING:
    from troth.campaigns.settle import Payment
    from troth.campaigns.task_data import Recorded
    from troth.campaigns.terms import Campaign
    from troth.core.contract import Array, Indexes
    from troth.data import Day
    from troth.results.verdict import Verdict

_SAFE_NAME = re.compile(r"[@+-]?[\w.-]+")  # names that are harmless even if a spreadsheet takes them for formulas
_SAMPLE = 5
_MIN_TASKS = 10  # with fewer tasks a provider's own shares do not determine their spread


class OwnShare(NamedTuple):
    """A provider's answer to a task, its share, the number of peers, and the rule's reason."""

    task: str
    answer: str
    share: float
    peers: int
    reason: str


class TaskResult(Result):
    """Payments for many tasks, from the ledger and from ``file``, the Parquet file of shares beside it."""

    file: bytes

    def __init__(self, campaign: Campaign, ledger: Ledger, file: bytes, paid_now: tuple[Day, ...] = ()) -> None:
        super().__init__(campaign, ledger, paid_now)
        self.file = file

    @cached_property
    def shares(self) -> Any:
        """An Arrow table with a line for each report: task, provider, summary, share, log PMI and peers."""
        import pyarrow.compute as pc

        table = read_shares(self.file)
        return table.filter(pc.not_equal(table.column("provider"), PUBLIC))

    @cached_property
    def recorded(self) -> Recorded:
        """The reports, the public data and the share of each report, as recorded in the file."""
        return read_file(self.file, self.campaign)

    @property
    def labels(self) -> list[str]:
        """The names of the labels that workers gave; empty if answers are values."""
        names = counted_labels(self.campaign.request.reduction)
        return [] if names is None else self.campaign.label_names(names)

    @property
    def payments(self) -> tuple[Payment, ...]:
        """One payment per provider."""
        return self.rounds[0].payments

    @cached_property
    def spread(self) -> dict[str, float]:
        """The standard error of each provider's mean share, from its own tasks or, if these are few, from all tasks."""
        share, errors = self.recorded.share, {}
        overall_spread = float(share.std())
        for name, indices in self.recorded.reports.by_provider():
            tasks = len(indices)
            few = tasks < _MIN_TASKS
            errors[name] = overall_spread / sqrt(tasks) if few else float(share[indices].std()) / sqrt(tasks - 1)
        return errors

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """Sentences on what you should know before paying, such as unused guesses and answers without peers."""
        reports, public = self.recorded.reports, self.recorded.public
        notes = []
        if self.campaign.guessed:
            notes.append(
                "the prior was guessed from the data that are paid, so these influence their own pay: replace it with "
                "what you knew before anybody answered, and remove [model] guessed"
            )
        if public is not None:
            extra = len(set(public.tasks) - set(reports.tasks))
            if extra == len(public.tasks):
                notes.append(f"none of the {extra:,} public guesses matches a paid task: compare the names")
            elif extra:
                notes.append(f"{extra:,} of {len(public.tasks):,} public guesses are for tasks that nobody worked on")
            if PUBLIC not in self.campaign.provider_models:
                notes.append(
                    "the terms give no likelihood for the public guess, so it counts as an unknown worker: "
                    f'state its accuracy as [model.providers."{PUBLIC}"]'
                )
        if self.payments and not self.paid:
            notes.append("at this price every payment is rounded down to nothing: raise it, or pay more tasks together")
        if risky := [payment.provider for payment in self.payments if csv_name(payment.provider) != payment.provider]:
            notes.append(
                f"a spreadsheet would take {counted(len(risky), 'name')} such as {risky[0]!r} for a formula, so the "
                "CSV has an apostrophe before it: remove it for a platform on which this is somebody's name"
            )
        if similar := similar_names(reports.tasks):
            pairs = f"{counted(len(similar), 'pair')} of tasks differ" if len(similar) > 1 else "two tasks differ"
            first, second = similar[0]
            notes.append(f"{pairs} only in capitals or spaces, such as {first!r} and {second!r}: are they one item?")
        if dropped := self.ledger.of("tasks")[0].get("dropped", 0):
            notes.append(left_out(dropped, "value"))
        alone = int(sum(payment.terms["without_peers"] for payment in self.payments))
        if alone and self.campaign.price is None:
            notes.append(
                f"{counted(alone, 'answer')} without a peer share the budget like all others, which lowers "
                "everybody's pay: name a [campaign] price if workers could make items up"
            )
        if 2 * alone > len(reports):
            notes.append(f"{alone:,} of {len(reports):,} answers have no peer, so they earn the empty share")
        return tuple(notes)

    @cached_property
    def verdict(self) -> Verdict:
        """Whether other labels would have earned more than those reported, and who earned less than an empty report."""
        below = {}
        for payment in self.payments:
            gap = payment.empty_share - payment.share
            if payment.rows >= _MIN_TASKS and gap > 2 * self.spread[payment.provider]:
                below[payment.provider] = gap
        fit, reason = None, ""
        try:
            fit = check_reports(self.campaign, self.recorded.reports, self.recorded.public)
        except TrothError as error:
            reason = str(error)
        answers = sum(payment.rows for payment in self.payments)
        mean = sum(payment.rows * payment.share for payment in self.payments) / answers
        empty = sum(payment.rows * payment.empty_share for payment in self.payments) / answers
        under = sum(payment.share < payment.empty_share for payment in self.payments)
        return TaskVerdict(
            fit, reason, providers=len(self.payments), below_empty=below, mean=mean, empty=empty, below=under
        )

    def write_ledger(self, path: str | Path) -> Path:
        """Write the file of shares next to the ledger, then the ledger, which has its digest."""
        write_atomic(file_beside(path), self.file, private=True)
        return super().write_ledger(path)

    def to_csv(self) -> str:
        """Return CSV with a line per worker for a platform's bulk bonuses: name, amount and reason."""
        rows: list[list[Any]] = [["provider", "tasks", "shares", "pay_per_task", "payment", "reason"]]
        for payment in self.payments:
            money = self.campaign.text(payment.payment)
            reason = f"{counted(payment.rows, 'task')}, {payment.share:.1%} of the price on average"
            shares = f"{payment.terms['shares']:.6f}"
            pay_per_task = f"{payment.payment / payment.rows / 10**self.campaign.decimals:.6f}"
            rows.append([csv_name(payment.provider), payment.rows, shares, pay_per_task, money, reason])
        return csv_text(rows)

    def headline(self) -> str:
        """Return one line on the rule, the tasks and what was paid."""
        campaign, entry = self.campaign, self.ledger.of("tasks")[0]
        return (
            f"{printable(campaign.name)}: {self.rule}, {counted(entry['tasks'], 'task')}, "
            f"{counted(entry['reports'], 'report')}, {self.paid_text} to "
            f"{counted(len(self.totals), 'provider')}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON, with money as decimal strings."""
        entry = {key: value for key, value in self.ledger.of("tasks")[0].items() if key != "entry"}
        extra = {"budget": self.ledger.of("round")[0].get("budget"), **entry, "notes": list(self.notes)}
        return {**super().to_dict(), **extra}

    def explain(self, provider: str, day: Day = None) -> str:
        """Explain a payment: its sum, and the best, the worst and some other tasks."""
        del day
        payment = self.payment(provider)
        mean = f"mean share {payment.share:.2%} ± {self.spread[provider]:.2%}"
        lines = [explain(self.campaign, payment), f"  {mean}; some of these tasks:"]
        for task in self.sample(provider):
            task_text = f"{printable(task.task)}: {task.answer}, {counted(task.peers, 'peer')}"
            lines.append(f"    {task_text}, share {task.share:.1%}: {task.reason}")
        return "\n".join(lines)

    def sample(self, provider: str, size: int = _SAMPLE) -> list[OwnShare]:
        """Return some of a provider's tasks, best first: a third are the best, a third the worst, and the rest random.

        The round's root seeds the random ones, so they are always the same.
        """
        empty, rule = self.payment(provider).empty_share, self.campaign.rule
        own_reports, root = self.report_indices(provider), str(self.ledger.of("round")[0]["root"])
        reports, _, share, peers = self.recorded
        random_order = np.random.default_rng(int(root, 16)).permutation(len(own_reports))
        order = np.lexsort((random_order, -share[own_reports]))
        third = -(-size // 3)
        ends = np.unique(np.concatenate([np.arange(third), len(order) - 1 - np.arange(third)]))
        sampled = ends[(ends >= 0) & (ends < len(order))]
        rest_of_order = np.setdiff1d(np.arange(len(order)), sampled)
        rest_of_order = rest_of_order[np.argsort(random_order[order[rest_of_order]])][: max(0, size - len(sampled))]
        sample = []
        for report in own_reports[order[np.sort(np.concatenate([sampled, rest_of_order]))]]:
            task, answer = reports.tasks[reports.task[report]], self.answer(reports.summaries[report])
            own, peer_count = float(share[report]), int(peers[report])
            sample.append(OwnShare(task, answer, own, peer_count, rule.task_reason(own, empty, peer_count)))
        return sample

    def shares_without_peers(self, provider: str) -> float:
        """Return the sum of a provider's shares on tasks without peers."""
        own_reports = self.report_indices(provider)
        return fsum(self.recorded.share[own_reports][self.recorded.peers[own_reports] == 0])

    def report_indices(self, provider: str) -> Indexes:
        """Return the indices of a provider's reports."""
        reports = self.recorded.reports
        return np.flatnonzero(reports.provider == reports.providers.index(provider))

    def answer(self, summary: Array) -> str:
        """Describe the answer in a report on a task."""
        reduction = self.campaign.request.reduction
        if names := self.labels:
            single = summary.sum() <= 1
            labels = np.flatnonzero(summary)
            return ", ".join(names[k] if single else f"{summary[k]:.0f} × {names[k]}" for k in labels)
        description = reduction.describe(summary) if isinstance(reduction, DescribesSummary) else None
        return "" if description is None else description.value

    def to_html(self, **options: Any) -> str:
        """Return the page as HTML: workers by pay per task, agreement, and disputed tasks."""
        from troth.results.task_page import render

        del options  # options are for campaigns without tasks
        return render(self)


def csv_name(name: str) -> str:
    """Return a name for CSV, unchanged if it is harmless, such as @ann or -7, and escaped if it could be a formula."""
    return name if _SAFE_NAME.fullmatch(name) else escape_formula(name)


def result_of(campaign: Campaign, ledger: Ledger, file: bytes | None = None) -> Result:
    """Return the result of a ledger, with the file of shares for one of tasks."""
    if not has_tasks(ledger):
        return Result(campaign, ledger)
    if file is not None:
        check_file(ledger, file)
    return TaskResult(campaign, ledger, file or b"")


def file_beside(ledger: str | Path, book: Ledger | None = None) -> Path:
    """Return the path of the file of shares: named after the ledger, or else as the ledger names it."""
    path = Path(ledger)
    beside = path.with_name(f"{path.stem}.tasks.parquet")
    if book is None or beside.exists():
        return beside
    name = str(book.of("tasks")[0].get("file", ""))
    if Path(name).name != name:
        raise LedgerError(f"{path.name}: the file of shares must be in the ledger's folder")
    return path.parent / name


def recorded_file(path: str | Path, book: Ledger) -> bytes:
    """Read the file of shares beside a ledger of tasks; raise if it is not the recorded one."""
    file = file_beside(path, book)
    try:
        content = file.read_bytes()
    except OSError as error:
        raise LedgerError(f"{file}: the file of shares cannot be read: {error.strerror}") from None
    check_file(book, content)
    return content
