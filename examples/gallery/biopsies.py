"""Biopsies: eight laboratories and no test set.

**Data.** The Wisconsin breast cancer data that ship with scikit-learn: 569 biopsies, 212 of them malignant. Each row
is one biopsy, malignant (1) or benign (0).

**Providers.** The data have no laboratory column, so we assign the biopsies at random to eight laboratories, 71 each,
as a registry could assign slides. This is more than a convenience: laboratories with random slides see the same
population, so the textbook model holds. `hospitals.py` shows what happens otherwise.

**Model.** Each biopsy is malignant with the same unknown probability, which has a uniform prior: `Bernoulli(1, 1)`.
Nobody knows this probability, and reports can be checked only against other reports.

**Method.** A single payment is noisy, so we estimate expected payments. In each of 4,000 simulations every laboratory
draws 71 biopsies from the real ones, with replacement. We pay the same simulations twice: once with all laboratories
honest, and once with the first one lying.

**Results.** No lie gains under any rule, but the costs of lies differ a lot. Sending nothing costs 48.3% of the cap
under `LineUp`, the default, 20.5% under `SyntheticPeers`, 10.6% under `OneTime` with a range clipped at −8, and only
0.3% under `OneTime` with the exact range, whose scale includes reports that never occur in practice. Withholding half
costs 6.8%, 3.0%, 2.3% and 0.1%. Calling everything benign costs 52.8%, 49.2%, 73.0% and 6.7%. Small lies cost little
under every rule: flipping one label in ten costs 1.1% under `LineUp`. Sending every row twice is free there, because
it hardly changes the order of the line; under `SyntheticPeers` it costs 1.4%.

**Lesson.** If you can, assign the data at random. Use `LineUp`, or a clipped range if you cannot keep a seed secret.
The exact range has the strictest proof and the weakest incentive.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_breast_cancer

import troth
from troth import strategies
from troth.core.contract import Array

LABORATORIES, ROWS, SIMULATIONS = 8, 71, 4_000
MODEL = troth.models.Bernoulli(alpha=1, beta=1)
LIMITS = [2 * ROWS] * LABORATORIES  # announced: nobody may report more rows than this
RULES: dict[str, troth.Rule] = {
    "LineUp": troth.LineUp(decoys=19),
    "SyntheticPeers": troth.SyntheticPeers(draws=16),
    "OneTime, clipped": troth.OneTime(troth.clipped_range(MODEL, LIMITS, low=-8)),
    "OneTime, exact": troth.OneTime(troth.exact_range(MODEL, LIMITS)),
}
LIES: dict[str, strategies.RowLie] = {
    "flip 10% of labels": strategies.Flip(0.1),
    "send every row twice": strategies.Replicate(2),
    "withhold half": strategies.Withhold(0.5),
    "make up data like mine": strategies.FabricateFromPosterior(),
    "send nothing": strategies.Nothing(),
    "flip half of the labels": strategies.Flip(0.5),
    "make up anything": strategies.FabricateFromPrior(),
    "call all benign": strategies.ReportTypical(),
}


def main(folder: Path) -> dict[str, float]:
    """Pay for one random assignment of the biopsies, measure every lie under every rule, and draw the picture."""
    malignant = 1.0 - load_breast_cancer().target
    rng = np.random.default_rng(7)

    assigned = rng.permutation(malignant)[: LABORATORIES * ROWS]
    names = np.repeat([f"laboratory {k + 1}" for k in range(LABORATORIES)], ROWS)
    frame = {"laboratory": names.tolist(), "malignant": assigned.astype(int).tolist()}
    dollars = {"campaign": {"currency": "USD"}}
    print(troth.pay(frame, MODEL, provider="laboratory", budget="8000.00", terms=dollars, seed=7))

    rows = rng.choice(malignant, size=(SIMULATIONS, LABORATORIES, ROWS))
    honest = MODEL.statistics(rows)  # (round, laboratory, statistic)
    gains = {}
    for rule_name, rule in RULES.items():
        truth = share(rule, honest)
        for lie_name, lie in LIES.items():
            reported = honest.copy()
            reported[:, 0] = MODEL.statistics(lie.change_rows(np.random.default_rng(8), MODEL, rows[:, 0]))
            gains[rule_name, lie_name] = 100 * (share(rule, reported) - truth)

    print(f"\n{'gain, percent of the cap':<26}" + "".join(f"{name:>22}" for name in RULES))
    for lie_name in LIES:
        cells = [f"{mean(gains[rule, lie_name]):+.2f} ± {error(gains[rule, lie_name]):.2f}" for rule in RULES]
        print(f"{lie_name:<26}" + "".join(f"{cell:>22}" for cell in cells))
    draw(gains, folder / "biopsies.png")
    results = {"biopsies": float(len(malignant)), "malignant": float(malignant.sum())}
    results |= {f"{rule}: {lie}": mean(gain) for (rule, lie), gain in gains.items()}
    return results | {f"{rule}: {lie}, error": error(gain) for (rule, lie), gain in gains.items()}


def share(rule: troth.Rule, reports: Array) -> Array:
    """Return the share of its cap that the first laboratory earns in each round, with the same seed every time."""
    return rule.explain(MODEL, reports, rng=np.random.default_rng(9)).share[:, 0]


def mean(gain: Array) -> float:
    """Return the mean gain over simulations."""
    return float(gain.mean())


def error(gain: Array) -> float:
    """Return the standard error of the mean gain."""
    return float(gain.std() / len(gain) ** 0.5)


def draw(gains: dict[tuple[str, str], Array], path: Path) -> None:
    """Draw the cost of each lie, one row per lie and one colour per rule."""
    figure = Figure(figsize=(8, 4.6), layout="constrained", facecolor="white")
    axes = figure.subplots()
    for k, (rule, colour) in enumerate(zip(RULES, ("#5e3c99", "#1b7837", "#e66101", "#4d4d4d"), strict=True)):
        cost = [-mean(gains[rule, lie]) for lie in LIES]
        bars = [3 * error(gains[rule, lie]) for lie in LIES]
        axes.errorbar(cost, np.arange(len(LIES)) + 0.2 * (k - 1.5), xerr=bars, fmt="o", color=colour, label=rule)
    axes.axvline(0, color="#888888", linewidth=1)
    axes.set_yticks(range(len(LIES)), list(LIES))
    axes.invert_yaxis()
    axes.grid(axis="x", alpha=0.3)
    axes.set_xlabel("what the lie costs in expectation, percent of the cap (± 3 standard errors)")
    axes.set_title("No lie gains; how much it costs depends on the rule", loc="left", fontsize=11)
    axes.legend(title="rule", loc="upper right")
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    target = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent / "images")
    target.mkdir(parents=True, exist_ok=True)
    main(target)
