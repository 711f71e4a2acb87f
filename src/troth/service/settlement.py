"""Close a round and pay what has become payable: once, whoever asks and whatever is killed.

Closing and paying are two transactions with the computation between them, so that nobody waits for it. The first ends
the round to reports; what is paid is then a function of what the database has. The second adds the ledger's new lines
if nobody else has meanwhile. A process that dies between the two leaves a closed round that anybody can settle.
"""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from sqlalchemy import select, update

from troth.campaigns.rounds import pay_rounds, refuse_lonely
from troth.core.errors import TrothError
from troth.results.result import Result
from troth.service import heads, ledgers
from troth.service.campaigns import owned, secret_of, terms_of
from troth.service.errors import ConflictError, InvalidError
from troth.service.receipts import check_receipts
from troth.service.rounds import confirmed_reports, confirmed_rows, find_round, list_rounds, read_day
from troth.service.schema import campaigns, rounds
from troth.service.store import after, now

if TYPE_CHECKING:
    from sqlalchemy import Connection, Row

    from troth.service.accounts import User
    from troth.service.store import Store

logger = logging.getLogger("troth.service")
_turns: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)


def close_round(
    store: Store, user: User | None, campaign: str, number: int, *, final: bool = False, beacon: str | None = None
) -> bool:
    """Close a round, pay what has become payable, and return whether this call closed it.

    Parameters
    ----------
    user
        The analyst, or None for the clock.
    final
        Say that no day follows: the last one is then paid too, by its rule.
    beacon
        The value of the public beacon that the terms name, published after the round was closed: a closed round that
        waits for it is paid with it. It is fixed once it was given.
    """
    with store.write() as tx:
        if user is not None:
            owned(tx, user, campaign)
        row = find_round(tx, campaign, number, lock="alone")
        due = row.deadline is not None and row.deadline <= now()  # it may have been reopened meanwhile
        closing = bool(row.state == "open" and (user is not None or due))
        if closing:
            campaign_row = tx.execute(select(campaigns).where(campaigns.c.id == campaign)).one()
            last = final or terms_of(campaign_row).days == number
            values = {"state": "closed", "closed": now(), "final": last, "problem": None, "settled": None}
            tx.execute(update(rounds).where(rounds.c.id == row.id).values(**values))
        if beacon is not None and not closing and row.state == "closed" and row.beacon is None:
            values = {"beacon": beacon, "problem": None, "settled": None}
            tx.execute(update(rounds).where(rounds.c.id == row.id).values(**values))
    settle(store, campaign)
    return closing


def finish(store: Store, user: User, campaign: str) -> None:
    """End a daily campaign: its last day is paid by its rule."""
    with store.write() as tx:
        campaign_row = owned(tx, user, campaign, lock=True)
        rows = list_rounds(tx, campaign)
        if not rows or any(row.state == "open" for row in rows):
            raise ConflictError("close the open round first" if rows else "no round was opened yet")
        waiting = [row.id for row in rows if row.state == "closed"]
        if waiting:
            tx.execute(update(rounds).where(rounds.c.id == waiting[-1]).values(final=True, settled=None))
        elif campaign_row.state != "ended":
            tx.execute(update(campaigns).where(campaigns.c.id == campaign).values(state="ended"))
    settle(store, campaign)


def reopen(tx: Connection, user: User, campaign: str, number: int, deadline: str | None = None) -> None:
    """Reopen a round that was closed and could not be paid, so that reports can be replaced."""
    owned(tx, user, campaign, lock=True)
    row = find_round(tx, campaign, number, lock="alone")
    if row.state != "closed" or row.problem is None:
        raise ConflictError("only a round that was closed and could not be paid can be reopened")
    if deadline is not None and deadline <= now():
        raise InvalidError("deadline: must lie in the future")
    day = read_day(row.day)
    if any(entry["day"] == day for entry in ledgers.load_ledger(tx, campaign).of("report")):
        raise ConflictError("its reports were used to pay the day before and cannot change")
    values: dict[str, Any] = {"state": "open", "closed": None, "settled": None, "problem": None, "final": False}
    values |= {"beacon": None}
    tx.execute(update(rounds).where(rounds.c.id == row.id).values(deadline=deadline, **values))


def settle(store: Store, campaign: str) -> None:
    """Pay what has become payable; two calls at once pay once."""
    with _turns[campaign]:
        while not _settled(store, campaign):
            pass


def _settled(store: Store, campaign: str) -> bool:
    with store.read() as tx:
        campaign_row = tx.execute(select(campaigns).where(campaigns.c.id == campaign)).one()
        rows, waiting = list_rounds(tx, campaign), _waiting(tx, campaign)
        if not waiting:
            return True
        reports = confirmed_reports(tx, campaign, [row.id for row in waiting])
        signed = confirmed_rows(tx, campaign, [row.id for row in waiting])
        ledger = ledgers.load_ledger(tx, campaign)
    terms, known_lines, problem = terms_of(campaign_row), len(ledger.lines), None
    final = any(row.final for row in rows) and not any(row.state == "open" for row in rows)
    reported_days = {report.day for report in reports}
    empty = [row for row in waiting if read_day(row.day) not in reported_days]
    paid_days: list[Any] = []
    try:
        heads.check_continues(store.keys, campaign, ledger)
        check_receipts(store.keys, campaign, terms.commitment, signed)
        refuse_lonely(reports)
        if reports:
            beacon = next((row.beacon for row in reversed(waiting) if row.beacon is not None), None)
            secret = secret_of(store.keys, campaign_row)
            paid_days = pay_rounds(terms, reports, ledger, final=final, secret=secret, beacon=beacon)
    except TrothError as error:
        problem = str(error)
    except Exception:
        logger.exception("a round could not be paid")
        problem = "something went wrong while the payments were computed; it was logged"
    amounts = {paid.day: sum(payment.payment for payment in paid.payments) for paid in Result(terms, ledger).rounds}
    try:
        with store.write() as tx:
            tx.execute(select(campaigns.c.id).where(campaigns.c.id == campaign).with_for_update(key_share=True))
            if _marks(_waiting(tx, campaign)) != _marks(waiting):
                return False  # one was reopened or closed meanwhile
            if problem is None:
                try:  # before anything of it can be seen
                    heads.record_seeds(store.keys, terms, ledger)
                except TrothError as error:
                    problem = str(error)
            if problem is None:
                ledgers.add_lines(tx, campaign, ledger, known_lines)
            elif ledgers.height(tx, campaign) != known_lines:
                return False
            for row in waiting:
                values: dict[str, Any] = {"settled": now(), "problem": problem}
                if problem is None and (row in empty or read_day(row.day) in paid_days):
                    values |= {"state": "paid", "paid": now(), "amount": amounts.get(read_day(row.day), 0)}
                    values |= {"head": None if row in empty else ledger.head}
                    values |= {"published": now()} if campaign_row.publish_at_once else {}
                still_closed = (rounds.c.id == row.id) & (rounds.c.state == "closed")
                tx.execute(update(rounds).where(still_closed).values(**values))
            if problem is None and (not terms.daily or final or any(entry["last"] for entry in ledger.of("round"))):
                tx.execute(update(campaigns).where(campaigns.c.id == campaign).values(state="ended"))
    except ConflictError:
        return False
    if problem is None:
        heads.sign_head(store.keys, campaign, ledger)
    return True


def _waiting(tx: Connection, campaign: str) -> list[Row[Any]]:
    """Return closed rounds to be paid: days are paid in order, so those after one that was reopened wait for it."""
    rows = list_rounds(tx, campaign)
    first_open = next((row.number for row in rows if row.state == "open"), len(rows) + 1)
    return [row for row in rows if row.state == "closed" and row.number < first_open]


def _marks(waiting: list[Row[Any]]) -> list[tuple[Any, ...]]:
    """Return what payments depend on besides reports, which cannot change while a round is closed."""
    return [(row.id, row.closed, row.final) for row in waiting]


def close_due(store: Store) -> int:
    """Close rounds whose deadlines have passed, settle those that a killed process left closed, and count them."""
    with store.read() as tx:
        late = (rounds.c.state == "open") & (rounds.c.deadline <= now())
        unsettled = (rounds.c.state == "closed") & rounds.c.settled.is_(None) & (rounds.c.closed < after(seconds=-5))
        due = tx.execute(select(rounds).where(late | unsettled)).all()
    for row in due:
        try:
            if row.state == "open":
                close_round(store, None, row.campaign, row.number)
            else:
                settle(store, row.campaign)
        except Exception:  # one campaign's failure does not keep others waiting
            logger.exception("a round could not be closed at its deadline; it is tried again")
    return len(due)
