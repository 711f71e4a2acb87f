"""A round of the service pays the same cents as ``troth pay`` does on the same data, nonces, terms and secret."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import select

from campaigns.shop import run
from service.databases import in_turn, opened
from service.world import World, make_world, payments_of, statistics
from troth.campaigns.seed import save_secret, secret_path
from troth.campaigns.toml import to_toml
from troth.service.campaigns import secret_of
from troth.service.rounds import confirmed_rows, list_rounds, report_of
from troth.service.schema import campaigns

MODEL = {"family": "Bernoulli", "columns": ["improved"], "prior": {"alpha": 1, "beta": 1}}
PEOPLE = ("Ash", "Birch", "Elm", "Fir")
Reports = dict[Any, dict[str, tuple[int, int]]]


def one_time(mechanism: Mapping[str, Any], **parts: Any) -> dict[str, Any]:
    return {
        "campaign": {"name": "once", "budget": "999.97", "currency": "EUR"},
        "model": MODEL,
        "mechanism": dict(mechanism),
        "limits": {"rows": 20},
        **parts,
    }


def five_days(mechanism: Mapping[str, Any], **parts: Any) -> dict[str, Any]:
    return {
        "campaign": {"name": "daily", "budget": "1234.56", "days": 5},
        "model": MODEL,
        "mechanism": dict(mechanism),
        "data": {"day": "day"},
        **parts,
    }


def draw(days: int | None, missing: Mapping[int, str] | None = None, rows: int = 12) -> Reports:
    """Draw reports, on days or once; somebody may miss a day."""
    rng = np.random.default_rng(11)
    drawn_reports: Reports = {}
    for day in range(1, (days or 1) + 1):
        rate = rng.random()
        ones = {name: int(rng.binomial(rows, rate)) for name in PEOPLE}
        reports = {name: (n, rows - n) for name, n in ones.items() if (missing or {}).get(day) != name}
        drawn_reports[None if days is None else f"2026-05-{day:02d}"] = reports
    return drawn_reports


CASES: dict[str, tuple[dict[str, Any], Reports, dict[str, str]]] = {
    "synthetic peers": (one_time({"rule": "SyntheticPeers", "draws": 8}), draw(None), {}),
    "synthetic peers, groups": (
        one_time({"rule": "SyntheticPeers", "draws": 8}),
        draw(None),
        {"Ash": "sisters", "Elm": "sisters"},
    ),
    "one-time": (one_time({"rule": "OneTime", "range": "clipped"}), draw(None), {}),
    "Brier": (one_time({"rule": "Brier"}), draw(None), {}),
    "five days": (five_days({"rule": "MultiDay"}), draw(5), {}),
    "five days, groups": (five_days({"rule": "MultiDay"}), draw(5), {"Ash": "sisters", "Elm": "sisters"}),
    "five days, some missing": (
        five_days({"rule": "MultiDay", "exchangeable": True}),
        draw(5, {2: "Ash", 4: "Fir"}),
        {},
    ),
    "five days of synthetic peers, some missing": (
        five_days({"rule": "SyntheticPeers", "draws": 4}),
        draw(5, {1: "Elm", 3: "Ash"}),
        {},
    ),
}


def pay_by_service(world: World, reports: Reports) -> dict[tuple[Any, str], int]:
    for day, sent in reports.items():
        number = world.open(day)
        world.report_all(sent, number)
        world.close(number)
        assert world.round(number).problem is None
    return payments_of(world.store, world.campaign)


def pay_by_file(
    world: World, case: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> dict[tuple[Any, str], int]:
    terms, reports, groups = CASES[case]
    with world.store.read() as tx:
        row = tx.execute(select(campaigns).where(campaigns.c.id == world.campaign)).one()
    plain: dict[str, Any] = {**terms, "mechanism": dict(terms["mechanism"]), "groups": {}}
    plain["data"] = {**terms.get("data", {}), "provider": "provider", "providers": list(PEOPLE), "source": "*.json"}
    for name, label in groups.items():
        plain["groups"].setdefault(label, []).append(name)
    path = folder / "campaign.toml"
    secret = secret_of(world.store.keys, row)
    if secret is not None:
        plain["mechanism"]["commitment"] = secret.commitment
        save_secret(secret, secret_path(path))
    path.write_text(to_toml({part: table for part, table in plain.items() if table}), encoding="utf-8")
    with world.store.read() as tx:
        ids = [row.id for row in list_rounds(tx, world.campaign)]
        nonces = {(row.provider, row.day): report_of(row).nonce for row in confirmed_rows(tx, world.campaign, ids)}
    for name in {name for sent in reports.values() for name in sent}:
        days = [(day, *sent[name]) for day, sent in reports.items() if name in sent]
        entries = [
            {"day": day, "rows": ones + zeros, "summary": [zeros, ones], "nonce": nonces[name, day]}
            for day, ones, zeros in days
        ]
        plain_file = statistics(name, *days[0][1:])
        if None in reports:
            plain_file["nonce"] = entries[0]["nonce"]
        else:
            plain_file = {key: plain_file[key] for key in plain_file if key not in ("rows", "summary")} | {
                "days": entries
            }
        (folder / f"{name}.json").write_text(json.dumps(plain_file))
    capsys.readouterr()
    assert run(monkeypatch, "pay", path, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    return {
        (paid_round["day"], entry["provider"]): int(Decimal(entry["payment"]).scaleb(2))
        for paid_round in told["rounds"]
        for entry in paid_round["payments"]
    }


@pytest.mark.parametrize(("kind", "case"), in_turn(CASES))
def test_the_service_pays_what_the_command_line_pays(
    database: str, tmp_path: Path, case: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terms, reports, groups = CASES[case]
    with opened(database) as store:
        world = make_world(store, PEOPLE, terms, opened=False, groups=groups)
        paid = pay_by_service(world, reports)
        assert {key[0] for key in paid} == set(reports)
        assert sum(paid.values()) > 0
        assert pay_by_file(world, case, tmp_path, monkeypatch, capsys) == paid
        states = [world.round(number).state for number in range(1, len(reports) + 1)]
        assert states == ["paid"] * len(reports)
