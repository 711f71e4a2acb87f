"""Tables of annotations as people have them: labels twice, empty ones, guesses and gold that match nothing."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import troth
from campaigns.shop import task_campaign_for
from troth.campaigns.past import fit_tasks
from troth.campaigns.records.ledger import Ledger
from troth.campaigns.starter.task_campaign import start_tasks
from troth.cli.commands import app
from troth.core.errors import DataError, ParameterError
from troth.core.settings import CampaignError
from troth.results.task_page import worker_agreement, worst_tasks

if TYPE_CHECKING:
    from pathlib import Path

MODEL = troth.models.Finite([0.5, 0.5], [[0.8, 0.2], [0.2, 0.8]])


def write(file: Path, text: str) -> Path:
    file.write_text(text)
    return file


def labels(tasks: int = 40, workers: int = 5, seed: int = 0, start: str = "i") -> str:
    """Return lines of labels by workers who are right four times in five."""
    rng = np.random.default_rng(seed)
    lines = ["item,worker,label"]
    for task, truth in enumerate(rng.integers(2, size=tasks)):
        answers = zip(rng.permutation(workers)[:3], rng.random(3) < 0.8, strict=True)
        lines += [f"{start}{task},w{who},{('no', 'yes')[truth if ok else 1 - truth]}" for who, ok in answers]
    return "\n".join(lines) + "\n"


def campaign(folder: Path, text: str, **options: Any) -> Path:
    file = write(folder / "labels.csv", text)
    return task_campaign_for(folder / "c", file, provider="worker", task="item", column="label", **options)


class Done(NamedTuple):
    """The exit code of a command, and what it says in one line."""

    code: int
    said: str
    stdout: str


def run(*command: Any) -> Done:
    done = CliRunner().invoke(app, [str(part) for part in command])
    return Done(done.exit_code, " ".join(f"{done.output} {done.exception or ''}".split()), done.stdout)


def pay(frame: Any, **options: Any) -> Any:
    arguments: dict[str, Any] = {"provider": "worker", "task": "item", "price": "0.05", "columns": "label"} | options
    return troth.pay(frame, MODEL, **arguments)


@pytest.mark.parametrize(("column", "noun"), [("item", "task"), ("worker", "provider")])
def test_a_missing_name_is_none_though_another_file_has_names_as_text(tmp_path: Path, column: str, noun: str) -> None:
    """Parquet stores whole numbers of which one is missing as floats, and the missing one as NaN, which is no name."""
    names = {"item": ["1", "2"], "worker": ["x", "y"]}
    pq.write_table(pa.table({**names, column: [1.0, np.nan], "label": [1, 0]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({**names, "label": [0, 1]}), tmp_path / "b.parquet")
    message = f"a.parquet: row 2: column '{column}': the name of the {noun} is missing"
    with pytest.raises(DataError, match=message):
        pay(tmp_path)


def test_a_worker_who_labels_an_item_twice_is_refused_with_its_rows(tmp_path: Path) -> None:
    file = campaign(tmp_path, "item,worker,label\na,x,yes\na,y,no\nb,x,yes\n a ,x,no\nb,x,yes\n")
    with pytest.raises(DataError) as caught:
        troth.pay(file)
    message = str(caught.value)
    assert "provider 'x', task 'a' occurs 2 times (column 'item', rows 1, 4 of labels.csv)" in message
    assert "keep one row for each task" in message
    assert '[limits] rows = 2 (in Python terms={"limits": {"rows": 2}})' in message
    assert "1 other report" in message
    assert run("pay", file).code == 1
    file.write_text(file.read_text() + "\n[limits]\nrows = 2\n")
    assert len(troth.pay(file).totals) == 2


def test_rows_of_one_report_may_be_allowed_and_are_counted_in_python_too() -> None:
    frame = {"item": ["a"] * 5, "worker": ["x", "y", "x", "x", "z"], "label": [0, 1, 0, 0, 1]}
    with pytest.raises(DataError, match=r"'x', task 'a' occurs 3 times .* rows 1, 3, 4 of the data"):
        pay(frame)
    with pytest.raises(DataError, match=r"has 3 rows .* allows 2 for each task"):
        pay(frame, terms={"limits": {"rows": 2}})
    result = pay(frame, terms={"limits": {"rows": 3}})
    assert result.verify() is result


def test_labels_in_words_need_names_in_the_terms() -> None:
    frame = {"item": ["a", "a"], "worker": ["x", "y"], "label": ["no", "yes"]}
    with pytest.raises(DataError, match=r"not a number; name the labels, .* as \[model\] categories"):
        pay(frame)
    assert pay(frame, terms={"model": {"categories": ["no", "yes"]}}).totals


def test_rows_are_named_by_the_file_they_are_in(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    write(folder / "a.csv", "item,worker,label\n1,x,0\n1,y,1\n")
    write(folder / "b.csv", "item,worker,label\n2,x,0\n1,x,1\n")
    with pytest.raises(DataError, match=r"rows 1 of a\.csv; rows 2 of b\.csv"):
        pay(folder)
    write(folder / "b.csv", "item,worker,label\n2,x,0\n2,y,7\n")
    with pytest.raises(DataError, match=r"row 2 of b\.csv: 7"):
        pay(folder)
    write(folder / "b.csv", "item,worker,label\n2,x,0\n2,,1\n")
    with pytest.raises(DataError, match=r"b\.csv: row 2: column 'worker': the name of the provider is missing"):
        pay(folder)


def test_an_empty_label_is_said_to_be_empty_and_can_be_left_out(tmp_path: Path) -> None:
    file = campaign(tmp_path, labels())
    write(tmp_path / "labels.csv", labels() + "i0,late,\ni1,late,n/a\ni2,late,yes\n")
    with pytest.raises(DataError) as caught:
        troth.pay(file)
    assert "not among" not in str(caught.value)
    assert '2 values empty or marked as missing; [data] missing = "drop"' in str(caught.value)
    assert "(first: row 121 of labels.csv: '')" in str(caught.value)
    file.write_text(file.read_text().replace('missing = "refuse"', 'missing = "drop"'))
    done = run("pay", file)
    assert done.code == 0, done.said
    assert "2 rows without a value are left out" in done.said
    result: Any = troth.verify(file.parent / "ledger.jsonl")
    assert result.payment("late").rows == 1
    assert result.ledger.of("tasks")[0]["dropped"] == 2


@pytest.mark.parametrize(("empty", "said"), [(1, "1 row without a value is left out"), (0, None)])
def test_a_fit_says_how_many_past_rows_have_no_label(empty: int, said: str | None, tmp_path: Path) -> None:
    file = campaign(tmp_path, labels())
    file.write_text(file.read_text().replace('missing = "refuse"', 'missing = "drop"'))
    past = write(tmp_path / "past.csv", labels(start="p") + "p0,late,\n" * empty)
    done = run("fit", file, past)
    assert done.code == 0, done.said
    assert ("without a value" in done.said) == (said is not None)
    assert said is None or said in done.said


def test_gold_answers_for_no_past_task_are_said_to_be_unused(tmp_path: Path) -> None:
    file = campaign(tmp_path, labels())
    past = write(tmp_path / "past.csv", labels(start="p"))
    none = write(tmp_path / "none.csv", "item,label\nq1,yes\nq2,no\n")
    some = write(tmp_path / "some.csv", "item,label\np1,yes\nq2,no\n")
    output = run("fit", file, past, "--gold", none).said
    assert "none of the 2 gold answers matches a past task" in output
    plain = json.loads(run("fit", file, past, "--gold", some, "--json").stdout)
    assert plain["gold"] == 1
    assert "1 of 2 gold answers are for tasks that nobody answered" in plain["notes"][0]


def test_a_fit_keeps_the_family_of_the_campaign_unless_another_is_named(tmp_path: Path) -> None:
    file = campaign(tmp_path, labels(), family="Categorical")
    past, gold = write(tmp_path / "past.csv", labels(start="p")), write(tmp_path / "gold.csv", "item,label\np1,yes\n")
    fitted = tmp_path / "fitted.toml"
    assert "Categorical from" in run("fit", file, past, "--output", fitted).said
    learned: Any = troth.Campaign.load(fitted).model
    assert isinstance(learned, troth.models.Categorical)
    assert learned.alpha != (1.0, 1.0)
    useless = "Categorical does not use gold answers; these families do: Finite"
    assert useless in run("fit", file, past, "--gold", gold).said
    assert run("fit", file, past, "--gold", gold, "--family", "finite", "--output", fitted).code == 0
    assert isinstance(troth.Campaign.load(fitted).model, troth.models.Finite)
    assert "--types is for past days" in run("fit", file, past, "--types", "2").said
    assert "VaryingCategorical cannot be learnt" in run("fit", file, past, "--family", "VaryingCategorical").said


def test_the_prior_and_the_noise_of_values_are_learnt_from_past_tasks(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    truth = rng.normal(3, 1, 300)
    rows = [(f"p{t}", f"w{w}", truth[t] + rng.normal(0, 0.5)) for t in range(300) for w in range(t % 3, t % 3 + 3)]
    past = write(tmp_path / "past.csv", "item,worker,x\n" + "".join(f"{t},{w},{x:.4f}\n" for t, w, x in rows))
    plain = {
        "campaign": {"name": "x", "price": "0.05"},
        "model": {"family": "Normal", "columns": ["x"], "mean": 0, "scale": 5, "noise": 1},
        "data": {"provider": "worker", "task": "item"},
    }
    learned = fit_tasks(troth.Campaign.from_dict(plain), str(past))
    model: Any = learned.fitted.model_of("w0")
    assert abs(model.mean - 3) < 0.25
    assert abs(model.scale - 1) < 0.15
    assert abs(model.noise - 0.5) < 0.05
    assert str(learned.fitted).startswith("Normal from 300 tasks")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("item,label\np1,maybe\n", "row 1 of gold.csv: 'maybe'"),
        ("item,label\np1,yes\np1,no\n", "task 'p1' occurs 2 times (column 'item', rows 1, 2 of gold.csv)"),
        ("item,truth\np1,yes\n", "gold.csv: there is no column 'label'"),
    ],
)
def test_what_is_wrong_with_gold_answers_names_their_file(tmp_path: Path, text: str, message: str) -> None:
    file = campaign(tmp_path, labels())
    past, gold = write(tmp_path / "past.csv", labels(start="p")), write(tmp_path / "gold.csv", text)
    output = run("fit", file, past, "--gold", gold).said
    assert message in output
    assert "public" not in output


def test_public_guesses_that_match_nothing_or_have_no_law_are_noted() -> None:
    frame = {"item": ["a", "a", "b", "b"], "worker": ["x", "y", "x", "y"], "label": [0, 0, 1, 1]}
    likelihood = {"model": {"providers": {"public data": troth.models.Finite([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]])}}}
    none = pay(frame, public={"item": ["c", "d"], "label": [0, 1]}, terms=likelihood)
    assert none.notes == ("none of the 2 public guesses matches a paid task: compare the names",)
    some = pay(frame, public={"item": ["a", "d"], "label": [0, 1]})
    assert "1 of 2 public guesses" in some.notes[0]
    assert '[model.providers."public data"]' in some.notes[1]
    assert "note: 1 of 2 public guesses" in str(some)
    assert pay(frame, public={"item": ["a", "b"], "label": [0, 1]}, terms=likelihood).notes == ()


def test_a_fit_does_not_write_over_terms_that_were_paid(tmp_path: Path) -> None:
    file = campaign(tmp_path, labels())
    past = write(tmp_path / "past.csv", labels(start="p"))
    fitted = tmp_path / "c" / "fitted.toml"
    assert run("fit", file, past).code == 0
    assert run("fit", file, past).code == 0  # nothing was paid under it yet
    assert run("pay", fitted, "--anyway").code == 0
    before = fitted.read_bytes()
    again = run("fit", file, past)
    assert again.code == 1
    assert "ledger.jsonl was paid under these terms" in again.said
    assert fitted.read_bytes() == before
    assert run("fit", file, past, "--output", tmp_path / "c" / "second.toml").code == 0


def test_a_page_goes_beside_its_ledger_under_its_name(tmp_path: Path) -> None:
    file = campaign(tmp_path, labels())
    assert run("pay", file).code == 0
    first = (tmp_path / "c" / "report.html").read_bytes()
    write(tmp_path / "labels.csv", labels(start="next"))
    assert run("pay", file, "--ledger", tmp_path / "c" / "other.jsonl").code == 0
    assert (tmp_path / "c" / "report.html").read_bytes() == first
    page = tmp_path / "c" / "other.report.html"
    assert page.exists()
    page.unlink()
    assert run("report", tmp_path / "c" / "other.jsonl").code == 0
    assert page.exists()


def test_prices_and_names_that_cannot_be_meant_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CampaignError, match="price: must be above 0"):
        campaign(tmp_path, labels(), price="0")
    done = run("init", tmp_path / "d", "--data", tmp_path / "labels.csv", "--provider", "worker", "--price", "0.05")
    assert done.code == 1
    assert "--price" in done.said
    frame = {"item": ["a", "a"], "worker": ["x", "y"], "label": [0, 1]}
    for columns in (None, "label"):
        with pytest.raises(DataError, match=r"there is no column 'zzz' \(task=\); there are 'item', 'worker', 'label'"):
            pay(frame, task="zzz", columns=columns)


def test_whoever_is_below_the_empty_share_is_counted_as_the_table_shows(tmp_path: Path) -> None:
    result: Any = troth.pay(campaign(tmp_path, labels()))
    below = sum(payment.share < payment.empty_share for payment in result.payments)
    line = str(result.verdict).splitlines()[-1]
    assert (f"{below} of 5" in line) == (below > 0)
    assert ("nobody" in line) == (below == 0)
    one: Any = pay({"item": ["a", "a"], "worker": ["x", "y"], "label": [0, 1]})
    assert not one.verdict.below_empty  # one task tells nothing about a worker
    assert "2 of 2, none by two standard errors" in str(one.verdict)
    assert "1 task," in one.explain("x")
    assert "1 tasks" not in one.to_csv() + one.headline() + one.explain("x")


def test_a_label_that_nobody_gave_in_the_past_makes_no_class_of_its_own(tmp_path: Path) -> None:
    file = campaign(tmp_path, labels() + "i0,x,maybe\n")
    past = write(tmp_path / "past.csv", labels(tasks=80, start="p"))
    plain = json.loads(run("fit", file, past, "--json").stdout)
    assert "nobody answered 'maybe' in the past" in plain["notes"][0]
    model = troth.Campaign.load(tmp_path / "c" / "fitted.toml").plain["model"]
    assert model["prior"][0] < 0.02  # of maybe: nothing in the past is taken for it
    right = [model["likelihood"][code][code] for code in range(3)]
    assert right[0] == pytest.approx(np.mean(right[1:]), abs=1e-6)
    assert min(right) > 0.6


def skewed(rate: float = 0.75, tasks: int = 400) -> str:
    """Return labels of tasks of which most are yes, by honest workers and one that always says so."""
    rng = np.random.default_rng(4)
    lines = ["item,worker,label"]
    for task, truth in enumerate(rng.random(tasks) < rate):
        for who in rng.permutation(8)[:3]:
            answer = truth if rng.random() < 0.8 else not truth
            lines.append(f"i{task},w{who},{'yes' if who == 7 or answer else 'no'}")
    return "\n".join(lines) + "\n"


def test_labels_that_the_prior_does_not_expect_stop_payment(tmp_path: Path) -> None:
    file = campaign(tmp_path, skewed())
    done = run("pay", file)
    assert done.code == 3
    assert "of the labels are 'yes', but the prior and the confusion matrices expect 50%" in done.said
    assert "[model] prior" in done.said
    assert "from other tasks with troth fit" in done.said
    assert not (tmp_path / "c" / "ledger.jsonl").exists()
    file.write_text(file.read_text().replace("prior = [0.5, 0.5]", "prior = [0.25, 0.75]"))
    done = run("pay", file)
    assert done.code == 0
    assert "fits (p = " in done.said
    assert (
        "labels are as frequent as the prior and the confusion matrices expect, and on these answers no other"
        in done.said
    )


def test_an_audit_says_its_prior_and_whether_the_labels_contradict_it(tmp_path: Path) -> None:
    done = run("audit", campaign(tmp_path, skewed()), "--simulations", 500)
    assert "drawn from [model]: no 50%, yes 50%" in done.said
    assert "labels contradict this model, so lies may earn more or less" in done.said
    assert "are 'yes', but the prior and the confusion matrices expect 50%" in done.said
    (tmp_path / "even").mkdir()
    plain = json.loads(run("audit", campaign(tmp_path / "even", labels()), "--simulations", 500, "--json").stdout)
    assert (plain["prior"], plain["contradiction"]) == ({"no": 0.5, "yes": 0.5}, None)


def test_one_label_alone_does_not_fit_an_even_prior() -> None:
    frame = {"item": [t for t in range(40) for _ in range(3)], "worker": ["x", "y", "z"] * 40, "label": [1] * 120}
    verdict = pay(frame).verdict
    assert verdict.stops
    assert "100% of the labels are '1'" in verdict.meaning


def test_an_error_of_the_past_is_no_contradiction(tmp_path: Path) -> None:
    """A prior that was learnt from few tasks is known as badly as these say."""
    frame = {"item": [t for t in range(400) for _ in range(3)], "worker": ["x", "y", "z"] * 400}
    frame["label"] = [int(t % 8 < 5) for t in range(400) for _ in range(3)]
    words = {past: pay(frame, terms={"history": {"tasks": past}}).verdict.word for past in (20, 100_000)}
    assert words == {20: "fits", 100_000: "does not fit"}


def test_past_tasks_are_refused_however_their_numbers_are_written(tmp_path: Path) -> None:
    file = campaign(tmp_path, labels(start="1"))
    past = write(tmp_path / "past.csv", labels(start="1").replace(",w", ".0,w").replace("item.0", "item"))
    assert past.read_text().splitlines()[1].startswith("10.0,")
    assert run("fit", file, past).code == 0
    done = run("pay", tmp_path / "c" / "fitted.toml")
    assert done.code == 1
    assert "task '10' is among the past tasks that the confusion matrices were learnt from" in done.said


def test_laws_are_not_learnt_from_the_file_that_is_paid(tmp_path: Path) -> None:
    file = campaign(tmp_path, labels())
    done = run("fit", file, tmp_path / "labels.csv")
    assert done.code == 1
    assert "labels.csv: the campaign pays for these tasks" in done.said
    assert not (tmp_path / "c" / "fitted.toml").exists()
    past = write(tmp_path / "past.csv", labels(start="p", seed=2))
    (tmp_path / "labels.csv").unlink()
    assert run("fit", file, past).code == 0  # before there is anything to pay for


def test_no_task_is_paid_twice_by_naming_another_ledger(tmp_path: Path) -> None:
    file = campaign(tmp_path, labels())
    folder = tmp_path / "c"
    assert run("pay", file).code == 0
    write(tmp_path / "labels.csv", labels() + labels(start="next", seed=1).partition("\n")[2])
    done = run("pay", file)
    assert "leave out the paid ones and name another ledger (--ledger)" in done.said
    done = run("pay", file, "--ledger", folder / "second.jsonl")
    assert done.code == 1
    assert "ledger.jsonl has paid 40 tasks of these already ('i0', 'i1', 'i10', …)" in done.said
    assert not (folder / "second.jsonl").exists()
    past = write(tmp_path / "past.csv", labels(start="p", seed=2))
    assert run("fit", file, past).code == 0
    again = run("pay", folder / "fitted.toml", "--ledger", folder / "second.jsonl")
    assert "leave them out of the data, or they are paid twice" in again.said
    write(tmp_path / "labels.csv", labels(start="next", seed=1))
    assert run("pay", file, "--ledger", folder / "second.jsonl").code == 0
    assert run("pay", file, "--ledger", folder / "second.jsonl").code == 0  # all of it had been paid before


def test_labels_that_are_too_rare_to_replay_are_named(tmp_path: Path) -> None:
    file = campaign(tmp_path, labels() + "i0,x,maybe\ni1,x,maybe\n")
    text = file.read_text().replace(str([round(1 / 3, 12)] * 3), "[0.02, 0.49, 0.49]").replace("0.7,", "0.9,")
    file.write_text(text.replace("0.15", "0.05").replace("0.7]", "0.9]"))
    result: Any = troth.pay(file)
    assert result.verdict.word == "fits"
    unchecked = "Not checked: what other labels would have earned in place of 'maybe', answered fewer than 10 times"
    assert unchecked in str(result.verdict)
    assert unchecked.replace("'", "&#39;") in result.to_html()


def test_a_budget_without_a_price_is_shared_evenly(tmp_path: Path) -> None:
    for folder, column, options in (("a", "label", ()), ("b", "mood", ("--price", "0.02")), ("c", "score", ())):
        write(tmp_path / "t.csv", labels().replace("label", column).replace("yes", "7.25").replace("no", "3.5"))
        names = ("--provider", "worker", "--task", "item", "--column", column, "--budget", "100.00", *options)
        family = ("--family", "Finite") if column != "score" else ()
        assert run("init", tmp_path / folder, "--data", tmp_path / "t.csv", *names, *family).code == 0
        result: Any = troth.pay(tmp_path / folder / "campaign.toml")
        assert result.ledger.of("tasks")[0]["budget"] == ("2.40" if options else "100.00")


def test_several_rows_of_a_report_are_allowed_where_they_are_usual(tmp_path: Path) -> None:
    lines = labels().splitlines()
    names = ("--provider", "worker", "--task", "item", "--column", "label")
    twice = write(tmp_path / "twice.csv", "\n".join([lines[0], *lines[1:], *lines[1:]]) + "\n")
    done = run("init", tmp_path / "a", "--data", twice, *names)
    assert "120 of 120 reports of a worker on a task have several rows, up to 2" in done.said
    assert len(troth.pay(tmp_path / "a" / "campaign.toml").totals) == 5
    once = write(tmp_path / "once.csv", "\n".join([*lines, lines[1]]) + "\n")
    done = run("init", tmp_path / "b", "--data", once, *names)
    assert "a repeated label looks like an error" in done.said
    assert run("pay", tmp_path / "b" / "campaign.toml").code == 1
    values = write(tmp_path / "v.csv", once.read_text().replace("yes", "7.25").replace("no", "3.5"))
    done = run("init", tmp_path / "c", "--data", values, *names)
    assert "1 of 120 reports of a worker on a task have several rows, up to 2: the campaign allows them" in done.said
    assert len(troth.pay(tmp_path / "c" / "campaign.toml").totals) == 5


def test_next_steps_name_every_campaign_and_gold_where_it_helps(tmp_path: Path) -> None:
    write(tmp_path / "t.csv", "item,worker,label,score\n1,a,x,2.5\n1,b,y,3.25\n2,a,y,1.75\n2,b,y,2.25\n")
    names = ("--data", tmp_path / "t.csv", "--provider", "worker", "--task", "item", "--column", "score")
    output = run("init", tmp_path / "c", *names).said
    assert f"troth fit {tmp_path / 'c' / 'campaign.toml'} PAST.csv" in output
    assert "gold" not in output.lower()
    output_of_both = run("init", tmp_path / "d", *names, "--column", "label").said
    assert f"troth fit {tmp_path / 'd' / 'label' / 'campaign.toml'} PAST.csv --gold GOLD.csv" in output_of_both
    assert f"troth fit {tmp_path / 'd' / 'score' / 'campaign.toml'} PAST.csv --gold" not in output_of_both
    for column in ("label", "score"):
        assert f"troth pay {tmp_path / 'd' / column / 'campaign.toml'} --dry-run" in output_of_both


def test_init_says_that_labels_are_not_even(tmp_path: Path) -> None:
    write(tmp_path / "s.csv", skewed())
    names = ("--provider", "worker", "--task", "item", "--column", "label")
    assert "of the labels are 'yes', but the written prior expects all equally often" in (
        run("init", tmp_path / "c", "--data", tmp_path / "s.csv", *names).said
    )
    assert (
        "equally often" not in run("init", tmp_path / "d", "--data", write(tmp_path / "e.csv", labels()), *names).said
    )


def test_init_points_to_labels_that_occur_once_among_many(tmp_path: Path) -> None:
    names = ("--provider", "worker", "--task", "item", "--column", "label")
    odd = write(tmp_path / "odd.csv", labels() + "i1,w9,yse\n")
    assert "'yse' occurs only once: check the spelling" in run("init", tmp_path / "c", "--data", odd, *names).said
    few = write(tmp_path / "few.csv", "item,worker,label\n1,a,x\n1,b,y\n2,a,z\n2,b,y\n")
    assert "only once" not in run("init", tmp_path / "d", "--data", few, *names).said


def test_unanimous_tasks_are_not_said_to_lack_agreement() -> None:
    frame = {"item": [t for t in range(40) for _ in range(3)], "worker": ["x", "y", "z"] * 40}
    same = pay({**frame, "label": [t % 2 for t in range(40) for _ in range(3)]})
    assert worst_tasks(same) == []
    assert "There are none: workers who answered the same task always gave the same label" in same.to_html()
    result = pay({**frame, "label": [1, 0, 0, *(t % 2 for t in range(1, 40) for _ in range(3))]})
    assert [task.name for task in worst_tasks(result)] == ["0"]


def test_a_dry_run_warns_that_payment_would_stop(tmp_path: Path) -> None:
    file = campaign(tmp_path, skewed())
    dry = run("pay", file, "--dry-run")
    assert dry.code == 3
    assert "warning: the model does not fit these reports, and payment would stop with exit code 3" in dry.said
    assert "error" not in dry.said
    assert "also in a dry run" in " ".join(run("pay", "--help").said.split())
    assert run("pay", file).code == 3


def test_names_in_the_csv_are_those_of_the_platform_unless_they_are_formulas() -> None:
    frame = {"item": ["a", "a", "a", "b", "b"], "worker": ["@ann", "-7", "=cmd|' /C'!A0", "@ann", "-7"]}
    result = pay({**frame, "label": [0, 1, 1, 1, 1]})
    names = [line.partition(",")[0] for line in result.to_csv().splitlines()]
    assert names == ["provider", "-7", "'=cmd|' /C'!A0", "@ann"]
    assert "1 name such as \"=cmd|' /C'!A0\" for a formula, so the CSV has an apostrophe" in " ".join(result.notes)
    plain = pay({**frame, "worker": ["@ann", "-7", "bo", "@ann", "-7"], "label": [0, 1, 1, 1, 1]})
    assert plain.notes == ()


def test_a_price_that_pays_nothing_is_noted() -> None:
    frame = {"item": ["a", "a", "b", "b"], "worker": ["x", "y", "x", "y"], "label": [0, 1, 1, 1]}
    assert "every payment is rounded down to nothing" in pay(frame, price="0.001").notes[0]
    assert pay(frame, price="1").notes == ()


def test_tasks_need_a_price_and_are_counted_as_tasks() -> None:
    frame = {"item": ["a", "a"], "worker": ["x", "y"], "label": [0, 1]}
    with pytest.raises(ParameterError, match="for tasks a price or a budget"):
        pay(frame, price=None)
    result = pay(frame)
    assert str(result).splitlines()[1].split()[:2] == ["provider", "tasks"]
    assert result.to_arrow().column("tasks").to_pylist() == [1, 1]


def test_verify_says_who_is_missing_and_which_summaries_are_impossible(tmp_path: Path) -> None:
    ledger, file = tmp_path / "ledger.jsonl", tmp_path / "ledger.tasks.parquet"
    frame = {"item": ["a", "a", "b", "b"], "worker": ["x", "y", "x", "y"], "label": [0, 1, 1, 1]}
    entries = [dict(entry) for entry in pay(frame, ledger=ledger).ledger.entries]
    gone = [entry for entry in entries if entry.get("provider") != "y"]
    ledger.write_bytes(Ledger(gone).to_bytes())
    with pytest.raises(troth.LedgerError, match="'y' reported and has 0 payment lines"):
        troth.verify(ledger)
    table = pq.read_table(file)
    forged = table.set_column(table.column_names.index("summary_0"), "summary_0", pa.array([-1.0, 0.0, 0.0, 0.0]))
    pq.write_table(forged, file)
    digest = f"sha256:{sha256(file.read_bytes()).hexdigest()}"
    entries[1]["digest"] = digest
    ledger.write_bytes(Ledger(entries).to_bytes())
    with pytest.raises(troth.LedgerError, match="has -1.0 in the report of 'x' on task 'a', which is impossible"):
        troth.verify(ledger)


def test_made_up_items_that_share_a_budget_are_pointed_out() -> None:
    model = troth.models.Finite([0.5, 0.5], [[0.8, 0.2], [0.2, 0.8]])
    table = {"item": ["1", "1", "2", "2", "x"], "who": ["a", "b", "a", "b", "b"], "label": [0, 0, 1, 1, 1]}
    shared = troth.pay(table, model, provider="who", task="item", budget="10.00")
    assert [note for note in shared.notes if "1 answer without a peer" in note]
    assert not troth.pay(table, model, provider="who", task="item", price="0.05").notes


def test_a_ledger_that_pays_for_more_tasks_than_are_allowed_is_not_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    table = {"item": ["1", "1", "2", "2"], "worker": ["a", "b", "a", "b"], "label": [0, 0, 1, 1]}
    terms = {"limits": {"tasks": 1}}
    with pytest.raises(DataError, match="tasks"):
        pay(table, terms=terms)
    with monkeypatch.context() as careless:
        careless.setattr(troth.Campaign, "check_task_counts", lambda *_: None)
        forged = pay(table, terms=terms).verify()
    with pytest.raises(DataError, match="tasks"):
        forged.verify()


def test_answers_without_a_peer_are_pointed_out_where_they_are_more_than_half() -> None:
    table = {"item": ["1", "1", "x", "y", "z"], "worker": ["a", "b", "b", "a", "b"], "label": [0, 0, 1, 1, 1]}
    alone = "3 of 5 answers have no peer, so they earn the empty share"
    assert alone in pay(table).notes
    assert not pay({**table, "item": ["1", "1", "x", "x", "z"]}).notes


def test_a_table_with_one_label_or_without_peers_is_said_to_be_so(tmp_path: Path) -> None:
    table = tmp_path / "labels.csv"
    table.write_text("item,worker,label\n1,ann,yes\n1,bo,yes\n")
    with pytest.raises(DataError, match="has only the label 'yes'"):
        task_campaign_for(tmp_path / "c", table, provider="worker", task="item", column="label")
    alone = {"item": list(range(40)), "worker": [f"w{k % 4}" for k in range(40)], "label": [k % 2 for k in range(40)]}
    model = troth.models.Finite([0.5, 0.5], [[0.8, 0.2], [0.2, 0.8]])
    verdict = troth.pay(alone, model, provider="worker", task="item", price="1", columns="label").verdict
    assert verdict.word == "not checked"
    assert "no answer has a peer" in verdict.meaning


def test_days_of_labels_are_pointed_to_a_family_of_rates(tmp_path: Path) -> None:
    table = tmp_path / "days.csv"
    for words, family in ((("no", "yes"), "Bernoulli"), (("a", "b", "c"), "Categorical")):
        rows = [f"{day},{who},{words[k % len(words)]}" for day in range(6) for who in ("x", "y") for k in range(5)]
        table.write_text("date,clinic,result\n" + "\n".join(rows) + "\n")
        options: Any = {"provider": "clinic", "task": "date", "columns": ["result"], "budget": "10"}
        ((_, started),) = start_tasks(tmp_path / family, table, **options)
        assert any(f"pass --family {family}" in note for note in started.notes)
        ((path, _),) = start_tasks(tmp_path / f"{family}2", table, family=family, **options)
        result: Any = troth.pay(path)
        assert " × " in result.explain("x")


def test_an_explanation_of_everybody_counts_tasks_and_not_days(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.jsonl"
    model = troth.models.Finite([0.5, 0.5], [[0.8, 0.2], [0.2, 0.8]])
    frame = {"item": [1, 1, 2, 2], "worker": ["ann", "bo"] * 2, "label": [0, 0, 1, 0]}
    troth.pay(frame, model, provider="worker", task="item", price="1", columns="label", ledger=ledger)
    output = CliRunner().invoke(app, ["explain", str(ledger)]).output
    assert "tasks" in output.splitlines()[1]
    assert "days" not in output


def test_the_public_guess_is_learnt_as_a_worker_of_the_past() -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(2, size=400)
    item, who = np.divmod(np.arange(1600), 4)
    label = np.where(rng.random(1600) < np.array([0.9, 0.9, 0.8, 0.7])[who], truth[item], 1 - truth[item])
    past = {"item": [f"p{i}" for i in item], "worker": [("a", "b", "c", "public data")[w] for w in who], "label": label}
    model = troth.models.Finite([0.5, 0.5], [[0.7, 0.3], [0.3, 0.7]])
    frame = {"item": [1, 1], "worker": ["a", "b"], "label": [0, 0]}
    campaign = troth.pay(frame, model, provider="worker", task="item", price="1", columns="label").campaign
    learned: Any = fit_tasks(campaign, past).fitted
    assert learned.accuracy()["public data"] == pytest.approx(0.7, abs=0.06)


def test_the_first_row_of_a_later_file_is_named_there(tmp_path: Any) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    write(folder / "a.csv", "item,worker,label\n1,x,0\n1,y,1\n")
    write(folder / "b.csv", "item,worker,label\n2,x,7\n2,y,0\n")
    with pytest.raises(DataError, match=r"row 1 of b\.csv: 7"):
        pay(folder)


def test_workers_agree_on_the_tasks_that_both_answered() -> None:
    rows = [(1, "x", 0), (1, "y", 0), (2, "x", 1), (2, "y", 0), (3, "x", 1), (3, "z", 1), (4, "z", 0), (4, "w", 0)]
    result = pay(pd.DataFrame(rows, columns=["item", "worker", "label"]))
    names, rates = worker_agreement(result)
    rate_of = {(first, second): rates[i][j] for i, first in enumerate(names) for j, second in enumerate(names)}
    assert (rate_of["x", "y"], rate_of["y", "x"], rate_of["x", "z"], rate_of["z", "w"]) == (0.5, 0.5, 1.0, 1.0)
    assert rate_of["y", "z"] is rate_of["x", "x"] is None
