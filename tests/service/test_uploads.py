"""Uploads: the same bits as paying from files, and a refusal for everything else, in bounded time and memory."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.csv
import pytest

from campaigns.shop import frame_of, toml_of
from registry import EXAMPLES, SOAK, generator
from service import misbehaving
from service.malformed import CANNOT, SMALL, Case, arrow, binary, campaigns, cases, parquet, statistics
from troth import models
from troth.campaigns.rounds import check_possible
from troth.campaigns.statistics_file import make_statistics
from troth.campaigns.terms import Campaign
from troth.core.errors import ParameterError
from troth.data import Report, read_reports
from troth.models import Family
from troth.service.errors import UnavailableError
from troth.service.responses import ColumnSummary
from troth.service.sandbox import AbortedError, MemoryLimitError, Sandbox, TimeLimitError, Waiting
from troth.service.uploads import SANDBOX, Limits, Upload, UploadError, printable_name, read_upload
from troth.service.worker_processes import Bounds

DAY = "2026-05-04"
CASES = list(cases())
PARENT_GROWTH = 64 << 20  # what the server itself may need for an upload
FAMILIES = ["bernoulli", "categorical", "poisson", "gamma", "normal, unknown variance", "multivariate normal",
            "regression", "day types, real"]  # fmt: skip
EASY = Bounds(memory=512 << 20, seconds=5.0)


def text(table: Any, delimiter: str = ",") -> bytes:
    sink = pa.BufferOutputStream()
    pa.csv.write_csv(table, sink, pa.csv.WriteOptions(delimiter=delimiter))
    return bytes(sink.getvalue())


def lines(table: Any) -> bytes:
    return "\n".join(json.dumps(row) for row in table.to_pylist()).encode()


FORMATS: dict[str, Callable[[Any], bytes]] = {
    "rows.csv": text,
    "rows.tsv": lambda table: text(table, "\t"),
    "rows; semicolons.csv": lambda table: text(table, ";"),
    "rows.csv.gz": lambda table: pa.compress(text(table), "gzip", asbytes=True),
    "rows.csv.zst": lambda table: pa.compress(text(table), "zstd", asbytes=True),
    "rows.parquet": lambda table: parquet(table, row_group_size=100),
    "rows.jsonl": lines,
    "rows.arrow": arrow,
    "rows.ipc": lambda table: arrow(table, stream=True),
    "rows.feather": lambda table: arrow(table, options=pa.ipc.IpcWriteOptions(compression="lz4")),
}


@pytest.fixture(scope="module", autouse=True)
def warm() -> Iterator[None]:
    SANDBOX.run(len, "warm", bounds=EASY)
    yield
    SANDBOX.waiting.close()


def upload(folder: Path, campaign: Campaign, name: str, data: bytes, day: Any = None, limits: Limits = SMALL) -> Upload:
    path = folder / "upload.part"
    path.write_bytes(data)
    return read_upload(campaign, path, name, "Ash", day, limits)


def reports_from_files(folder: Path, campaign: Campaign, name: str, data: bytes) -> list[Report]:
    """What paying from files makes of the same file."""
    path = folder / name
    path.write_bytes(data)
    return read_reports(str(path), campaign.request)[0]


def check_equal(first: Report, second: Report) -> None:
    assert (first.provider, first.day, first.rows) == (second.provider, second.day, second.rows)
    assert first.summary.tobytes() == second.summary.tobytes()


PAIRS = [
    (family, name)
    for place, family in enumerate(FAMILIES)
    for turn, name in enumerate(FORMATS)
    if SOAK or name == "rows.csv" or turn % len(FAMILIES) == place
]
"""Every family with CSV and another format, every format with a family; `make soak` has all of them."""


@pytest.mark.parametrize(("family", "name"), PAIRS)
def test_upload_has_the_bits_of_paying_from_files(tmp_path: Path, family: str, name: str) -> None:
    frame = frame_of(family, providers=1, rows=300)
    frame["who"] = "Ash"
    path = tmp_path / "campaign.toml"
    path.write_text(toml_of(EXAMPLES[family], frame, "unused"))
    campaign = Campaign.load(path)
    data = FORMATS[name](pa.Table.from_pandas(frame, preserve_index=False))
    upload_result = upload(tmp_path, campaign, name, data)
    (expected,) = reports_from_files(tmp_path, campaign, name, data)
    check_equal(upload_result.report, expected)
    assert upload_result.sha256 == sha256(data).hexdigest()
    assert (upload_result.report.source, upload_result.report.data_digest) == (name, "sha256:" + upload_result.sha256)
    assert len(upload_result.preview) == 9
    assert upload_result.preview[0][0] == "who"
    columns = [column for column in campaign.columns if column is not None]
    assert [column.name for column in upload_result.columns] == columns
    for column in upload_result.columns:
        values = frame[column.name]
        assert (column.minimum, column.maximum) == (values.min(), values.max())
        assert column.mean == pytest.approx(values.mean())


@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet", "rows.arrow"])
def test_many_batches_are_added_in_the_same_order(tmp_path: Path, name: str) -> None:
    rows = 2_100_000 if name == "rows.parquet" else 300_000
    table = pa.table({"length": generator(4).normal(1e3, 300.0, rows)})
    data = parquet(table, row_group_size=700_000) if name == "rows.parquet" else FORMATS[name](table)
    campaign = campaigns()["normal"]
    upload_result = upload(tmp_path, campaign, name, data, limits=Limits())
    without = replace(campaign.request, provider=None)
    (tmp_path / name).write_bytes(data)
    (expected,), _ = read_reports(str(tmp_path / name), without)
    check_equal(upload_result.report, replace(expected, provider="Ash"))


def test_provider_and_day_may_go_without_saying(tmp_path: Path) -> None:
    data = b"improved\n1\n0\n1\n"
    report = upload(tmp_path, campaigns()["daily"], "rows.csv", data, DAY).report
    assert (report.provider, report.day, report.rows, report.summary.tolist()) == ("Ash", DAY, 3, [1.0, 2.0])
    data = b"clinic,day,improved\n Ash,2026-05-04,1\n Ash,2026-05-04T12:30Z,0\n"
    report = upload(tmp_path, campaigns()["daily"], "rows.csv", data, DAY).report
    assert (report.provider, report.day, report.rows) == ("Ash", DAY, 2)
    data = b"day,improved\n7,1\n"
    assert upload(tmp_path, campaigns()["daily"], "rows.csv", data, 7).report.day == 7


def test_labels_are_counted(tmp_path: Path) -> None:
    data = b"clinic,label,note\nAsh,cat,\xff\nAsh, dog ,x\nAsh,cat,y\n"
    upload_result = upload(tmp_path, campaigns()["labels"], "pets.csv", data)
    assert upload_result.columns == (ColumnSummary(name="label", labels=[("cat", 2), ("dog", 1), ("other", 0)]),)
    assert upload_result.preview == (("clinic", "label"), ("Ash", "cat"), ("Ash", " dog "), ("Ash", "cat"))
    data = parquet(pa.table({"label": pa.array(["dog"] * 5).dictionary_encode()}))
    assert upload(tmp_path, campaigns()["labels"], "pets.parquet", data).report.summary.tolist() == [0.0, 5.0, 0.0]


def test_statistics_are_read(tmp_path: Path) -> None:
    campaign = campaigns()["bernoulli"]
    rows = tmp_path / "ash.csv"
    rows.write_bytes(b"improved\n1\n0\n1\n1\n")
    statistics_file = make_statistics(campaign, rows, "Ash")
    upload_result = upload(tmp_path, campaign, "ash.json", json.dumps(statistics_file).encode())
    check_equal(upload_result.report, replace(upload(tmp_path, campaign, "ash.csv", rows.read_bytes()).report))
    assert upload_result.report.data_digest == statistics_file["digest"]
    assert upload_result.columns == ()
    assert ("rows", "4") in upload_result.preview


def test_there_are_two_hundred_malformed_files() -> None:
    assert len({case.name for case in CASES}) == len(CASES) >= 200


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_malformed_file_is_refused(tmp_path: Path, case: Case) -> None:
    server = psutil.Process()
    path = tmp_path / "upload.part"
    path.write_bytes(case.content())
    before, started = server.memory_info().rss, time.monotonic()
    with pytest.raises(UploadError) as refused:
        read_upload(
            campaigns()[case.campaign], path, case.file, "Ash", DAY if case.campaign == "daily" else None, case.limits
        )
    seconds = time.monotonic() - started
    message = str(refused.value)
    assert (refused.value.status, message) == (case.status, message)
    assert re.search(case.says, message)
    assert message.startswith(printable_name(case.file)) or printable_name(case.file) in message
    assert len(message) <= 2000
    assert str(tmp_path) not in message
    assert "troth-upload" not in message
    assert "Error(" not in message
    assert seconds < 1.5 * case.limits.seconds + 4
    assert server.memory_info().rss - before < PARENT_GROWTH


@pytest.mark.parametrize("name", ["rows.parquet", "rows.arrow", "rows.ipc", "rows.csv.gz", "rows.csv", "rows.jsonl"])
def test_flipped_bytes_are_refused_or_receipted(tmp_path: Path, name: str) -> None:
    """A damaged file may still be read: then its digest and its sums, which its provider confirms, are its own."""
    campaign = campaigns()["bernoulli"]
    good = FORMATS[name](binary(200))
    rng, statuses = generator(len(good)), set()
    for _ in range(200 if SOAK else 12):
        data = bytearray(good)
        for place in rng.integers(0, len(good), int(rng.integers(1, 6))):
            data[place] ^= int(rng.integers(1, 256))
        try:
            upload_result = upload(tmp_path, campaign, name, bytes(data))
        except UploadError as error:
            statuses.add(error.status)
            continue
        assert upload_result.report.data_digest == "sha256:" + sha256(data).hexdigest()
        assert 0 < upload_result.report.rows < 1000
        check_possible(campaign, upload_result.report)
    assert statuses <= {413, 415, 422}


def test_threads_share_the_warm_process(tmp_path: Path) -> None:
    campaign = campaigns()["bernoulli"]

    def one(number: int) -> float:
        folder = tmp_path / str(number)
        folder.mkdir()
        if number % 4 == 3:
            with pytest.raises(UploadError, match=CANNOT):
                upload(folder, campaign, "rows.parquet", b"PAR1" * 5)
        return float(upload(folder, campaign, "rows.csv", b"improved\n" + b"1\n" * number + b"0\n").report.summary[1])

    with ThreadPoolExecutor(12) as pool:
        assert list(pool.map(one, range(40))) == [float(number) for number in range(40)]


def test_killed_warm_process_is_replaced(tmp_path: Path) -> None:
    assert SANDBOX.waiting.process is not None
    old = SANDBOX.waiting.process.pid
    os.kill(old, signal.SIGKILL)
    assert upload(tmp_path, campaigns()["bernoulli"], "rows.csv", b"improved\n1\n").report.rows == 1
    assert SANDBOX.waiting.process.pid != old


@pytest.mark.parametrize(
    "program",
    [
        "import runpy, sys; sys.argv = ['server']\n{body}",
        "if __name__ != '__main__': raise SystemExit(3)\n{body}",
    ],
)
def test_main_module_is_never_run_again(tmp_path: Path, program: str) -> None:
    """A console script or server, whatever its main module does, and whether or not it ends well."""
    body = (
        "from troth.service.sandbox import Sandbox, Waiting\nfrom troth.service.worker_processes import Bounds\n"
        "box = Sandbox(Waiting([]))\n"
        "print(box.run(len, 'x', bounds=Bounds(1 << 29, 5.0)), box.waiting.process.pid)\n"
    )
    script = tmp_path / "server.py"
    script.write_text(program.format(body=body))
    result = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60, check=True)
    answer, pid = map(int, result.stdout.split())
    assert (answer, result.stderr) == (1, "")
    assert not psutil.pid_exists(pid)


@pytest.mark.parametrize("kernel", ["Haswell", "Sandybridge"])
def test_children_compute_with_the_instructions_of_the_server(kernel: str) -> None:
    """Otherwise an upload would have other last bits than the same rows in a file, and `verify` would wonder."""
    program = (
        "from troth.campaigns.records.arithmetic import versions\nfrom troth.service.sandbox import Sandbox, Waiting\n"
        "from troth.service.worker_processes import Bounds\n"
        "box = Sandbox(Waiting(['troth.campaigns.records.arithmetic']))\n"
        "print(versions()['processor'])\nprint(box.run(versions, bounds=Bounds(1 << 29, 5.0))['processor'])\n"
    )
    environment = os.environ | {"OPENBLAS_CORETYPE": kernel, "PYTHONPATH": os.pathsep.join(sys.path)}
    result = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    server, child = result.stdout.splitlines()
    assert server == child


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("may.csv", "may.csv"),
        ("../../etc/may.csv", "may.csv"),
        ("C:\\data\\may.csv", "may.csv"),
        ("m\x00a\ny\u202e.csv", "m_a_y_.csv"),
        ("..", "upload"),
        ("", "upload"),
        ("ж" * 300 + ".csv", "ж" * 98 + ".csv"),
    ],
)
def test_names_are_made_printable(name: str, expected: str) -> None:
    assert printable_name(name) == expected


@pytest.fixture(scope="module")
def box() -> Iterator[Sandbox]:
    waiting = Waiting(["service.misbehaving"])
    waiting.start()
    yield Sandbox(waiting, places=2, patience=0.3)
    waiting.close()


@pytest.mark.parametrize(
    ("function", "error"),
    [
        (misbehaving.eat, MemoryLimitError),
        (misbehaving.burn, TimeLimitError),
        (misbehaving.sleep, TimeLimitError),
        (misbehaving.crash, AbortedError),
        (misbehaving.flood, AbortedError),
        (misbehaving.fail, AbortedError),
    ],
)
def test_sandbox_ends_what_exceeds_its_bounds(box: Sandbox, function: Callable[[], Any], error: type) -> None:
    started = time.monotonic()
    with pytest.raises(error):
        box.run(function, bounds=Bounds(memory=1 << 30, seconds=0.1 if function is misbehaving.sleep else 1.0))
    assert time.monotonic() - started < 5
    assert box.run(len, "after", bounds=EASY) == 5
    assert box.waiting.process is not None
    deadline = time.monotonic() + 5
    while psutil.Process(box.waiting.process.pid).children() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert psutil.Process(box.waiting.process.pid).children() == []


def test_sandbox_writes_no_files(box: Sandbox, tmp_path: Path) -> None:
    with pytest.raises(AbortedError):
        box.run(misbehaving.write, str(tmp_path / "x"), bounds=EASY)
    assert not (tmp_path / "x").exists() or (tmp_path / "x").stat().st_size == 0


def test_a_child_has_limits_of_its_own_where_nothing_else_holds_it(box: Sandbox) -> None:
    """Landlock and seccomp, which some kernels lack, are not all that keeps it from files."""
    limits = box.run(misbehaving.limits, bounds=Bounds(memory=1 << 30, seconds=2.5))
    expected = {"RLIMIT_CORE": [0, 0], "RLIMIT_CPU": [3, 4], "RLIMIT_FSIZE": [0, 0], "RLIMIT_NOFILE": [64, 64]}
    assert limits == expected


def test_a_family_that_a_child_cannot_import_is_refused_at_start(monkeypatch: pytest.MonkeyPatch) -> None:
    in_the_program = type("Waves", (Family,), {"__module__": "__main__"})
    monkeypatch.setitem(models.FAMILIES, "Waves", in_the_program)
    with pytest.raises(ParameterError, match="Waves is defined in the program .* define it in a module"):
        Waiting([]).start()


def test_sandbox_inherits_nothing(box: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "secret")
    box.waiting.close()
    with socket_open():
        names, files = box.run(misbehaving.surroundings, bounds=EASY)
    assert "DATABASE_URL" not in names
    assert len(files) <= 7


def test_sandbox_turns_away_whom_it_cannot_serve(box: Sandbox) -> None:
    with ThreadPoolExecutor(3) as pool:
        slow = [pool.submit(box.run, misbehaving.sleep, bounds=Bounds(memory=1 << 30, seconds=0.1)) for _ in range(2)]
        time.sleep(0.1)
        with pytest.raises(UnavailableError, match="try again"):
            box.run(len, "x", bounds=EASY)
        for future in slow:
            assert isinstance(future.exception(), TimeLimitError)


def test_one_slow_file_does_not_block_a_machine_with_one_processor(
    box: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    default = Sandbox(box.waiting, patience=0.3)
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(default.run, misbehaving.sleep, bounds=Bounds(memory=1 << 30, seconds=0.1))
        time.sleep(0.1)
        assert default.run(len, "x", bounds=EASY) == 1
        assert isinstance(slow.exception(), TimeLimitError)


def test_fork_of_the_server_has_a_warm_process_of_its_own(box: Sandbox) -> None:
    assert box.run(len, "x", bounds=EASY) == 1
    code = (
        "import os, sys\nfrom troth.service.sandbox import Sandbox, Waiting\nfrom troth.service.worker_processes import Bounds\n"
        "box, easy = Sandbox(Waiting([])), Bounds(1 << 29, 5.0)\nassert box.run(len, 'x', bounds=easy) == 1\n"
        "first = box.waiting.process.pid\nchild = os.fork()\n"
        "assert box.run(len, 'xy', bounds=easy) == 2\n"
        "assert (box.waiting.process.pid == first) is bool(child)\n"
        "if child: sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (result.returncode, result.stderr) == (0, "")


def socket_open() -> Any:
    import socket

    return socket.create_server(("127.0.0.1", 0))


def test_statistics_of_another_shape_keep_their_place(tmp_path: Path) -> None:
    with pytest.raises(UploadError, match=r"^ash\.json: .*provider 'Elm', not 'Ash'"):
        upload(tmp_path, campaigns()["bernoulli"], "ash.json", statistics(provider="Elm"))


def test_message_names_the_file_even_if_its_name_is_a_word_of_the_message(tmp_path: Path) -> None:
    campaign = Campaign.from_dict({**campaigns()["bernoulli"].plain, "limits": {"rows": 3}})
    campaign = replace(campaign, format="csv")
    with pytest.raises(UploadError, match=r"^rows: more than the 3 rows that \[limits\] rows allows$"):
        upload(tmp_path, campaign, "rows", FORMATS["rows.csv"](binary(20)))


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"improved\n1\n1,2\n", r"ash\.csv, row 2: 2 values for 1 column \(1,2\); correct the row: .*"),
        (b"improved\n1\n\xff\n", r"ash\.csv: holds text that is not in UTF-8.*"),
        (b"other\n1\n", r"ash\.csv: .*'improved'.*"),
        (b"improved\n1\n7\n", r".*\(first: row 2 of ash\.csv: 7\)"),
    ],
    ids=["row too long", "not UTF-8", "missing column", "neither 0 nor 1"],
)
def test_message_names_the_file_once(content: bytes, problem: str, tmp_path: Path) -> None:
    with pytest.raises(UploadError) as refused:
        upload(tmp_path, campaigns()["bernoulli"], "ash.csv", content)
    assert re.fullmatch(problem, str(refused.value), re.DOTALL)
    assert str(refused.value).count("ash.csv") == 1
