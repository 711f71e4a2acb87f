"""From a PyMC model to payments: last year's posterior becomes the candidates of this year's campaign.

    python examples/candidates_from_pymc.py FOLDER              sample with PyMC (pip install pymc)
    python examples/candidates_from_pymc.py FOLDER DRAWS.nc     use a saved InferenceData

Last year's data on 20 patients are public. A logistic regression in PyMC learns from them who is readmitted. This year
ten hospitals report 200 patients each, and the fourth shuffles its labels. θ is one of 150 draws from the posterior; a
report is reduced to its log-likelihood under each.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Any

import numpy as np

import troth

TRUTH = np.array([-0.5, 0.8, -0.6])
CAMPAIGN = """[campaign]
name = "Readmission"
budget = "10000.00"
currency = "EUR"

[model]
file = "candidates.json"
digest = "{digest}"
columns = ["age", "stay"]
target = "readmitted"
categories = ["no", "yes"]
intercept = true

[data]
source = "rows.csv"
provider = "hospital"
"""


def patients(rng: np.random.Generator, count: int) -> tuple[Any, Any]:
    """Draw features (a constant, standardised age and length of stay) and who is readmitted."""
    z = np.column_stack([np.ones(count), rng.normal(size=(count, 2))])
    return z, (rng.random(count) < 1 / (1 + np.exp(-z @ TRUTH))).astype(int)


def sample_posterior(z: Any, y: Any, draws: int = 250) -> Any:
    """Return the posterior of a logistic regression, as an InferenceData."""
    import pymc as pm

    with pm.Model():
        intercept = pm.Normal("intercept", 0.0, 1.0)
        slopes = pm.Normal("slopes", 0.0, 1.0, shape=2)
        pm.Bernoulli("readmitted", logit_p=intercept + pm.math.dot(z[:, 1:], slopes), observed=y)
        return pm.sample(draws, chains=2, cores=1, random_seed=1, progressbar=False)


def write_rows(path: Path, rng: np.random.Generator) -> None:
    """Write the patients of ten hospitals; the fourth shuffles its labels."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["hospital", "age", "stay", "readmitted"])
        for hospital in range(1, 11):
            z, y = patients(rng, 200)
            labels = rng.permutation(y) if hospital == 4 else y
            for (_, age, stay), label in zip(z, labels, strict=True):
                writer.writerow([f"hospital {hospital}", age, stay, "yes" if label else "no"])


def run(folder: Path, draws: Any = None) -> troth.Result:
    """Turn posterior draws into candidates, pay, and verify the ledger."""
    rng = np.random.default_rng(20)
    last_year = patients(rng, 20)
    if draws is None:
        draws = sample_posterior(*last_year)
    folder.mkdir(parents=True, exist_ok=True)
    candidates = troth.models.LogisticCandidates.from_draws(draws, ["intercept", "slopes"], max_draws=150)
    digest = troth.save_model(candidates, folder / "candidates.json")
    (folder / "campaign.toml").write_text(CAMPAIGN.format(digest=digest), encoding="utf-8")
    write_rows(folder / "rows.csv", rng)
    # 150 draws are too coarse for 2,000 rows. The check of the fit detects this, see result.verdict.
    return troth.pay(folder / "campaign.toml", ledger=folder / "ledger.jsonl", anyway=True).verify()


if __name__ == "__main__":
    posterior = None
    if len(sys.argv) > 2:
        import arviz

        posterior = arviz.from_netcdf(sys.argv[2])
    print(run(Path(sys.argv[1]), posterior))
