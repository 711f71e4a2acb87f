"""A million simulations in one call, relative to drawing the same random numbers."""

from __future__ import annotations

import time

import numpy as np

import troth


def bare_draws(simulations: int, rows: int, providers: int, chunk: int) -> float:
    """Return the seconds to draw what the audit draws: rates, all providers' counts, and the rows of the liar."""
    rng = np.random.default_rng(0)
    start = time.perf_counter()
    for _ in range(0, simulations, chunk):
        theta = rng.beta(1, 1, size=(chunk, 1))
        rng.binomial(rows, np.broadcast_to(theta, (chunk, providers)))
        rng.random((chunk, rows))
    return time.perf_counter() - start


def main() -> None:
    simulations, rows, providers = 1_000_000, 100, 10
    model = troth.models.Bernoulli(1, 1)
    rule = troth.OneTime(troth.clipped_range(model, [2 * rows] * providers))
    print(
        f"Auditing {simulations:,} simulations of {providers} providers with {rows} rows (Bernoulli, OneTime), one lie\n"
    )
    bare = bare_draws(simulations, rows, providers, 4000)
    for lie in (troth.strategies.Replicate(), troth.strategies.Nothing(), troth.strategies.Flip()):
        start = time.perf_counter()
        audit = troth.audit(model, rule, lie=lie, rows=[rows] * providers, simulations=simulations)
        seconds = time.perf_counter() - start
        gain = audit.findings[0]
        speed = f"{seconds:6.2f} s, {simulations / seconds / 1e6:5.2f} M simulations/s, {seconds / bare:5.2f} times the bare draw"
        print(f"{lie.name:<22} {speed} of {bare:.2f} s; gain {gain.gain:+.4f} ± {gain.detectable / 2:.4f}")


if __name__ == "__main__":
    main()
