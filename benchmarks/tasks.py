"""Tasks settled together: the time to pay, report and verify labels, relative to reading them and to evidence passes.

``python -m benchmarks tasks`` goes up to a hundred thousand labels, ``python -m benchmarks tasks --million`` up to a
million labels of 5,000 workers.
"""

from __future__ import annotations

import resource
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyarrow import csv

import troth

if TYPE_CHECKING:
    from collections.abc import Callable

CLASSES = 3


def write_labels(path: Path, labels: int, seed: int = 0) -> dict[str, Any]:
    """Write about ``labels`` labels, three or four per task, and return terms with a likelihood per worker."""
    rng = np.random.default_rng(seed)
    tasks, workers = int(0.3 * labels), max(20, labels // 200)
    sizes = np.where(rng.random(tasks) < 1 / 3, 4, 3)
    task = np.repeat(np.arange(tasks), sizes)
    position = np.arange(len(task)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    first, step = rng.integers(workers, size=tasks), rng.integers(1, workers // 4, size=tasks)
    worker = (first[task] + position * step[task]) % workers  # no worker twice on a task
    truth, accuracy = rng.integers(CLASSES, size=tasks), rng.uniform(0.4, 0.95, size=workers)
    label = np.where(rng.random(len(task)) < accuracy[worker], truth[task], rng.integers(CLASSES, size=len(task)))
    names = np.array([f"worker {number:05d}" for number in range(workers)])
    csv.write_csv(pa.table({"item": task, "worker": names[worker], "label": label}), path)

    def likelihood(accuracy: float) -> list[list[float]]:
        table: list[list[float]] = (accuracy * np.eye(CLASSES) + (1 - accuracy) / CLASSES).tolist()
        return table

    confusions = {name: {"likelihood": likelihood(p)} for name, p in zip(names, accuracy, strict=True)}
    model = {"family": "Finite", "columns": ["label"], "prior": [1 / CLASSES] * CLASSES, "likelihood": likelihood(0.7)}
    return {
        "campaign": {"name": "labels", "price": "0.05"},
        "model": {**model, "providers": confusions},
        "data": {"source": str(path), "provider": "worker", "task": "item"},
    }


def measure(labels: int) -> dict[str, float]:
    """Return the CPU seconds of each step and of the two yardsticks."""
    seconds: dict[str, float] = {}

    def timed(name: str, call: Callable[[], Any]) -> Any:
        start = time.process_time()
        result = call()
        seconds[name] = time.process_time() - start
        return result

    with TemporaryDirectory() as folder:
        path, ledger = Path(folder) / "labels.csv", Path(folder) / "ledger.jsonl"
        plain = write_labels(path, labels)
        table = timed("read", lambda: csv.read_csv(path))
        model = troth.models.Finite(plain["model"]["prior"], plain["model"]["likelihood"])
        t = np.log(np.random.default_rng(1).random((table.num_rows, CLASSES)))
        timed("evidence", lambda: [model.log_evidence(t) for _ in range(3)])  # own, peers, both
        campaign = timed("terms", lambda: troth.Campaign.from_dict(plain))
        result = timed("pay", lambda: troth.pay(campaign, ledger=ledger, anyway=True))
        timed("report", lambda: result.write_page(Path(folder) / "report.html"))
        timed("verify", lambda: troth.verify(ledger))
    return seconds | {"labels": float(table.num_rows)}


def main() -> None:
    """Print a line for each number of labels."""
    print(f"{'labels':>9} {'seconds':>8} {'per label':>10} {'÷ reading':>10} {'÷ evidence':>11} {'memory':>8}")
    for labels in (10_000, 100_000, *((1_000_000,) if "--million" in sys.argv else ())):
        seconds = measure(labels)
        total = sum(seconds[step] for step in ("terms", "pay", "report", "verify"))
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        microseconds = 1e6 * total / seconds["labels"]
        ratios = f"{total / seconds['read']:>10.0f} {total / seconds['evidence']:>11.0f}"
        print(f"{seconds['labels']:>9,.0f} {total:>8.1f} {microseconds:>8.1f}µs {ratios} {memory:>5.2f} GB")


if __name__ == "__main__":
    main()
