"""Money and the ledger: never overspent, never paid twice, and no byte changes unseen."""

from __future__ import annotations

import fcntl
import json
import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from decimal import Decimal
from fractions import Fraction
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import troth
from campaigns.shop import GOOD, run, write_campaign
from preloaded import Preloaded
from registry import SOAK
from troth.campaigns.money import portion, to_minor, to_text
from troth.campaigns.private_files import create_private, replace_private
from troth.campaigns.records.arithmetic import TOLERANCE, tolerance, versions
from troth.campaigns.records.canonical_json import finite
from troth.campaigns.records.ledger import Ledger, LedgerError, read_ledger, write_atomic
from troth.campaigns.records.ledger_entries import leaf_of, read_figures
from troth.campaigns.rounds import pay_rounds, reject_same_nonce
from troth.campaigns.terms import Campaign
from troth.core.errors import DataError, ParameterError
from troth.core.settings import CampaignError
from troth.data.request import Report
from troth.mechanisms import Figures
from troth.results.pay import open_ledger, pay_campaign

BERNOULLI = troth.models.Bernoulli(1, 1)
DRAWING = GOOD.replace('rule = "OneTime"\nrange = "clipped"', 'rule = "SyntheticPeers"\ndraws = 16')
DAILY = (
    GOOD.replace('rule = "OneTime"\nrange = "clipped"', 'rule = "MultiDay"')
    .replace('provider = "clinic"', 'provider = "clinic"\nday = "day"')
    .replace('currency = "EUR"', "days = 3")
)


def daily_rows(days: int, seed: int = 1, rows: int = 6) -> str:
    rng = np.random.default_rng(seed)
    lines = ["clinic,day,improved"]
    for day in range(3):
        rate = rng.random()
        table = {name: rng.random(rows) < rate for name in ("Ash", "Birch", "Elm")}
        if day < days:
            lines += [f"{name},2026-05-0{day + 1},{int(x)}" for name, values in table.items() for x in values]
    return "\n".join(lines) + "\n"


@example(shares=[1.0, 1.0, 1.0], budget=2, parts=[1] * 30)
@example(shares=[0.999] * 7, budget=5, parts=[3] * 30)
@given(
    st.lists(st.one_of(st.just(1.0), st.floats(0, 1)), min_size=1, max_size=30),
    st.one_of(st.integers(0, 50), st.integers(0, 10**12)),
    st.lists(st.integers(0, 1000), min_size=30, max_size=30),
)
def test_shares_of_caps_never_exceed_the_budget(shares: list[float], budget: int, parts: list[int]) -> None:
    equal = [portion(share, Fraction(budget, len(shares))) for share in shares]
    assert 0 <= sum(equal) <= budget
    whole = sum(parts[: len(shares)]) or 1
    weighted = [portion(share, Fraction(budget * part, whole)) for share, part in zip(shares, parts, strict=False)]
    assert 0 <= sum(weighted) <= budget
    assert all(a == b for s, a in zip(shares, equal, strict=True) for r, b in zip(shares, equal, strict=True) if s == r)


@given(st.integers(-(10**15), 10**15), st.integers(0, 8))
def test_money_survives_writing_and_reading(minor: int, decimals: int) -> None:
    text = to_text(minor, decimals)
    assert Decimal(text).scaleb(decimals) == minor
    if minor >= 0:
        assert to_minor(text, decimals) == minor


@pytest.mark.parametrize("amount", ["", "1e400", "NaN", "-1", "0.001", True, 1.5, None, "1,000"])
def test_what_is_no_money_is_refused(amount: Any) -> None:
    with pytest.raises(ParameterError, match="budget"):
        to_minor(amount, 2)


@settings(max_examples=20 if not SOAK else 600, deadline=None)
@given(st.data())
def test_no_round_overspends_whatever_is_reported(data: st.DataObject) -> None:
    n = data.draw(st.integers(2, 6))
    ones = data.draw(st.lists(st.integers(0, 12), min_size=n, max_size=n))
    zeros = data.draw(st.lists(st.integers(0, 12), min_size=n, max_size=n))
    frame = {
        "who": [f"p{i}" for i in range(n) for _ in range(ones[i] + zeros[i] + 1)],
        "x": [x for i in range(n) for x in [1] * (ones[i] + 1) + [0] * zeros[i]],
    }
    rule: Any = data.draw(st.sampled_from([troth.SyntheticPeers(draws=4), "OneTime", "Brier"]))
    budget = data.draw(st.integers(0, 10_000))
    terms = {"limits": {"rows": 40}}
    result = troth.pay(frame, BERNOULLI, rule, provider="who", budget=to_text(budget, 2), terms=terms, seed=3).verify()
    assert 0 <= result.paid <= budget
    assert all(payment.payment >= 0 for payment in result.rounds[0].payments)
    by_report: dict[tuple[int, int], set[int]] = {}
    for i in range(n):
        by_report.setdefault((ones[i], zeros[i]), set()).add(result.totals[f"p{i}"])
    assert all(len(cents) == 1 for cents in by_report.values())


def test_two_cents_for_three_are_kept() -> None:
    """Everybody's share is 1, and a cap of two thirds of a cent pays nobody: rounding to the nearest would pay three."""
    frame = {"who": ["a", "b", "c"], "day": [1] * 3, "x": [1, 1, 0]}
    result = troth.pay(frame, BERNOULLI, troth.MultiDay(), provider="who", day="day", budget="0.02")
    assert [(p.share, p.payment) for p in result.verify().rounds[0].payments] == [(1.0, 0)] * 3


def test_each_amount_reaches_its_own_payee() -> None:
    rng = np.random.default_rng(5)
    odd = [
        "1",
        "10",
        "2",
        "Ω",
        "zoë",
        "  padded",
        "-7",
        "=1+1",
        "<b>",
        "NA",
        "null",
        "true",
        "007",
        "7",
        "a,b",
        'q"uote',
        "日本",
    ]
    rows = {name: rng.integers(0, 2, int(rng.integers(5, 30))) for name in odd}
    expected = troth.pay(_table(rows), BERNOULLI, provider="who", budget="1000", seed=1)
    by_report = {tuple(np.bincount(x, minlength=2)): expected.totals[name.strip()] for name, x in rows.items()}
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(len(odd))
        result = troth.pay(
            _table({odd[i]: rows[odd[i]] for i in order}), BERNOULLI, provider="who", budget="1000", seed=1
        )
        for name, x in rows.items():
            assert result.totals[name.strip()] == by_report[tuple(np.bincount(x, minlength=2))], name
    shuffled = dict(zip(odd, [rows[name] for name in odd[::-1]], strict=True))
    swapped = troth.pay(_table(shuffled), BERNOULLI, provider="who", budget="1000", seed=1)
    for name, x in shuffled.items():
        assert swapped.totals[name.strip()] == by_report[tuple(np.bincount(x, minlength=2))]


@pytest.mark.parametrize("kind", ["int64", "int8", "uint64", "float64", "object", "string"])
def test_providers_with_numbers_for_names(kind: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    numbers = [3, 11, 2, 100]
    rows = {str(i): rng.integers(0, 2, 12) for i in numbers}
    expected = troth.pay(_table(rows), BERNOULLI, provider="who", budget="1000", seed=1).totals
    frame = _table(rows)
    frame["who"] = frame["who"].astype(int).astype(kind)
    assert troth.pay(frame, BERNOULLI, provider="who", budget="1000", seed=1).totals == expected
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.to_parquet(tmp_path / "a.parquet")
    if kind != "float64":
        assert troth.pay(tmp_path / "a.csv", BERNOULLI, provider="who", budget="1000", seed=1).totals == expected
    assert troth.pay(tmp_path / "a.parquet", BERNOULLI, provider="who", budget="1000", seed=1).totals == expected


def _table(rows: dict[str, Any]) -> pd.DataFrame:
    return pd.DataFrame([(name, int(x)) for name, values in rows.items() for x in values], columns=["who", "x"])


def paid_ledger(folder: Path, text: str = DRAWING, files: dict[str, str | bytes] | None = None) -> Path:
    path = write_campaign(folder, text, files)
    troth.pay(path, ledger=folder / "ledger.jsonl")
    return folder / "ledger.jsonl"


def test_every_changed_byte_is_found(tmp_path: Path) -> None:
    raw = paid_ledger(tmp_path).read_bytes()
    Ledger.from_bytes(raw)
    places = range(len(raw)) if SOAK else random.Random(1).sample(range(len(raw)), 400)
    for place in places:
        for bit in (1, 32):
            changed = raw[:place] + bytes([raw[place] ^ bit]) + raw[place + 1 :]
            with pytest.raises(LedgerError):
                Ledger.from_bytes(changed)


def test_every_removed_added_or_swapped_line_is_found(tmp_path: Path) -> None:
    lines = paid_ledger(tmp_path, DAILY, {"clinics.csv": daily_rows(3)}).read_bytes().splitlines(keepends=True)
    for i in range(len(lines)):
        with pytest.raises(LedgerError):
            Ledger.from_bytes(b"".join(lines[:i] + lines[i + 1 :]))
        with pytest.raises(LedgerError):
            Ledger.from_bytes(b"".join([*lines[:i], lines[i], *lines[i:]]))
        if i:
            with pytest.raises(LedgerError):
                Ledger.from_bytes(b"".join(lines[:i]))
        for j in range(i + 1, len(lines)):
            swapped = lines.copy()
            swapped[i], swapped[j] = swapped[j], swapped[i]
            with pytest.raises(LedgerError):
                Ledger.from_bytes(b"".join(swapped))


@pytest.mark.parametrize("lines", [0, 6, 8, None])
def test_a_closing_line_that_counts_wrong_is_found_though_its_hash_fits(lines: Any, tmp_path: Path) -> None:
    raw = paid_ledger(tmp_path).read_bytes()
    entries = Ledger.from_bytes(raw).entries
    assert len(entries) not in (0, 6, 8)
    forged = Ledger([*entries, {"entry": "end", "lines": lines}])
    with pytest.raises(LedgerError, match=f"it counts {lines} lines, but there are {len(entries)}"):
        Ledger.from_bytes(b"".join(forged.lines))
    assert Ledger.from_bytes(b"".join(Ledger([*entries, {"entry": "end", "lines": len(entries)}]).lines))


@pytest.mark.parametrize(
    ("kind", "key", "value", "message"),
    [
        ("payment", "payment", "999.00", "payment of 'Ash': payment is '999.00', but recomputing gives"),
        ("payment", "share", 0.999, "share"),
        ("payment", "provider", "Zoe", "provider"),
        ("report", "summary", [0.0, 4.0], "digest"),
        ("report", "rows", 5, "rows is 5"),
        ("round", "seed", "sha256:" + "1" * 64, "round: seed is 'sha256:1111"),
        ("round", "link", "sha256:" + "1" * 64, "seed of round 1 does not derive from the committed secret"),
        ("round", "root", "1" * 64, "round: root is '1111"),
        ("close", "paid", "1.00", "paid"),
        ("campaign", "digest", "sha256:" + "0" * 64, "digest"),
    ],
)
def test_a_forged_ledger_is_found_though_its_hashes_fit(
    kind: str, key: str, value: Any, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = write_campaign(tmp_path, DRAWING)
    assert run(monkeypatch, "commit", campaign) == 0
    troth.pay(campaign, ledger=tmp_path / "ledger.jsonl")
    entries = read_ledger(tmp_path / "ledger.jsonl").entries
    forged = json.loads(json.dumps(entries))
    next(entry for entry in forged if entry["entry"] == kind)[key] = value
    (tmp_path / "forged.jsonl").write_bytes(Ledger(forged).to_bytes())
    read_ledger(tmp_path / "forged.jsonl")
    with pytest.raises(LedgerError, match=message):
        troth.verify(tmp_path / "forged.jsonl")
    troth.verify(tmp_path / "ledger.jsonl")


def test_a_noted_head_finds_a_ledger_that_was_cut_and_closed_anew(tmp_path: Path) -> None:
    path = paid_ledger(tmp_path, DAILY, {"clinics.csv": daily_rows(3)})
    ledger = read_ledger(path)
    last = max(i for i, entry in enumerate(ledger.entries) if entry["entry"] == "round")
    (tmp_path / "cut.jsonl").write_bytes(Ledger(ledger.entries[:last]).to_bytes())
    troth.verify(tmp_path / "cut.jsonl")
    with pytest.raises(LedgerError, match="head"):
        troth.verify(tmp_path / "cut.jsonl", head=ledger.head)
    troth.verify(path, head=ledger.head)


def test_paying_twice_pays_once(tmp_path: Path) -> None:
    path = paid_ledger(tmp_path)
    before = path.read_bytes()
    again = troth.pay(tmp_path / "campaign.toml", ledger=path)
    assert again.paid_now == ()
    assert path.read_bytes() == before


def test_what_was_paid_for_stands(tmp_path: Path) -> None:
    path = paid_ledger(tmp_path)
    data = tmp_path / "clinics.csv"
    original = data.read_text()
    data.write_text(original + "Elm,1\n")
    with pytest.raises(DataError, match="provider 'Elm': the data have changed since they were paid for"):
        troth.pay(tmp_path / "campaign.toml", ledger=path)
    data.write_text(original + "Oak,1\n")
    with pytest.raises(DataError, match="provider 'Oak': this report came after the others were paid for"):
        troth.pay(tmp_path / "campaign.toml", ledger=path)
    data.write_text(original)
    (tmp_path / "campaign.toml").write_text(DRAWING.replace("1000.00", "2000.00"))
    with pytest.raises(LedgerError, match="terms differ"):
        troth.pay(tmp_path / "campaign.toml", ledger=path)


def test_days_are_paid_when_the_next_one_is_in(tmp_path: Path) -> None:
    write_campaign(tmp_path, DAILY, {"clinics.csv": daily_rows(1)})
    campaign, ledger = tmp_path / "campaign.toml", tmp_path / "ledger.jsonl"
    first = troth.pay(campaign, ledger=ledger)
    assert first.rounds == ()
    assert not ledger.exists()
    (tmp_path / "clinics.csv").write_text(daily_rows(2))
    second = troth.pay(campaign, ledger=ledger)
    assert [r.day for r in second.rounds] == ["2026-05-01"]
    troth.verify(ledger)
    (tmp_path / "clinics.csv").write_text(daily_rows(3))
    third = troth.pay(campaign, ledger=ledger)
    assert third.paid_now == ("2026-05-02", "2026-05-03")
    assert [r.last for r in third.rounds] == [False, False, True]
    troth.verify(ledger)
    at_once = troth.pay(campaign)
    assert at_once.totals == third.totals
    assert third.paid <= third.campaign.budget


def test_a_campaign_may_end_early(tmp_path: Path) -> None:
    write_campaign(tmp_path, DAILY, {"clinics.csv": daily_rows(2)})
    result = troth.pay(tmp_path / "campaign.toml", ledger=tmp_path / "l.jsonl", final=True)
    assert [r.last for r in result.rounds] == [False, True]
    troth.verify(tmp_path / "l.jsonl")


def test_seeds_of_a_daily_campaign_are_revealed_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = DAILY.replace('rule = "MultiDay"', 'rule = "SyntheticPeers"\ndraws = 4')
    campaign = write_campaign(tmp_path, text, {"clinics.csv": daily_rows(3)})
    assert run(monkeypatch, "commit", campaign) == 0
    result = troth.pay(campaign, ledger=tmp_path / "l.jsonl")
    assert len({r.seed for r in result.rounds}) == 3
    troth.verify(tmp_path / "l.jsonl")
    from troth.campaigns.seed import follows

    links = [head["link"] for head in result.ledger.of("round")]
    assert follows(links[1], links[0])
    assert not follows(links[0], links[1])


def test_late_and_early_days_are_refused(tmp_path: Path) -> None:
    text = DAILY.replace("days = 3", 'budget_per = "day"')
    path = write_campaign(tmp_path, text, {"clinics.csv": daily_rows(2)})
    ledger = tmp_path / "l.jsonl"
    troth.pay(path, ledger=ledger)
    early = daily_rows(2) + "Ash,2026-04-01,1\nBirch,2026-04-01,0\n"
    (tmp_path / "clinics.csv").write_text(early)
    with pytest.raises(DataError, match="day 2026-04-01 came after day 2026-05-01 was paid"):
        troth.pay(path, ledger=ledger)


def test_unequal_sizes_name_the_provider(tmp_path: Path) -> None:
    path = write_campaign(tmp_path, DAILY, {"clinics.csv": daily_rows(2) + "Elm,2026-05-02,1\n"})
    result = troth.pay(path, final=True)
    assert len(result.rounds) == 2
    everybody = "".join(
        f"{name},2026-05-02,1\n" for name in sorted({r.split(",")[0] for r in daily_rows(2).split()[1:]})
    )
    path = write_campaign(tmp_path / "all", DAILY, {"clinics.csv": daily_rows(2) + everybody})
    with pytest.raises(DataError, match="no provider has the same rows.*provider 'Ash'.*exchangeable"):
        troth.pay(path, final=True)


def test_a_day_of_one_report_is_paid_where_days_are_compared_and_everybody_invited_is_known(tmp_path: Path) -> None:
    lines = daily_rows(3).splitlines()
    rows = [line for line in lines if ",2026-05-02," not in line or line.startswith("Ash,")]
    alone = DAILY.replace("[data]", '[data]\nproviders = ["Ash", "Birch", "Elm"]')
    path = write_campaign(tmp_path, alone, {"clinics.csv": "\n".join(rows) + "\n"})
    result = troth.pay(path, final=True).verify()
    assert [len(day.payments) for day in result.rounds] == [3, 1, 3]
    (lonely,) = result.rounds[1].payments
    assert lonely.share == lonely.empty_share == result.rounds[0].payments[0].share
    assert lonely.cap == result.rounds[0].payments[0].cap
    assert "Ash" in result.to_html(simulations=200)
    path = write_campaign(tmp_path / "whoever", DAILY, {"clinics.csv": "\n".join(rows) + "\n"})
    with pytest.raises(DataError, match=r"day 2026-05-02: a round needs .* list everybody who is invited in \[data\]"):
        troth.pay(path, final=True)


def test_groups_share_a_cap_and_weights_set_it() -> None:
    frame = {"who": ["a"] * 5 + ["b"] * 5 + ["c"] * 5, "x": [1, 1, 1, 0, 1] * 3}
    terms = {"groups": {"owner": ["a", "b"]}}
    result = troth.pay(frame, BERNOULLI, provider="who", budget="900", terms=terms, seed=1).verify()
    assert [p.cap for p in result.rounds[0].payments] == [22500, 22500, 45000]
    weights = {"a": "0.1", "b": Decimal("0.2"), "c": Fraction(3, 10)}
    weighed = troth.pay(frame, BERNOULLI, provider="who", budget="900", terms={"weights": weights}, seed=1)
    assert [p.cap for p in weighed.verify().rounds[0].payments] == [9000, 18000, 27000]


def test_related_providers_are_not_each_others_peers_on_any_day() -> None:
    rng = np.random.default_rng(8)
    names, days, rows = ("a", "b", "c", "d"), 3, 6
    x = rng.integers(0, 2, (days, len(names), rows))
    frame = {
        "who": np.tile(np.repeat(names, rows), days),
        "day": np.repeat(np.arange(days), len(names) * rows),
        "x": x.ravel(),
    }
    terms = {"groups": {"owner": ["a", "b"]}}
    options: dict[str, Any] = {"provider": "who", "day": "day", "columns": "x", "budget": "900", "final": True}
    paid = troth.pay(frame, BERNOULLI, troth.MultiDay(), terms=terms, **options).verify()
    t = np.array([[BERNOULLI.statistics(report) for report in day] for day in x])
    expected = troth.MultiDay().explain(BERNOULLI, t, groups=["owner", "owner", "c", "d"]).share
    np.testing.assert_allclose([[p.share for p in day.payments] for day in paid.rounds], expected, rtol=1e-12)


@pytest.mark.parametrize("more", ["0.50000000000000000001", "500000000000000000001/1000000000000000000000"])
def test_weights_add_up_to_one_exactly(more: str) -> None:
    terms: dict[str, Any] = {"campaign": {"name": "x", "budget": "9"}, "model": {"family": "Bernoulli", "column": "x"}}
    terms["model"] |= {"prior": {"alpha": 1, "beta": 1}}
    assert Campaign.from_dict({**terms, "weights": {"a": "0.5", "b": "1/2"}}).weights["b"] == Fraction(1, 2)
    with pytest.raises(CampaignError, match="more than 1"):
        Campaign.from_dict({**terms, "weights": {"a": "0.5", "b": more}})


def test_invited_providers_who_do_not_report_keep_their_cap_unspent() -> None:
    frame = {"who": ["a"] * 5 + ["b"] * 5, "x": [1, 1, 1, 0, 1] * 2}
    terms = {"data": {"providers": ["a", "b", "c"]}}
    result = troth.pay(frame, BERNOULLI, provider="who", budget="900", terms=terms, seed=1).verify()
    assert [p.cap for p in result.rounds[0].payments] == [30000, 30000]


def test_providers_with_other_noise_share_the_prior() -> None:
    rng = np.random.default_rng(1)
    frame = {"who": np.repeat(["a", "b", "c"], 20), "x": rng.normal(1, 1, 60)}
    sharp = troth.models.Normal(0, 2, 1)
    terms = {"model": {"providers": {"c": troth.models.Normal(0, 2, 9)}}}
    result = troth.pay(frame, sharp, provider="who", budget="900", terms=terms, seed=1).verify()
    assert abs(result.payment("c").log_pmi or 0) < abs(result.payment("a").log_pmi or 0)


def test_bonded_payments_may_be_taken_from_the_deposit() -> None:
    frame = {"who": ["a"] * 9 + ["b"] * 9 + ["c"] * 9, "x": [1] * 18 + [0] * 9}
    result = troth.pay(
        frame, BERNOULLI, troth.Bonded(troth.SyntheticPeers()), provider="who", budget="900", seed=1
    ).verify()
    amounts = {p.provider: (p.payment, p.deposit) for p in result.rounds[0].payments}
    assert amounts["c"][0] < 0
    assert all(-deposit <= payment for payment, deposit in amounts.values())
    assert result.paid <= 90_000


def test_a_deposit_is_rounded_up_so_that_it_covers_what_can_be_lost() -> None:
    frame = {"who": ["a"] * 9 + ["b"] * 9 + ["c"] * 9, "x": [1] * 18 + [0] * 9}
    rule = troth.Bonded(troth.LineUp(decoys=9))
    result = troth.pay(frame, BERNOULLI, rule, provider="who", budget="10", seed=1).verify()
    assert {p.deposit for p in result.rounds[0].payments} == {84}  # a quarter of a third of 10.00, which is 83⅓ cents


def test_nobody_loses_a_cent_more_than_the_deposit() -> None:
    """A tenth as a number in binary is a little more than a tenth: of 300.00, a cent more than the deposit."""
    frame = {"who": ["a"] * 9 + ["b"] * 9 + ["c"] * 9, "x": [1] * 18 + [0] * 9}
    rule = troth.Bonded(troth.LineUp(rivals=10, decoys=19))
    paid = troth.pay(frame, BERNOULLI, rule, provider="who", budget="900", seed=1).verify()
    (of_c,) = [p for p in paid.rounds[0].payments if p.provider == "c"]
    assert portion(of_c.share, Fraction(of_c.cap)) == -30_01
    assert (of_c.payment, of_c.deposit) == (-30_00, 30_00)


class Rayleigh:
    """A custom model, with two functions."""

    def statistics(self, data: Any) -> Any:
        x = np.asarray(data, dtype=float)
        return np.array([len(x), (x**2 / 2).sum()])

    def log_evidence(self, t: Any) -> Any:
        from scipy.special import gammaln

        return gammaln(3 + t[..., 0]) - (3 + t[..., 0]) * np.log(2 + t[..., 1])


def test_a_model_of_ones_own_is_paid_and_verified(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"who": np.repeat(["a", "b", "c"], 20), "day": [1, 2] * 30, "height": rng.rayleigh(1, 60)})
    result = troth.pay(frame, Rayleigh(), troth.MultiDay(), provider="who", day="day", budget="900")
    result.write_ledger(tmp_path / "l.jsonl")
    result.write_page(tmp_path / "r.html")
    assert troth.verify(tmp_path / "l.jsonl", model=Rayleigh()).totals == result.totals
    with pytest.raises(TypeError, match="model="):
        troth.verify(tmp_path / "l.jsonl")


class Unregistered(troth.models.Normal):
    """A family that nobody registered."""


class Halved(troth.models.Normal):
    """Another one, which has a bundled family's name and reads half of each value."""

    def from_summary(self, summary: Any, /) -> Any:
        return super().from_summary(summary * [1, 0.5])


Halved.__name__ = "Normal"


def test_a_family_that_is_not_registered_is_paid_as_a_custom_model(tmp_path: Path) -> None:
    frame = pd.DataFrame({"who": np.repeat(["a", "b", "c"], 20), "x": np.random.default_rng(1).normal(size=60)})

    def pay(model: Any) -> Any:
        return troth.pay(frame, model, provider="who", budget="900", seed=1, anyway=True)

    bundled, paid, halved = (pay(kind(0, 1, 1)) for kind in (troth.models.Normal, Unregistered, Halved))
    assert paid.totals == bundled.totals != halved.totals
    paid.write_ledger(tmp_path / "l.jsonl")
    paid.write_page(tmp_path / "r.html")
    assert troth.verify(tmp_path / "l.jsonl", model=Unregistered(0, 1, 1)).totals == paid.totals
    with pytest.raises(TypeError, match="model="):
        troth.verify(tmp_path / "l.jsonl")
    with pytest.raises(troth.ParameterError, match="a custom model applies to all providers"):
        troth.pay(
            frame,
            Unregistered(0, 1, 1),
            provider="who",
            budget="9",
            terms={"model": {"providers": {"a": {"noise": 2}}}},
        )


def test_an_unregistered_family_is_in_no_file_and_no_table_of_providers(tmp_path: Path) -> None:
    frame = pd.DataFrame({"who": ["a", "b", "c"], "x": [1.0, 2.0, 3.0]})
    for family in (Unregistered, Halved):
        with pytest.raises(troth.ParameterError, match="is not registered, so nobody could load it"):
            troth.save_model(family(0, 1, 1), tmp_path / "model.json")
        with pytest.raises(troth.ParameterError, match="takes models of the same family, Normal; that of 'a' is of"):
            troth.pay(
                frame,
                troth.models.Normal(0, 1, 1),
                provider="who",
                budget="9",
                terms={"model": {"providers": {"a": family(0, 1, 2)}}},
            )
    assert not list(tmp_path.iterdir())


def test_an_unregistered_regression_is_paid_as_a_registered_one() -> None:
    class Line(troth.models.LinearRegression):
        """An empty subclass."""

    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"who": np.repeat(["a", "b", "c"], 8), "x": rng.normal(size=24), "y": rng.normal(size=24)})

    def pay(kind: Any, **terms: Any) -> Any:
        model = kind(mean=[0, 0], precision=[[1, 0], [0, 1]], noise=1)
        return troth.pay(frame, model, provider="who", budget="9", seed=1, terms={"model": terms}).verify()

    options = {"intercept": True, "target": "y"}
    assert pay(Line, **options).totals == pay(troth.models.LinearRegression, **options).totals


class Answered(Rayleigh):
    """Rows of 0 say nothing, and count as rows."""

    def statistics(self, data: Any) -> Any:
        return super().statistics(np.asarray(data)[np.asarray(data) > 0])


def test_rows_that_change_no_statistic_are_not_added_to_what_was_paid_for(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"who": np.repeat(["a", "b", "c"], 20), "day": [1, 2] * 30, "height": rng.rayleigh(1, 60)})
    options: dict[str, Any] = {"provider": "who", "day": "day", "budget": "900", "ledger": tmp_path / "l.jsonl"}
    troth.pay(frame, Answered(), troth.MultiDay(), **options)
    more = pd.concat([frame, pd.DataFrame({"who": ["b"], "day": [1], "height": [0.0]})])
    with pytest.raises(DataError, match=r"'b'.*: the data have changed since .* \(10 rows then, 11 now\)"):
        troth.pay(more, Answered(), troth.MultiDay(), **options)


@pytest.fixture(scope="module")
def preloaded() -> Iterator[Preloaded]:
    preloaded = Preloaded()
    yield preloaded
    preloaded.close()


_KILLS = 200 if SOAK else 20
_LANES = 4 if SOAK else 1


@pytest.mark.parametrize("lane", range(_LANES))
def test_killed_at_any_moment_nobody_is_paid_twice(lane: int, tmp_path: Path, preloaded: Preloaded) -> None:
    """Kill -9 at random moments; each rerun must find a whole ledger, or none, and finish with each paid exactly once."""
    chance = random.Random(lane)
    command = ["pay", str(tmp_path / "campaign.toml"), "--no-report", "--final"]
    ledger = tmp_path / "ledger.jsonl"
    files: dict[str, str | bytes] = {"clinics.csv": daily_rows(1)}
    write_campaign(tmp_path, DAILY.replace("days = 3", 'budget_per = "day"'), files)
    for name in ("first.jsonl", "second.jsonl"):  # the first one waits until all is imported
        started = time.perf_counter()
        assert preloaded.run(tmp_path, *command, "--ledger", tmp_path / name).code == 0
        usual = time.perf_counter() - started
    kills = _KILLS // _LANES
    interrupted = 0
    for attempt in range(kills):
        if attempt % 10 == 0:  # begin anew, with a day more each time that it is finished
            ledger.unlink(missing_ok=True)
            days = 2 + attempt % 20 // 10
            (tmp_path / "clinics.csv").write_text(daily_rows(days))
        process = preloaded.start(tmp_path, *command)
        time.sleep(usual * chance.uniform(0.1, 1.1))
        with suppress(ProcessLookupError):  # it has ended
            os.kill(process, signal.SIGKILL)
        interrupted += preloaded.wait(tmp_path).code == -signal.SIGKILL
        if ledger.exists():
            troth.verify(ledger)
        if attempt % 10 == 9:
            assert preloaded.run(tmp_path, *command).code == 0
            result = troth.verify(ledger)
            keys = [(r.day, p.provider) for r in result.rounds for p in r.payments]
            assert len(keys) == len(set(keys)) == 3 * days
            assert not list(tmp_path.glob(".*.tmp"))
    assert interrupted > 0


_DYING = """
import os
calls = 0
def dying(real):
    def call(*a, **k):
        global calls
        calls += 1
        if calls == {fatal}:
            os._exit(9)
        return real(*a, **k)
    return call
import pathlib
os.fsync = dying(os.fsync); pathlib.Path.replace = dying(pathlib.Path.replace); os.open = dying(os.open)
"""


def test_killed_at_every_step_of_writing(tmp_path: Path, preloaded: Preloaded) -> None:
    campaign = write_campaign(tmp_path, GOOD)
    codes = []
    for step in range(1, 30):
        died = preloaded.run(tmp_path, "pay", campaign, first=_DYING.format(fatal=step))
        codes.append(died.code)
        ledger = tmp_path / "ledger.jsonl"
        if ledger.exists():
            troth.verify(ledger)
        if died.code == 0:
            break
        assert died.code == 9, died.output
    assert codes[-1] == 0
    assert len(codes) >= 5
    assert not list(tmp_path.glob(".*.tmp"))
    assert len(open_ledger(tmp_path / "ledger.jsonl").rounds[0].payments) == 3
    assert os.path.exists(tmp_path / "report.html")


def test_the_head_depends_on_every_line_before() -> None:
    first, second = Ledger(), Ledger()
    for ledger, name in ((first, "a"), (second, "b")):
        ledger.append({"entry": "note", "name": name})
        ledger.append({"entry": "note", "name": "the same"})
    assert first.head != second.head


@pytest.mark.parametrize("write", [write_atomic, replace_private, create_private], ids=lambda write: write.__name__)
def test_a_file_is_on_the_disk_before_it_takes_its_place_and_so_is_the_folder(
    write: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In this order, or a power failure leaves an empty file, or none."""
    done: list[str] = []
    fsync, replace, link = os.fsync, Path.replace, os.link

    def synced(handle: int) -> None:
        done.append("folder" if Path(os.readlink(f"/proc/self/fd/{handle}")).is_dir() else "file")
        fsync(handle)

    def replaced(self: Path, target: Path) -> Path:
        done.append("in place")
        return replace(self, target)

    def linked(source: Path, target: Path) -> None:
        done.append("in place")
        link(source, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "link", linked)
    monkeypatch.setattr(Path, "replace", replaced)
    write(tmp_path / "kept", b"content")
    assert done == ["file", "in place", "folder"]
    assert (tmp_path / "kept").read_bytes() == b"content"


def test_nobody_else_reads_or_writes_a_ledger_while_it_is_paid_into(tmp_path: Path) -> None:
    write_campaign(tmp_path)
    folder = os.open(tmp_path, os.O_RDONLY)

    def approve(result: troth.Result) -> bool:
        with pytest.raises(BlockingIOError):
            fcntl.flock(folder, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return bool(result.paid_now)

    paid = pay_campaign(troth.Campaign.load(tmp_path / "campaign.toml"), ledger=tmp_path / "l.jsonl", approve=approve)
    assert paid.paid_now
    fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)  # the next one's turn
    os.close(folder)


def test_a_ledger_that_another_version_began_is_compared_to_nine_digits() -> None:
    mine = {"entry": "round", "versions": versions()}
    other = {"entry": "round", "versions": {**versions(), "numpy": "1.0"}}
    ledgers = ([mine, mine], [other, mine], [mine, other], [other])
    assert [tolerance(Ledger(rounds)) for rounds in ledgers] == [0.0, TOLERANCE, TOLERANCE, TOLERANCE]


def test_numbers_that_are_not_finite_survive_writing_and_reading() -> None:
    usual: dict[str, Any] = {"log_pmi": 0.1, "score": 0.2, "low": 0.0, "high": 1.0, "share": 0.5, "empty_share": 0.1}
    for name in ("log_pmi", "score", "low", "high"):
        for value in (-inf, inf):
            figures = Figures(**usual | {"terms": {}, "note": "", name: value})
            assert read_figures(finite(vars(figures))) == figures


def test_two_reports_cannot_share_a_nonce() -> None:
    def reports(*nonces: str | None) -> list[Report]:
        return [Report(str(i), None, 1, np.array([0.0, 1.0]), nonce=nonce) for i, nonce in enumerate(nonces)]

    reject_same_nonce(reports("a", "b", None, None))
    for same in (("a", "a"), ("a", "b", "a"), ("a", None, "a")):
        with pytest.raises(DataError, match="the same nonce"):
            reject_same_nonce(reports(*same))
    terms: dict[str, Any] = {"campaign": {"name": "x", "budget": "1.00"}, "mechanism": {"rule": "LineUp"}}
    terms["model"] = {"family": "Bernoulli", "columns": ["x"], "prior": {"alpha": 1, "beta": 1}}
    for nonces, valid in ((("a", "b"), True), (("a", "a"), False)):
        ledger = Ledger()
        pay_rounds(troth.Campaign.from_dict(terms), reports(*nonces), ledger)
        with nullcontext() if valid else pytest.raises(LedgerError, match="the same nonce"):
            troth.verify(ledger)


@pytest.mark.parametrize("largest", [1.0, 10.0, 1e6])
def test_the_last_digit_of_an_engine_moves_no_seed_at_a_power_of_ten(largest: float) -> None:
    below = float(np.nextafter(largest, 0))
    assert leaf_of(None, 3, [below, 0.5], None) == leaf_of(None, 3, [largest, 0.5], None)
