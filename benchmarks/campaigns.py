"""Tables to reports, relative to a bare DuckDB aggregation (CPU time) or a bare Parquet decode (wall time).

Each measurement runs in its own process, to measure its memory. By default the tables are small and take about a
minute; ``--full`` takes 100 million rows, and 5 million of a regression with 50 features.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

_MEASURE = """
import json, resource, sys, time
def used():
    r = resource.getrusage(resource.RUSAGE_SELF)
    return r.ru_utime + r.ru_stime
def report(work, repeats=3):
    best = None
    for _ in range(repeats):
        cpu, wall = used(), time.perf_counter()
        result = work()
        spent = {"cpu": used() - cpu, "wall": time.perf_counter() - wall, "result": result}
        best = spent if best is None or spent[KEY] < best[KEY] else best
    best["peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps(best))
path, d = sys.argv[1], int(sys.argv[2])
KEY = "cpu" if d == 0 else "wall"  # a Spark driver uses hardly any CPU itself
columns = ["x"] if d == 0 else [f"z{j}" for j in range(d)] + ["y"]
"""
_TROTH = """
from troth.data import Request, read_reports
from troth import models
model = models.Bernoulli(1, 1) if d == 0 else models.LinearRegression([0.0] * d, [[float(i == j) for j in range(d)] for i in range(d)], 1)
request = Request(model.reduction, tuple(columns), "provider")
"""
PROGRAMS = {
    "troth": _TROTH + "report(lambda: len(read_reports(path, request)[0]))",
    "duckdb": """
import duckdb
report(lambda: len(duckdb.sql(f"select provider, count(*), sum(x) from '{path}' group by provider").fetchall()))
""",
    "decode": """
import pyarrow.parquet as pq
from concurrent.futures import ThreadPoolExecutor
def one(group):
    with pq.ParquetFile(path, read_dictionary=["provider"]) as file:
        return sum(b.num_rows for b in file.iter_batches(131072, row_groups=[group], columns=["provider", *columns], use_threads=False))
def every():
    with ThreadPoolExecutor() as pool:
        return sum(pool.map(one, range(pq.ParquetFile(path).num_row_groups)))
report(every)
""",
    "spark": _TROTH
    + """
import logging, os
os.environ["PYSPARK_PYTHON"] = sys.executable
from pyspark.sql import SparkSession
session = SparkSession.builder.master("local[*]").config("spark.ui.enabled", "false").config("spark.log.level", "ERROR").getOrCreate()
read_reports(path, request, engine="spark")  # not measured: start-up
report(lambda: len(read_reports(path, request, engine="spark")[0]))
""",
}


def measure(program: str, path: Path, d: int = 0) -> dict[str, float]:
    """Run a program in its own process, and return the CPU time, wall time and peak memory of its best repetition."""
    command = [sys.executable, "-c", _MEASURE + PROGRAMS[program], str(path), str(d)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    measured: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return measured


def write_counts(path: Path, millions: float, providers: int = 1000, *, text: bool = False) -> Path:
    rng = np.random.default_rng(0)
    rows = int(millions * 1e6)
    names = pa.array([f"clinic {i}" for i in range(providers)])
    writer = None
    for start in range(0, rows, 1_000_000):
        n = min(1_000_000, rows - start)
        codes = rng.integers(0, providers, n).astype(np.int32)
        who = pa.DictionaryArray.from_arrays(codes, names) if text else pa.array(codes)
        table = pa.table({"provider": who, "x": (rng.random(n) < 0.3).astype(np.int8)})
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    assert writer is not None  # noqa: S101 (there are rows)
    writer.close()
    return path


def write_regression(path: Path, millions: float, d: int, *, labels: bool = False) -> Path:
    """Write rows with standard normal features, and standard normal answers or labels 0 and 1."""
    rng = np.random.default_rng(1)
    rows = int(millions * 1e6)
    names = pa.array([f"clinic {i}" for i in range(1000)])
    writer = None
    step = max(50_000, rows // 8)
    for start in range(0, rows, step):
        n = min(step, rows - start)
        who = pa.DictionaryArray.from_arrays(rng.integers(0, 1000, n).astype(np.int32), names)
        columns = {f"z{j}": rng.standard_normal(n) for j in range(d)}
        answers = rng.integers(0, 2, n).astype(np.int8) if labels else rng.standard_normal(n)
        table = pa.table({"provider": who, **columns, "y": answers})
        writer = writer or pq.ParquetWriter(path, table.schema, use_dictionary=["provider"])
        writer.write_table(table)
    assert writer is not None  # noqa: S101 (there are rows)
    writer.close()
    return path


def main() -> None:
    full = "--full" in sys.argv
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        print(
            "Bernoulli rows of 1,000 providers, validated and counted, over a bare DuckDB aggregation of the same file\n"
        )
        print(
            f"{'million rows':>12} {'names':>8} {'CPU s':>7} {'DuckDB':>7} {'ratio':>6} {'ns/row':>7} {'peak MiB':>9}"
        )
        for millions in (1, 10, 100) if full else (1, 4, 16):
            for text in (False, True):
                path = write_counts(folder / "counts.parquet", millions, text=text)
                ours, bare = measure("troth", path), measure("duckdb", path)
                kind = "text" if text else "numbers"
                print(
                    f"{millions:>12} {kind:>8} {ours['cpu']:>7.3f} {bare['cpu']:>7.3f} {ours['cpu'] / bare['cpu']:>6.2f} "
                    f"{ours['cpu'] / millions * 1e3:>7.1f} {ours['peak']:>9.0f}"
                )
        print("\nThe same with more providers, 4 million rows\n")
        print(f"{'providers':>12} {'CPU s':>7} {'µs/provider':>12}")
        for providers in (1_000, 10_000, 100_000):
            ours = measure("troth", write_counts(folder / "counts.parquet", 4, providers))
            print(f"{providers:>12,} {ours['cpu']:>7.3f} {ours['cpu'] / providers * 1e6:>12.1f}")
        size = 5.0 if full else 1.0
        print(
            f"\nRegression with 50 features, {size} million rows, 1,000 providers: seconds over a bare Parquet decode\n"
        )
        path = write_regression(folder / "regression.parquet", size, 50)
        decode, ours, spark = (measure(program, path, 50) for program in ("decode", "troth", "spark"))
        print(f"{'decode':>8} {'threads':>8} {'ratio':>6} {'Spark':>7} {'over threads':>13} {'peak MiB':>9}")
        print(
            f"{decode['wall']:>8.2f} {ours['wall']:>8.2f} {ours['wall'] / decode['wall']:>6.2f} {spark['wall']:>7.2f} "
            f"{spark['wall'] / ours['wall']:>13.2f} {ours['peak']:>9.0f}"
        )


if __name__ == "__main__":
    main()
