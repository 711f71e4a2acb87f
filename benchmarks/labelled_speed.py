"""Labelled rows to reports: CPU time relative to a bare Parquet decode, with 50 features and 1,000 providers.

``python -m benchmarks labelled_speed`` takes half a million and a million rows, ``--full`` also five million. Each time
is the median of three runs that alternate with decodes. In rows marked "kept", the same pass also samples features, for
decoys from the likelihood.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.campaigns import PROGRAMS, measure, write_regression

FEATURES, REPETITIONS = 50, 3
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


def main() -> None:
    """Print CPU seconds, their ratio to a bare decode, and peak memory."""
    print(
        f"{'million rows':>12}  {'family':<22} {'features':>8} {'CPU s':>8} {'decode':>7} {'ratio':>6} {'peak MiB':>9}"
    )
    with tempfile.TemporaryDirectory() as scratch:
        for millions in (0.5, 1, 5) if "--full" in sys.argv else (0.5, 1):
            path = write_regression(Path(scratch) / "rows.parquet", millions, FEATURES, labels=True)
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
