"""Public data in a campaign: in everybody's prior, in the terms, in the ledger, and on the page."""

from __future__ import annotations

import dataclasses
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import troth
from campaigns.shop import CLINICS, GOOD, frame_of, reductions, run, toml_of, value_columns, write_campaign
from campaigns.test_ledger import DAILY, DRAWING, daily_rows
from rayleigh import registered
from registry import EXAMPLES
from troth.campaigns.check import audit_campaign, certify_campaign, setting_of
from troth.campaigns.records.canonical_json import digest
from troth.campaigns.records.ledger import Ledger, LedgerError, read_ledger
from troth.core.settings import CampaignError
from troth.results.findings import check_result
from troth.results.pay import open_ledger, pay_campaign

REGISTER = "improved\n" + "1\n" * 30 + "0\n" * 10
KNOWN = GOOD.replace('provider = "clinic"', 'provider = "clinic"\npublic = "register.csv"')
EVERY_DAY = DAILY.replace('provider = "clinic"', 'provider = "clinic"\npublic = "forecast.csv"')
BY_DAY = EVERY_DAY.replace('rule = "MultiDay"', 'rule = "SyntheticPeers"\ndraws = 16')
FORECAST = "day,improved\n" + "".join(f"2026-05-0{day},{x}\n" for day, row in ((1, "1110"), (2, "0001")) for x in row)
BERNOULLI = troth.models.Bernoulli(1, 1)


def known_campaign(folder: Path, text: str = KNOWN, **files: str) -> Path:
    contents = {f"{name}.csv": content for name, content in files.items()}
    return write_campaign(folder, text, {"clinics.csv": CLINICS, "register.csv": REGISTER, **contents})


def shares(result: troth.Result) -> list[float]:
    return [payment.share for paid_round in result.rounds for payment in paid_round.payments]


@settings(max_examples=5, deadline=None)
@given(st.integers(0, 60), st.integers(0, 60), st.booleans())
def test_public_rows_are_pseudo_counts_of_the_prior(ones: int, zeros: int, drawing: bool) -> None:
    """A Beta prior and public rows pay what the updated Beta pays, to the last bit."""
    clinics = pd.DataFrame({"clinic": list("aaabbbccc"), "improved": [1, 1, 0, 1, 0, 0, 1, 1, 1]})
    options: dict[str, Any] = {"provider": "clinic", "budget": "90.00", "seed": 3}
    rule = troth.SyntheticPeers(draws=8) if drawing else troth.OneTime(troth.ScoreRange(-60, 5))
    public = {"improved": [1] * ones + [0] * zeros + [1]}
    with_public = troth.pay(clinics, BERNOULLI, rule, public=public, **options)
    updated = troth.pay(clinics, troth.models.Bernoulli(2 + ones, 1 + zeros), rule, **options)
    assert shares(with_public) == shares(updated)
    with_public.verify()


def test_limits_on_reports_do_not_bind_public_rows() -> None:
    shops = {"shop": list("aabb"), "price": [19.0, 21.0, 20.0, 22.0]}
    options: dict[str, Any] = {"provider": "shop", "budget": "90.00", "terms": {"limits": {"values": [10, 30]}}}
    model = troth.models.Normal(20, 5, 2)
    with_public = troth.pay(
        shops, model, troth.SyntheticPeers(draws=8), public={"price": [35.0, 5.0]}, seed=1, **options
    )
    assert with_public.campaign.public[None].rows == 2
    with pytest.raises(troth.DataError, match="35"):
        troth.pay({**shops, "price": [19.0, 21.0, 20.0, 35.0]}, model, **options)


DRAWN_ANOTHER_WAY = ("regression, unknown noise", "provider normal")
"""Their posterior draws the same peers by other numbers than a prior with public data does."""


def log_pmi(result: Any) -> list[float]:
    return [payment.log_pmi for payment in result.rounds[0].payments]


@pytest.mark.parametrize("name", reductions())
def test_from_a_file_to_verified_payments(name: str, tmp_path: Path) -> None:
    model: Any = EXAMPLES[name]
    frame, public = frame_of(name), frame_of(name, providers=2, rows=20, seed=6)
    frame.to_csv(tmp_path / "rows.csv", index=False)
    public.drop(columns=["who", "day"]).to_csv(tmp_path / "register.csv", index=False)
    path = tmp_path / "campaign.toml"
    path.write_text(toml_of(model, frame, "rows.csv", data='public = "register.csv"\n'))
    result = troth.pay(path, seed=4, ledger=tmp_path / "ledger.jsonl", anyway=True)
    columns = value_columns(frame)
    rows = public[columns].to_numpy(dtype=float)
    data = (rows[:, :-1], rows[:, -1]) if model.explains_target else rows if model.row_axes else rows[:, 0]
    updated: Any = troth.posterior(model, model.statistics(data))
    rule = troth.SyntheticPeers(draws=8)
    same = troth.pay(frame, updated, rule, provider="who", columns=columns, budget="1000.00", seed=4)
    np.testing.assert_allclose(log_pmi(result), log_pmi(same), atol=1e-9)
    if name not in DRAWN_ANOTHER_WAY:
        np.testing.assert_allclose(shares(result), shares(same), atol=1e-9)
    terms = read_ledger(tmp_path / "ledger.jsonl").entries[0]["terms"]
    assert terms["public"]["rows"] == len(public)
    assert terms["public"]["digest"] == "sha256:" + sha256((tmp_path / "register.csv").read_bytes()).hexdigest()
    assert "public" not in terms["data"]
    (tmp_path / "register.csv").write_text("changed")
    assert shares(troth.verify(tmp_path / "ledger.jsonl")) == shares(result)


def test_what_is_public_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    path = known_campaign(tmp_path)
    assert run(monkeypatch, "pay", path) == 0
    page = (tmp_path / "report.html").read_text()
    assert "register.csv" in page
    assert sha256(REGISTER.encode()).hexdigest() in page
    assert "copy the public data" in page
    (tmp_path / "register.csv").unlink()
    assert run(monkeypatch, "verify", tmp_path / "ledger.jsonl") == 0
    capsys.readouterr()
    assert run(monkeypatch, "explain", tmp_path / "ledger.jsonl", "Ash") == 0
    assert "40 rows" in capsys.readouterr().out


def rewritten(ledger: Path, change: Any) -> Ledger:
    """Change entries and hash them anew, as a forger would."""
    entries = [dict(entry) for entry in read_ledger(ledger).entries]
    change(entries)
    return Ledger(entries)


def test_a_forged_summary_is_found(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.jsonl"
    troth.pay(known_campaign(tmp_path), ledger=ledger, anyway=True)

    def forge(entries: Any, digest_too: bool, summary: list[float]) -> None:
        entries[0]["terms"]["public"]["summary"] = summary
        if digest_too:
            entries[0]["digest"] = digest(entries[0]["terms"])

    with pytest.raises(LedgerError, match="digest"):
        troth.verify(rewritten(ledger, lambda entries: forge(entries, False, [12.0, 28.0])))
    with pytest.raises(LedgerError, match="recomputing"):
        troth.verify(rewritten(ledger, lambda entries: forge(entries, True, [12.0, 28.0])))
    with pytest.raises(LedgerError, match="rows is 40"):
        troth.verify(rewritten(ledger, lambda entries: forge(entries, True, [12.0, 27.0])))


def test_public_data_do_not_change_once_payments_began(tmp_path: Path) -> None:
    text = EVERY_DAY.replace('rule = "MultiDay"', 'rule = "OneTime"\nrange = "clipped"')
    ledger = tmp_path / "ledger.jsonl"
    path = known_campaign(tmp_path, text, forecast=REGISTER, clinics=daily_rows(2))
    first = troth.pay(path, ledger=ledger, anyway=True)
    assert len(first.rounds) == 2
    known_campaign(tmp_path, text, forecast=REGISTER + "1\n", clinics=daily_rows(3))
    with pytest.raises(LedgerError, match="public data have changed since the first payment"):
        troth.pay(path, ledger=ledger, anyway=True)
    known_campaign(tmp_path, text, forecast=REGISTER, clinics=daily_rows(3))
    assert len(troth.pay(path, ledger=ledger, anyway=True).rounds) == 3
    troth.verify(ledger)


def test_each_day_has_its_own(tmp_path: Path) -> None:
    """Days are conditioned on their own public rows, which arrive with them; a day without any keeps the prior."""
    ledger = tmp_path / "ledger.jsonl"
    path = known_campaign(tmp_path, BY_DAY, forecast=FORECAST, clinics=daily_rows(1))
    troth.pay(path, ledger=ledger, anyway=True)
    known_campaign(tmp_path, BY_DAY, forecast=FORECAST, clinics=daily_rows(3))
    result = troth.pay(path, ledger=ledger, anyway=True)
    assert [entry["day"] for entry in read_ledger(ledger).of("public")] == ["2026-05-01", "2026-05-02"]
    assert troth.verify(ledger).paid == result.paid
    reports = result.reports
    for paid, model in zip(
        result.rounds, (troth.models.Bernoulli(4, 2), troth.models.Bernoulli(2, 4), BERNOULLI), strict=True
    ):
        reports_of_day = [report for report in reports if report.day == paid.day]
        t = np.array([report.summary[::-1] for report in reports_of_day])
        values = troth.peer_log_pmi(model, t)
        assert [payment.log_pmi for payment in paid.payments] == pytest.approx(values.tolist(), abs=1e-12)
    known_campaign(tmp_path, BY_DAY, forecast=FORECAST.replace("05-01,0", "05-01,1"), clinics=daily_rows(3))
    with pytest.raises(troth.DataError, match="day 2026-05-01: the public data have changed"):
        troth.pay(path, ledger=ledger, anyway=True)
    assert "forecast.csv" in open_ledger(ledger).write_page(tmp_path / "page.html", simulations=200).read_text()


def test_forged_public_data_of_a_day_are_found(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.jsonl"
    troth.pay(known_campaign(tmp_path, BY_DAY, forecast=FORECAST, clinics=daily_rows(3)), ledger=ledger, anyway=True)

    def swap(entries: Any) -> None:
        entry = next(entry for entry in entries if entry["entry"] == "public")
        entry["summary"] = entry["summary"][::-1]

    def drop(entries: Any) -> None:
        entries.remove(next(entry for entry in entries if entry["entry"] == "public"))

    def twice(entries: Any) -> None:
        entries.insert(1, next(entry for entry in entries if entry["entry"] == "public"))

    def set_to(key: str, value: Any) -> Any:
        return lambda entries: next(entry for entry in entries if entry["entry"] == "public").update({key: value})

    malformed = [set_to("summary", value) for value in ("x", None, [1], ["a", "b"], [-1, 5], [[1], [2]])]
    malformed += [set_to("day", value) for value in (None, [1], 7, "2026-05-02")]
    for change in (swap, drop, twice, set_to("rows", 5), set_to("digest", ""), *malformed):
        with pytest.raises(LedgerError):
            troth.verify(rewritten(ledger, change))


def test_a_service_takes_no_public_data_by_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    path = known_campaign(tmp_path, BY_DAY, forecast=FORECAST, clinics=daily_rows(1))
    assert run(monkeypatch, "create", path) == 1
    assert "the same public data on every day" in " ".join(capsys.readouterr().err.split())


def test_public_days_are_of_the_same_kind(tmp_path: Path) -> None:
    with pytest.raises(troth.DataError, match="use one kind"):
        troth.pay(known_campaign(tmp_path, BY_DAY, forecast="day,improved\n1,1\n", clinics=daily_rows(3)))


def test_days_that_are_compared_share_their_public_data(tmp_path: Path) -> None:
    path = known_campaign(tmp_path, EVERY_DAY, forecast=FORECAST, clinics=daily_rows(3))
    with pytest.raises(troth.DataError, match="MultiDay compares days"):
        troth.pay(path)
    path = known_campaign(tmp_path, EVERY_DAY, forecast=REGISTER, clinics=daily_rows(3))
    troth.pay(path).verify()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("improved\n1\n2\n", "public data: .*column 'improved'.*row 2 of register.csv"),
        ("better\n1\n", "register.csv: there is no column 'improved'"),
        ("improved\n", "no rows"),
        ("improved\n1\n\nx\n", "row 2 of register.csv"),
    ],
)
def test_errors_name_file_row_and_column(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(troth.DataError, match=f"(?s){message}"):
        troth.pay(known_campaign(tmp_path, register=content))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(troth.DataError, match=r"nowhere.csv: there is no such file"):
        troth.pay(known_campaign(tmp_path, KNOWN.replace("register.csv", "nowhere.csv")))


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("rows = 3\nsummary = [1, 2, 3]", "3 numbers"),
        ("rows = 3\nsummary = [1, 1]", "rows is 3"),
        ("rows = 3\nsummary = [4, -1]", "at least 0"),
        ("rows = 3", "summary: is missing"),
        ("rows = 3\nsummary = [1, 2]\nday = 3", "no such setting"),
        ('rows = 3\nsummary = [1, 2]\ndigest = "1"', "digest"),
        ('rows = 3\nsummary = "12"', "list of numbers"),
    ],
)
def test_impossible_summaries_are_refused(tmp_path: Path, table: str, message: str) -> None:
    with pytest.raises(CampaignError, match=message):
        troth.Campaign.load(write_campaign(tmp_path, f"{GOOD}\n[public]\n{table}\n"))


def test_a_summary_in_the_file_is_as_good_as_its_rows(tmp_path: Path) -> None:
    rows = troth.pay(known_campaign(tmp_path / "rows"))
    summed = troth.pay(write_campaign(tmp_path / "sums", GOOD + "\n[public]\nrows = 40\nsummary = [10, 30]\n"))
    assert shares(rows) == shares(summed)
    with pytest.raises(CampaignError, match="there is a table .public.; keep one"):
        troth.Campaign.load(write_campaign(tmp_path / "both", KNOWN + "\n[public]\nrows = 40\nsummary = [10, 30]\n"))


def test_public_data_among_the_reports_are_nobodys_report(tmp_path: Path) -> None:
    text = KNOWN.replace('provider = "clinic"\n', "").replace('"clinics.csv"', '"*.csv"')
    rows = {
        f"{name}.csv": "improved\n" + "".join(f"{x}\n" for x in row) for name, row in (("Ash", "110"), ("Elm", "01"))
    }
    path = write_campaign(tmp_path, text, {**rows, "register.csv": REGISTER})
    assert list(troth.pay(path).totals) == ["Ash", "Elm"]


def test_tables_of_any_kind_give_the_same(tmp_path: Path) -> None:
    import ibis
    import pyarrow as pa

    frame, public = frame_of("normal"), frame_of("normal", providers=3, seed=9)
    options: dict[str, Any] = {"provider": "who", "columns": "c0", "budget": "100.00", "seed": 1}
    public.to_parquet(tmp_path / "register.parquet")
    public[:40].to_csv(tmp_path / "one.csv", index=False)
    public[40:].to_csv(tmp_path / "two.csv", index=False)
    tables = [
        public,
        {"c0": public["c0"].tolist()},
        pa.Table.from_pandas(public),
        ibis.memtable(public),
        tmp_path / "register.parquet",
        [tmp_path / "one.csv", tmp_path / "two.csv"],
    ]
    payments = [shares(troth.pay(frame, EXAMPLES["normal"], public=table, **options)) for table in tables]
    for other in payments[1:]:
        assert other == pytest.approx(payments[0], abs=1e-12)


def test_providers_with_models_of_their_own() -> None:
    """The public rows are read with the campaign's model, and condition everybody's."""
    frame, public = frame_of("provider normal"), frame_of("provider normal", providers=1, seed=9)
    model: Any = EXAMPLES["provider normal"]
    other = dataclasses.replace(model, offset=1.0, noise=0.5)
    terms = {"model": {"providers": {"provider 1": other}}}
    options: dict[str, Any] = {"provider": "who", "columns": "c0", "budget": "100.00", "seed": 1, "terms": terms}
    result = troth.pay(frame, model, public=public, **options)
    result.verify()
    z = model.statistics(public["c0"])
    names = sorted(set(frame["who"]))
    models = [other if name == "provider 1" else model for name in names]
    t = np.array([m.statistics(frame.loc[frame["who"] == name, "c0"]) for m, name in zip(models, names, strict=True)])
    total = t.sum(axis=0)
    expected = [float(troth.log_pmi(model, a, total - a + z) - troth.log_pmi(model, a, z)) for a in t]
    log_pmi = [payment.log_pmi for payment in result.rounds[0].payments]
    assert log_pmi == pytest.approx(expected, abs=1e-9)


class Coin:
    """A custom model: two functions and no more."""

    def statistics(self, data: Any) -> Any:
        x = np.asarray(data)
        return np.stack([x.sum(axis=-1), (1 - x).sum(axis=-1)], axis=-1)

    def log_evidence(self, t: Any) -> Any:
        return BERNOULLI.log_evidence(t)


def test_a_custom_model(tmp_path: Path) -> None:
    clinics = pd.DataFrame({"clinic": list("aaabbbccc"), "improved": [1, 1, 0, 1, 0, 0, 1, 1, 1]})
    rule = troth.OneTime(troth.ScoreRange(-9, 2))
    (tmp_path / "register.csv").write_text(REGISTER)
    options: dict[str, Any] = {"provider": "clinic", "columns": "improved", "budget": "90.00"}
    for public in (tmp_path / "register.csv", {"improved": [1] * 30 + [0] * 10}):
        result = troth.pay(clinics, Coin(), rule, public=public, **options)
        same = troth.pay(clinics, troth.models.Bernoulli(31, 11), rule, **options)
        assert shares(result) == pytest.approx(shares(same), abs=1e-12)
        result.verify()


def test_a_custom_model_is_read_under_the_same_terms() -> None:
    """Bounds and rows without a value are read as a family's are."""
    rows: dict[str, Any] = {"clinic": [*"aaaabbbbccccd", None], "improved": [0, 1, None, 1] * 3 + [0] * 2}
    options: dict[str, Any] = {"provider": "clinic", "columns": "improved", "budget": "90.00"}
    options["terms"] = {"data": {"missing": "drop"}}
    rule = troth.OneTime(troth.ScoreRange(-9, 2))
    result, same = (troth.pay(rows, model, rule, **options).verify() for model in (Coin(), BERNOULLI))
    assert result.totals == same.totals
    left_out = [[(report.dropped, report.unnamed) for report in paid_round.reports] for paid_round in (result, same)]
    assert left_out[0] == left_out[1] == [(1, 1), (1, 0), (1, 0), (0, 0)]
    numbers = rows | {"improved": [0, 1, 1, 7] * 3 + [0, 0]}
    options["terms"] = {"limits": {"values": [0, 1]}, "data": {"missing": "drop"}}
    with pytest.raises(troth.DataError, match="provider 'a', column 'improved'.*row 4"):
        troth.pay(numbers, Coin(), rule, **options)
    with pytest.raises(troth.DataError, match="provider 'd': all of its 1 rows lack a value"):
        troth.pay(rows | {"improved": [0, 1, 1, 0] * 3 + [None, 0]}, Coin(), rule, **options)
    with pytest.raises(troth.DataError, match="every row lacks a value"):
        troth.pay(rows | {"improved": [None] * 14}, Coin(), rule, **options)


def test_a_family_without_a_posterior_of_its_own(tmp_path: Path) -> None:
    """Adding z to the evidence and drawing given z is as good as the conjugate update."""
    rng = np.random.default_rng(2)
    buoys = pd.DataFrame({"buoy": np.repeat(list("abcd"), 12), "height": rng.rayleigh(1.1, 48)})
    public = pd.DataFrame({"height": rng.rayleigh(1.1, 25)})
    options: dict[str, Any] = {"provider": "buoy", "budget": "90.00", "seed": 3}
    with registered() as family:
        result = troth.pay(buoys, family(3.0, 2.0), public=public, **options)
        updated = family(3.0 + len(public), 2.0 + float((public["height"] ** 2).sum()) / 2)
        assert shares(result) == pytest.approx(shares(troth.pay(buoys, updated, **options)), abs=1e-9)
        result.verify()
        findings = check_result(result, simulations=100)
        assert not findings.skipped
        assert [replay.lie for replay in findings.replays][-1] == "copy the public data"


def test_days_of_a_table_have_their_own() -> None:
    frame, public = frame_of("bernoulli", days=2), frame_of("bernoulli", providers=1, rows=9, days=2, seed=8)
    options: dict[str, Any] = {"provider": "who", "columns": "c0", "budget": "90.00", "seed": 3}
    model: Any = EXAMPLES["bernoulli"]
    result = troth.pay(frame, model, public=public, day="day", **options)
    for paid_round in result.verify().rounds:
        t = model.statistics(public.loc[public["day"] == paid_round.day, "c0"])
        alone = troth.pay(frame[frame["day"] == paid_round.day], troth.posterior(model, t), **options)
        values = [payment.log_pmi for payment in alone.rounds[0].payments]
        assert [payment.log_pmi for payment in paid_round.payments] == pytest.approx(values, abs=1e-12)


def test_audits_and_certificates_of_a_file_know_it(tmp_path: Path) -> None:
    campaign = troth.Campaign.load(known_campaign(tmp_path, KNOWN.replace("rows = 50", "rows = 4")))
    result = pay_campaign(campaign)
    setting = setting_of(campaign, result.reports)
    known = troth.Campaign.load(write_campaign(tmp_path / "same", GOOD.replace("rows = 50", "rows = 4")))
    updated = dataclasses.replace(known, model=troth.models.Bernoulli(31, 11))
    options: dict[str, Any] = {"simulations": 200, "rng": np.random.default_rng(1)}
    assert str(audit_campaign(campaign, setting, **options)) == str(
        audit_campaign(updated, setting, simulations=200, rng=np.random.default_rng(1))
    )
    assert str(certify_campaign(campaign, setting)) == str(certify_campaign(updated, setting))


def test_a_seeded_campaign_verifies_with_its_public_data(tmp_path: Path) -> None:
    text = DRAWING.replace('provider = "clinic"', 'provider = "clinic"\npublic = "register.csv"')
    result = troth.pay(known_campaign(tmp_path, text), seed=5)
    plain = troth.pay(write_campaign(tmp_path / "plain", DRAWING), seed=5)
    assert shares(result) != shares(plain)
    result.verify()


@pytest.mark.parametrize("rows", [39, 41])
def test_public_data_that_count_other_rows_than_they_say_are_refused(rows: int, tmp_path: Path) -> None:
    terms = troth.Campaign.load(known_campaign(tmp_path)).plain
    terms = {**terms, "data": {key: value for key, value in terms["data"].items() if key != "public"}}
    assert troth.Campaign.from_dict({**terms, "public": {"rows": 40, "summary": [10.0, 30.0]}}).known is not None
    with pytest.raises(CampaignError, match=f"rows is {rows}, but the summary counts 40 rows"):
        troth.Campaign.from_dict({**terms, "public": {"rows": rows, "summary": [10.0, 30.0]}})
