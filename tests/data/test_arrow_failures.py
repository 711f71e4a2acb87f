"""The words by which the installed Arrow says what is wrong with a file."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import csv

from troth.core.errors import DataError
from troth.core.reductions import Moments
from troth.data.arrow_failures import Failure, arrow_failure
from troth.data.files import Fragment
from troth.data.request import Request


@pytest.mark.parametrize(
    ("text", "kind", "failure"),
    [
        (b"a,b\n1,2,3\n", pa.float64(), "row length"),
        (b"a\n1,2\n", pa.float64(), "row length"),
        (b"a\n\xff\n", pa.string(), "encoding"),
        (b"a\none\n", pa.float64(), "number"),
        (b"b\n1\n", pa.float64(), "other"),
    ],
)
def test_arrow_still_words_its_errors_in_this_way(text: bytes, kind: pa.DataType, failure: Failure) -> None:
    options = csv.ConvertOptions(column_types={"a": kind}, include_columns=["a"])
    with pytest.raises(pa.ArrowException) as caught:
        csv.open_csv(pa.BufferReader(text), convert_options=options).read_all()
    assert arrow_failure(caught.value) == failure


@pytest.mark.parametrize("text", [b"", b"\n\n", b"\r\n", b"\xef\xbb\xbf", b"\xef\xbb\xbf\n", b"a,b", b"\na"])
def test_a_file_without_a_whole_line_of_column_names_is_empty(text: bytes, tmp_path: Path) -> None:
    (tmp_path / "own.csv").write_bytes(text)
    with pytest.raises(DataError, match=r"own.csv: the file is empty; it needs a line of column names and rows"):
        Fragment(str(tmp_path / "own.csv"), "csv").column_names()


def test_names_are_read_as_arrow_reads_them(tmp_path: Path) -> None:
    file = tmp_path / "own.csv"
    file.write_bytes(b'\xef\xbb\xbf\r\n\n"a\nb", "c","d""e",f"g"\r1,2,3,\xff\n')
    named = Fragment(str(file), "csv")
    assert named.column_names() == ["a\nb", ' "c"', 'd"e', 'f"g"']
    assert [batch.num_rows for batch in named.batches(Request(Moments(), ("a\nb",)))] == [1]
    for content, problem in ((b"a,\xff\n1,2\n", "not in UTF-8"), (b'a,"' + b"b" * 200_000, "cannot be read as csv")):
        file.write_bytes(content)
        with pytest.raises(DataError, match=problem):
            named.column_names()
