"""Ratings, counts and several columns of tasks: guessed, paid, verified, explained, certified and audited."""

from __future__ import annotations

import json
import tomllib
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import troth
from troth.audits.tasks import audit_task_values
from troth.campaigns.starter.task_campaign import start_tasks
from troth.campaigns.task_data import read_task_reports
from troth.campaigns.tasks import arrange
from troth.cli.commands import app
from troth.core.errors import DataError, ParameterError

if TYPE_CHECKING:
    from pathlib import Path

HEAD = "item,worker,rating,stars,mood,x,y,cells"
NAMED: dict[str, Any] = {"provider": "worker", "task": "item"}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Return a table of three workers' answers of several kinds to each of 40 items."""
    rng = np.random.default_rng(3)
    lines = [HEAD]
    for item in range(40):
        level, mood, rate = rng.normal(60, 15), rng.integers(3), rng.gamma(4, 3)
        for worker in rng.permutation(6)[:3]:
            value = level + 5 * rng.normal()
            felt = ("happy", "sad", "flat")[mood if rng.random() < 0.8 else rng.integers(3)]
            stars = int(np.clip(round(value / 20), 1, 5))
            place = f"{level + rng.normal():.2f},{-3 * level + 2 * rng.normal():.2f}"
            lines.append(f"i{item},w{worker},{value:.1f},{stars},{felt},{place},{rng.poisson(rate)}")
    file = tmp_path / "table.csv"
    file.write_text("\n".join(lines) + "\n")
    return file


def run(*command: Any) -> str:
    done = CliRunner().invoke(app, [str(part) for part in command])
    assert done.exit_code == 0, f"{command}: {done.output} {done.exception}"
    return done.output


@pytest.mark.parametrize(
    ("columns", "family"),
    [
        (["rating"], "Normal"),
        (["cells"], "Poisson"),
        (["x", "y"], "MultivariateNormal"),
        (["stars"], "Finite"),
    ],
)
def test_every_kind_of_column_goes_from_init_to_an_audit(
    table: Path, tmp_path: Path, columns: list[str], family: str
) -> None:
    folder, ledger = tmp_path / "c", tmp_path / "c" / "ledger.jsonl"
    options = [part for name in columns for part in ("--column", name)]
    plain = json.loads(
        run("init", folder, "--data", table, "--provider", "worker", "--task", "item", *options, "--json")
    )
    assert plain["family"] == family
    campaign = folder / "campaign.toml"
    if family == "Finite":  # stars in the middle are to be expected
        even = "prior = [0.2, 0.2, 0.2, 0.2, 0.2]"
        assert even in campaign.read_text()
        campaign.write_text(campaign.read_text().replace(even, "prior = [0.03, 0.23, 0.48, 0.23, 0.03]"))
    run("pay", campaign)
    assert json.loads(run("verify", ledger, "--json"))["payments"] == 6
    assert ": , " not in run("explain", ledger, "w1")  # every answer is said
    assert "✓ truthful (proved)" in run("certify", campaign)
    audit = json.loads(run("audit", campaign, "--simulations", 400, "--json"))
    assert not [finding for finding in audit["findings"] if finding["verdict"] == "gains"]
    assert "Tasks with the least agreement" in (folder / "report.html").read_text()
    shares = [payment.share for payment in troth.verify(ledger).rounds[0].payments]
    assert np.mean(shares) > 0.25  # honest answers earn more than the empty share


def test_prior_and_noise_of_ratings_are_near_those_that_made_them(table: Path, tmp_path: Path) -> None:
    ((started_file, started),) = start_tasks(tmp_path / "c", table, columns=["rating"], **NAMED)
    model = tomllib.loads(started_file.read_text())["model"]
    assert model["prior"]["mean"] in (50.0, 60.0, 70.0)
    assert model["prior"]["scale"] in (10.0, 20.0)
    assert model["noise"] in (4.0, 5.0, 6.0)
    assert "replace it with what you knew before" in started.notes[0]


def test_few_whole_numbers_are_labels_unless_another_family_is_named(table: Path, tmp_path: Path) -> None:
    ((labels_file, labels),) = start_tasks(tmp_path / "l", table, columns=["stars"], **NAMED)
    assert "different whole numbers, which are read as labels" in labels.notes[0]
    assert "--family Normal" in labels.notes[0]
    assert tomllib.loads(labels_file.read_text())["model"]["categories"] == ["1", "2", "3", "4", "5"]
    ((_, counts),) = start_tasks(tmp_path / "n", table, columns=["cells"], **NAMED)
    assert "read as amounts; if they are labels, pass --family Finite" in " ".join(counts.notes)
    ((_, values),) = start_tasks(tmp_path / "v", table, columns=["stars"], family="normal", **NAMED)
    assert values.family == "Normal"
    ((rates_file, _),) = start_tasks(tmp_path / "r", table, columns=["mood"], family="Categorical", **NAMED)
    assert troth.pay(rates_file).paid > 0


def test_columns_of_labels_are_a_campaign_each(table: Path, tmp_path: Path) -> None:
    started = start_tasks(tmp_path / "c", table, columns=["mood", "rating"], budget="40.00", **NAMED)
    assert [(path.parent.name, guess.family) for path, guess in started] == [("mood", "Finite"), ("rating", "Normal")]
    for path, _ in started:
        result: Any = troth.pay(path)
        assert (len(result.payments), result.campaign.budget) == (6, 4000)
    apart = start_tasks(tmp_path / "d", table, columns=["x", "y"], family="Normal", **NAMED)
    assert [guess.columns for _, guess in apart] == [("x",), ("y",)]


@pytest.mark.parametrize(
    ("column", "family", "message"),
    [
        ("rating", "VaryingNormal", "with one row on a task, a provider's offset cannot be told from the noise"),
        ("rating", "LinearRegression", "can be written for .*Normal"),
        ("rating", "Gaussian", "there is no family 'Gaussian'"),
        ("rating", "Finite", "different labels, but there must be 2 to 50"),
    ],
)
def test_families_that_make_no_sense_for_tasks_are_refused(
    table: Path, tmp_path: Path, column: str, family: str, message: str
) -> None:
    with pytest.raises((DataError, ParameterError), match=message):
        start_tasks(tmp_path / "c", table, columns=[column], family=family, **NAMED)
    assert not (tmp_path / "c").exists()


def test_rows_without_a_value_are_left_out_and_spellings_are_merged(tmp_path: Path) -> None:
    rows = "".join(f"{item},{who},{label}\n" for item in range(8) for who, label in (("é", "Yes"), ("b", "no")))
    (tmp_path / "t.csv").write_text(f"item,worker,label\n{rows}9,é,yes\n9,b,\n10,b,NO\n11,b,Noo\n")
    ((started_file, started),) = start_tasks(tmp_path / "c", tmp_path / "t.csv", columns=["label"], **NAMED)
    notes = " | ".join(started.notes)
    assert "'Yes', 'yes' are read as one label, 'Yes'" in notes
    assert "1 row has no value" in notes
    result: Any = troth.pay(started_file)
    assert result.payment("é").rows == 9
    assert result.ledger.of("tasks")[0]["dropped"] == 1
    ratings = (
        "item,worker,rating\n" + "".join(f"{i},{w},{i * 7 % 31}.5\n" for i in range(20) for w in "ab") + "20,a,NA\n"
    )
    (tmp_path / "r.csv").write_text(ratings)
    ((values_file, values),) = start_tasks(tmp_path / "d", tmp_path / "r.csv", columns=["rating"], **NAMED)
    assert "1 row has no value" in " ".join(values.notes)
    assert len(troth.pay(values_file).totals) == 2


@pytest.mark.parametrize("missing", [None, "NA", " "])
def test_a_missing_value_beside_a_label_is_no_repeated_label(missing: str | None, tmp_path: Path) -> None:
    labels = ["cat", "dog", "cat", "dog", missing]
    frame = {"item": [1, 2, 1, 2, 1], "worker": ["a", "a", "b", "b", "a"], "label": labels}
    pq.write_table(pa.table(frame), tmp_path / "t.parquet")
    ((started_file, started),) = start_tasks(tmp_path / "c", tmp_path / "t.parquet", columns=["label"], **NAMED)
    assert "several rows" not in " ".join(started.notes)
    assert len(troth.pay(started_file).totals) == 2


def test_lies_about_values_lose_under_the_model(table: Path, tmp_path: Path) -> None:
    ((started_file, _),) = start_tasks(tmp_path / "c", table, columns=["rating"], **NAMED)
    campaign = troth.Campaign.load(started_file)
    tasks = arrange(campaign, read_task_reports(campaign, table), None)
    audit = audit_task_values(tasks, campaign.rule, simulations=1500, false_alarm=0.01, seed=1)
    assert not audit.gaining()
    for lie in ("always the usual value", "halfway to the usual value", "with a standard deviation of noise"):
        assert audit[lie].high < 0, lie
    alone = arrange(
        campaign, read_task_reports(campaign, {"item": [1, 2], "worker": ["a", "b"], "rating": [5.0, 6.0]}), None
    )
    with pytest.raises(DataError, match="nobody has a peer"):
        audit_task_values(alone, campaign.rule, simulations=100, false_alarm=0.01, seed=1)


def test_a_prior_that_was_read_off_the_paid_ratings_is_said_to_be(table: Path, tmp_path: Path) -> None:
    folder = tmp_path / "c"
    result = run("init", folder, "--data", table, "--provider", "worker", "--task", "item", "--column", "rating")
    assert "the prior was guessed from the data" in result
    file, ledger = folder / "campaign.toml", folder / "ledger.jsonl"
    assert "the prior was guessed from the data that are paid" in run("pay", file, "--dry-run")
    assert "✓ likelihoods from other tasks" not in run("certify", file)
    run("pay", file)
    assert troth.verify(ledger).ledger.entries[0]["terms"]["model"]["guessed"] is True
    assert "the prior was guessed from the data that are paid" in (folder / "report.html").read_text()
    known = tmp_path / "known.toml"
    text = "\n".join(line for line in file.read_text().splitlines() if not line.startswith("guessed"))
    known.write_text(text.replace("../table.csv", "table.csv"))
    assert "✓ likelihoods from other tasks (proved)" in run("certify", known)
    assert not troth.Campaign.load(known).guessed


def test_a_model_learnt_from_past_tasks_is_paid_with_a_new_commitment(table: Path, tmp_path: Path) -> None:
    folder = tmp_path / "c"
    run("init", folder, "--data", table, "--provider", "worker", "--task", "item", "--column", "rating")
    past = tmp_path / "past.csv"
    past.write_text(table.read_text().replace("\ni", "\nlast year i"))
    run("fit", folder / "campaign.toml", past, "-o", tmp_path / "learnt.toml")
    before, learnt = (troth.Campaign.load(path) for path in (folder / "campaign.toml", tmp_path / "learnt.toml"))
    assert before.draws
    assert learnt.commitment not in (None, before.commitment)
