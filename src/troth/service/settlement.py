"""Close a round and pay what has become payable: once, whoever asks and whatever is killed.

Closing and paying are two transactions with the computation between them, so that nobody waits for it. The first ends
the round to reports; what is paid is then a function of what the database holds. The second adds the ledger's new
lines if nobody else has meanwhile. A process that dies between the two leaves a closed round that anybody can settle.
"""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from sqlalchemy import or_, select, update

from troth.campaigns.rounds import pay_rounds, refuse_lonely
from troth.core.errors import TrothError
from troth.service import campaigns as terms
from troth.service import ledgers
from troth.service.errors import ConflictError, InvalidError
from troth.service.rounds import confirmed_reports, find_round, list_rounds, read_day, write_day
from troth.service.schema import campaigns, rounds
from troth.service.store import after, now

if TYPE_CHECKING:
    from sqlalchemy import Connection, Row

    from troth.service.accounts import Who
    from troth.service.store import Store

logger = logging.getLogger("troth.service")
_turns: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)


def close_round(store: Store, who: Who | None, campaign: str, number: int, *, final: bool = False) -> bool:
    """Close a round, pay what has become payable, and tell whether this call closed it.

    Parameters
    ----------
    who
        The analyst, or None for the clock.
    final
        Say that no day follows: the last one is then paid too, by its rule.
    """
    with store.write() as tx:
        if who is not None:
            terms.owned(tx, who, campaign)
        found = find_round(tx, campaign, number, lock="alone")
        due = found.deadline is not None and found.deadline <= now()  # it may have been opened again meanwhile
        closing = bool(found.state == "open" and (who is not None or due))
        if closing:
            last = final or _is_last(tx, campaign, number)
            values = {"state": "closed", "closed": now(), "final": last, "problem": None, "settled": None}
            tx.execute(update(rounds).where(rounds.c.id == found.id).values(**values))
    settle(store, campaign)
    return closing


def finish(store: Store, who: Who, campaign: str) -> None:
    """End a daily campaign: its last day is paid by its rule."""
    with store.write() as tx:
        row = terms.owned(tx, who, campaign, lock=True)
        held = list_rounds(tx, campaign)
        if not held or any(found.state == "open" for found in held):
            raise ConflictError("close the open round first" if held else "no round was held yet")
        waiting = [found.id for found in held if found.state == "closed"]
        if waiting:
            tx.execute(update(rounds).where(rounds.c.id == waiting[-1]).values(final=True, settled=None))
        elif row.state != "ended":
            tx.execute(update(campaigns).where(campaigns.c.id == campaign).values(state="ended"))
    settle(store, campaign)


def _is_last(tx: Connection, campaign: str, number: int) -> bool:
    """Tell whether a round is the last of as many as the terms announce."""
    row = tx.execute(select(campaigns).where(campaigns.c.id == campaign)).one()
    return terms.terms_of(row).days == number


def reopen(store: Store, who: Who, campaign: str, number: int, deadline: str | None = None) -> None:
    """Open a round again that was closed and could not be paid, so that reports can be replaced."""
    with store.write() as tx:
        terms.owned(tx, who, campaign, lock=True)
        found = find_round(tx, campaign, number, lock="alone")
        if found.state != "closed" or found.problem is None:
            raise ConflictError("only a round that was closed and could not be paid can be opened again")
        if deadline is not None and deadline <= now():
            raise InvalidError("deadline: must lie in the future")
        day = read_day(found.day)
        if any(entry["day"] == day for entry in ledgers.load_ledger(tx, campaign).of("report")):
            raise ConflictError("its reports were used to pay the day before, so they stand")
        values: dict[str, Any] = {"state": "open", "closed": None, "settled": None, "problem": None, "final": False}
        tx.execute(update(rounds).where(rounds.c.id == found.id).values(deadline=deadline, **values))


def settle(store: Store, campaign: str) -> None:
    """Pay what has become payable; two who do so at once pay once."""
    with _turns[campaign]:
        while not _settled(store, campaign):
            pass


def _settled(store: Store, campaign: str) -> bool:
    with store.read() as tx:
        row = tx.execute(select(campaigns).where(campaigns.c.id == campaign)).one()
        held, waiting = list_rounds(tx, campaign), _waiting(tx, campaign)
        if not waiting:
            return True
        sent = confirmed_reports(tx, campaign, [found.id for found in waiting])
        ledger = ledgers.load_ledger(tx, campaign)
    known, problem = len(ledger.lines), None
    final = any(found.final for found in held) and not any(found.state == "open" for found in held)
    days = {report.day for report in sent}
    empty = [found for found in waiting if read_day(found.day) not in days]
    spec = terms.terms_of(row)
    paid: list[Any] = []
    try:
        refuse_lonely(sent)
        if sent:
            paid = pay_rounds(spec, sent, ledger, final=final, secret=terms.secret_of(row))
    except TrothError as error:
        problem = str(error)
    except Exception:
        logger.exception("a round could not be paid")
        problem = "something went wrong while the payments were computed; it was logged"
    amounts = {write_day(entry["day"]): entry["paid"] for entry in ledger.of("close")}
    try:
        with store.write() as tx:
            query = select(campaigns.c.id).where(campaigns.c.id == campaign)
            tx.execute(query.with_for_update(key_share=True))
            if _marks(_waiting(tx, campaign)) != _marks(waiting):
                return False  # one was opened again or closed meanwhile
            if problem is None:
                ledgers.add_lines(tx, campaign, ledger, known)
            elif ledgers.height(tx, campaign) != known:
                return False
            for found in waiting:
                done = problem is None and (found in empty or read_day(found.day) in paid)
                values: dict[str, Any] = {"settled": now(), "problem": problem}
                if done:
                    values |= {"state": "paid", "paid": now(), "amount": amounts.get(found.day, spec.text(0))}
                    values |= {"head": None if found in empty else ledger.head}
                    values |= {"published": now()} if row.publish_at_once else {}
                still = (rounds.c.id == found.id) & (rounds.c.state == "closed")
                tx.execute(update(rounds).where(still).values(**values))
            if problem is None and (not spec.daily or final or any(e["last"] for e in ledger.of("round"))):
                tx.execute(update(campaigns).where(campaigns.c.id == campaign).values(state="ended"))
    except ConflictError:
        return False
    return True


def _waiting(tx: Connection, campaign: str) -> list[Row[Any]]:
    """Return closed rounds to be paid: days are paid in order, so those after one that was opened again wait for it."""
    held = list_rounds(tx, campaign)
    first = next((found.number for found in held if found.state == "open"), len(held) + 1)
    return [found for found in held if found.state == "closed" and found.number < first]


def _marks(waiting: list[Row[Any]]) -> list[tuple[Any, ...]]:
    """Return what payments depend on of rounds, beside their reports, which stand while a round is closed."""
    return [(found.id, found.closed, found.final) for found in waiting]


def close_due(store: Store) -> int:
    """Close the rounds whose deadlines have passed, settle those that a death left unsettled, and count them."""
    with store.read() as tx:
        due = tx.execute(
            select(rounds.c.campaign, rounds.c.number, rounds.c.state).where(
                or_(
                    (rounds.c.state == "open") & (rounds.c.deadline <= now()),
                    (rounds.c.state == "closed") & rounds.c.settled.is_(None) & (rounds.c.closed < after(seconds=-5)),
                )
            )
        ).all()
    for found in due:
        try:
            if found.state == "open":
                close_round(store, None, found.campaign, found.number)
            else:
                settle(store, found.campaign)
        except Exception:  # others' rounds are not kept waiting
            logger.exception("a round could not be closed at its deadline; it is tried again")
    return len(due)
