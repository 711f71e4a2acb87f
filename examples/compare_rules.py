"""Under which rule does which lie pay? Draws the picture of docs/audits.md, by default in docs/images."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

import troth
from troth import baselines, strategies

ROWS = [40] * 8
MODEL = troth.models.Bernoulli(1, 1)


def towards_ones(data: Any, rng: np.random.Generator) -> Any:
    """Add ones to the labels, like the biased test sets."""
    return baselines.with_extra_ones(data, rng)


RULES: dict[str, troth.Rule] = {
    "fixed price": baselines.FixedPrice(),
    "price per row": baselines.PerRow(max_rows=100),
    "test set, honest": baselines.TestLikelihood(),
    "test set, biased": baselines.TestLikelihood(bias=baselines.with_extra_ones),
    "leave-one-out, biased test set": baselines.LeaveOneOutValue(bias=baselines.with_extra_ones),
    "Shapley value, biased test set": baselines.ShapleyValue(bias=baselines.with_extra_ones),
    "out-of-bag, no test set": baselines.OutOfBag(),
    "Troth: OneTime, clipped": troth.OneTime(troth.clipped_range(MODEL, [80] * 8)),
    "Troth: MultiDay": troth.MultiDay(),
    "Troth: SyntheticPeers": troth.SyntheticPeers(draws=16),
    "Troth: LineUp": troth.LineUp(decoys=49),  # the expected payment does not depend on the number of decoys
}
LIES: list[Any] = [
    strategies.Replicate(),
    strategies.Withhold(),
    strategies.Flip(),
    towards_ones,
    strategies.ReportTypical(),
    strategies.FabricateFromPosterior(),
    strategies.FabricateFromPrior(),
    strategies.Nothing(),
    strategies.Split(2),
]


def main() -> None:
    """Audit every rule against every lie, print the table and draw the picture."""
    path = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[1] / "docs" / "images" / "comparison.png")
    comparison = troth.compare(MODEL, RULES, LIES, ROWS, simulations=20_000)
    print(comparison)
    comparison.plot(path)
    print(f"\nwritten to {path}")


if __name__ == "__main__":
    main()
