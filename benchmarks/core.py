"""The time to compute every provider's log PMI, relative to the bare special-function passes that it needs."""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln

import troth
from benchmarks.timing import best_time
from troth.core.contract import Array


def bernoulli(providers: int) -> tuple[float, float]:
    """Return the seconds to price all providers, and those of the six gammaln passes in the textbook formula."""
    model = troth.models.Bernoulli(1, 1)
    rng = np.random.default_rng(0)
    ones = rng.binomial(100, 0.3, providers).astype(np.float64)
    reports = np.stack([ones, 100 - ones], axis=-1)
    passes = [ones + 1, 101 - ones, np.full(providers, 102.0)]
    passes += [ones.sum() - x for x in passes]
    ours = best_time(lambda: troth.peer_log_pmi(model, reports))
    bare = best_time(lambda: [gammaln(x) for x in passes])
    return ours, bare


def regression(providers: int, d: int) -> tuple[float, float]:
    """Return the seconds to price all regressions, and those of two Cholesky passes (own and peers)."""
    model, reports = draw_regressions(providers, d)
    matrices = np.eye(d + 1) + np.zeros((providers, 1, 1))
    matrices[:, :d, :d] += reports[:, : d * d].reshape(-1, d, d)
    ours = best_time(lambda: troth.peer_log_pmi(model, reports), repeats=3)
    bare = best_time(lambda: [np.linalg.cholesky(matrices) for _ in range(2)], repeats=3)
    return ours, bare


def draw_regressions(providers: int, d: int) -> tuple[troth.models.LinearRegression, Array]:
    """Return a regression with ``d`` features, and the statistics of providers with 60 rows each."""
    rng = np.random.default_rng(1)
    model = troth.models.LinearRegression(np.zeros(d), np.eye(d).tolist(), 1.0)
    theta = np.broadcast_to(model.draw_parameters(rng), (500, d))
    parts = [model.statistics(model.draw_data(rng, theta, 60)) for _ in range(providers // 500)]
    return model, np.concatenate(parts)


def main() -> None:
    print(
        "Pricing all providers: leave-one-out and log PMI in one call, relative to the bare special-function passes\n"
    )
    print(f"{'family':<22} {'providers':>10} {'seconds':>9} {'bare':>9} {'ratio':>6} {'ns/provider':>12}")
    measured = [("Bernoulli", n, *bernoulli(n)) for n in (10_000, 100_000, 1_000_000)]
    measured += [("regression, d = 50", n, *regression(n, 50)) for n in (1_000, 10_000)]
    for family, n, ours, bare in measured:
        print(f"{family:<22} {n:>10,} {ours:>9.4f} {bare:>9.4f} {ours / bare:>6.2f} {ours / n * 1e9:>12.0f}")
    print("\nbare: six gammaln passes (Bernoulli), two Cholesky passes (regression), as NumPy and SciPy run them")


if __name__ == "__main__":
    main()
