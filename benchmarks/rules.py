"""The time to pay up to a million providers under each rule."""

from __future__ import annotations

from typing import Any

import numpy as np

import troth
from benchmarks.timing import best_time


def cases(providers: int) -> dict[str, Any]:
    """Return for each rule a call that pays providers with 100 rows each."""
    rng = np.random.default_rng(3)
    model = troth.models.Bernoulli(1, 1)
    ones = rng.binomial(100, 0.3, providers).astype(np.float64)
    reports = np.stack([ones, 100 - ones], axis=-1)
    finite = troth.models.Finite([0.3, 0.3, 0.4], [[0.7, 0.3], [0.5, 0.5], [0.2, 0.8]])
    counts = np.stack([ones, 100 - ones], axis=-1)[:, ::-1]
    daily = np.stack([reports, reports[::-1]])
    scale = troth.ScoreRange(-1e7, 50)
    return {
        "OneTime": lambda: troth.OneTime(scale).pay(model, reports, budget=1.0),
        "MultiDay, per day": lambda: troth.MultiDay().pay(model, daily, budget=1.0),
        "SyntheticPeers, 16 draws": lambda: troth.SyntheticPeers(draws=16).pay(
            model, reports, budget=1.0, rng=np.random.default_rng(1)
        ),
        "Brier (finite model)": lambda: troth.Brier().pay(
            finite, finite.from_summary(counts), budget=1.0, rows=np.full(providers, 100.0)
        ),
        "LogPmiRule": lambda: troth.LogPmiRule().pay(model, reports),
        "Bonded(OneTime)": lambda: troth.Bonded(troth.OneTime(scale)).pay(model, reports, budget=1.0),
    }


def main() -> None:
    sizes = (10_000, 100_000, 1_000_000)
    print("Paying all providers under each rule, nanoseconds per provider (linear if the columns agree)\n")
    print(f"{'rule':<26}" + "".join(f"{f'{n:,}':>12}" for n in sizes) + f"{'seconds at 1e6':>16}")
    times = {n: {name: best_time(call, repeats=2) for name, call in cases(n).items()} for n in sizes}
    for name in times[sizes[0]]:
        cells = "".join(f"{times[n][name] / n * 1e9:>12.0f}" for n in sizes)
        print(f"{name:<26}{cells}{times[sizes[-1]][name]:>16.2f}")


if __name__ == "__main__":
    main()
