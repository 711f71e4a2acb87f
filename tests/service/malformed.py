"""Invalid files: each with the status and a pattern of the message with which the service rejects it."""

from __future__ import annotations

import gzip
import io
import json
import struct
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from registry import generator
from troth.campaigns.terms import Campaign
from troth.service.uploads import Limits

SMALL = Limits(bytes=16 << 20, cells=2_000_000, seconds=8.0, memory=1 << 30)
HASTY = Limits(bytes=16 << 20, cells=2_000_000, expanded=1 << 40, seconds=1.0, memory=1 << 30)
TIGHT = Limits(bytes=16 << 20, cells=2_000_000, seconds=8.0, memory=192 << 20)
DIGEST = "sha256:" + "0" * 64
CANNOT = "cannot be read as"


@dataclass(frozen=True)
class Case:
    name: str
    campaign: str
    file: str
    data: bytes | Callable[[], bytes]
    status: int
    says: str
    limits: Limits = SMALL

    def content(self) -> bytes:
        return self.data if isinstance(self.data, bytes) else self.data()


@cache
def campaigns() -> dict[str, Campaign]:
    """Return campaigns of several families with the provider Ash."""
    money = {"name": "clinics", "budget": "1000.00"}
    who = {"provider": "clinic"}
    bernoulli = {"family": "Bernoulli", "columns": ["improved"], "prior": {"alpha": 1, "beta": 1}}
    spread = {"mean": 0, "strength": 1, "shape": 3, "scale": 2}
    tables: dict[str, dict[str, Any]] = {
        "bernoulli": {"campaign": money, "model": bernoulli, "data": who},
        "few": {"campaign": money, "model": bernoulli, "data": who, "limits": {"rows": 5}},
        "daily": {"campaign": {**money, "budget_per": "day"}, "model": bernoulli, "data": {**who, "day": "day"}},
        "labels": {
            "campaign": money,
            "model": {
                "family": "Categorical",
                "columns": ["label"],
                "categories": ["cat", "dog", "other"],
                "prior": {"alpha": [1, 1, 1]},
            },
            "data": who,
        },
        "poisson": {
            "campaign": money,
            "model": {"family": "Poisson", "columns": ["cars"], "prior": {"shape": 4, "rate": 1}},
            "data": who,
        },
        "exponential": {
            "campaign": money,
            "model": {"family": "Exponential", "columns": ["minutes"], "prior": {"shape": 3, "rate": 6}},
            "data": who,
        },
        "normal": {
            "campaign": money,
            "model": {"family": "NormalUnknownVariance", "columns": ["length"], "prior": spread},
            "data": who,
        },
        "bounded": {
            "campaign": money,
            "model": {"family": "NormalUnknownVariance", "columns": ["length"], "prior": spread},
            "data": who,
            "limits": {"values": [0, 100]},
        },
        "regression": {
            "campaign": money,
            "model": {
                "family": "LinearRegression",
                "columns": ["dose", "age"],
                "target": "response",
                "noise": 1.0,
                "prior": {"mean": [0, 0], "precision": [[1, 0], [0, 1]]},
            },
            "data": who,
        },
    }
    return {name: Campaign.from_dict(plain) for name, plain in tables.items()}


def parquet(table: Any, **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return sink.getvalue()


def arrow(table: Any, *, stream: bool = False, **options: Any) -> bytes:
    sink = io.BytesIO()
    with (pa.ipc.new_stream if stream else pa.ipc.new_file)(sink, table.schema, **options) as writer:
        writer.write_table(table)
    return sink.getvalue()


def binary(rows: int = 400, seed: int = 0) -> Any:
    return pa.table({"clinic": ["Ash"] * rows, "improved": generator(seed).integers(0, 2, rows)})


def statistics(**changes: Any) -> bytes:
    plain: dict[str, Any] = {
        "kind": "troth summary",
        "format": 2,
        "provider": "Ash",
        "family": "Bernoulli",
        "rows": 4,
        "summary": [1, 3],
        "digest": DIGEST,
    }
    plain |= changes
    return json.dumps({key: value for key, value in plain.items() if value is not ...}).encode()


def daily(*days: dict[str, Any], **changes: Any) -> bytes:
    return statistics(rows=..., summary=..., days=list(days), **changes)


def change_footer(data: bytes, old: int, new: int) -> bytes:
    """Replace a count in a Parquet footer by one of the same length in bytes."""
    start = len(data) - 8 - struct.unpack("<I", data[-8:-4])[0]
    footer, encoded = data[start:-8], _varint(old)
    assert encoded in footer
    return data[:start] + footer.replace(encoded, _varint(new, len(encoded))) + data[-8:]


def _varint(number: int, width: int = 0) -> bytes:
    number, encoded = number << 1, bytearray()
    while number > 127 or len(encoded) + 1 < width:
        encoded.append(number & 127 | 128)
        number >>= 7
    return bytes([*encoded, number])


def many_rows(groups: int = 40, rows: int = 1_000_000) -> bytes:
    sink = io.BytesIO()
    table = pa.table({"improved": pa.array(np.zeros(rows, np.int8))})
    with pq.ParquetWriter(sink, table.schema, compression="zstd") as writer:
        for _ in range(groups):
            writer.write_table(table)
    return sink.getvalue()


def wrong_row_count(rows: int, declared: int) -> bytes:
    return change_footer(many_rows(1, rows), rows, declared)


def long_names() -> bytes:
    names = pa.array([chr(65 + i) * 300_000 for i in range(20)])
    options = {"compression": "zstd", "use_dictionary": False, "write_statistics": False}
    table = pa.table({"clinic": names, "improved": np.zeros(20)})
    return parquet(pa.concat_tables([table] * 40).combine_chunks(), **options)


def archive(name: str, content: bytes) -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr(name, content)
    return sink.getvalue()


def cases() -> Iterator[Case]:
    yield from _names()
    yield from _disguises()
    yield from _csv()
    yield from _cells()
    yield from _jsonl()
    yield from _parquet()
    yield from _arrow()
    yield from _compressed()
    yield from _statistics()
    yield from _cut_and_broken()
    yield from _bombs()


GOOD_CSV = b"clinic,improved\nAsh,1\nAsh,0\n"


def _names() -> Iterator[Case]:
    names = [
        "rows",
        "rows.docx",
        "rows.exe",
        "",
        ".csv",
        "..",
        "rows.csv.zip",
        "rows.html",
        "rows.pickle",
        "rows.avro",
        "rows.csv/",
        "/",
        "rows.csv\n",
        "rows.cs\x00v",
        "rows.gz",
        ".parquet",
        "\u202erows.vsc",
        "rows.xml",
    ]
    for name in names:
        if name.strip("/\n").endswith("rows.csv"):
            continue
        yield Case(f"named {name!r}", "bernoulli", name, GOOD_CSV, 415, "unknown kind of file")


def _disguises() -> Iterator[Case]:
    inside = archive("rows.csv", GOOD_CSV)
    table = binary(3)
    for what, data, says in (
        ("zip", inside, "ZIP archive"),
        ("parquet", parquet(table), "Parquet file"),
        ("arrow", arrow(table), "Arrow file"),
        ("gzip", gzip.compress(GOOD_CSV), "gzip data"),
        ("pdf", b"%PDF-1.7\n" + GOOD_CSV, "PDF"),
        ("sqlite", b"SQLite format 3\0" + bytes(100), "SQLite"),
        ("office", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(500), "old office document"),
    ):
        for suffix in ("csv", "jsonl", "parquet", "arrow", "json"):
            if suffix != what:
                yield Case(f"{what} named {suffix}", "bernoulli", f"rows.{suffix}", data, 415, says)
    for name in ("m.xlsx", "m.XLS", "m.ods"):
        yield Case(
            f"sheet named {name}",
            "bernoulli",
            name,
            inside,
            415,
            f"{name}: the service does not read spreadsheets; save",
        )
    yield Case(
        "workbook named csv",
        "bernoulli",
        "m.csv",
        inside,
        415,
        "workbook, which the service does not read; save the sheet",
    )
    yield Case("zip named gz", "bernoulli", "rows.csv.gz", inside, 415, "ZIP archive")
    yield Case("text named gz", "bernoulli", "rows.csv.gz", GOOD_CSV, 422, CANNOT)
    yield Case("text named parquet", "bernoulli", "rows.parquet", GOOD_CSV, 422, CANNOT)
    yield Case("text named arrow", "bernoulli", "rows.arrow", GOOD_CSV, 422, CANNOT)
    yield Case("csv named jsonl", "bernoulli", "rows.jsonl", GOOD_CSV, 422, CANNOT)
    yield Case("csv named json", "bernoulli", "rows.json", GOOD_CSV, 422, "not valid JSON")


def _csv() -> Iterator[Case]:
    def bad(name: str, data: bytes | str, says: str, campaign: str = "bernoulli", limits: Limits = SMALL) -> Case:
        data = data.encode() if isinstance(data, str) else data
        return Case(f"csv, {name}", campaign, "rows.csv", data, 422, says, limits)

    yield bad("empty", "", "empty")
    yield bad("blank lines", "\n\n\n", "empty|no column")
    yield bad("header only", "clinic,improved\n", "no rows")
    yield bad("header without end", "clinic,improved", "column names and rows")
    yield bad("no header", "Ash,1\nAsh,0\n", "no column 'improved'")
    yield bad("wrong column", "clinic,better\nAsh,1\n", "no column 'improved'; there are 'clinic', 'better'")
    yield bad("column in capitals", "clinic,IMPROVED\nAsh,1\n", "no column 'improved'")
    yield bad("column twice", "clinic,improved,improved\nAsh,1,0\n", "2 columns named 'improved'")
    yield bad("provider twice", "clinic,clinic,improved\nAsh,Ash,0\n", "2 columns named 'clinic'")
    yield bad("short row", "clinic,improved\nAsh,1\nAsh\n", "rows.csv")
    yield bad("long row", "clinic,improved\nAsh,1\nAsh,1,0\n", "rows.csv")
    yield bad("open quote", 'clinic,improved\nAsh,"1\nAsh,0\nAsh,1\n', "rows.csv")
    yield bad("other provider", "clinic,improved\nBirch,1\n", "provider 'Birch', not 'Ash'")
    yield bad("two providers", "clinic,improved\nAsh,1\nBirch,0\n", "2 providers .'Ash', 'Birch'.")
    yield bad("provider in capitals", "clinic,improved\nASH,1\n", "provider 'ASH', not 'Ash'")
    yield bad("lookalike provider", "clinic,improved\n\u0410sh,1\n", "not 'Ash'")
    yield bad("no provider's name", "clinic,improved\nAsh,1\n,0\n", "without a provider's name")
    yield bad("blank provider", "clinic,improved\nAsh,1\n  ,0\n", "providers|without a provider's name")
    yield bad("two spellings", "clinic,improved\nAsh,1\n Ash,0\n", "2 providers")
    yield Case("csv, too many rows", "few", "rows.csv", b"clinic,improved\n" + b"Ash,1\n" * 6, 413, "the 5 rows")
    yield bad("UTF-16", "clinic,improved\nAsh,1\n".encode("utf-16"), "rows.csv")
    yield bad("UTF-16 without mark", "clinic,improved\nAsh,1\n".encode("utf-16-le"), "rows.csv")
    yield bad("UTF-32", "clinic,improved\nAsh,1\n".encode("utf-32"), "rows.csv")
    yield bad("Latin-1 provider", "clinic,improved\nÄsh,1\n".encode("latin-1"), "rows.csv|UTF8")
    yield bad("Latin-1 label", "clinic,label\nAsh,c\xe4t\n".encode("latin-1"), "UTF8|rows.csv", "labels")
    yield bad("NULs", bytes(300), "rows.csv")
    yield bad("NUL in value", b"clinic,improved\nAsh,1\x00\n", "rows.csv")
    yield bad("NUL in name", b"clinic,improved\nA\x00sh,1\n", "not 'Ash'")
    yield bad("bytes", bytes(generator(3).integers(0, 256, 4000, dtype=np.uint8)).replace(b"PK", b"pk"), "rows.csv")
    yield bad("HTML", "<html><body>Not found</body></html>", "column names and rows")
    yield bad("JSON", '[{"clinic": "Ash", "improved": 1}]', "no column|rows")
    yield bad("bars", "clinic|improved\nAsh|1\n", "no column")
    yield bad("separator line", "sep=;\nclinic;improved\nAsh;1\n", "no column|rows.csv")
    for day, says in (
        ("2026-05-05", "day 2026-05-05, but the report is for day 2026-05-04"),
        ("5", "day 5"),
        ("yesterday", "not a date"),
        ("2026-02-30", "not a date"),
        ("05/04/2026", "not a date"),
        ("", "not a date"),
        ("2026-05-04T23:30-04:00", "day 2026-05-05"),
    ):
        yield bad(f"day {day!r}", f"clinic,day,improved\nAsh,{day},1\n", says, "daily")
    yield bad("two days", "clinic,day,improved\nAsh,2026-05-04,1\nAsh,2026-05-05,1\n", "day 2026-05-05", "daily")


def _cells() -> Iterator[Case]:
    """Files with one invalid value among valid ones."""
    bad: dict[tuple[str, str, str], dict[str, str]] = {
        ("bernoulli", "improved", "1"): {
            "2": "not a whole number from 0 to 1",
            "-1": "not a whole number",
            "0.5": "not a whole number",
            "": "missing",
            "yes": "not a number; send 0 or 1, or ask the analyst to name the labels",
            "NaN": "missing|NaN",
            "inf": "infinite",
            "1e400": "number|infinite",
            "1,0": "rows.csv",
            "0x1": "not a number",
            "１": "number stored as text",
            "NULL": "missing|number",
            "1 1": "not a number",
            "=1+1": "not a number",
            "99999999999999999999": "not a whole number",
            "--1": "not a number",
        },
        ("poisson", "cars", "3"): {"-1": "at least 0", "2.5": "whole number", "-inf": "infinite", "1e300": "."},
        ("exponential", "minutes", "2.5"): {"-2": "at least 0", "nan": "missing|NaN", "1e309": "infinite|number"},
        ("normal", "length", "1.5"): {
            "1e200": "too large",
            "-inf": "infinite",
            "nan": "missing|NaN",
            "abc": "not a number",
            "1.5.2": "not a number",
            "1_000": ".",
        },
        ("bounded", "length", "50"): {
            "-0.001": "outside the declared values 0 to 100",
            "100.5": "outside the declared values",
        },
        ("labels", "label", "cat"): {
            "cow": "not among the categories 'cat', 'dog', 'other'",
            "CATS": "not among",
            "0": "not among",
            "": "missing|not among",
            "cat\u200b": "not among",
        },
    }
    for (campaign, column, good), values in bad.items():
        for value, says in values.items():
            text = f"clinic,{column}\n" + f"Ash,{good}\n" * 5 + f"Ash,{value}\n" + f"Ash,{good}\n" * 3
            yield Case(f"{campaign}, value {value!r}", campaign, "rows.csv", text.encode(), 422, says)
    for column in ("dose", "age", "response"):
        row = {"dose": "1", "age": "2", "response": "3"}
        for value in ("", "old", "inf"):
            text = "dose,age,response\n1,2,3\n" + ",".join((row | {column: value}).values()) + "\n"
            yield Case(f"regression, {column} {value!r}", "regression", "rows.csv", text.encode(), 422, f"'{column}'")
        header = ",".join(name for name in row if name != column)
        yield Case(
            f"regression, no {column}",
            "regression",
            "rows.csv",
            f"{header}\n1,2\n".encode(),
            422,
            f"no column '{column}'",
        )


def _jsonl() -> Iterator[Case]:
    lines = {
        "list": ("[1, 2]\n", "."),
        "number": ("1\n0\n", "."),
        "open brace": ('{"clinic": "Ash", "improved": 1\n', "."),
        "one quote": ("{'clinic': 'Ash', 'improved': 1}\n", "."),
        "text": ('{"clinic": "Ash", "improved": "yes"}\n', "not a number"),
        "text later": ('{"improved": 1}\n{"improved": "0"}\n', "."),
        "null": ('{"improved": 1}\n{"improved": null}\n', "missing"),
        "absent": ('{"improved": 1}\n{"clinic": "Ash"}\n', "."),
        "object": ('{"improved": {"value": 1}}\n', "type"),
        "array": ('{"improved": [1]}\n', "type"),
        "NaN": ('{"improved": NaN}\n', "."),
        "two": ('{"improved": 2}\n', "not a whole number from 0 to 1"),
        "no column": ('{"clinic": "Ash"}\n', "no column 'improved'"),
        "no line": ("\n\n", "."),
        "empty object": ("{}\n", "no column"),
        "other provider": ('{"clinic": "Elm", "improved": 1}\n', "provider 'Elm', not 'Ash'"),
        "provider is an object": ('{"clinic": {}, "improved": 1}\n', "."),
        "field twice": ('{"improved": 1, "improved": 0}\n', "."),
        "junk after": ('{"improved": 1} x\n', "."),
        "huge number": ('{"improved": 1e999}\n', "."),
        "huge whole number": ('{"improved": ' + "9" * 400 + "}\n", "."),
    }
    for name, (text, says) in lines.items():
        yield Case(f"jsonl, {name}", "bernoulli", "rows.jsonl", text.encode(), 422, says)
    yield Case(
        "jsonl, Latin-1", "bernoulli", "rows.jsonl", '{"clinic": "Äsh", "improved": 1}'.encode("latin-1"), 422, "."
    )


def _typed(kind: str) -> dict[str, tuple[Any, str]]:
    ones = np.ones(4)
    table: dict[str, tuple[Any, str]] = {
        "no rows": (binary(0), "no rows"),
        "no column": (pa.table({"clinic": ["Ash"]}), "no column 'improved'"),
        "no columns": (pa.table({}), "no column|none at all|no rows"),
        "text": (pa.table({"improved": ["1", "0"]}), "type string"),
        "dates": (pa.table({"improved": pa.array([1, 0], pa.date32())}), "type date32"),
        "lists": (pa.table({"improved": [[1], [0]]}), "type list"),
        "structs": (pa.table({"improved": [{"x": 1}]}), "type struct"),
        "bytes": (pa.table({"improved": [b"1"]}), "type binary"),
        "nulls": (pa.table({"improved": [1, None]}), "missing"),
        "only nulls": (pa.table({"improved": pa.array([None, None], pa.int8())}), "missing"),
        "NaN": (pa.table({"improved": [1.0, np.nan]}), "NaN"),
        "infinite": (pa.table({"improved": [1.0, np.inf]}), "infinite"),
        "two": (pa.table({"improved": [0, 2]}), "whole number from 0 to 1"),
        "large": (pa.table({"improved": pa.array([0, 2**64 - 1], pa.uint64())}), "whole number from 0 to 1"),
        "other provider": (pa.table({"clinic": ["Elm"] * 4, "improved": ones}), "provider 'Elm', not 'Ash'"),
        "two providers": (pa.table({"clinic": ["Elm", "Ash"] * 2, "improved": ones}), "2 providers"),
        "providers are numbers": (pa.table({"clinic": [1.5] * 4, "improved": ones}), "fractions"),
        "providers are lists": (pa.table({"clinic": [["Ash"]] * 4, "improved": ones}), "."),
        "providers are bytes": (pa.table({"clinic": [b"Ash"] * 4, "improved": ones}), "."),
        "provider missing": (pa.table({"clinic": ["Ash", None, "Ash", "Ash"], "improved": ones}), "provider's name"),
    }
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([0])], names=["improved", "improved"])
    table["column twice"] = (twice, "2 columns named|rows")
    return table


def _parquet() -> Iterator[Case]:
    for name, (table, says) in _typed("parquet").items():
        yield Case(f"parquet, {name}", "bernoulli", "rows.parquet", parquet(table), 422, says)
    good = parquet(binary())
    size = struct.unpack("<I", good[-8:-4])[0]
    for name, data in {
        "only the magic bytes": b"PAR1",
        "only magic bytes at both ends": b"PAR1PAR1",
        "no footer": b"PAR1" + bytes(8) + b"PAR1",
        "footer too long": good[:-8] + struct.pack("<I", 2**31) + b"PAR1",
        "footer of everything": good[:-8] + struct.pack("<I", len(good)) + b"PAR1",
        "footer too short": good[:-8] + struct.pack("<I", size - 40) + b"PAR1",
        "footer of zeros": good[: -8 - size] + bytes(size) + good[-8:],
        "footer of ones": good[: -8 - size] + b"\xff" * size + good[-8:],
        "encrypted": good[:-4] + b"PARE",
        "no end": good[:-4],
        "data of zeros": good[:4] + bytes(len(good) - size - 12) + good[-8 - size :],
        "more rows declared": change_footer(good, 400, 404),
    }.items():
        yield Case(f"parquet, {name}", "bernoulli", "rows.parquet", data, 422, "rows.parquet")
    text = parquet(pa.table({"label": ["cat", "cow"]}))
    yield Case("parquet, label", "labels", "rows.parquet", text, 422, "not among the categories")


def _arrow() -> Iterator[Case]:
    for name, (table, says) in _typed("arrow").items():
        for stream in (False, True):
            data = arrow(table, stream=stream)
            yield Case(f"arrow{' stream' * stream}, {name}", "bernoulli", "rows.arrow", data, 422, says)
    table = binary(1234)
    for stream in (False, True):
        data, kind = arrow(table, stream=stream), "stream" if stream else "file"
        for old, news in ((1234, (2**40, 2**62, 1235, 100_000, -1, 0)), (1234 * 8, (2**40, 2**62, 8, -1))):
            for new in news:
                lie = data.replace(struct.pack("<q", old), struct.pack("<q", new))
                assert lie != data
                yield Case(f"arrow {kind}, {old} declared as {new}", "bernoulli", "rows.arrow", lie, 422, "rows.arrow")
    yield Case("arrow, only the magic bytes", "bernoulli", "rows.arrow", b"ARROW1\0\0", 422, CANNOT)
    yield Case("arrow, zeros", "bernoulli", "rows.arrow", bytes(64), 422, "rows.arrow")
    yield Case("arrow, ones", "bernoulli", "rows.arrow", b"\xff" * 64, 422, CANNOT)
    yield Case("arrow, message of 2 GB", "bernoulli", "rows.arrow", struct.pack("<iI", -1, 2**31 - 1), 422, CANNOT)


def _compressed() -> Iterator[Case]:
    rng = generator(8)
    text = b"improved\n" + b"".join(b"%d\n" % x for x in rng.integers(0, 2, 3000))
    for suffix, codec in (("gz", "gzip"), ("bz2", "bz2"), ("zst", "zstd"), ("lz4", "lz4")):
        compressed = pa.compress(text, codec, asbytes=True) if codec != "bz2" else _bz2(text)
        for part in (0.1, 0.5, 0.9):
            data = compressed[: int(part * len(compressed))]
            yield Case(f"{suffix}, first {part:.0%}", "bernoulli", f"rows.csv.{suffix}", data, 422, CANNOT)
        yield Case(f"{suffix}, junk", "bernoulli", f"rows.csv.{suffix}", compressed[:4] + bytes(200), 422, CANNOT)
    good = gzip.compress(text)
    wrong = bytearray(good)
    wrong[-6] ^= 1
    yield Case("gz, wrong checksum", "bernoulli", "rows.csv.gz", bytes(wrong), 422, CANNOT)
    yield Case("gz, junk after", "bernoulli", "rows.csv.gz", good + b"junk", 422, CANNOT)
    yield Case("gz in gz", "bernoulli", "rows.csv.gz", gzip.compress(good), 422, "rows.csv.gz")
    yield Case("gz, nothing in it", "bernoulli", "rows.csv.gz", gzip.compress(b""), 422, "empty")
    yield Case("gz, header only", "bernoulli", "rows.csv.gz", gzip.compress(b"improved\n"), 422, "no rows")
    yield Case("gz of JSON", "bernoulli", "rows.json.gz", gzip.compress(statistics()), 422, "not valid JSON")


def _bz2(text: bytes) -> bytes:
    import bz2

    return bz2.compress(text)


def _statistics() -> Iterator[Case]:
    def bad(name: str, data: bytes, says: str, campaign: str = "bernoulli") -> Case:
        return Case(f"statistics, {name}", campaign, "ash.json", data, 422, says)

    for name, changes, says in (
        ("no kind", {"kind": ...}, '"kind" is missing'),
        ("other kind", {"kind": "summary"}, "kind"),
        ("format 1", {"format": 1}, "format 1"),
        ("format true", {"format": True}, "format True"),
        ("no provider", {"provider": ...}, "provider must be a name"),
        ("provider is a number", {"provider": 7}, "provider must be a name"),
        ("blank provider", {"provider": " "}, "provider must be a name"),
        ("other provider", {"provider": "Elm"}, "belong to provider 'Elm', not 'Ash'"),
        ("other family", {"family": "Poisson"}, "family is 'Poisson'"),
        ("no family", {"family": ...}, "family is None"),
        ("no digest", {"digest": ...}, "digest"),
        ("short digest", {"digest": "sha256:00"}, "digest"),
        ("no rows", {"rows": ...}, "rows must be"),
        ("rows true", {"rows": True}, "rows must be"),
        ("rows text", {"rows": "4"}, "rows must be"),
        ("rows half", {"rows": 4.5}, "rows must be"),
        ("rows an integral float", {"rows": 4.0}, "rows must be"),
        ("rows negative", {"rows": -4}, "rows must be"),
        ("rows zero", {"rows": 0, "summary": [0, 0]}, "no rows"),
        ("rows incorrect", {"rows": 5}, "rows is 5"),
        ("rows huge", {"rows": 10**30}, "rows"),
        ("no statistics", {"summary": ...}, "list of numbers"),
        ("statistics none", {"summary": None}, "list of numbers"),
        ("one statistic", {"summary": [4]}, "the summary has 1 numbers"),
        ("three statistics", {"summary": [2, 1, 1]}, "the summary has 3 numbers"),
        ("bools", {"summary": [True, False]}, "list of numbers"),
        ("texts", {"summary": ["3", "1"]}, "list of numbers"),
        ("nested", {"summary": [[3], [1]]}, "list of numbers"),
        ("negative", {"summary": [5, -1]}, "an impossible summary"),
        ("fractions", {"summary": [2.5, 1.5]}, "an impossible summary"),
        ("NaN", {"summary": [float("nan"), 1]}, "not a number up to"),
        ("infinite", {"summary": [float("inf"), 1]}, "not a number up to"),
        ("huge whole number", {"summary": [10**400, 1]}, "too large"),
        ("unknown field", {"weight": 2}, "unknown field 'weight'"),
        ("days", {"days": []}, "unknown field 'days'"),
    ):
        yield bad(name, statistics(**changes), says)
    for name, text, says in (
        ("a list", b"[1, 2]", "not a file that"),
        ("null", b"null", "not a file that"),
        ("a number", b"1", "not a file that"),
        ("half", statistics()[:40], "not valid JSON"),
        ("two", statistics() * 2, "not valid JSON"),
        ("UTF-16", statistics().decode().encode("utf-16"), "not valid JSON"),
        ("NULs", bytes(40), "not valid JSON"),
        ("blank", b"   ", "not valid JSON"),
        ("deep lists", b"[" * 50_000, "not valid JSON"),
        ("deep objects", b'{"a":' * 12_000, "not valid JSON"),
        ("5,000 digits", statistics(rows=4).replace(b'"rows": 4', b'"rows": ' + b"9" * 5000), "not valid JSON"),
    ):
        yield bad(name, text, says)
    spread = {"family": "NormalUnknownVariance"}
    for name, rows, values in (
        ("no variance", 3, [1.0, 6.0, 1.0]),
        ("negative square", 2, [0.0, -1.0]),
        ("huge", 2, [1e291, 0.0]),
    ):
        yield bad(name, statistics(rows=rows, summary=values, **spread), "summary", "normal")
    day = {"day": "2026-05-04", "rows": 4, "summary": [1, 3]}
    for name, data, says in (
        ("no days", statistics(), "unknown field"),
        ("empty days", daily(), "days must be a list"),
        ("other day", daily({**day, "day": "2026-05-05"}), "day 2026-05-05; send only those for day 2026-05-04"),
        ("two days", daily(day, {**day, "day": "2026-05-05"}), "send only"),
        ("day twice", daily(day, day), "send only"),
        ("day true", daily({**day, "day": True}), "not a date"),
        ("day words", daily({**day, "day": "Monday"}), "not a date"),
        ("day missing", daily({"rows": 4, "summary": [1, 3]}), "not a date"),
        ("entry a list", daily([4, 3, 1]), "must be an object"),  # type: ignore[arg-type]
        ("days an object", statistics(rows=..., summary=..., days=day), "days must be a list"),
    ):
        yield bad(f"daily, {name}", data, says, "daily")
    yield Case("statistics, too long", "bernoulli", "ash.json", statistics(provider="A" * 100_000), 413, "too large")


def _cut_and_broken() -> Iterator[Case]:
    """Files that are truncated or overwritten at seeded random positions."""
    table = binary(300, 2)
    files = {"parquet": parquet(table), "arrow": arrow(table), "jsonl": _lines(table)}
    for kind, data in files.items():
        for seed in range(8):
            rng = generator(seed, len(data))
            end = int(rng.integers(1, len(data) - 8))
            if kind == "jsonl":
                end = data.rindex(b"}", 0, max(end, 60))
            yield Case(f"{kind}, first {end} bytes", "bernoulli", f"rows.{kind}", data[:end], 422, "rows." + kind)
    data = files["parquet"]
    size = struct.unpack("<I", data[-8:-4])[0]
    for seed in range(8):
        junk = bytes(generator(seed, 1).integers(0, 256, size, dtype=np.uint8))
        broken = data[: -8 - size] + junk + data[-8:]
        yield Case(f"parquet, footer of junk {seed}", "bernoulli", "rows.parquet", broken, 422, "rows.parquet")
    for seed in range(8):
        rng = generator(seed, 2)
        lines = _lines(table).splitlines()
        row = int(rng.integers(len(lines)))
        position = [i for i, byte in enumerate(lines[row]) if chr(byte) in '{}":,'][int(rng.integers(1, 8))]
        lines[row] = lines[row][:position] + lines[row][position + 1 :]
        broken = b"\n".join(lines)
        yield Case(f"jsonl, without a character {seed}", "bernoulli", "rows.jsonl", broken, 422, ".")
    for seed in range(8):
        rng = generator(seed, 3)
        values = [str(x) for x in rng.integers(0, 2, 200)]
        row = int(rng.integers(200))
        values[row] = "".join(map(chr, rng.integers(97, 123, 3)))
        text = "improved\n" + "\n".join(values) + "\n"
        says = f"row {row + 1} |missing"
        yield Case(f"csv, {values[row]!r} in row {row}", "bernoulli", "rows.csv", text.encode(), 422, says)


def _lines(table: Any) -> bytes:
    return "\n".join(json.dumps(row) for row in table.to_pylist()).encode()


def _bombs() -> Iterator[Case]:
    def bomb(
        name: str,
        file: str,
        data: bytes | Callable[[], bytes],
        status: int,
        says: str,
        campaign: str = "bernoulli",
        limits: Limits = SMALL,
    ) -> Case:
        return Case(f"bomb, {name}", campaign, file, data, status, says, limits)

    yield bomb("40 million rows of Parquet", "rows.parquet", many_rows, 413, "more than 2,000,000 values")
    for rows, declared, status, says in (
        (20_000_000, 8, 413, "more than 2,000,000 values"),
        (900_000, 950_000, 422, "declares 950,000 rows, but has 900,000"),
    ):
        make = partial(wrong_row_count, rows, declared)
        yield bomb(f"{rows} rows of Parquet declared as {declared}", "rows.parquet", make, status, says)
    long = pa.array(["0" * 1_000_000]).dictionary_encode()
    texts = pa.DictionaryArray.from_arrays(pa.array(np.zeros(20_000, np.int32)), long.dictionary)
    as_text = {"use_dictionary": True, "compression": "zstd"}
    numbers = pa.array(np.zeros(20_000, np.int8))
    text = parquet(pa.table({"improved": texts}), **as_text)
    yield bomb("20 GB of text for numbers", "rows.parquet", text, 422, "type dictionary<values=string")
    text = parquet(pa.table({"label": texts}), **as_text)
    yield bomb("20 GB of text for labels", "rows.parquet", text, 422, "not among the categories", "labels")
    text = parquet(pa.table({"clinic": texts, "improved": numbers}), **as_text)
    yield bomb("20 GB of text for a provider", "rows.parquet", text, 422, "not 'Ash'")
    text = parquet(pa.table({"other": texts, "improved": pa.array(np.full(20_000, 2, np.int8))}), **as_text)
    yield bomb("20 GB of text that is not read", "rows.parquet", text, 422, "whole number from 0 to 1")
    yield bomb("240 MB of names", "rows.parquet", long_names, 422, "more than 0.188 GB of memory", limits=TIGHT)
    member = gzip.compress(b"1\n" * 3_000_000)
    yield bomb("gzip of rows", "rows.csv.gz", gzip.compress(b"improved\n") + member * 20, 413, "2,000,000 values")
    member = gzip.compress(b"1" * 8_000_000)
    yield bomb("gzip of one line", "rows.csv.gz", gzip.compress(b"improved\n") + member * 50, 422, CANNOT)
    member = gzip.compress(b"\n" * 8_000_000)
    data = gzip.compress(b"improved\n") + member * 500
    yield bomb("gzip of blank lines", "rows.csv.gz", data, 422, "longer than 1 s", limits=HASTY)
    member = gzip.compress(b"a" * 8_000_000)
    yield bomb("gzip of a header", "rows.csv.gz", member * 50, 422, "line of column names")
    names = b",".join(b"c%d" % i for i in range(1_000_000))
    yield bomb(
        "a million columns", "rows.csv", b"improved," + names + b"\n1" + b",1" * 1_000_000, 422, "10,000 columns"
    )
    yield bomb(
        "a million columns of one name", "rows.csv", b"improved" + b",improved" * 1_000_000, 422, "10,000 columns"
    )
    yield bomb("a line of 12 MB", "rows.csv", b"improved\n" + b"1" * 12_000_000 + b"\n", 422, "rows.csv")
    yield bomb("a million bad values", "rows.csv", b"improved\n" + b"x\n" * 500_000, 422, "500,000 values not a number")
    yield bomb("too many bytes", "rows.csv", b"improved\n" + b"1\n" * (9 << 20), 413, "at most 16,777,216")
    yield bomb("deep JSON lists", "rows.jsonl", b'{"improved":' + b"[" * 200_000 + b"]" * 200_000 + b"}", 422, CANNOT)
    deep = b'{"improved":1,"a":' + b'{"a":' * 300_000 + b"1" + b"}" * 300_000 + b"}"
    yield bomb("deep JSON objects", "rows.jsonl", deep, 422, "rows.jsonl", limits=HASTY)
    fields = b"".join(b'{"improved":1,"c%d":1}\n' % i for i in range(20_000))
    yield bomb("JSON of 20,000 fields", "rows.jsonl", fields, 422, "longer than 1 s", limits=HASTY)
    zeros = pa.table({"improved": pa.array(np.zeros(20_000_000, np.int8))})
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    yield bomb("Arrow of 20 million rows", "rows.arrow", arrow(zeros, options=options), 413, "2,000,000 values")
    small = arrow(zeros.slice(0, 1_000_000), options=options)
    lie = small.replace(struct.pack("<q", 1_000_000), struct.pack("<q", 2**36))
    yield bomb("Arrow that unpacks to 64 GB", "rows.arrow", lie, 422, "more than 1 GB of memory")
    labels = pa.table({"label": pa.array([f"l{i}" for i in range(60_000)]).dictionary_encode()})
    yield bomb("60,000 labels of Arrow", "rows.arrow", arrow(labels), 422, "60,000 values not among", "labels")
    yield bomb("60,000 labels of Parquet", "rows.parquet", parquet(labels), 422, "60,000 values not among", "labels")
    people = pa.table({"clinic": [f"p{i}" for i in range(300_000)], "improved": np.full(300_000, 7, np.int8)})
    yield bomb("300,000 providers", "rows.parquet", parquet(people), 422, "providers .'p0', 'p1'")
