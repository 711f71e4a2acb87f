"""No report takes the service down: payments are computed within limits, counted, and given up with a name."""

from __future__ import annotations

import os
import signal
import socket
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from sqlalchemy import update

from service.databases import opened
from service.world import NAMES, World, make_world, payments_of, statistics
from troth.campaigns.terms import Campaign
from troth.core.errors import DataError
from troth.data.request import Report
from troth.service import campaigns, limited_payments, settlement
from troth.service.errors import UnavailableError
from troth.service.limited_payments import check_bounded, suspect_of
from troth.service.schema import rounds
from troth.service.store import now
from troth.service.worker_processes import Bounds

FINITE: dict[str, Any] = {
    "campaign": {"name": "symbols", "budget": "100.00"},
    "model": {
        "family": "Finite",
        "columns": ["x"],
        "prior": {"prior": [0.5, 0.5], "likelihood": [[0.9, 0.1], [0.2, 0.8]]},
    },
    "mechanism": {"rule": "Brier"},
}
LARGE = 10**12


def post(world: World, name: str, rows: int) -> Any:
    plain = {**statistics(name, rows, 0), "family": "Finite"}
    place = f"{world.base}/rounds/1/submissions/statistics"
    return world.client().post(place, json=plain, headers=world.headers(name))


@pytest.mark.parametrize("rows", [10**15, 2**62, 2**63, 10**30])
def test_a_report_that_no_round_could_be_paid_with_is_refused(kind: str, databases: Any, rows: int) -> None:
    url = databases.new(kind)
    with opened(url) as store:
        world = make_world(store, terms=FINITE)
        answer = post(world, "Ash", rows)
        assert answer.status_code == 422
        assert f"{rows:,} rows" in answer.json()["error"]
    databases.give_back(url)


def test_a_report_is_tried_out_with_peers_before_it_is_admitted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limited_payments, "TRIAL", Bounds(memory=48 << 20, seconds=1.0))
    campaign = Campaign.from_dict(FINITE)
    report = Report("Ash", None, 40, np.array([30.0, 10.0]))
    check_bounded(campaign, report)
    with pytest.raises(DataError, match="1,000,000,000,000 rows could not be paid"):
        check_bounded(campaign, Report("Ash", None, LARGE, np.array([LARGE / 2, LARGE / 2])))
    monkeypatch.setattr(limited_payments.SANDBOX, "run", lambda *_, **__: pytest.fail("smaller ones were tried"))
    check_bounded(campaign, replace(report, rows=12, summary=np.array([12.0, 0.0])))


def test_the_third_attempt_is_the_last_and_names_the_report(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("troth.service.uploads.check_bounded", lambda *_: None)
    for name in ("BOUNDS", "TRIAL"):
        monkeypatch.setattr(limited_payments, name, Bounds(memory=48 << 20, seconds=1.0))
    with opened(database) as store:
        world = make_world(store, terms=FINITE)
        other_world = make_world(store, ("Oak", "Fir"), analyst="Bob")
        other_world.report_all({"Oak": (3, 1), "Fir": (1, 3)})
        for name, rows in zip(NAMES, (4, LARGE, 6), strict=True):
            answer = post(world, name, rows)
            assert answer.status_code == 201, answer.text
            place = f"{world.base}/rounds/1/submissions/{answer.json()['id']}/confirm"
            assert world.client().post(place, json={}, headers=world.headers(name)).status_code == 200
        world.close()
        for attempts in (1, 2):
            stopped = world.round()
            assert (stopped.state, stopped.settled, stopped.problem, stopped.attempts) == (
                "closed",
                None,
                None,
                attempts,
            )
            with store.write() as tx:
                tx.execute(update(rounds).values(closed="2000-01-01"))
            settlement.close_due(store)
        assert "provider 'Birch' is the cause, with 1,000,000,000,000 rows" in world.round().problem
        assert settlement.close_due(store) == 0  # nothing is tried any more
        other_world.close()
        assert other_world.round().state == "paid"
        with store.write() as tx:  # and this is the way out
            campaigns.revoke(tx, world.analyst, world.campaign, world.members["Birch"])
        world.reopen(1)
        world.close()
        assert {name for _, name in payments_of(store, world.campaign)} == {"Ash", "Elm"}


def test_attempts_that_killed_the_service_count(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(database) as store:
        world = make_world(store)
        world.report_all({"Ash": (3, 1), "Birch": (1, 3)})
        for attempts in (1, 2, 3):
            child = os.fork()
            if child == 0:
                store.engine.dispose(close=False)
                settlement.__dict__["pay_rounds"] = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
                settlement.close_round(store, world.analyst, world.campaign, 1)
                os._exit(0)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
            assert world.round().attempts == attempts
        monkeypatch.setattr(settlement, "pay_rounds", lambda *_, **__: pytest.fail("it was tried again"))
        monkeypatch.setattr(settlement, "find_suspect", lambda *_: None)
        settlement.settle(store, world.campaign)
        assert "the process that tried was killed; no single report is the cause" in world.round().problem


def test_whoever_pays_anyway_has_all_attempts_again(database: str) -> None:
    with opened(database) as store:
        world = make_world(store)
        world.report_all({"Ash": (3, 1), "Birch": (1, 3)})
        with store.write() as tx:
            tx.execute(update(rounds).values(state="closed", closed=now(), attempts=settlement.MAX_ATTEMPTS))
        settlement.close_round(store, world.analyst, world.campaign, 1, anyway=True)
        assert world.round().state == "paid"


@pytest.mark.parametrize(
    ("made_by", "waits"),
    [
        ({"attempt_process": os.getppid(), "attempt_started": "its own"}, True),
        ({"attempt_process": os.getppid(), "attempt_started": "of an earlier process of this number"}, False),
        ({"attempt_process": os.getpid(), "attempt_started": "its own"}, False),
        ({"attempt_host": "another machine"}, True),
        ({"attempt_host": "another machine", "attempted": "2000-01-01T00:00:00.000Z"}, False),
    ],
)
def test_two_processes_do_not_attempt_the_same_payments(
    database: str, made_by: dict[str, Any], waits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An attempt of a process that runs is waited for; one of a process that has ended, or is long past, is not."""
    monkeypatch.setattr(settlement, "_TIMEOUT", 0.0)
    attempt = {"attempted": now(), "attempt_host": socket.gethostname(), **made_by}
    if attempt.get("attempt_started") == "its own":
        attempt["attempt_started"] = settlement._start_time(attempt["attempt_process"])
    with opened(database) as store:
        world = make_world(store)
        world.report_all({"Ash": (3, 1), "Birch": (1, 3)})
        with store.write() as tx:
            tx.execute(update(rounds).values(state="closed", closed=now(), attempts=1, **attempt))
        settlement.settle(store, world.campaign)
        assert world.round().state == ("closed" if waits else "paid")


def test_a_time_without_a_place_to_compute_in_is_no_attempt(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that can start no process for a while blames no report, and pays once it can."""

    def unavailable(*_: Any, **__: Any) -> Any:
        raise UnavailableError("no process can be started; try again later")

    with opened(database) as store:
        world = make_world(store)
        world.report_all({"Ash": (3, 1), "Birch": (1, 3)})
        monkeypatch.setattr(settlement, "pay_rounds", unavailable)
        world.close()
        for _ in range(settlement.MAX_ATTEMPTS + 2):
            settlement.settle(store, world.campaign)
        assert (world.round().state, world.round().problem, world.round().attempts) == ("closed", None, 0)
        monkeypatch.setattr(settlement, "pay_rounds", limited_payments.pay_rounds)
        settlement.settle(store, world.campaign)
        assert world.round().state == "paid"


def _has(rows: int, tried: list[Report]) -> bool:
    return any(report.rows == rows for report in tried)


def test_the_one_report_is_found_among_many() -> None:
    reports = [Report(f"P{i}", None, 10 + i, np.array([float(i)])) for i in range(37)]
    for bad in (reports[1], reports[17], reports[-1]):
        assert suspect_of(reports, partial(_has, bad.rows)) is bad
    assert suspect_of(reports, lambda _: True) is None
    assert suspect_of(reports, lambda _: False) is None
