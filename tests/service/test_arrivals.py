"""A valid file arrives and is paid, whatever the family is and however the campaign describes its columns."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from registry import SOAK
from service.databases import one_system, opened
from service.world import make_world, payments_of
from troth.campaigns import tasks as task_campaigns
from troth.campaigns.records.ledger import Ledger
from troth.campaigns.records.verify import check_tasks
from troth.campaigns.rounds import pay_rounds
from troth.campaigns.starter.examples import Terms, _draw, example_text
from troth.campaigns.task_data import read_file, read_task_reports
from troth.campaigns.tasks import check_own_tasks, pay_task_reports, pay_tasks
from troth.campaigns.terms import Campaign
from troth.core.errors import DataError
from troth.data.read import read_reports
from troth.data.task_files import OwnTasks, join_tasks
from troth.data.tasks import TaskReports
from troth.mechanisms import DEFAULT_RULE
from troth.models import FAMILIES
from troth.results.tasks import TaskResult
from troth.service import limited_payments
from troth.service.access import COOKIE
from troth.service.accounts import start_session
from troth.service.uploads import Upload, UploadError, read_public_upload, read_upload

NAMES = ("Ash", "Birch")
ROWS = 24
Table = dict[str, Any]


@lru_cache
def example(family: str) -> tuple[dict[str, Any], dict[str, Table]]:
    """Return the terms of a family's own example, with few decoys, and everybody's rows as columns."""
    family_class = FAMILIES[family]
    text = example_text(family, DEFAULT_RULE, Terms(options={"decoys": 9}))
    terms = tomllib.loads(text)
    rows = _draw(family_class, list(NAMES), 0)
    return terms, {name: {key: [row[key] for row in rows[name]] for key in rows[name][0]} for name in NAMES}


def sent(campaign: Campaign, folder: Path, name: str, table: Table, ending: str, *, tried: bool = True) -> Upload:
    """Write a file, send it as its provider does, and return what was read."""
    path = folder / f"{name}.{ending}"
    write = pq.write_table if ending == "parquet" else pa.csv.write_csv
    write(pa.table(table), path)
    if tried:  # how long payments take is tested elsewhere
        limited_payments._tried[campaign.digest] = (10**6, 1e9)
    return read_upload(campaign, path, path.name, name, "2026-05-04" if campaign.daily else None)


def arrive(terms: dict[str, Any], tables: dict[str, Table], folder: Path) -> list[Upload]:
    """Send everybody's file, a CSV and a Parquet file, pay them all, and return what was read of each."""
    campaign = Campaign.from_dict({**terms, "data": {**terms.get("data", {}), "providers": list(tables)}})
    names_read = []
    for (name, table), ending in zip(tables.items(), ("csv", "parquet"), strict=True):
        upload = sent(campaign, folder, name, table, ending)
        if campaign.task is None:
            here = replace(campaign.request, provider="who")
            (report,), _ = read_reports(pa.table({**table, "who": [name] * len(table[here.named[-1]])}), here)
            assert np.allclose(upload.report.summary, report.summary, rtol=1e-12)
        assert [column.name for column in upload.columns] == [name for name in campaign.columns if name is not None]
        names_read.append(upload)
    ledger, reports = Ledger(), [upload.report for upload in names_read]
    if campaign.task is not None:
        pay_task_reports(campaign, reports, ledger)  # type: ignore[arg-type]
    else:
        assert pay_rounds(campaign, reports, ledger, final=True) == [reports[0].day]
    assert len(ledger.of("payment")) == len(tables)
    return names_read


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_is_sent_its_own_example_and_paid(family: str, tmp_path: Path) -> None:
    terms, tables = example(family)
    for upload in arrive(terms, tables, tmp_path):
        assert upload.report.rows == ROWS


QUICK = [name for name, family in FAMILIES.items() if SOAK or family.independent_rows]
"""Families whose providers differ are read like those that they extend, and take longer to pay."""


@pytest.mark.parametrize("family", [name for name in QUICK if FAMILIES[name].explains_target])
def test_every_regression_takes_levels_scales_and_labels_of_its_target(family: str, tmp_path: Path) -> None:
    terms, tables = example(family)
    model: Any = FAMILIES[family].example_model()
    labels = model.reduction.labels
    second = terms["model"]["columns"][1]
    target = terms["model"]["target"]
    terms = {**terms, "model": {**terms["model"], "levels": {second: ["Low", "High"]}}}
    terms["model"]["scales"] = {terms["model"]["columns"][0]: [0.5, 2.0]}
    names = [f"class {code}" for code in range(labels or 0)]
    if labels:
        terms["model"]["categories"] = names
    tables = {name: dict(table) for name, table in tables.items()}
    for table in tables.values():
        table[second] = ["high" if value > 0 else "Low" for value in table[second]]
        if labels:
            table[target] = [names[int(value)] for value in table[target]]
    for upload, table in zip(arrive(terms, tables, tmp_path), tables.values(), strict=True):
        columns = {column.name: column for column in upload.columns}
        high = table[second].count("high")
        assert dict(columns[second].labels) == {"Low": ROWS - high, "High": high}
        first = terms["model"]["columns"][0]
        assert columns[first].minimum == pytest.approx(min(table[first]))
        if labels:
            assert dict(columns[target].labels) == {label: table[target].count(label) for label in names}
        else:
            assert columns[target].mean == pytest.approx(np.mean(table[target]))


@pytest.mark.parametrize("family", ["LogisticRegression", "SoftmaxRegression"])
def test_values_that_no_payment_can_be_computed_with_are_refused_with_their_remedy(family: str, tmp_path: Path) -> None:
    terms, _ = example(family)
    model, size = terms["model"], 3 * (3 if "Softmax" in family else 1)
    terms = {**terms, "model": {**model, "intercept": True, "prior": model["prior"] | {"mean": [0.0] * size}}}
    table = {model["columns"][0]: [1e49], model["columns"][1]: [-1e49], model["target"]: [1]}
    with pytest.raises(UploadError, match="too large for the model, or too far apart in size") as error:
        sent(Campaign.from_dict(terms), tmp_path, "Ash", table, "csv", tried=False)
    assert error.value.status == 422


def test_rows_without_a_value_are_left_out_where_the_terms_say_so(tmp_path: Path) -> None:
    for family in ("Normal", "Categorical"):
        terms, tables = example(family)
        terms = {**terms, "data": {**terms["data"], "missing": "drop"}}
        column = terms["model"]["columns"][0]
        tables = {name: {column: [None, *table[column]]} for name, table in tables.items()}
        tables["Ash"][column] = ["n/a", *map(str, tables["Ash"][column][1:])]
        for upload, table in zip(arrive(terms, tables, tmp_path), tables.values(), strict=True):
            assert upload.report.rows == ROWS
            (summary,) = upload.columns
            if summary.labels:
                assert sum(count for _, count in summary.labels) == ROWS
            else:
                assert summary.mean == pytest.approx(np.mean([float(value) for value in table[column][1:]]))


def test_a_day_of_a_daily_campaign_arrives_with_its_public_rows(tmp_path: Path) -> None:
    terms, tables = example("Categorical")
    terms = {**terms, "campaign": {**terms["campaign"], "budget_per": "day"}, "data": {**terms["data"], "day": "day"}}
    rows = pa.table({"label": ["cat", "dog", "Cat", "other"]})
    for ending, write in (("csv", pa.csv.write_csv), ("parquet", pq.write_table)):
        path = tmp_path / f"public.{ending}"
        write(rows, path)
        public = read_public_upload(Campaign.from_dict(terms), path, path.name)
        assert public["summary"] == [2, 1, 1]
    days = {name: {**table, "day": ["2026-05-04"] * ROWS} for name, table in tables.items()}
    arrive({**terms, "public": public}, days, tmp_path)


def tasks_of(family: str, tasks: int = 12) -> tuple[dict[str, Any], dict[str, Table]]:
    """Return a family's example as a campaign of tasks, one row of everybody on each."""
    terms, tables = example(family)
    money = {**terms["campaign"], "price": "1.00"}
    terms = {**terms, "campaign": money, "data": {"task": "item", "provider": "who"}, "limits": {"tasks": tasks}}
    terms.pop("mechanism")
    return terms, {name: {"item": list(range(tasks)), **_first(table, tasks)} for name, table in tables.items()}


def _first(table: Table, rows: int) -> Table:
    return {key: values[:rows] for key, values in table.items()}


@pytest.mark.parametrize("family", QUICK)
def test_every_family_of_tasks_is_sent_and_paid(family: str, tmp_path: Path) -> None:
    terms, tables = tasks_of(family)
    for upload in arrive(terms, tables, tmp_path):
        assert upload.report.rows == 12


def test_columns_of_a_task_are_read_on_their_scales_and_by_their_levels(tmp_path: Path) -> None:
    terms, tables = tasks_of("LogisticRegression")
    terms = {**terms, "model": {**terms["model"], "scales": {"age": [1.0, 4.0]}, "levels": {"stay": ["no", "yes"]}}}
    for table in tables.values():
        table["stay"] = ["yes" if value > 0 else "No" for value in table["stay"]]
    for upload, table in zip(arrive(terms, tables, tmp_path), tables.values(), strict=True):
        model: Any = Campaign.from_dict(terms).model
        x = np.column_stack([(np.array(table["age"]) - 1) / 4, np.array(table["stay"]) == "yes", table["readmitted"]])
        assert np.allclose(upload.report.summary, model.reduction.of_rows(x.astype(float)))


def labelled() -> dict[str, Any]:
    terms, _ = tasks_of("Finite")
    return {**terms, "limits": {"tasks": 100}, "data": {**terms["data"], "providers": ["a", "b", "c", "d"]}}


def test_items_are_the_same_however_a_format_spells_their_numbers(tmp_path: Path) -> None:
    campaign = Campaign.from_dict(labelled())
    labels = ["negative", "positive"] * 5
    spelled = {
        "a": ("parquet", pa.array(range(10), pa.int64())),
        "b": ("parquet", pa.array(range(10), pa.float64())),
        "c": ("csv", [f" {item}.0" for item in range(10)]),
        "d": ("csv", [f"{item:03d}" for item in range(10)]),
    }
    read = {}
    for name, (ending, items) in spelled.items():
        upload: Any = sent(campaign, tmp_path, name, {"item": items, "result": labels}, ending).report
        read[name] = OwnTasks.from_bytes(upload.content)
        assert read[name].names == tuple(map(str, range(10)))
    ledger = Ledger()
    reports = join_tasks(read)
    file = pay_tasks(campaign, reports, None, ledger)
    assert (read_file(file, campaign).peers == 3).all()
    together = {
        "item": [str(item) for _, items in spelled.values() for item in pa.array(items).to_pylist()],
        "who": [name for name in spelled for _ in range(10)],
        "result": labels * 4,
    }
    (tmp_path / "all").mkdir()
    for name, (ending, items) in spelled.items():
        write = pq.write_table if ending == "parquet" else pa.csv.write_csv
        write(pa.table({"item": items, "result": labels, "who": [name] * 10}), tmp_path / "all" / f"{name}.{ending}")
    for data in (together, pa.table(together), tmp_path / "all"):
        again = read_task_reports(campaign, data)
        assert again.tasks == reports.tasks
        assert np.array_equal(again.summaries, reports.summaries)
    check_tasks(campaign, ledger, file)


@pytest.mark.parametrize("other", ["7.0", "07", "+7", " 7"])
def test_an_item_that_is_there_in_two_spellings_is_there_twice(other: str, tmp_path: Path) -> None:
    campaign = Campaign.from_dict(labelled())
    table = {"item": ["x", "7", other, "1.10", "1.1"], "result": ["negative"] * 5}
    with pytest.raises(UploadError, match=r"task '7' occurs 2 times \(column 'item', rows 2, 3\)"):
        sent(campaign, tmp_path, "a", table, "csv")
    with pytest.raises(DataError, match=r"provider 'a', task '7' occurs 2 times"):
        read_task_reports(campaign, {**table, "who": ["a"] * 5})


def test_items_that_differ_in_capitals_alone_are_paid_and_pointed_out() -> None:
    table = {"item": ["I1", "i1", "i2", "i2"], "who": ["a", "b", "a", "b"], "result": ["negative"] * 4}
    campaign, ledger = Campaign.from_dict(labelled()), Ledger()
    file = pay_tasks(campaign, read_task_reports(campaign, table), None, ledger)
    result: Any = TaskResult(campaign, ledger, file)
    assert result.to_dict()["tasks"] == 3
    assert [note for note in result.notes if "'I1' and 'i1'" in note]
    assert [note for note in limited_payments.judge(campaign, ledger, file)["notes"] if "'I1' and 'i1'" in note]


@pytest.mark.parametrize("value", [1e101, 1e155, 1e308, float("inf"), float("nan")])
def test_a_value_beyond_the_limits_is_refused_on_its_task(value: float, tmp_path: Path) -> None:
    terms, _ = tasks_of("Normal")
    campaign = Campaign.from_dict(terms)
    table = {"item": list(range(12)), "price": [20.0, value] + [20.0] * 10}
    for ending in ("csv", "parquet"):
        with pytest.raises(UploadError, match="task '1'.*row 2|column 'price': 1 value.*row 2"):
            sent(campaign, tmp_path, "Ash", table, ending)
    with pytest.raises(DataError, match="provider 'Ash', task '1'.*row 2|column 'price': 1 value"):
        read_task_reports(campaign, {**table, "who": ["Ash"] * 12})
    content = OwnTasks(("a",), np.array([[1.0, value]]))
    with pytest.raises(DataError, match="task 'a': the numbers of its summary must be at most"):
        check_own_tasks(campaign, "Ash", content)


def test_of_many_tasks_the_largest_are_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = 100_000
    campaign = Campaign.from_dict(tasks_of("Normal", tasks)[0])
    prices = np.round(np.random.default_rng(1).normal(20, 5, tasks), 2)
    tried: list[TaskReports] = []
    monkeypatch.setattr(task_campaigns, "settle_tasks", lambda _, reports, *rest: tried.append(reports))
    own = OwnTasks(tuple(sorted(map(str, range(tasks)))), np.column_stack([np.ones(tasks), prices - 20]))
    task_campaigns.rehearse_tasks(campaign, NAMES, own.to_bytes())
    assert len(tried[0]) == 2 * task_campaigns.MAX_REHEARSED
    assert np.abs(tried[0].summaries).max() == np.abs(own.summaries).max()
    if SOAK:
        table = {"item": list(range(tasks)), "price": prices.tolist()}
        assert sent(campaign, tmp_path, "Ash", table, "parquet", tried=False).report.rows == tasks


@pytest.mark.parametrize("kind", one_system("sqlite"))
def test_a_file_with_labels_and_levels_arrives_through_the_api_and_is_shown(database: str) -> None:
    terms, tables = example("LogisticRegression")
    terms = {part: table for part, table in terms.items() if part != "data"}
    terms["model"] = terms["model"] | {"levels": {"stay": ["short", "long"]}, "categories": ["no", "yes"]}
    head, rows = "age,stay,readmitted\n", zip(*tables["Ash"].values(), strict=True)
    content = head + "".join(f"{x},{'long' if z > 0 else 'Short'},{'yes' if y else 'NO'}\n" for x, z, y in rows)
    with opened(database) as store:
        world = make_world(store, NAMES, terms)
        client = world.client()
        for name in NAMES:
            where = f"{world.base}/rounds/1/submissions"
            sent_by = world.headers(name)
            answer = client.post(f"{where}/file?name=rows.csv", content=content.encode(), headers=sent_by)
            assert answer.status_code == 201, answer.text
            plain = answer.json()
            labels = {column["name"]: dict(column["labels"]) for column in plain["columns"]}
            assert sum(labels["stay"].values()) == sum(labels["readmitted"].values()) == ROWS
            assert [column["mean"] is None for column in plain["columns"]] == [False, True, True]
            confirm = client.post(f"{where}/{plain['id']}/confirm", json={"nonce": name}, headers=sent_by)
            assert confirm.status_code == 200, confirm.text
        with store.write() as tx:
            client.cookies.set(COOKIE, start_session(tx, world.providers["Ash"].account))
        where = f"/campaigns/{world.campaign}/rounds/1/submissions/"
        mine = client.get(f"{world.base}/rounds/1/submissions", headers=world.headers("Ash")).json()
        page = client.get(where + mine[0]["id"]).text
        assert page.index("Most common labels") < page.index("Largest")
        world.close()
        assert len(payments_of(store, world.campaign)) == len(NAMES)
