"""Diabetes: how large a lie must be to cost something.

**Data.** The diabetes data that ship with scikit-learn: 442 patients, and how far the disease had progressed a year
later. The features are body mass index, blood pressure and a blood serum value (s5). Features and answer are in
standard deviations.

**Providers.** The data have no clinic column, so eight clinics get 55 patients each at random.

**Model.** A linear regression with unknown coefficients and unknown noise, `LinearRegressionUnknownNoise`, with a
weak prior. It assumes nothing about the features. We pay by `SyntheticPeers` instead of the default, because the
line-up saturates: with data this informative, the real peers come first in the line even for a small lie.

**Method.** In each of 1,000 simulations every clinic draws its patients from the real ones, with replacement. One
clinic tells larger and larger lies: it shifts its answers up, adds noise to them, or pairs features with other
patients' answers.

**Results.** Honest clinics earn 99.6% of the cap, because the peers' 385 patients leave little uncertainty. Large
lies cost more than half of the cap: shuffling all answers 57.3%, shifting them up by a standard deviation 57.8%. The
cost grows faster than the lie: shifting answers by half a standard deviation costs 42.9%, by a quarter 4.2%, by an
eighth 0.4%. We cannot distinguish a little noise from the truth: noise of a quarter of a standard deviation costs
0.1%, with a standard error of the same size. Withholding half of the patients costs 0.7%, sending nothing 31.4%.

**Lesson.** The truth is the best report, but the peak is flat: a bounded payment cannot punish a lie that hardly
changes the conclusion. The lies that would change your conclusion are the ones that cost.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_diabetes

import troth
from troth import strategies
from troth.core.contract import Array, Generator

CLINICS, ROWS, SIMULATIONS = 8, 55, 1_000
FEATURES = ["bmi", "bp", "s5"]
MODEL = troth.models.LinearRegressionUnknownNoise(mean=[0] * 4, precision=np.eye(4), shape=2, scale=1)
RULE = troth.SyntheticPeers(draws=16)
STEPS = (0.125, 0.25, 0.5, 0.75, 1.0)


def shuffle(data: tuple[Array, Array], share: float, rng: Generator) -> tuple[Array, Array]:
    """Shuffle the answers of the first patients among them."""
    z, y = data
    count = round(share * y.shape[-1])
    return z, np.concatenate([rng.permuted(y[:, :count], axis=-1), y[:, count:]], axis=-1)


def main(folder: Path) -> dict[str, float]:
    """Pay for one random assignment of the patients, measure lies of growing size, and draw what they cost."""
    table = load_diabetes(as_frame=True, scaled=False).frame[[*FEATURES, "target"]]
    table = (table - table.mean()) / table.std()
    rng = np.random.default_rng(7)

    assigned = table.iloc[rng.permutation(len(table))[: CLINICS * ROWS]]
    assigned = assigned.assign(clinic=np.repeat([f"clinic {k + 1}" for k in range(CLINICS)], ROWS))
    result = troth.pay(
        assigned,
        MODEL,
        RULE,
        provider="clinic",
        columns=FEATURES,
        budget="8000",
        terms={"model": {"target": "target", "intercept": True}},
        seed=7,
    )
    print(result)

    features = np.column_stack([np.ones(len(table)), table[FEATURES]])
    answers = table["target"].to_numpy()
    drawn = rng.integers(len(table), size=(SIMULATIONS, CLINICS, ROWS))
    statistics = MODEL.statistics((features[drawn], answers[drawn]))
    # Payments depend on peers only through the sum of their statistics, so one row stands for all of them.
    honest = np.stack([statistics[:, 0], statistics[:, 1:].sum(axis=1)], axis=1)
    own = features[drawn[:, 0]], answers[drawn[:, 0]]
    truth = share(honest)

    reports = {("send nothing", 1.0): strategies.Nothing().change_rows(rng, MODEL, own)}
    for size in STEPS:
        reports["move answers up", size] = strategies.Shift(size).change_rows(rng, MODEL, own)
        reports["blur answers", size] = strategies.Perturb(size).change_rows(rng, MODEL, own)
        reports["shuffle answers", size] = shuffle(own, size, rng)
        reports["withhold patients", size] = strategies.Withhold(size).change_rows(rng, MODEL, own)
    gains = {}
    for key, report in reports.items():
        reported = honest.copy()
        reported[:, 0] = MODEL.statistics(report)
        gains[key] = 100 * (share(reported) - truth)

    print(f"\nhonest clinics earn {100 * truth.mean():.1f}% of the cap; what lies gain, percent of the cap")
    for (lie, size), gain in gains.items():
        print(f"  {lie:<18} {size:<6g} {gain.mean():+7.2f} ± {gain.std() / SIMULATIONS**0.5:.2f}")
    draw(gains, folder / "diabetes.png")
    means = {f"{lie} {size:g}": float(gain.mean()) for (lie, size), gain in gains.items()}
    errors = {f"{lie} {size:g}, error": float(gain.std() / SIMULATIONS**0.5) for (lie, size), gain in gains.items()}
    return {"honest": 100 * float(truth.mean()), **means, **errors}


def share(reports: Array) -> Array:
    """Return the share of its cap that the first clinic earns in each round, with the same seed every time."""
    return RULE.explain(MODEL, reports, rng=np.random.default_rng(8)).share[:, 0]


def draw(gains: dict[tuple[str, float], Array], path: Path) -> None:
    """Draw what a lie costs against its size."""
    figure = Figure(figsize=(8.4, 4.8), layout="constrained", facecolor="white")
    axes = figure.subplots()
    styles = {
        "move answers up": ("#5e3c99", "o", "by this many standard deviations"),
        "blur answers": ("#998ec3", "s", "with noise of this many standard deviations"),
        "shuffle answers": ("#e66101", "^", "of such a share of patients"),
        "withhold patients": ("#4d4d4d", "D", "such a share"),
    }
    for lie, (colour, marker, unit) in styles.items():
        cost = [0.0, *(-gains[lie, size].mean() for size in STEPS)]
        error = [0.0, *(3 * gains[lie, size].std() / SIMULATIONS**0.5 for size in STEPS)]
        axes.errorbar((0.0, *STEPS), cost, error, color=colour, marker=marker, label=f"{lie}, {unit}")
    axes.axhline(0, color="black", linewidth=1)
    axes.grid(alpha=0.3)
    axes.set_xlabel("size of the lie")
    axes.set_ylabel("costs, percent of the cap (± 3 standard errors)")
    axes.set_title("Small lies cost little, large ones more than half of the cap", loc="left", fontsize=11)
    axes.legend(loc="upper center", bbox_to_anchor=(0.48, -0.15), ncols=2, fontsize=9, frameon=False)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    target = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent / "images")
    target.mkdir(parents=True, exist_ok=True)
    main(target)
