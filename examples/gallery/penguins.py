"""Penguins: choosing providers who can be peers.

**Data.** The Palmer penguins (`palmerpenguins`): 344 birds of three species, counted on three islands in three years.
Each row is the species of one bird.

**Providers.** A column of the data defines the providers, and two columns are candidates. Split by *year*, there are
three field teams that each saw all islands. Split by *island*, there are three stations that each saw only their own
island.

**Model.** All providers draw from the same unknown mix of species, with a uniform prior: `Categorical([1, 1, 1])`. We
pay by `LineUp`.

**Method.** `check_fit` tests whether the reports are plausible under the model. Then we run 3,000 simulations of
expected payments with resampled birds. Each year's team draws from all birds, which agrees with the model and with
`check_fit`. Each station draws from its own island, where the mix is different.

**Results.** Split by year, the model is plausible and lies cost: sending nothing 69.5% of the cap, making up a mix of
species 61.7%, withholding half 5.7%. Sending every bird twice is free, because the line-up uses only the order.
Split by island, the model does not fit: on Torgersen all birds are Adelie penguins, and on Biscoe three quarters are
Gentoos. There honest reports contradict each other, and sending nothing *gains* 16.5% of the cap.

**Lesson.** The model assumes that all providers see the same world. Choose the providers, or the question, so that
they do. Run `check_fit` before you pay, and believe it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from palmerpenguins import load_penguins

import troth
from troth import strategies
from troth.core.contract import Array

SPECIES = ["Adelie", "Chinstrap", "Gentoo"]
COLOURS = ["#80cdc1", "#dfc27d", "#01665e"]
MODEL = troth.models.Categorical([1, 1, 1])
RULE = troth.LineUp(decoys=19)  # any number will do: the expected share is the same
SIMULATIONS = 3_000
LIES: dict[str, strategies.RowLie] = {
    "send every row twice": strategies.Replicate(2),
    "withhold half": strategies.Withhold(0.5),
    "make up data like mine": strategies.FabricateFromPosterior(),
    "send nothing": strategies.Nothing(),
    "make up a mix": strategies.FabricateFromPrior(),
    "name one species only": strategies.ReportTypical(),
}


def main(folder: Path) -> dict[str, float]:
    """Pay with years as providers, check the model for both splits, and measure lies under both."""
    birds = load_penguins()
    codes = birds["species"].map({name: k for k, name in enumerate(SPECIES)}).to_numpy(dtype=float)
    print(
        troth.pay(
            birds[["year", "species"]].astype(str),
            MODEL,
            provider="year",
            budget="300.00",
            terms={"campaign": {"currency": "USD"}, "model": {"categories": SPECIES}},
            seed=7,
        )
    )
    results = {"birds": float(len(birds))}
    counts: dict[str, Array] = {}
    for column in ("year", "island"):
        groups = {str(name): codes[(birds[column] == name).to_numpy()] for name in sorted(birds[column].unique())}
        reports = np.stack([MODEL.statistics(rows) for rows in groups.values()])
        fit = troth.check_fit(MODEL, reports)
        print(f"\nsplit by {column}: {str(fit).splitlines()[0]}")
        results[f"{column}: plausible"] = float(fit.plausible)
        # Years are samples of one population; each island is its own population.
        sources = [codes] * len(groups) if fit.plausible else list(groups.values())
        for lie, gain in measure(sources, [len(rows) for rows in groups.values()]).items():
            error = gain.mean(axis=1).std() / SIMULATIONS**0.5
            print(f"  {lie:<24} {gain.mean():+6.2f} ± {error:.2f} percent of the cap")
            results |= {f"{column}: {lie}": float(gain.mean()), f"{column}: {lie}, error": float(error)}
        counts |= dict(zip(groups, reports, strict=True))
    draw(results, counts, folder / "penguins.png")
    return results


def measure(sources: list[Array], sizes: list[int]) -> dict[str, Array]:
    """Return what each lie gains in each round, ``(round, provider)``, in percent of the cap."""
    rng = np.random.default_rng(7)
    rows = [rng.choice(source, size=(SIMULATIONS, size)) for source, size in zip(sources, sizes, strict=True)]
    honest = np.stack([MODEL.statistics(x) for x in rows], axis=1)
    truth = RULE.explain(MODEL, honest, rng=np.random.default_rng(8)).share
    gains = {name: np.empty_like(truth) for name in LIES}
    for name, lie in LIES.items():
        for liar, x in enumerate(rows):
            reported = honest.copy()
            reported[:, liar] = MODEL.statistics(lie.change_rows(rng, MODEL, x))
            share = RULE.explain(MODEL, reported, rng=np.random.default_rng(8)).share
            gains[name][:, liar] = 100 * (share - truth)[:, liar]
    return gains


def draw(results: dict[str, float], counts: dict[str, Array], path: Path) -> None:
    """Draw what providers saw beside what lies gain."""
    figure = Figure(figsize=(9.8, 4.4), layout="constrained", facecolor="white")
    left, right = figure.subplots(1, 2, width_ratios=[1, 1.2])
    start = np.zeros(len(counts))
    for k, (species, colour) in enumerate(zip(SPECIES, COLOURS, strict=True)):
        share = np.array([100 * count[k] / count.sum() for count in counts.values()])
        left.barh(list(counts), share, left=start, color=colour, label=species)
        start += share
    left.invert_yaxis()
    left.set_xlabel("percent of the birds that it saw")
    left.set_title("What providers saw", loc="left", fontsize=11)
    left.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=3, frameon=False, handlelength=1)
    height = np.arange(len(LIES))
    for shift, column, colour in ((-0.2, "year", "#5e3c99"), (0.2, "island", "#e66101")):
        right.barh(height + shift, [results[f"{column}: {lie}"] for lie in LIES], 0.38, color=colour, label=column)
    right.axvline(0, color="black", linewidth=1)
    right.set_yticks(height, list(LIES))
    right.invert_yaxis()
    right.grid(axis="x", alpha=0.3)
    right.set_xlabel("costs  ←  percent of the cap  →  pays")
    right.set_title("What a lie gains in expectation", loc="left", fontsize=11)
    right.set_xlim(-60, 40)
    right.legend(title="split by", loc="upper left")
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    target = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent / "images")
    target.mkdir(parents=True, exist_ok=True)
    main(target)
