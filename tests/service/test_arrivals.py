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

from troth.campaigns.ledger import Ledger
from troth.campaigns.rounds import pay_rounds
from troth.campaigns.starter.examples import Terms, _draw, campaign_text
from troth.campaigns.task_reports import pay_task_reports
from troth.campaigns.terms import Campaign
from troth.data.read import read_reports
from troth.mechanisms import DEFAULT_RULE
from troth.models import FAMILIES
from troth.service import settling
from troth.service.uploads import Upload, read_public_upload, read_upload

NAMES = ("Ash", "Birch")
ROWS = 24
Table = dict[str, list[Any]]


@lru_cache
def example(family: str) -> tuple[dict[str, Any], dict[str, Table]]:
    """Return the terms of a family's own example, with few decoys, and everybody's rows as columns."""
    shown = FAMILIES[family]
    text = campaign_text(family, shown.example, shown.example_parameters(), DEFAULT_RULE, Terms(options={"decoys": 9}))
    terms = tomllib.loads(text)
    rows = _draw(shown, list(NAMES), 0)
    return terms, {name: {key: [row[key] for row in rows[name]] for key in rows[name][0]} for name in NAMES}


def sent(campaign: Campaign, folder: Path, name: str, table: Table, ending: str) -> Upload:
    """Write a file, send it as its provider does, and return what was read."""
    path = folder / f"{name}.{ending}"
    write = pq.write_table if ending == "parquet" else pa.csv.write_csv
    write(pa.table(table), path)
    settling._tried[campaign.digest] = settling._Tried(10**6, 1e9)  # how long payments take is tested elsewhere
    return read_upload(campaign, path, path.name, name, "2026-05-04" if campaign.daily else None)


def arrive(terms: dict[str, Any], tables: dict[str, Table], folder: Path) -> list[Upload]:
    """Send everybody's file, a CSV and a Parquet file, pay them all, and return what was read of each."""
    campaign = Campaign.from_dict({**terms, "data": {**terms.get("data", {}), "providers": list(tables)}})
    read = []
    for (name, table), ending in zip(tables.items(), ("csv", "parquet"), strict=True):
        upload = sent(campaign, folder, name, table, ending)
        if campaign.task is None:
            here = replace(campaign.request, provider="who")
            (report,), _ = read_reports(pa.table({**table, "who": [name] * len(table[here.named[-1]])}), here)
            assert np.allclose(upload.report.summary, report.summary, rtol=1e-12)
        assert [column.name for column in upload.columns] == [name for name in campaign.columns if name is not None]
        read.append(upload)
    ledger, reports = Ledger(), [upload.report for upload in read]
    if campaign.task is not None:
        pay_task_reports(campaign, reports, ledger)  # type: ignore[arg-type]
    else:
        assert pay_rounds(campaign, reports, ledger, final=True) == [reports[0].day]
    assert len(ledger.of("payment")) == len(tables)
    return read


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_is_sent_its_own_example_and_paid(family: str, tmp_path: Path) -> None:
    terms, tables = example(family)
    for upload in arrive(terms, tables, tmp_path):
        assert upload.report.rows == ROWS


LABELLED = [name for name, family in FAMILIES.items() if family.explains_target]


@pytest.mark.parametrize("family", LABELLED)
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
        assert columns[first].least == pytest.approx(min(table[first]))
        if labels:
            assert dict(columns[target].labels) == {label: table[target].count(label) for label in names}
        else:
            assert columns[target].mean == pytest.approx(np.mean(table[target]))
