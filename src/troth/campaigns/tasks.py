"""Tasks settled together: from reports on tasks to one payment per provider, the file of shares, and back.

Every report on a task has the same cap, the price. A provider's payment is the price times the sum of its shares,
rounded down once. The ledger has a line for each provider. Reports and shares are in a Parquet file, whose digest is in
the ledger: `check_tasks` recomputes all of them.

The laws that pay are part of the terms, which the first line of the ledger fixes before any report is read: no report
that is paid enters them. Laws that were learnt from past items name their history; an item that is among these is
refused.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from hashlib import sha256
from io import BytesIO
from math import floor, fsum
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from troth.campaigns.ledger import Ledger, LedgerError
from troth.campaigns.ledger_entries import payment_entry, reader_of, recorded_reports, report_entry, report_root
from troth.campaigns.money import portion
from troth.campaigns.public import Guesses, describe_guesses
from troth.campaigns.rounds import SAME, begin, check_beacon, link_of, now, versions
from troth.campaigns.seed import follows, generator
from troth.campaigns.settle import Payment
from troth.campaigns.terms import beside
from troth.core.contract import HasReduction, combine
from troth.core.errors import DataError, ReportError
from troth.data.own_tasks import split_tasks
from troth.data.public import PUBLIC
from troth.data.request import Request
from troth.data.tasks import TaskReports, read_tasks
from troth.mechanisms.tasks import Tasks, TaskShares

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from troth.campaigns.seed import Secret
    from troth.campaigns.terms import Campaign
    from troth.core.contract import Array
    from troth.data.request import Report


class Settled(NamedTuple):
    """Reports on tasks, everybody's share of each, and the file that has both."""

    reports: TaskReports
    public: TaskReports | None
    shares: TaskShares
    file: bytes


def task_request(campaign: Campaign, provider: str | None = None) -> Request:
    """Return what is asked of a table of tasks; tasks are named where days would be."""
    if not isinstance(campaign.model, HasReduction):
        raise DataError(f"{type(campaign.model).__name__} does not say how to reduce rows, so it cannot settle tasks")
    owner = campaign.provider if provider is None else provider or None
    return Request(
        campaign.model.reduction,
        campaign.columns,
        owner,
        campaign.task,
        campaign.categories,
        campaign.values,
        campaign.missing,
    )


def read_task_reports(campaign: Campaign, data: Any) -> TaskReports:
    """Read reports on tasks; a worker that reports on a task twice is an error unless [limits] rows allows it."""
    return read_tasks(data, task_request(campaign), campaign.rows or 1)


def read_public_tasks(campaign: Campaign, data: Any, what: str = PUBLIC, rows: int | None = None) -> TaskReports:
    """Read what everybody knows about each task, such as the guess of a language model.

    ``what`` it is opens messages; each task has one row, or with ``[limits] rows`` any number unless ``rows`` says.
    """
    most = rows or (None if (campaign.rows or 1) > 1 else 1)
    try:
        public = read_tasks(data, replace(task_request(campaign, ""), values=None), most)
    except DataError as error:
        raise DataError(f"{what}: {error}") from None
    return replace(public, providers=(PUBLIC,))


def public_tasks(campaign: Campaign) -> TaskReports | None:
    """Return what the terms themselves say about tasks, if they do."""
    if campaign.guesses is None:
        return None
    each = np.arange(len(campaign.guesses.tasks))
    return TaskReports(campaign.guesses.tasks, (PUBLIC,), each, np.zeros_like(each), campaign.guesses.summaries)


def describe_public_tasks(campaign: Campaign) -> dict[str, Any]:
    """Read the public data of tasks that a campaign file names, and return them as the table [public]."""
    source: Any = campaign.public_source
    public = read_public_tasks(campaign, beside(campaign, source))
    return describe_guesses(Guesses(public.tasks, public.summaries, source if isinstance(source, str) else "", None))


def arrange(campaign: Campaign, reports: TaskReports, public: TaskReports | None) -> Tasks:
    """Give every provider its law and its group, and every task what everybody knows about it.

    The law of the public guess is that of a provider called "public data" if the model has one, and otherwise the
    population's.
    """
    own = {name: campaign.model_of(name) for name in (*reports.providers, PUBLIC)}
    distinct = list(dict.fromkeys([campaign.model, *own.values()]))
    laws = dict(zip(distinct, combine(distinct), strict=True))
    numbers = {law: number for number, law in enumerate(distinct)}
    labels = [campaign.group_of(name) for name in reports.providers]
    places: dict[Any, int] = {}
    known: Array | None = None
    if public is not None:
        model: Any = laws[own[PUBLIC]]
        statistics = np.asarray(model.from_summary(public.summaries), dtype=np.float64)
        place_of = {name: place for place, name in enumerate(reports.tasks)}
        at = np.array([place_of.get(public.tasks[task], -1) for task in public.task], dtype=np.intp)
        known = np.zeros((len(reports.tasks), statistics.shape[1]))
        known[at[at >= 0]] = statistics[at >= 0]
    return Tasks(
        reports.task,
        reports.provider,
        reports.summaries,
        tuple(laws.values()),
        np.array([numbers[own[name]] for name in reports.providers], dtype=np.intp),
        np.array([places.setdefault(label, len(places)) for label in labels], dtype=np.intp),
        known,
    )


def settle_tasks(campaign: Campaign, reports: TaskReports, public: TaskReports | None, seed: str | None) -> TaskShares:
    """Return everybody's share of every task: a pure function of terms, reports and seed."""
    tasks = arrange(campaign, reports, public)
    try:
        shares = campaign.rule_for(campaign.model, len(reports.providers)).evaluate_tasks(
            tasks, None if seed is None else generator(seed)
        )
    except ReportError as error:
        provider, task = reports.provider[error.provider], reports.task[error.provider]
        where = f"provider {reports.providers[provider]!r}, task {reports.tasks[task]!r}"
        raise DataError(f"{where}: the label cannot occur under any class of the model: refuse it") from None
    if not ((shares.share >= 0) & (shares.share <= 1)).all():
        raise DataError("a share is not between 0 and 1")
    return shares


def price_of(campaign: Campaign, reports: int) -> Fraction:
    """Return the most for one report, in minor units, exactly: the price, or an even part of the budget."""
    if campaign.price is None:
        return Fraction(campaign.budget, reports)
    if campaign.budget and campaign.price * reports > campaign.budget:
        most = campaign.show(floor(campaign.price * reports))
        raise DataError(
            f"[campaign] budget: {reports:,} reports at this price may cost {most}, more than the budget of "
            f"{campaign.show(campaign.budget)}"
        )
    return campaign.price


def payments_of(campaign: Campaign, reports: TaskReports, shares: TaskShares) -> list[Payment]:
    """Return one payment per provider: the price times the sum of its shares, rounded down once."""
    price = price_of(campaign, len(reports))
    order = np.argsort(reports.provider, kind="stable")
    ends = np.searchsorted(reports.provider[order], np.arange(len(reports.providers) + 1))
    payments = []
    for number, name in enumerate(reports.providers):
        mine = order[ends[number] : ends[number + 1]]
        total = fsum(shares.share[mine])  # the same in any order
        lonely = int((shares.peers[mine] == 0).sum())
        finite = shares.log_pmi[mine][np.isfinite(shares.log_pmi[mine])]
        payments.append(
            Payment(
                provider=name,
                rows=len(mine),
                log_pmi=fsum(finite) / len(finite) if len(finite) else None,
                score=None,
                low=None,
                high=None,
                terms={"shares": total, "without_peers": float(lonely)},
                share=total / len(mine),
                empty_share=fsum(shares.base[mine]) / len(mine),
                cap=floor(price * len(mine)),
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
) -> Settled:
    """Settle all tasks and write the ledger; the returned file belongs beside it.

    ``receipts`` are everybody's reports as they were confirmed, each with its nonce and the digest of what it says on
    each task: the ledger has them then, and the seed is made of the root over them.
    """
    campaign.check_tasks_providers(reports.providers)
    campaign.check_task_counts(reports.providers, np.bincount(reports.provider).tolist())
    _refuse_past_tasks(campaign, reports)
    if ledger.entries:
        raise DataError("the ledger has payments in it already; settle further tasks with a ledger of their own")
    begin(campaign, ledger)
    check_beacon(campaign, beacon)
    stamp = {"last": True, "versions": versions(), "time": now()}
    link = link_of(campaign, secret, 1)
    return _write(campaign, ledger, reports, public, link, beacon, stamp, file_name, receipts)


def _write(
    campaign: Campaign,
    ledger: Ledger,
    reports: TaskReports,
    public: TaskReports | None,
    link: str | None,
    beacon: str | None,
    stamp: dict[str, Any],
    file_name: str,
    receipts: Sequence[Report],
) -> Settled:
    root = reports_digest(reports, public)
    if receipts:
        _check_receipts(reports, receipts)
        root = report_root(receipts)
    for receipt in receipts:
        ledger.append(report_entry(receipt))
    seal = reader_of(ledger).seal(link, [root], beacon)
    shares = settle_tasks(campaign, reports, public, seal["seed"])
    payments = payments_of(campaign, reports, shares)
    file = write_file(reports, public, shares)
    most = floor(price_of(campaign, len(reports)) * len(reports))
    counts = {"tasks": len(reports.tasks), "reports": len(reports), "providers": len(reports.providers)}
    if reports.dropped:
        counts["dropped"] = reports.dropped
    digest = f"sha256:{sha256(file).hexdigest()}"
    place = {"day": None, "number": 1}
    ledger.append({"entry": "tasks", "file": file_name, "digest": digest, **counts})
    ledger.append({"entry": "round", **place, "budget": campaign.text(most), **seal, "next": None, **stamp})
    for payment in payments:
        ledger.append(payment_entry(campaign, None, payment))
    total = sum(payment.payment for payment in payments)
    ledger.append({"entry": "close", **place, "paid": campaign.text(total), "left": campaign.text(most - total)})
    return Settled(reports, public, shares, file)


def _check_receipts(reports: TaskReports, receipts: Sequence[Report]) -> None:
    """Raise unless what is settled is what everybody confirmed."""
    said = {name: (len(own.names), own.digest) for name, own in split_tasks(reports)}
    confirmed = {receipt.provider: (receipt.rows, receipt.tasks) for receipt in receipts}
    for name in sorted(said.keys() | confirmed.keys()):
        if said.get(name) != confirmed.get(name):
            raise DataError(f"provider {name!r}: the reports on tasks are not those that were confirmed")
    nonces = [receipt.nonce for receipt in receipts if receipt.nonce is not None]
    if len(set(nonces)) < len(nonces):
        raise DataError("two reports have the same nonce, so that one proof would serve both")


def check_tasks(campaign: Campaign, ledger: Ledger, file: bytes, place: str = "ledger") -> Settled:
    """Recompute every share and every payment of a ledger of tasks from its file, or raise at what differs."""
    entry, head = _only(ledger, "tasks", place), _only(ledger, "round", place)
    if f"sha256:{sha256(file).hexdigest()}" != entry["digest"]:
        raise LedgerError(f"{place}: the file of shares is not the one that was recorded; its digest differs")
    try:
        reports, public, written = read_file(file, campaign)
    except (LookupError, TypeError, ValueError) as error:
        raise LedgerError(f"{place}: the file of shares has not the columns that it should have: {error}") from None
    if (declared := public_tasks(campaign)) is not None and not _same_tasks(declared, public):
        raise LedgerError(f"{place}: the public data of the file of shares are not those of the terms")
    _check_sums(campaign, reports, place)
    _check_payees(ledger, reports, place)
    campaign.check_tasks_providers(reports.providers)
    campaign.check_task_counts(reports.providers, np.bincount(reports.provider).tolist())
    link, beacon = reader_of(ledger, place).link(head), head.get("beacon")
    check_beacon(campaign, beacon)
    if (link is not None) != campaign.draws:
        raise LedgerError(f"{place}: the round {'has a seed but draws nothing' if link else 'has no seed'}")
    if link is not None and campaign.commitment is not None and not follows(link, campaign.commitment):
        raise LedgerError(f"{place}: the seed is not made of what was committed to")
    reports = replace(reports, dropped=entry.get("dropped", 0))
    fresh = Ledger([ledger.entries[0]])
    stamp = {key: head.get(key) for key in ("last", "versions", "time")}
    try:
        receipts = recorded_reports(ledger)
        settled = _write(campaign, fresh, reports, public, link, beacon, stamp, entry["file"], receipts)
    except (DataError, LookupError, TypeError, ValueError) as error:
        raise LedgerError(f"{place}: the tasks cannot be recomputed: {error}") from None
    same = head.get("versions") == versions()
    differ = np.abs(settled.shares.share - written) > (0.0 if same else SAME)
    if differ.any():
        first = int(np.argmax(differ))
        who, what = reports.providers[reports.provider[first]], reports.tasks[reports.task[first]]
        raise LedgerError(
            f"{place}: the share of {who!r} on task {what!r} is {float(written[first])!r}, and recomputed it is "
            f"{float(settled.shares.share[first])!r}"
        )
    for number, (mine, theirs) in enumerate(zip(fresh.entries, ledger.entries, strict=False), 1):
        if mine.get("entry") == "tasks" and (not same or _same_content(settled.file, file)):
            mine = {**mine, "digest": theirs.get("digest")} if same else theirs
        if mine != theirs:
            what = next(key for key in {**mine, **theirs} if mine.get(key) != theirs.get(key))
            who = f" of {theirs['provider']!r}" if "provider" in theirs else ""
            raise LedgerError(
                f"{place}, line {number}: {theirs.get('entry')}{who}: {what} is {theirs.get(what)!r}, and recomputed "
                f"it is {mine.get(what)!r}"
            )
    if len(fresh.entries) != len(ledger.entries):
        raise LedgerError(f"{place}: there are {len(ledger.entries)} lines, and {len(fresh.entries)} are accounted for")
    return settled


def _check_sums(campaign: Campaign, reports: TaskReports, place: str) -> None:
    """Raise unless sums are finite, and those of labels how often each was given."""
    sums, reduction = reports.summaries, campaign.request.reduction
    wrong = ~np.isfinite(sums)
    if reduction.labels is not None:
        wrong |= (sums < 0) | (sums != np.floor(sums))
    if wrong.any():
        first = int(np.argmax(wrong.any(axis=1)))
        who, what = reports.providers[reports.provider[first]], reports.tasks[reports.task[first]]
        raise LedgerError(
            f"{place}: the file of shares has {float(sums[first][wrong[first]][0])!r} in the report of {who!r} on task "
            f"{what!r}, which no rows add up to"
        )


def _check_payees(ledger: Ledger, reports: TaskReports, place: str) -> None:
    """Raise unless everybody who reported has one payment line, and nobody else has."""
    paid, reported = Counter(entry.get("provider") for entry in ledger.of("payment")), set(reports.providers)
    for name in sorted(reported | set(map(str, paid))):
        if paid[name] != (name in reported):
            what = f"reported and has {paid[name]} payment lines" if name in reported else "is paid without a report"
            raise LedgerError(f"{place}: {name!r} {what}; there must be one line for everybody who reported")


def _same_content(one: bytes, other: bytes) -> bool:
    """Whether two files hold the same table: other versions of the library write other bytes."""
    return bool(read_shares(one).equals(read_shares(other)))


def _same_tasks(one: TaskReports, other: TaskReports | None) -> bool:
    return other is not None and one.tasks == other.tasks and np.array_equal(one.summaries, other.summaries)


def write_file(reports: TaskReports, public: TaskReports | None, shares: TaskShares) -> bytes:
    """Return reports, public data and shares as Parquet: sums of a report's rows, its share, log PMI and peers."""
    import pyarrow.parquet as pq

    table = _columns(reports, shares)
    if public is not None:
        table = pa.concat_tables([table, _columns(public, None)])
    buffer = BytesIO()
    pq.write_table(table, buffer, compression="zstd")
    return buffer.getvalue()


def read_file(file: bytes, campaign: Campaign) -> tuple[TaskReports, TaskReports | None, Array]:
    """Read reports, public data and shares back from the file."""
    table = read_shares(file)
    is_public = pc.equal(table.column("provider"), PUBLIC)
    reports = _reports_of(table.filter(pc.invert(is_public)), campaign)
    rest = table.filter(is_public)
    written = table.filter(pc.invert(is_public)).column("share").to_numpy()
    return reports, _reports_of(rest, campaign) if rest.num_rows else None, written


def read_shares(file: bytes) -> Any:
    """Return the table of a file of shares."""
    import pyarrow.parquet as pq

    try:
        # by this thread alone: one that still holds Python's bytes at the end of the process would abort it
        return pq.read_table(pa.BufferReader(file), use_threads=False, pre_buffer=False)
    except pa.ArrowException as error:
        raise LedgerError(f"the file of shares cannot be read: {error}") from None


def reports_digest(reports: TaskReports, public: TaskReports | None) -> str:
    """Return a digest of what was reported, by whom and on which task, and of what everybody knows."""
    total = sha256()
    for part in (reports, public):
        if part is not None:
            for names in (part.tasks, part.providers):
                total.update("\n".join(names).encode() + b"\n\n")
            for array in (part.task.astype("<i8"), part.provider.astype("<i8"), part.summaries.astype("<f8")):
                total.update(np.ascontiguousarray(array).tobytes())
    return total.hexdigest()


def _columns(reports: TaskReports, shares: TaskShares | None) -> Any:
    nothing = pa.nulls(len(reports), pa.float64())
    columns = {
        "task": pa.array(reports.tasks, pa.string()).take(pa.array(reports.task)),
        "provider": pa.array(reports.providers, pa.string()).take(pa.array(reports.provider)),
    }
    for entry in range(reports.summaries.shape[1]):
        columns[f"sum_{entry}"] = pa.array(reports.summaries[:, entry])
    columns["share"] = nothing if shares is None else pa.array(shares.share)
    columns["log_pmi"] = nothing if shares is None else pa.array(shares.log_pmi)
    columns["peers"] = pa.nulls(len(reports), pa.int64()) if shares is None else pa.array(shares.peers)
    return pa.table(columns)


def _reports_of(table: Any, campaign: Campaign) -> TaskReports:
    names = []
    for column in ("task", "provider"):
        encoded = table.column(column).combine_chunks().dictionary_encode()
        spelled = encoded.dictionary.to_pylist()
        order = sorted(spelled)
        place = {name: number for number, name in enumerate(order)}
        places = np.array([place[name] for name in spelled], dtype=np.intp)
        names.append((tuple(order), places[encoded.indices.to_numpy()]))
    (tasks, task), (providers, provider) = names
    reduction: Any = campaign.model.reduction  # type: ignore[attr-defined]
    summaries = np.stack([table.column(f"sum_{entry}").to_numpy() for entry in range(reduction.width)], axis=1)
    keys = task.astype(np.int64) * len(providers) + provider
    if not (np.diff(keys) > 0).all():
        raise LedgerError("the file of shares is not in the order of tasks and providers")
    return TaskReports(tasks, providers, task, provider, summaries)


def _refuse_past_tasks(campaign: Campaign, reports: TaskReports) -> None:
    """Refuse items that the laws were learnt from: a worker's own label would influence the law that pays it."""
    if campaign.history_source is None:
        return
    named = campaign.history or {}
    request = replace(
        task_request(campaign, named.get("provider") or campaign.provider), day=named.get("day") or campaign.task
    )
    if both := same_tasks(reports.tasks, read_tasks(beside(campaign, campaign.history_source), request, None).tasks):
        raise DataError(
            f"task {both[0]!r} is among the past tasks that the laws were learnt from, so that answers being paid "
            f"would influence the laws that pay them ({len(both):,} such tasks): remove them"
        )


def same_tasks(names: Iterable[str], others: Iterable[str]) -> list[str]:
    """Return the tasks that are among others, numbers however they are spelled: tables may write 7 as 7.0."""
    there = set(map(_as_number, others))
    return [name for name in names if _as_number(name) in there]


def _as_number(name: str) -> str | Decimal:
    try:
        number = Decimal(name)
    except InvalidOperation:
        return name
    return number if number.is_finite() else name


def _only(ledger: Ledger, kind: str, place: str) -> dict[str, Any]:
    entries = ledger.of(kind)
    if len(entries) != 1:
        raise LedgerError(f"{place}: there must be one entry {kind!r}, not {len(entries)}")
    return entries[0]


def has_tasks(ledger: Ledger) -> bool:
    """Say whether a ledger is one of tasks."""
    return bool(ledger.of("tasks"))
