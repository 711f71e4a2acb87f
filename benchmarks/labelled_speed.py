"""Labelled rows to reports: CPU time relative to a bare Parquet decode, with 50 features and 1,000 providers.

``python -m benchmarks labelled_speed`` takes half a million and a million rows, ``--full`` also five million. Each time is
the median of three runs that alternate with decodes. In rows marked "kept", the same pass also samples features, for
decoys from the likelihood.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.campaigns import PROGRAMS, measure

FEATURES, PROVIDERS, REPETITIONS = 50, 1000, 3
_FAMILY = """
from troth.data import Request, read_reports
from troth import models
model = models.{family}
request = Request(model.reduction, tuple(columns), "provider", features={features})
report(lambda: len(read_reports(path, request)[0]))
"""
FAMILIES = {
    "linear": "LinearRegression([0.0] * d, [[float(i == j) for j in range(d)] for i in range(d)], 1)",
    "logistic": "LogisticRegression([0.1] * d, 1.0)",
    "Poisson": "PoissonRegression([0.01] * d, 1.0)",
    "softmax, two classes": "SoftmaxRegression([0.1] * (2 * d), 1.0, classes=2)",
    "softmax, three classes": "SoftmaxRegression([0.1] * (3 * d), 1.0, classes=3)",
    "three, learnt point": "SoftmaxRegression([0.1 * (i % 7) for i in range(3 * d)], 1.0, classes=3)",
}


def write_labelled_rows(path: Path, millions: float) -> Path:
    """Write rows with standard normal features and labels 0 and 1."""
    rng, rows, writer = np.random.default_rng(1), int(millions * 1e6), None
    names = pa.array([f"clinic {i}" for i in range(PROVIDERS)])
    step = max(50_000, rows // 8)
    for start in range(0, rows, step):
        n = min(step, rows - start)
        who = pa.DictionaryArray.from_arrays(rng.integers(0, PROVIDERS, n).astype(np.int32), names)
        columns = {f"z{j}": rng.standard_normal(n) for j in range(FEATURES)}
        table = pa.table({"provider": who, **columns, "y": rng.integers(0, 2, n).astype(np.int8)})
        writer = writer or pq.ParquetWriter(path, table.schema, use_dictionary=["provider"])
        writer.write_table(table)
    assert writer is not None  # noqa: S101 (there are rows)
    writer.close()
    return path


def main() -> None:
    """Print CPU seconds, their ratio to a bare decode, and peak memory."""
    print(
        f"{'million rows':>12}  {'family':<22} {'features':>8} {'CPU s':>8} {'decode':>7} {'ratio':>6} {'peak MiB':>9}"
    )
    with tempfile.TemporaryDirectory() as scratch:
        for millions in (0.5, 1, 5) if "--full" in sys.argv else (0.5, 1):
            path = write_labelled_rows(Path(scratch) / "rows.parquet", millions)
            for name, family in FAMILIES.items():
                for features in (False,) if name == "linear" else (False, True):
                    PROGRAMS[name] = _FAMILY.format(family=family, features=features)
                    runs = [
                        (measure("decode", path, FEATURES), measure(name, path, FEATURES)) for _ in range(REPETITIONS)
                    ]
                    decode, cpu = (float(np.median([run[k]["cpu"] for run in runs])) for k in (0, 1))
                    peak = max(ours["peak"] for _, ours in runs)
                    storage = "kept" if features else ""
                    print(
                        f"{millions:>12}  {name:<22} {storage:>8} {cpu:>8.2f} {decode:>7.2f} "
                        f"{cpu / decode:>6.2f} {peak:>9.0f}",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
