"""What is said about files that cannot be read, or not as numbers."""

from __future__ import annotations

from gzip import compress
from pathlib import Path

import pyarrow as pa
import pytest

from troth.core.errors import DataError
from troth.core.reductions import Moments
from troth.data.files import FORMATS
from troth.data.fragments import Fragment
from troth.data.request import Request


def arrow_file(text: bytes, kind: pa.DataType) -> bytes:
    """Return an Arrow file with one value, whatever its bytes are."""
    value = pa.Array.from_buffers(kind, 1, pa.array([text], pa.binary()).buffers())
    batch, sink = pa.record_batch([value], names=["a"]), pa.BufferOutputStream()
    with pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write(batch)
    return bytes(sink.getvalue())


MANY = b"1\n" * (1 << 22)  # more than are read at once
QUOTED = "correct the row: a value with a comma in it needs quotes around it"


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("own.csv", b"a,b\n1,2\n1,2,3\n", rf"own.csv, row 2: 3 values for 2 columns \(1,2,3\); {QUOTED}"),
        ("own.csv", b'a,b\n"1,2\n3,4\n', r'own.csv, row 1: 1 value for 2 columns \("1,2\); correct'),
        ("own.csv", b"a\n" + MANY + b"1,2\n", r"own.csv, row 4194305: 2 values for 1 column \(1,2\); correct"),
        ("own.csv.gz", compress(b"a,b\n1\n", mtime=0), r"own.csv.gz, row 1: 1 value for 2 columns"),
        ("own.csv.gz", compress(b"a\n" + MANY, mtime=0)[:-20], "own.csv.gz: cannot be read as csv: Truncated"),
        ("own.csv", b"a\n\xff\n", "own.csv: holds text that is not in UTF-8"),
        ("own.csv", b"a\n" + MANY + b"\xc3\n", "own.csv: holds text that is not in UTF-8"),
        ("own.csv", b"a\n1\n\xff,2\n", "own.csv: holds text that is not in UTF-8"),
        ("own.csv.gz", compress(b"a\n\xff\n", mtime=0), "own.csv.gz: holds text that is not in UTF-8"),
        ("own.jsonl", b'{"a": 1}\n{"a": "\xff"}\n', "own.jsonl: holds text that is not in UTF-8"),
        ("own.jsonl", b'{"a": 1}\n{"a":', "own.jsonl: cannot be read as jsonl: JSON parse error"),
        ("own.arrow", arrow_file(b"\xff", pa.string()), "own.arrow: holds text that is not in UTF-8"),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else f"{len(value)} bytes",
)
def test_what_is_wrong_with_a_file_is_said(name: str, content: bytes, problem: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=problem):
        Fragment(str(tmp_path / name), FORMATS[Path(name.removesuffix(".gz")).suffix]).summarise(
            Request(Moments(), ("a",))
        )


@pytest.mark.parametrize("rows", [b"", MANY])
def test_words_among_numbers_are_named_wherever_they_are(rows: bytes, tmp_path: Path) -> None:
    (tmp_path / "own.csv").write_bytes(b"a\n1\n" + rows + b"one\n")
    part = Fragment(str(tmp_path / "own.csv"), "csv").summarise(Request(Moments(), ("a",)))
    (problem,) = part.problems
    assert (problem.fault, problem.value, problem.row) == ("not a number", "one", 2 + len(rows) // 2)


def test_rows_that_are_read_once_more_are_looked_at_once(tmp_path: Path) -> None:
    (tmp_path / "own.csv").write_bytes(b"a\n" + MANY + b"one\n")
    rows: list[int] = []
    request = Request(Moments(), ("a",), on_batch=lambda batch: rows.append(batch.num_rows))
    part = Fragment(str(tmp_path / "own.csv"), "csv").summarise(request)
    assert part.problems
    assert 0 < sum(rows) <= len(MANY) // 2


def test_offsets_beyond_the_text_are_refused(tmp_path: Path) -> None:
    buffers = [None, pa.py_buffer(bytes([0, 0, 0, 0, 200, 0, 0, 0, 1, 0, 0, 0])), pa.py_buffer(b"x")]
    batch = pa.record_batch([pa.Array.from_buffers(pa.string(), 2, buffers)], names=["a"])
    with pa.OSFile(str(tmp_path / "own.arrow"), "wb") as sink, pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write(batch)
    with pytest.raises(DataError, match=r"own.arrow: cannot be read as arrow: .*out of bounds"):
        Fragment(str(tmp_path / "own.arrow"), "arrow").summarise(Request(Moments(), ("a",)))


@pytest.mark.parametrize("text", [b"", b"\n\n", b"\r\n", b"\xef\xbb\xbf", b"\xef\xbb\xbf\n", b"a,b", b"\na"])
def test_a_file_without_a_whole_line_of_column_names_is_empty(text: bytes, tmp_path: Path) -> None:
    (tmp_path / "own.csv").write_bytes(text)
    with pytest.raises(DataError, match=r"own.csv: the file is empty; it needs a line of column names and rows"):
        Fragment(str(tmp_path / "own.csv"), "csv").column_names()


def test_names_are_read_as_arrow_reads_them(tmp_path: Path) -> None:
    file = tmp_path / "own.csv"
    file.write_bytes(b'\xef\xbb\xbf\r\n\n"a\nb", "c","d""e",f"g"\r1,2,3,\xff\n')
    fragment = Fragment(str(file), "csv")
    assert fragment.column_names() == ["a\nb", ' "c"', 'd"e', 'f"g"']
    assert [batch.num_rows for batch in fragment.batches(Request(Moments(), ("a\nb",)))] == [1]
    for content, problem in ((b"a,\xff\n1,2\n", "not in UTF-8"), (b'a,"' + b"b" * 200_000, "cannot be read as csv")):
        file.write_bytes(content)
        with pytest.raises(DataError, match=problem):
            fragment.column_names()
