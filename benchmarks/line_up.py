"""The time of a line-up, relative to the bare special-function or Cholesky passes that its decoys need."""

from __future__ import annotations

import sys

import numpy as np
from scipy.special import gammaln

import troth
from benchmarks.core import draw_regressions
from benchmarks.timing import best_time


def bernoulli(providers: int, decoys: int) -> tuple[float, float]:
    """Return the seconds of a round, and those of two gammaln passes per decoy: Λ(own + decoy) for all providers."""
    model, rng = troth.models.Bernoulli(2, 2), np.random.default_rng(0)
    rows = rng.integers(50, 151, providers)
    ones = rng.binomial(rows, 0.3).astype(np.float64)
    reports = np.stack([ones, rows - ones], axis=-1)
    rule = troth.LineUp(decoys=decoys)
    ours = best_time(lambda: rule.explain(model, reports, rng=np.random.default_rng(1)), repeats=1)
    sample = ones[:100_000] + ones.sum()
    bare = best_time(lambda: gammaln(sample), repeats=3) * 2 * decoys * providers / len(sample)
    return ours, bare


def regression(providers: int, d: int, decoys: int) -> tuple[float, float]:
    """Return the seconds of a round, and those of one Cholesky pass per decoy: Λ(own + decoy) for all providers."""
    model, reports = draw_regressions(providers, d)
    rule = troth.LineUp(decoys=decoys)
    ours = best_time(lambda: rule.explain(model, reports, rng=np.random.default_rng(1)), repeats=1)
    matrices = np.eye(d) + reports[:500, : d * d].reshape(-1, d, d)
    bare = best_time(lambda: np.linalg.cholesky(matrices), repeats=3) * decoys * providers / 500
    return ours, bare


def main() -> None:
    small = "--small" in sys.argv
    print("A line-up, relative to the bare passes that its decoys need\n")
    print(f"{'family':<20} {'providers':>10} {'decoys':>7} {'seconds':>9} {'bare':>9} {'ratio':>6}")
    counts = [(10_000, 199), (100_000, 199)] if small else [(100_000, 199), (1_000_000, 99), (1_000_000, 199)]
    measured = [("Bernoulli", n, k, *bernoulli(n, k)) for n, k in counts]
    counts = [(500, 49), (1_000, 49)] if small else [(5_000, 49), (10_000, 24), (10_000, 49)]
    measured += [("regression, d = 50", n, k, *regression(n, 50, k)) for n, k in counts]
    for family, n, decoys, ours, bare in measured:
        print(f"{family:<20} {n:>10,} {decoys:>7} {ours:>9.2f} {bare:>9.2f} {ours / bare:>6.2f}")
    print("\nbare: for each provider and decoy two gammaln (Bernoulli), one Cholesky factorisation (regression)")


if __name__ == "__main__":
    main()
