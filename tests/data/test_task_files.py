"""Files of tasks of every format."""

from __future__ import annotations

from io import BytesIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from troth.core.errors import DataError
from troth.data.task_files import OwnTasks, read_table, summaries_of, summary_columns, write_table

SUMMARIES = np.arange(22.0).reshape(2, 11)


def file_of(columns: dict[str, object], metadata: dict[str, str] | None = None) -> bytes:
    buffer = BytesIO()
    pq.write_table(pa.table(columns).replace_schema_metadata(metadata), buffer)
    return buffer.getvalue()


def test_a_file_names_its_format_and_has_a_column_for_each_number() -> None:
    table = pq.read_table(BytesIO(write_table(pa.table({"task": ["a", "b"], **summary_columns(SUMMARIES)}))))
    assert table.schema.metadata[b"troth.format"] == b"2"
    assert table.column_names == ["task", *(f"summary_{entry}" for entry in range(11))]


def test_a_file_without_a_format_number_is_of_the_first_format() -> None:
    columns = {f"sum_{entry}": SUMMARIES[:, entry] for entry in reversed(range(11))}  # in any order
    content = file_of({"task": ["a", "b"], **columns})
    assert np.array_equal(summaries_of(read_table(content)), SUMMARIES)
    assert OwnTasks.from_bytes(content).digest == OwnTasks(("a", "b"), SUMMARIES).digest


def test_a_format_that_is_not_known_is_refused() -> None:
    content = file_of({"task": ["a"], "summary_0": [1.0]}, {"troth.format": "3"})
    with pytest.raises(DataError, match="cannot be read: it has format '3', but this version reads 1 and 2"):
        OwnTasks.from_bytes(content)


def test_summaries_that_lack_a_number_are_refused() -> None:
    content = file_of({"task": ["a"], "summary_0": [1.0], "summary_2": [1.0]}, {"troth.format": "2"})
    with pytest.raises(DataError, match="cannot be read"):
        OwnTasks.from_bytes(content)
