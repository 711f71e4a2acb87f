"""Close a round and pay what has become payable: exactly once, whatever fails.

Closing and paying are two transactions. The computation runs between them, so that no other request waits for it. The
first transaction closes the round to reports; payments are then a function of the database's contents. The second adds
the new lines to the ledger, unless another process has done so meanwhile. If a process dies between the two, the round
stays closed, and any process can settle it.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Row, delete, select, update

from troth.campaigns.records.ledger import Ledger
from troth.campaigns.rounds import reject_unpayable_days
from troth.campaigns.terms import Campaign
from troth.core.errors import TrothError
from troth.data.request import Report
from troth.results.result import Result
from troth.results.tasks import result_of
from troth.service import heads, ledgers, upload_queue
from troth.service.accounts import User
from troth.service.campaigns import find_campaign, owned, secret_of, terms_of
from troth.service.errors import ConflictError, UnavailableError
from troth.service.limited_payments import BOUNDS, ExcessiveWorkError, find_suspect, judge, pay_rounds
from troth.service.receipts import check_receipts
from troth.service.rounds import confirmed_rows, find_round, list_rounds, received_reports, withdraw_revoked
from troth.service.schema import campaigns, reports, rounds
from troth.service.store import Store, after, future_deadline, now

logger = logging.getLogger("troth.service")
_locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
MAX_ATTEMPTS, _CLOSING_THREADS = 3, 4
LEASE, _TIMEOUT = 1.5 * BOUNDS.seconds + 60, 30.0
"""Seconds after which an attempt on another machine counts as failed, and that a caller waits for another process."""


def close_round(
    store: Store,
    user: User | None,
    campaign: str,
    number: int,
    *,
    final: bool = False,
    beacon: str | None = None,
    anyway: bool = False,
) -> bool:
    """Close a round, pay what has become payable, and return whether this call closed the round.

    Without a ``user``, the round is closed only if its deadline has passed. ``final`` marks the last day, which is then
    paid too, by its rule. The terms' ``beacon`` is published after the round is closed: a closed round that waits for
    it is paid once it is given, and it cannot change afterwards. ``anyway`` pays even if the model does not fit,
    including a closed round that was not paid for that reason.
    """
    with store.write() as tx:
        if user is not None:
            owned(tx, user, campaign)
        row = find_round(tx, campaign, number, lock="exclusive")
        due = row.deadline is not None and row.deadline <= now()  # it may have been reopened meanwhile
        closing = bool(row.state == "open" and (user is not None or due))
        values: dict[str, Any] = {}
        if closing:
            last = final or terms_of(find_campaign(tx, campaign)).days == number
            values |= {"state": "closed", "closed": now(), "final": last}
        elif beacon is not None and row.state == "closed" and row.beacon is None:
            values |= {"beacon": beacon}
        if anyway and user is not None and (closing or row.state == "closed"):
            values |= {"anyway": True}
        if values:
            values |= {"problem": None, "settled": None, "attempts": 0}
            tx.execute(update(rounds).where(rounds.c.id == row.id).values(**values))
    settle(store, campaign)
    return closing


def dry_run(
    store: Store, user: User, campaign: str, number: int, *, final: bool = False
) -> tuple[Result, dict[str, Any] | None]:
    """Return what closing the round now would pay, and the verdict on it.

    It uses a separate seed: the round's stays secret.
    """
    with store.read() as tx:
        terms = terms_of(owned(tx, user, campaign))
        row = find_round(tx, campaign, number)
        if row.state == "paid":
            raise ConflictError("the round is already paid")
        earlier = [other for other in list_rounds(tx, campaign) if other.number < number and other.state == "closed"]
        confirmed = confirmed_rows(tx, campaign, [round_row.id for round_row in (*earlier, row)])
        received = received_reports(tx, confirmed)
    reject_unpayable_days(terms, received)
    mechanism = {key: value for key, value in terms.plain.get("mechanism", {}).items() if key != "commitment"}
    uncommitted, ledger = Campaign.from_dict({**terms.plain, "mechanism": mechanism}), Ledger()
    file = pay_rounds(uncommitted, received, ledger, final=final or terms.days == number).file
    verdict = judge(terms, ledger, file) if ledger.of("round") else None
    return result_of(terms, ledger, file), verdict


def finish(store: Store, user: User, campaign: str) -> None:
    """End a daily campaign: its last day is paid by its rule."""
    with store.write() as tx:
        campaign_row = owned(tx, user, campaign, lock=True)
        rows = list_rounds(tx, campaign)
        if not rows or any(row.state == "open" for row in rows):
            raise ConflictError("close the open round first" if rows else "no round has been opened yet")
        waiting = [row.id for row in rows if row.state == "closed"]
        if waiting:
            tx.execute(update(rounds).where(rounds.c.id == waiting[-1]).values(final=True, settled=None))
        elif campaign_row.state != "ended":
            _end(tx, campaign)
    settle(store, campaign)


def reopen(tx: Connection, user: User, campaign: str, number: int, deadline: str | None = None) -> None:
    """Reopen a round that was closed and could not be paid, so that reports can be replaced."""
    owned(tx, user, campaign, lock=True)
    row = find_round(tx, campaign, number, lock="exclusive")
    if row.state != "closed" or row.problem is None:
        raise ConflictError("only a round that was closed and could not be paid can be reopened")
    deadline = future_deadline(deadline)
    if _in_ledger(tx, campaign, row):
        raise ConflictError("this day's reports were used to pay the previous day, so they cannot change")
    values: dict[str, Any] = {"state": "open", "closed": None, "settled": None, "problem": None, "final": False}
    values |= {"beacon": None, "attempts": 0}
    tx.execute(update(rounds).where(rounds.c.id == row.id).values(deadline=deadline, **values))
    withdraw_revoked(tx, row.id)


def set_aside(store: Store, user: User, campaign: str, number: int) -> None:
    """End a round that could not be paid: nobody is paid, and its reports no longer count.

    A last day whose reports were used to pay the day before ends the campaign.
    """
    with store.write() as tx:
        campaign_row = owned(tx, user, campaign, lock=True)
        row = find_round(tx, campaign, number, lock="exclusive")
        if row.state == "paid" and row.head is None:
            return  # it has ended without payments already
        if row.state != "closed" or row.problem is None:
            raise ConflictError("only a round that was closed and could not be paid can be set aside")
        if _in_ledger(tx, campaign, row):
            reason = "this day's reports were used to pay the previous day"
            if any(other.number > number and other.state != "paid" for other in list_rounds(tx, campaign)):
                raise ConflictError(f"{reason}; set the day after it aside instead")
            if not row.final:
                raise ConflictError(f"{reason}; close it again to retry, or finish the campaign and set it aside then")
        tx.execute(delete(reports).where(reports.c.round == row.id))
        values: dict[str, Any] = {"state": "paid", "paid": now(), "settled": now(), "amount": 0, "problem": None}
        values |= {"published": now()} if campaign_row.publish_at_once else {}
        tx.execute(update(rounds).where(rounds.c.id == row.id).values(**values))
        rows = list_rounds(tx, campaign)
        last = not terms_of(campaign_row).daily or any(other.final for other in rows)
        if last and all(other.state == "paid" for other in rows):
            _end(tx, campaign)
    settle(store, campaign)


def _end(tx: Connection, campaign: str) -> None:
    tx.execute(update(campaigns).where(campaigns.c.id == campaign).values(state="ended"))


def _in_ledger(tx: Connection, campaign: str, row: Row[Any]) -> bool:
    """Return whether a round's reports are in the ledger."""
    return any(entry["day"] == row.day for entry in ledgers.load_ledger(tx, campaign).of("report"))


def settle(store: Store, campaign: str) -> None:
    """Pay what has become payable; concurrent calls pay once."""
    with _locks[campaign]:
        deadline = time.monotonic() + _TIMEOUT
        while not _settled(store, campaign) and time.monotonic() < deadline:
            pass


def _settled(store: Store, campaign: str) -> bool:
    """Try once to pay; return whether nothing more can be done now."""
    due = _load_due(store, campaign)
    if due is None:
        return True
    attempts = _count_attempt(store, due.rounds) if due.received else 0
    if attempts is None:
        time.sleep(0.05)
        return False
    outcome = _compute(store, due, attempts)
    return outcome is None or _record(store, due, outcome)


@dataclass(frozen=True)
class _Due:
    """Closed rounds to be paid, and what their payments depend on."""

    campaign: Row[Any]
    terms: Campaign
    rounds: list[Row[Any]]
    confirmed: list[Row[Any]]
    received: list[Report]
    ledger: Ledger
    known_lines: int
    final: bool


@dataclass
class _Outcome:
    """The outcome of an attempt to pay; the payments themselves are in the ledger."""

    paid_days: list[Any] = field(default_factory=list)
    file: bytes | None = None
    verdict: dict[str, Any] | None = None
    problem: str | None = None


def _load_due(store: Store, campaign: str) -> _Due | None:
    """Return what to pay; None if there is nothing, or if reports that arrived in time are still to be read."""
    with store.read() as tx:
        campaign_row = find_campaign(tx, campaign)
        rows, waiting = list_rounds(tx, campaign), _waiting(tx, campaign)
        if not waiting or upload_queue.pending(tx, [row.id for row in waiting]):
            return None
        confirmed = confirmed_rows(tx, campaign, [row.id for row in waiting])
        received = received_reports(tx, confirmed)
        ledger = ledgers.load_ledger(tx, campaign)
    final = any(row.final for row in rows) and not any(row.state == "open" for row in rows)
    return _Due(campaign_row, terms_of(campaign_row), waiting, confirmed, received, ledger, len(ledger.lines), final)


def _compute(store: Store, due: _Due, attempts: int) -> _Outcome | None:
    """Add payments to the ledger in memory, and judge them; return None to try again later."""
    campaign, terms, ledger, outcome = due.campaign.id, due.terms, due.ledger, _Outcome()
    beacon = next((row.beacon for row in reversed(due.rounds) if row.beacon is not None), None)
    options: dict[str, Any] = {"final": due.final, "beacon": beacon}
    try:
        heads.check_continues(store.keys, campaign, ledger)
        check_receipts(store.keys, terms, due.confirmed)
        reject_unpayable_days(terms, due.received)
        options["secret"] = secret_of(store.keys, due.campaign)
        if attempts > MAX_ATTEMPTS:
            raise ExcessiveWorkError("the process that tried was killed")
        if due.received:
            outcome.paid_days, outcome.file = pay_rounds(terms, due.received, ledger, **options)
            outcome.verdict = judge(terms, ledger, outcome.file) if outcome.paid_days else None
        verdict, anyway = outcome.verdict, any(row.anyway for row in due.rounds)
        if verdict is not None and verdict["stops"] and not anyway:
            outcome.problem, outcome.paid_days = f"the model does not fit these reports: {verdict['remedy']}", []
    except UnavailableError:
        logger.warning("payments cannot be computed now; the service tries again")
        with store.write() as tx:  # this was not an attempt
            claimed = rounds.c.id.in_([row.id for row in due.rounds if attempts]) & (rounds.c.attempts > 0)
            tx.execute(update(rounds).where(claimed).values(attempts=rounds.c.attempts - 1))
        return None
    except ExcessiveWorkError as error:
        if attempts < MAX_ATTEMPTS:
            logger.warning("payments exceeded their limits; the service tries again")
            return None
        suspect = find_suspect(terms, due.received, ledger, options)
        remedy = "reopen the round" if suspect is None else "revoke that provider and reopen the round"
        problem = ExcessiveWorkError(error.reason, suspect)
        outcome.problem = (
            f"{problem}. The service stops after {MAX_ATTEMPTS} attempts; {remedy}, or set the round aside"
        )
    except TrothError as error:
        outcome.problem = str(error)
    except Exception:
        logger.exception("a round could not be paid")
        outcome.problem = (
            "something went wrong while the payments were computed; it was logged. Close the round again to retry"
        )
    return outcome


def _record(store: Store, due: _Due, outcome: _Outcome) -> bool:
    """Store an outcome in one transaction, unless its inputs have changed; return False to try again immediately."""
    campaign, ids = due.campaign.id, [row.id for row in due.rounds]
    amounts = {
        paid_round.day: sum(payment.payment for payment in paid_round.payments)
        for paid_round in Result(due.terms, due.ledger).rounds
    }
    try:
        with store.write() as tx:
            tx.execute(select(campaigns.c.id).where(campaigns.c.id == campaign).with_for_update(key_share=True))
            tx.execute(select(rounds.c.id).where(rounds.c.id.in_(ids)).with_for_update(key_share=True)).all()
            if _payment_inputs(_waiting(tx, campaign)) != _payment_inputs(due.rounds):
                return False  # a round was reopened or closed meanwhile
            if upload_queue.pending(tx, ids):
                return True  # another upload has arrived in time
            if _receipts(confirmed_rows(tx, campaign, ids)) != _receipts(due.confirmed):
                return False  # a report that was read late was confirmed meanwhile
            if outcome.problem is None:
                try:  # before the payments become visible
                    heads.record_seeds(store.keys, due.terms, due.ledger)
                except TrothError as error:
                    outcome.problem = str(error)
            if outcome.problem is None:
                ledgers.add_lines(tx, campaign, due.ledger, due.known_lines, outcome.file)
            elif ledgers.height(tx, campaign) != due.known_lines:
                return False
            for row in due.rounds:
                still_closed = (rounds.c.id == row.id) & (rounds.c.state == "closed")
                values = _values(due, outcome, row, amounts.get(row.day, 0))
                tx.execute(update(rounds).where(still_closed).values(**values))
            last = not due.terms.daily or due.final or any(entry["last"] for entry in due.ledger.of("round"))
            if outcome.problem is None and last:
                _end(tx, campaign)
    except ConflictError:
        return False
    if outcome.problem is None:
        heads.sign_head(store.keys, campaign, due.ledger)
    return True


def _values(due: _Due, outcome: _Outcome, row: Row[Any], amount: int) -> dict[str, Any]:
    """Return a round's new columns: paid, as a round without reports always is, or closed with the problem."""
    empty, paid = row.day not in {report.day for report in due.received}, row.day in outcome.paid_days
    values: dict[str, Any] = {"settled": now(), "problem": None if empty else outcome.problem, "attempts": 0}
    values |= {"verdict": None if empty else outcome.verdict, "anyway": row.anyway and paid}
    if empty or (outcome.problem is None and paid):
        values |= {"state": "paid", "paid": now(), "amount": amount, "head": None if empty else due.ledger.head}
        values |= {"published": now()} if due.campaign.publish_at_once else {}
    return values


def _count_attempt(store: Store, waiting: list[Row[Any]]) -> int | None:
    """Count an attempt before it is made, and return the count; None while another process makes an attempt."""
    claimed = rounds.c.id.in_([row.id for row in waiting])
    with store.write() as tx:
        rows = tx.execute(select(rounds).where(claimed).with_for_update()).all()
        if any(row.attempts and _is_attempted_elsewhere(row) for row in rows):
            return None
        process = os.getpid()
        made_by = {
            "attempt_process": process,
            "attempt_started": _start_time(process),
            "attempt_host": socket.gethostname(),
        }
        tx.execute(update(rounds).where(claimed).values(attempts=rounds.c.attempts + 1, attempted=now(), **made_by))
        return 1 + max(int(row.attempts) for row in rows)


def _is_attempted_elsewhere(row: Row[Any]) -> bool:
    """Return whether another process may still be making the last attempt to pay a round."""
    if row.attempted is None:
        return False
    if row.attempt_host != socket.gethostname():
        return bool(row.attempted > after(seconds=-LEASE))
    process = int(row.attempt_process)
    return process != os.getpid() and str(row.attempt_started) == _start_time(process) != ""


def _start_time(pid: int) -> str:
    """Return when a process started, in clock ticks since boot, or an empty string if it has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return ""


def _waiting(tx: Connection, campaign: str) -> list[Row[Any]]:
    """Return closed rounds to be paid. Days are paid in order, so those after a reopened day wait for it."""
    rows = list_rounds(tx, campaign)
    first_open = next((row.number for row in rows if row.state == "open"), len(rows) + 1)
    return [row for row in rows if row.state == "closed" and row.number < first_open]


def _payment_inputs(waiting: list[Row[Any]]) -> list[tuple[Any, ...]]:
    """Return what payments depend on besides reports."""
    return [(row.id, row.closed, row.final, row.beacon, row.anyway) for row in waiting]


def _receipts(confirmed: list[Row[Any]]) -> list[tuple[Any, ...]]:
    """Return what identifies confirmed reports."""
    return [(row.id, row.receipt) for row in confirmed]


def close_due(store: Store) -> int:
    """Close rounds whose deadlines have passed, settle those that a killed process left, and return their number."""
    with store.read() as tx:
        late = (rounds.c.state == "open") & (rounds.c.deadline <= now())
        unsettled = (rounds.c.state == "closed") & rounds.c.settled.is_(None) & (rounds.c.closed < after(seconds=-5))
        due = tx.execute(select(rounds).where(late | unsettled)).all()
    with ThreadPoolExecutor(_CLOSING_THREADS) as pool:  # rounds that failed before come last
        list(pool.map(lambda row: _close_or_settle(store, row), sorted(due, key=lambda row: row.attempts)))
    return len(due)


def _close_or_settle(store: Store, row: Row[Any]) -> None:
    try:
        if row.state == "open":
            close_round(store, None, row.campaign, row.number)
        else:
            settle(store, row.campaign)
    except Exception:  # one campaign's failure does not hold up the others
        logger.exception("a round could not be closed at its deadline; the service tries again")
