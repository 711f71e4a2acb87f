"""Campaigns of tasks: paid together, verified, explained, and never by likelihoods that the paid labels made."""

from __future__ import annotations

import json
from fractions import Fraction
from hashlib import sha256
from io import BytesIO
from math import floor, fsum
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import troth
from campaigns.shop import task_campaign_for
from troth.campaigns.records.ledger import Ledger
from troth.campaigns.task_checks import audit_task_campaign, certify_task_campaign
from troth.campaigns.task_data import describe_public_tasks, read_file
from troth.cli.commands import app
from troth.core.errors import DataError, ParameterError
from troth.core.settings import CampaignError
from troth.models.fitting.workers import fit_workers
from troth.results.pay import pay_task_campaign

if TYPE_CHECKING:
    from pathlib import Path

MODEL = troth.models.Finite([0.5, 0.5], [[0.8, 0.2], [0.2, 0.8]])


def crowd(tasks: int = 120, workers: int = 8, seed: int = 0, each: int = 3, start: str = "i") -> dict[str, list[Any]]:
    """Return labels of tasks by workers who are right four times in five."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(2, size=tasks)
    who = rng.random((tasks, workers)).argsort(axis=1)[:, :each]
    label = np.where(rng.random((tasks, each)) < 0.8, truth[:, None], 1 - truth[:, None])
    return {
        "item": [f"{start}{t}" for t in range(tasks) for _ in range(each)],
        "worker": [f"w{w}" for w in who.ravel()],
        "label": label.ravel().tolist(),
    }


def paid(frame: Any, **options: Any) -> Any:
    arguments: dict[str, Any] = {"provider": "worker", "task": "item", "price": "0.05", "columns": "label"} | options
    return troth.pay(frame, MODEL, **arguments)


def test_a_payment_is_the_price_times_the_sum_of_shares_rounded_down_once() -> None:
    frame = crowd()
    result = paid(frame)
    table = result.shares.to_pydict()
    for payment in result.payments:
        mine = [share for who, share in zip(table["provider"], table["share"], strict=True) if who == payment.provider]
        assert payment.rows == len(mine)
        assert payment.payment == floor(Fraction(fsum(mine)) * 5)
    one_by_one = sum(floor(Fraction(share) * 5) for share in table["share"])
    assert result.paid > one_by_one + len(result.payments)
    assert len(result.ledger.of("payment")) == 8
    assert not result.ledger.of("report")


def test_a_price_may_be_less_than_a_cent() -> None:
    cent, tenth = paid(crowd(), price="0.01"), paid(crowd(), price="0.001")
    assert 0.1 * cent.paid - len(cent.payments) < tenth.paid <= 0.1 * (cent.paid + len(cent.payments))
    assert tenth.paid > 0


def test_the_order_of_rows_does_not_matter() -> None:
    frame = crowd()
    order = np.random.default_rng(1).permutation(len(frame["item"]))
    shuffled = {name: [column[i] for i in order] for name, column in frame.items()}
    assert paid(shuffled).file == paid(frame).file


def test_a_budget_is_shared_evenly_among_reports() -> None:
    result = paid(crowd(), price=None, budget="18.00")
    assert result.ledger.of("tasks")[0]["budget"] == "18.00"
    assert result.paid == pytest.approx(paid(crowd()).paid, abs=8)
    with pytest.raises(DataError, match="more than the budget"):
        paid(crowd(), budget="17.99")


def test_a_worker_without_a_peer_gets_the_empty_share() -> None:
    frame = crowd(tasks=5)
    frame = {name: [*column, extra] for (name, column), extra in zip(frame.items(), ("alone", "w0", 1), strict=True)}
    table = paid(frame).shares.to_pydict()
    assert table["share"][table["task"].index("alone")] == pytest.approx(0.2)
    grouped = paid(crowd(tasks=9, workers=2, each=2), terms={"groups": {"home": ["w0", "w1"]}})
    assert [payment.share for payment in grouped.payments] == pytest.approx([0.2, 0.2])


@pytest.mark.parametrize("tasks", [12, 120])
def test_a_mean_share_has_the_standard_error_of_its_own_tasks_or_of_all_if_it_has_few(tasks: int) -> None:
    result = paid(crowd(tasks, workers=4, each=2))
    table = result.shares.to_pydict()
    for name, error in result.spread.items():
        mine = [share for who, share in zip(table["provider"], table["share"], strict=True) if who == name]
        spread = np.std(mine, ddof=1) if len(mine) >= 10 else np.std(table["share"])
        assert error == pytest.approx(spread / np.sqrt(len(mine)), rel=1e-12)


def test_verify_recomputes_every_share(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.jsonl"
    result = paid(crowd(), ledger=ledger)
    file = tmp_path / "ledger.tasks.parquet"
    assert troth.verify(ledger).paid == result.paid
    assert paid(crowd(), ledger=ledger).paid_now == ()
    with pytest.raises(DataError, match="differ from those that were paid"):
        paid(crowd(seed=1), ledger=ledger)

    good = file.read_bytes()
    file.write_bytes(good[:-20] + b"x" + good[-19:])
    with pytest.raises(troth.LedgerError, match="digest differs"):
        troth.verify(ledger)

    table = pq.read_table(pa.BufferReader(good))
    shares = table.column("share").to_pylist()
    shares[7] += 1e-9
    forged = BytesIO()
    pq.write_table(table.set_column(table.column_names.index("share"), "share", [shares]), forged)
    file.write_bytes(forged.getvalue())
    entries = [dict(entry) for entry in result.ledger.entries]
    entries[1]["digest"] = f"sha256:{sha256(forged.getvalue()).hexdigest()}"
    ledger.write_bytes(Ledger(entries).to_bytes())
    with pytest.raises(troth.LedgerError, match=r"is 0\.\d+, but recomputing gives 0\.\d+$"):
        troth.verify(ledger)


def test_another_version_may_write_the_same_shares_in_other_bytes(tmp_path: Path) -> None:
    ledger, file = tmp_path / "ledger.jsonl", tmp_path / "ledger.tasks.parquet"
    entries = [dict(entry) for entry in paid(crowd(), ledger=ledger).ledger.entries]
    table = pq.read_table(file)

    def written_again(table: Any, **changes: Any) -> None:
        copy = BytesIO()
        pq.write_table(table, copy, compression="gzip")
        file.write_bytes(copy.getvalue())
        entries[1] |= {"digest": f"sha256:{sha256(copy.getvalue()).hexdigest()}", **changes}
        ledger.write_bytes(Ledger(entries).to_bytes())

    written_again(table)
    assert troth.verify(ledger).paid > 0
    written_again(table, reports=entries[1]["reports"] + 1)
    with pytest.raises(troth.LedgerError, match="reports is"):
        troth.verify(ledger)
    place = table.column_names.index("log_pmi")
    raised = pa.array([1.0] * table.num_rows)
    written_again(table.set_column(place, "log_pmi", raised), reports=entries[1]["reports"] - 1)
    with pytest.raises(troth.LedgerError, match="digest is"):
        troth.verify(ledger)
    written_again(table.drop_columns("share"))
    with pytest.raises(troth.LedgerError, match="lacks required columns"):
        troth.verify(ledger)


def test_another_processor_or_version_may_differ_in_the_last_digits(tmp_path: Path) -> None:
    ledger, file = tmp_path / "ledger.jsonl", tmp_path / "ledger.tasks.parquet"
    entries = [dict(entry) for entry in paid(crowd(), ledger=ledger).ledger.entries]
    place = next(k for k, entry in enumerate(entries) if entry["entry"] == "payment")
    table, copy = pq.read_table(file), BytesIO()
    shares = table.column("share").to_numpy() + 1e-15
    pq.write_table(table.set_column(table.column_names.index("share"), "share", [shares]), copy)
    file.write_bytes(copy.getvalue())
    entries[1] |= {"digest": f"sha256:{sha256(copy.getvalue()).hexdigest()}"}
    entries[place] |= {"share": entries[place]["share"] + 1e-15}
    ledger.write_bytes(Ledger(entries).to_bytes())
    with pytest.raises(troth.LedgerError, match="the share of"):
        troth.verify(ledger)
    for entry in entries:
        if "versions" in entry:
            entry["versions"] = {**entry["versions"], "processor": "m68k"}
    ledger.write_bytes(Ledger(entries).to_bytes())
    assert troth.verify(ledger).paid > 0
    entries[place] |= {"share": entries[place]["share"] + 1e-7}
    ledger.write_bytes(Ledger(entries).to_bytes())
    with pytest.raises(troth.LedgerError, match="share is"):
        troth.verify(ledger)
    entries[place] |= {"share": entries[place]["share"] - 1e-7}
    entries[1] |= {"reports": 1}
    ledger.write_bytes(Ledger(entries).to_bytes())
    with pytest.raises(troth.LedgerError, match="reports is 1"):
        troth.verify(ledger)


def test_two_ledgers_in_a_folder_have_a_file_of_shares_each(tmp_path: Path) -> None:
    for seed, name in enumerate(("may.jsonl", "june.jsonl")):
        paid(crowd(seed=seed)).write_ledger(tmp_path / name)
    (tmp_path / "june.tasks.parquet").rename(tmp_path / "tasks.parquet")  # the name that the ledger has
    assert {troth.verify(tmp_path / name).paid for name in ("may.jsonl", "june.jsonl")} == {
        paid(crowd(seed=seed)).paid for seed in (0, 1)
    }


def test_verify_finds_a_payment_that_was_raised(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.jsonl"
    entries = [dict(entry) for entry in paid(crowd(), ledger=ledger).ledger.entries]
    entries[3]["payment"] = "9.99"
    ledger.write_bytes(Ledger(entries).to_bytes())
    with pytest.raises(troth.LedgerError, match="payment is '9.99'"):
        troth.verify(ledger)


@pytest.mark.parametrize(
    ("place", "key", "value", "message"),
    [
        (0, "time", "yesterday", "the time is missing"),
        (2, "time", "yesterday", "the time is missing"),
        (2, "versions", {}, "the versions are missing"),
        (2, "last", False, "last is False, but recomputing gives True"),
        (1, "digest", None, "digest differs"),
        (1, "dropped", -2, "dropped must be a whole number of rows, not -2"),
    ],
)
def test_verify_reads_every_line_of_tasks(tmp_path: Path, place: int, key: str, value: Any, message: str) -> None:
    ledger = tmp_path / "ledger.jsonl"
    entries = [dict(entry) for entry in paid(crowd(), ledger=ledger).ledger.entries]
    entries[place][key] = value
    ledger.write_bytes(Ledger(entries).to_bytes())
    with pytest.raises(troth.LedgerError, match=message):
        troth.verify(ledger)


def test_labels_that_are_paid_never_enter_the_likelihoods(tmp_path: Path) -> None:
    frame = crowd()
    lied = {**frame, "label": [1 if who == "w0" else x for who, x in zip(frame["worker"], frame["label"], strict=True)]}
    honest, other = paid(frame), paid(lied)
    assert honest.campaign.terms["model"] == other.campaign.terms["model"]
    mine = {task for task, who in zip(frame["item"], frame["worker"], strict=True) if who == "w0"}
    for share, other_share in zip(honest.shares.to_pylist(), other.shares.to_pylist(), strict=True):
        assert share["share"] == other_share["share"] or share["task"] in mine

    past = crowd(seed=3, start="past")
    for name, data in (("past", past), ("both", {k: past[k] + frame[k] for k in frame}), ("labels", frame)):
        rows = "\n".join(",".join(map(str, row)) for row in zip(*data.values(), strict=True))
        (tmp_path / f"{name}.csv").write_text(f"item,worker,label\n{rows}\n")
    runner = CliRunner()
    columns = ["--provider", "worker", "--task", "item", "--column", "label"]
    result = runner.invoke(app, ["init", str(tmp_path / "c"), "--data", str(tmp_path / "labels.csv"), *columns])
    assert result.exit_code == 0, result.output
    file = tmp_path / "c" / "campaign.toml"
    for history, fine in (("past", True), ("both", False)):
        fitted = tmp_path / "c" / f"{history}.toml"
        assert (
            runner.invoke(app, ["fit", str(file), str(tmp_path / f"{history}.csv"), "-o", str(fitted)]).exit_code == 0
        )
        if fine:
            assert troth.pay(fitted).paid > 0
        else:
            with pytest.raises(DataError, match="among the past tasks"):
                troth.pay(fitted)


def write_labels(file: Path, frame: dict[str, list[Any]]) -> None:
    rows = "\n".join(",".join(map(str, row)) for row in zip(*frame.values(), strict=True))
    file.write_text(f"item,worker,label\n{rows}\n")


def test_from_a_file_to_an_explanation(tmp_path: Path) -> None:
    write_labels(tmp_path / "labels.csv", crowd())
    runner = CliRunner()
    folder = tmp_path / "c"
    columns = ["--provider", "worker", "--task", "item", "--column", "label", "--price", "0.10"]
    commands = [
        ["init", str(folder), "--data", str(tmp_path / "labels.csv"), *columns],
        ["pay", str(folder / "campaign.toml"), "--csv", str(folder / "bonus.csv")],
        ["verify", str(folder / "ledger.jsonl"), "--json"],
        ["explain", str(folder / "ledger.jsonl"), "w3"],
        ["report", str(folder / "ledger.jsonl")],
    ]
    outputs = []
    for command in commands:
        done = runner.invoke(app, command)
        assert done.exit_code == 0, done.output
        outputs.append(done.output)
    assert json.loads(outputs[2])["payments"] == 8
    assert "rounded down once" in outputs[3]
    lines = (folder / "bonus.csv").read_text().splitlines()
    assert lines[0] == "provider,tasks,shares,pay_per_task,payment,reason"
    assert len(lines) == 9
    page = (folder / "report.html").read_text()
    assert "Workers by pay per task" in page
    assert "Tasks with the least agreement" in page


def test_public_guesses_are_everybodys_prior() -> None:
    frame = crowd()
    guess = {"item": [f"i{t}" for t in range(100)], "label": [t % 2 for t in range(100)]}
    likelihood = troth.models.Finite([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]])
    with_guess = paid(frame, public=guess, terms={"model": {"providers": {"public data": likelihood}}})
    reports, public, *_ = read_file(with_guess.file, with_guess.campaign)
    assert public is not None
    assert (len(public), len(reports)) == (100, 360)
    plain = {(row["task"], row["provider"]): row["share"] for row in paid(frame).shares.to_pylist()}
    changed = {
        row["task"] for row in with_guess.shares.to_pylist() if row["share"] != plain[row["task"], row["provider"]]
    }
    assert changed == {f"i{t}" for t in range(100)}
    assert with_guess.verify() is with_guess


def test_days_are_settled_together() -> None:
    rng = np.random.default_rng(2)
    rate = rng.random(20)
    frame = {
        "date": [f"2026-01-{d + 1:02d}" for d in range(20) for _ in range(4) for _ in range(15)],
        "clinic": ["abcd"[c] for _ in range(20) for c in range(4) for _ in range(15)],
        "improved": (rng.random((20, 60)) < rate[:, None]).ravel().astype(int).tolist(),
    }
    model = troth.models.Bernoulli(1, 1)
    options: dict[str, Any] = {"provider": "clinic", "task": "date", "budget": "800.00"}
    with pytest.raises(DataError, match=r"'a', task '2026-01-01' occurs 15 times .* \[limits\] rows = 15"):
        troth.pay(frame, model, **options)
    options["terms"] = {"limits": {"rows": 15}}
    result: Any = troth.pay(frame, model, **options)
    assert len(result.payments) == 4
    assert result.verify().paid == result.paid > 30_000
    drawn = troth.pay(frame, model, troth.LineUp(decoys=99), seed=3, **options)
    assert drawn.verify().paid == pytest.approx(result.paid, rel=0.1)


def test_ratings_are_paid_by_the_families_of_values() -> None:
    rng = np.random.default_rng(5)
    score = rng.normal(size=60)
    frame: dict[str, list[Any]] = {
        "item": [str(t) for t in range(60) for _ in range(3)],
        "rater": [f"r{(t + k) % 6}" for t in range(60) for k in range(3)],
        "stars": (score[:, None] + 0.5 * rng.normal(size=(60, 3))).ravel().tolist(),
    }
    frame["stars"] = [rng.normal() if who == "r5" else x for who, x in zip(frame["rater"], frame["stars"], strict=True)]
    model = troth.models.Normal(0.0, 1.0, noise=0.5)
    result: Any = troth.pay(frame, model, provider="rater", task="item", price="1.00", seed=1)
    shares = {payment.provider: payment.share for payment in result.payments}
    assert max(shares.values()) > 0.35
    assert shares["r5"] == min(shares.values())
    assert result.verify() is result


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"campaign": {"name": "x", "price": "0.05"}, "data": {"provider": "w"}}, "is for reports on tasks"),
        ({"limits": {"tasks": 7}}, r"\[limits\] tasks: is for reports on tasks"),
        ({"data": {"task": "item"}}, "name the column of workers"),
        (
            {"data": {"task": "item", "provider": "w"}, "public": {"rows": 1, "summary": [1, 0]}},
            "a line for each task",
        ),
        ({"data": {"task": "item", "provider": "w", "day": "d"}}, "day or task, not both"),
        ({"data": {"task": "item", "provider": "w"}, "weights": {"a": "1"}}, "weights divide a budget"),
        ({"data": {"task": "item", "provider": "w"}, "mechanism": {"bonded": True}}, "cannot pay tasks"),
    ],
)
def test_what_does_not_go_with_tasks_is_refused(tables: dict[str, Any], message: str) -> None:
    plain = {
        "campaign": {"name": "x", "budget": "10.00"},
        "model": {"family": "Finite", "columns": ["label"], **MODEL.to_dict()},
        **tables,
    }
    with pytest.raises(CampaignError, match=message):
        troth.Campaign.from_dict(plain)


def test_a_label_that_cannot_occur_names_the_worker_and_the_task() -> None:
    sure = troth.models.Finite([0.5, 0.5], [[1.0, 0.0, 0.0], [0.5, 0.5, 0.0]])
    frame = {"item": ["a", "a"], "worker": ["x", "y"], "label": [0, 2]}
    with pytest.raises(DataError, match="provider 'y', task 'a'"):
        troth.pay(frame, sure, provider="worker", task="item", price="1", columns="label")


def test_laws_from_past_tasks_are_pooled_and_gold_makes_classes_known() -> None:
    rng = np.random.default_rng(7)
    truth = rng.integers(3, size=1500)
    accuracy = np.linspace(0.45, 0.95, 40)
    task = np.repeat(np.arange(1500), 3)
    worker = rng.integers(40, size=len(task))
    task, worker = np.append(task, 0), np.append(worker, 40)  # a worker with one task
    right = rng.random(len(task)) < np.append(accuracy, 0.9)[worker]
    label = np.where(right, truth[task], (truth[task] + rng.integers(1, 3, size=len(task))) % 3)
    names = [f"w{i}" for i in range(41)]
    learned = fit_workers(task, worker, np.eye(3)[label], names)
    accuracies = np.array(list(learned.accuracy().values()))
    assert np.corrcoef(accuracies[:40], accuracy)[0, 1] > 0.9
    population = np.diag(np.array(learned.population.likelihood)).mean()
    assert abs(accuracies[40] - population) < 0.1
    gold = np.where(np.arange(1500) % 2 == 0, truth, -1)
    with_gold = fit_workers(task, worker, np.eye(3)[label], names, gold)
    assert (with_gold.posterior[::2].argmax(axis=1) == truth[::2]).all()
    errors = [np.abs(np.array(list(fit.accuracy().values()))[:40] - accuracy).mean() for fit in (learned, with_gold)]
    assert errors[1] < errors[0] < 0.06


def test_lies_lose_and_the_certificate_says_what_a_wrong_label_costs(tmp_path: Path) -> None:
    rows = "\n".join(",".join(map(str, row)) for row in zip(*crowd().values(), strict=True))
    (tmp_path / "labels.csv").write_text(f"item,worker,label\n{rows}\n")
    (tmp_path / "guess.csv").write_text("item,label\ni0,1\n")
    skewed = {"prior": [0.8, 0.2], "likelihood": [[0.75, 0.25], [0.3, 0.7]]}
    plain: dict[str, Any] = {
        "campaign": {"name": "x", "price": "0.05"},
        "model": {"family": "Finite", "columns": ["label"], **skewed},
        "data": {"source": str(tmp_path / "labels.csv"), "provider": "worker", "task": "item"},
    }
    plain["data"]["public"] = str(tmp_path / "guess.csv")
    campaign = troth.Campaign.from_dict(plain)
    lies = audit_task_campaign(campaign, campaign.source, simulations=3000).lies
    assert not lies.gaining()
    lost = {finding.lie: -finding.high for finding in lies.findings}
    for lie in (
        "always the most frequent label",
        "answer at random",
        "copy the public guess",
        "answer only easy tasks",
    ):
        assert lost[lie] > 0, lie
    certificate = certify_task_campaign(campaign, campaign.source)
    assert certificate["truthful"].verdict == "proved"
    assert certificate["wrong labels cost"].verdict == "proved"
    same = {"prior": [0.8, 0.2], "likelihood": [[0.4, 0.4, 0.2], [0.2, 0.2, 0.6]]}
    plain["model"] = {"family": "Finite", "columns": ["label"], **same}
    refuted = certify_task_campaign(troth.Campaign.from_dict(plain), campaign.source)
    assert (refuted["wrong labels cost"].verdict, refuted["wrong labels cost"].witness) == ("refuted", (0, 1))


def test_half_of_the_tasks_are_easy_also_where_everybody_is_as_sure_of_all() -> None:
    campaign = paid(crowd()).campaign
    lies = audit_task_campaign(campaign, crowd(), simulations=2000).lies
    finding_of = {finding.lie: finding for finding in lies.findings}
    assert finding_of["answer only easy tasks"].earned == pytest.approx(lies.findings[0].truth / 2, rel=0.1)
    assert finding_of["easy tasks, the rest at random"].high < 0


def test_the_certificate_and_the_page_say_what_the_rule_itself_promises(tmp_path: Path) -> None:
    clipped = {"mechanism": {"rule": "OneTime", "range": "clipped", "low": -0.3}, "limits": {"rows": 1}}
    result = paid(crowd(), terms=clipped)
    claim = certify_task_campaign(result.campaign, crowd())["truthful"]
    assert claim.verdict == "proved"
    assert claim.margin is not None
    assert claim.margin > 0
    assert "no lie gains more than" in claim.text
    assert result.verdict.word == "fits"
    assert "no lie gains more than" in result.to_html()
    assert not audit_task_campaign(result.campaign, crowd(), simulations=500).lies.gaining()
    line_up = paid(crowd())
    assert certify_task_campaign(line_up.campaign, crowd())["truthful"].margin == 0
    assert "Proved under the model: no set of answers has a higher expected payment" in line_up.to_html()


def test_kinds_of_tasks_are_chosen_among_those_that_can_be_listed() -> None:
    many = crowd(tasks=3, workers=12, each=12)
    alone: dict[str, list[Any]]
    alone = {"item": [f"a{n}" for n in range(3000)], "worker": [f"w{n % 12}" for n in range(3000)], "label": [0] * 3000}
    frame = {name: [*many[name], *alone[name]] for name in many}
    assert (
        "no task has few enough answers" in certify_task_campaign(paid(frame).campaign, frame)["wrong labels cost"].text
    )


def test_every_column_of_the_page_can_be_sorted() -> None:
    page = paid(crowd()).to_html()
    head, *bodies = page.split('<table class="sortable">')[1].split("</table>")[0].split("<tbody>")
    assert head.count("<th ") == head.count("<button") == 6
    assert len(bodies) == 8
    assert all(body.count("data-value=") == 6 for body in bodies)


def test_guesses_pay_the_same_from_a_file_and_from_the_terms(tmp_path: Path) -> None:
    rows = "\n".join(",".join(map(str, row)) for row in zip(*crowd().values(), strict=True))
    (tmp_path / "labels.csv").write_text(f"item,worker,label\n{rows}\n")
    (tmp_path / "guess.csv").write_text("item,label\n" + "".join(f"i{t},{t % 2}\n" for t in range(60)))
    plain: dict[str, Any] = {
        "campaign": {"name": "x", "price": "0.05"},
        "model": {
            "family": "Finite",
            "columns": ["label"],
            "prior": [0.5, 0.5],
            "likelihood": [[0.8, 0.2], [0.2, 0.8]],
        },
        "data": {"source": str(tmp_path / "labels.csv"), "provider": "worker", "task": "item"},
    }
    named = troth.Campaign.from_dict({**plain, "data": {**plain["data"], "public": str(tmp_path / "guess.csv")}})
    table = describe_public_tasks(named)
    assert table["tasks"]["i1"] == [0, 1]
    inside = troth.Campaign.from_dict({**plain, "public": table})
    first, second = (pay_task_campaign(campaign, campaign.source) for campaign in (named, inside))
    assert first.payments == second.payments
    assert second.verify() is second
    assert first.payments != pay_task_campaign(troth.Campaign.from_dict(plain), named.source).payments


def test_a_seed_that_was_committed_to_is_checked(tmp_path: Path) -> None:
    secret = troth.Secret("ab" * 32, rounds=4)
    terms = {"mechanism": {"commitment": secret.commitment}}
    drawn = paid(crowd(tasks=20), rule=troth.LineUp(decoys=19), seed=secret, terms=terms, ledger=tmp_path / "l.jsonl")
    assert troth.verify(tmp_path / "l.jsonl").paid == drawn.paid
    with pytest.raises(DataError, match="the secret does not match the campaign's commitment"):
        paid(crowd(tasks=20), rule=troth.LineUp(decoys=19), seed=troth.Secret("cd" * 32, rounds=4), terms=terms)
    with pytest.raises(troth.LedgerError, match="needs its file of shares"):
        troth.verify(drawn.ledger)


def test_a_label_that_is_none_names_the_row(tmp_path: Path) -> None:
    frame = {"item": ["a", "a", "b"], "worker": ["x", "y", "x"], "label": [0, 7, 1]}
    with pytest.raises(DataError, match=r"column 'label': 1 value .* \(first: row 2 of the data: 7"):
        paid(frame)
    (tmp_path / "l.csv").write_text("item,worker,stars\na,x,1.5\na,y,2.5\n" + "b,x,3\n" * 200_000 + "b,y,many\n")
    options: dict[str, Any] = {"provider": "worker", "task": "item", "price": "1", "columns": "stars"}
    with pytest.raises(DataError, match="row 200,003 of l.csv: 'many'"):
        troth.pay(tmp_path / "l.csv", troth.models.Normal(0.0, 1.0, noise=0.5), **options)


def test_a_worker_may_have_a_most_number_of_tasks(tmp_path: Path) -> None:
    frame = {"item": ["a", "a", "b"], "worker": ["x", "y", "x"], "label": [0, 0, 1]}
    assert len(paid(frame, terms={"limits": {"tasks": 2}}).payments) == 2
    with pytest.raises(DataError, match=r"provider 'x': 2 tasks, but \[limits\] tasks allows 1"):
        paid(frame, terms={"limits": {"tasks": 1}})


def test_the_verdict_comes_before_the_money(tmp_path: Path) -> None:
    write_labels(tmp_path / "labels.csv", crowd())
    runner, folder = CliRunner(), tmp_path / "c"
    columns = ["--provider", "worker", "--task", "item", "--column", "label", "--price", "0.10"]
    assert runner.invoke(app, ["init", str(folder), "--data", str(tmp_path / "labels.csv"), *columns]).exit_code == 0
    pay = ["pay", str(folder / "campaign.toml")]
    dry = runner.invoke(app, [*pay, "--dry-run", "--json"])
    assert dry.exit_code == 0
    plain = json.loads(dry.stdout)
    assert (plain["verdict"]["model"], plain["written"]) == ("fits", False)
    assert [path.name for path in folder.iterdir()] == ["campaign.toml"]
    opposite = crowd(each=2)
    opposite["label"][1::2] = [1 - label for label in opposite["label"][::2]]  # whoever comes second contradicts
    write_labels(tmp_path / "labels.csv", opposite)
    stopped = runner.invoke(app, pay)
    assert stopped.exit_code == 3, stopped.output
    assert "would have earned more" in stopped.output
    assert [path.name for path in folder.iterdir()] == ["campaign.toml"]
    result = runner.invoke(app, [*pay, "--anyway"])
    assert result.exit_code == 0, result.output
    assert (folder / "ledger.jsonl").exists()
    assert "would have earned more" in (folder / "report.html").read_text()


def test_few_tasks_are_paid_and_said_not_to_be_checked(tmp_path: Path) -> None:
    """No label is given often enough to be replayed as another one."""
    (tmp_path / "labels.csv").write_text("item,worker,label\n1,ann,cat\n1,bo,dog\n1,cy,cat\n")
    campaign = task_campaign_for(
        tmp_path / "pets", tmp_path / "labels.csv", provider="worker", task="item", column="label", currency="JPY"
    )
    result: Any = troth.pay(campaign)
    assert result.verdict.word == "not checked"
    assert "none was given 10 times" in str(result.verdict)
    assert result.campaign.decimals == 0
    with pytest.raises(ParameterError, match="ISO 4217"):
        task_campaign_for(
            tmp_path / "no", tmp_path / "labels.csv", provider="worker", task="item", column="label", currency="€"
        )


def test_nobody_is_called_as_the_public_guess_is(tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_text("item,worker,label\n1,public data,cat\n1,bo,dog\n")
    campaign = task_campaign_for(
        tmp_path / "pets", tmp_path / "labels.csv", provider="worker", task="item", column="label", price="1"
    )
    with pytest.raises(DataError, match="'public data'"):
        troth.pay(campaign)


def test_a_file_without_rows_is_named_as_such(tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_text("item,worker,label\n1,ann,cat\n1,bo,dog\n")
    campaign = task_campaign_for(
        tmp_path / "pets", tmp_path / "labels.csv", provider="worker", task="item", column="label", price="1"
    )
    (tmp_path / "labels.csv").write_text("item,worker,label\n")
    with pytest.raises(DataError, match="no rows"):
        troth.pay(campaign)
