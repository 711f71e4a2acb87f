"""Learning from past days: the time of a fit by days, providers and types.

It is compared with one bare pass, the minimum that each optimisation step needs: three log-gammas for each day,
provider and type. A fit takes about a hundred passes: several starts, merging and splitting types, and a final ascent.
"""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln

import troth
from benchmarks.timing import best_time
from troth.core.reductions import Counts
from troth.history import History, from_summaries
from troth.models import LatentClass


def past(days: int, providers: int, types: int, seed: int = 1) -> History:
    """Draw days of ``types`` types; every provider has its own rates and day effects."""
    rng = np.random.default_rng(seed)
    rates = np.clip(np.linspace(0.05, 0.9, types)[:, None] + 0.08 * rng.standard_normal((types, providers)), 0.02, 0.98)
    p = rates[rng.integers(types, size=days)]
    rows = rng.integers(40, 120, size=(days, providers))
    ones = rng.binomial(rows, rng.beta(30 * p, 30 * (1 - p)))
    return from_summaries(Counts(2), np.stack([rows - ones, ones], axis=-1))


def bare(days: int, providers: int, types: int) -> float:
    x = np.random.default_rng(0).gamma(5.0, size=(days, providers, types))
    return best_time(lambda: [gammaln(x + k) for k in range(3)])


def main() -> None:
    print(
        "Fit of day types with a dispersion per provider, number of types given: seconds, and those of one bare pass\n"
    )
    print(
        f"{'days':>6} {'providers':>10} {'types':>6} {'seconds':>8} {'µs/(day·provider·type)':>23} {'over a bare pass':>17}"
    )
    for days, providers, types in ((365, 10, 2), (365, 10, 4), (365, 10, 8), (730, 10, 8), (365, 20, 8), (1460, 10, 8)):
        history = past(days, providers, types)
        seconds = best_time(lambda h=history, k=types: LatentClass.fit(h, "binary", types=k, starts=1), repeats=2)  # type: ignore[misc]
        microseconds = 1e6 * seconds / (days * providers * types)
        print(
            f"{days:>6} {providers:>10} {types:>6} {seconds:>8.2f} {microseconds:>23.1f} "
            f"{seconds / bare(days, providers, types):>17.0f}"
        )
    history = past(365, 10, 8)
    seconds = best_time(lambda: LatentClass.fit(history, "binary"), repeats=1)
    print(f"\nwith the number of types chosen by held-out days, up to 8: {seconds:.1f} s")
    rule = troth.SyntheticPeers(draws=16)
    candidates = {"day types": lambda part: LatentClass.fit(part, "binary", types=8, starts=1)}
    seconds = best_time(lambda: troth.compare_models(history, candidates, rule), repeats=1)
    print(f"backtest of that model, five blocks, ten lies, ten providers: {seconds:.1f} s")


if __name__ == "__main__":
    main()
