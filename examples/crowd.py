"""A simulated crowd: what each kind of worker earns under Troth and under current practice.

A fifth of the workers answer at random, a tenth always give the most frequent label, a twentieth copy a public guess,
and the rest are honest with individual accuracies. Confusion matrices are learnt from past tasks on which the same
workers behaved the same. The docs show ``--tasks 10000``. To include crowd-kit: ``pip install attrs tqdm nltk``, then
``pip install --no-deps crowd-kit``.
"""

from __future__ import annotations

import argparse
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.stats import spearmanr

import troth
from troth.models.fitting.workers import fit_workers

if TYPE_CHECKING:
    from numpy.typing import NDArray

PRIOR = (0.6, 0.25, 0.15)
KINDS = ("honest", "random", "majority", "copies the guess")
SHARES = (0.65, 0.2, 0.1, 0.05)


class Crowd(NamedTuple):
    """Task, worker and label of each report; class and public guess of each task; kind and accuracy of each worker."""

    task: NDArray[np.intp]
    worker: NDArray[np.intp]
    label: NDArray[np.intp]
    truth: NDArray[np.intp]
    guess: NDArray[np.intp]
    kind: NDArray[np.intp]
    accuracy: NDArray[np.float64]


def simulate(tasks: int, workers: int = 200, each: int = 4, seed: int = 0, people: int = 0) -> Crowd:
    """Draw a crowd. ``people`` seeds the workers' kinds and accuracies, ``seed`` all else."""
    people_rng = np.random.default_rng(people)
    kind = people_rng.permutation(np.repeat(np.arange(4), np.round(np.array(SHARES) * workers).astype(int)))
    accuracy = people_rng.uniform(0.55, 0.95, size=workers)
    rng = np.random.default_rng([seed, 1])
    truth = rng.choice(3, p=PRIOR, size=tasks)
    task = np.repeat(np.arange(tasks), each)
    worker = rng.random((tasks, workers)).argsort(axis=1)[:, :each].ravel()
    guess = _answers(rng, truth, np.full(tasks, 0.75))
    honest = _answers(rng, truth[task], accuracy[worker])
    options = np.stack([honest, rng.integers(3, size=len(task)), np.zeros_like(honest), guess[task]])
    return Crowd(task, worker, options[kind[worker], np.arange(len(task))], truth, guess, kind, accuracy)


def _answers(rng: np.random.Generator, truth: Any, accuracy: Any) -> NDArray[np.intp]:
    wrong = (truth + rng.integers(1, 3, size=len(truth))) % 3
    return np.asarray(np.where(rng.random(len(truth)) < accuracy, truth, wrong), dtype=np.intp)


def pay(past: Crowd, now: Crowd) -> dict[str, float]:
    """Pay with confusion matrices learnt from the past, with the guess as public data; return shares by worker."""
    names = [f"w{w:03d}" for w in range(len(now.kind))]
    sources = [*names, "public data"]
    task = np.append(past.task, np.arange(len(past.guess)))
    worker = np.append(past.worker, np.full(len(past.guess), len(names)))
    labels = np.eye(3)[np.append(past.label, past.guess)]
    learned = fit_workers(task, worker, labels, sources)
    frame = {
        "item": [f"new{t}" for t in now.task],
        "worker": [names[w] for w in now.worker],
        "label": now.label.tolist(),
    }
    guess = {"item": [f"new{t}" for t in range(len(now.guess))], "label": now.guess.tolist()}
    terms: dict[str, dict[str, Any]] = {
        "model": {"providers": dict(learned.models)},
        "history": {"tasks": len(past.truth)},
    }
    options: dict[str, Any] = {"provider": "worker", "task": "item", "price": "0.05", "columns": "label"}
    result: Any = troth.pay(frame, learned.population, public=guess, terms=terms, **options)
    return {payment.provider: payment.share for payment in result.payments}


def current_practice(now: Crowd, gold_every: int = 10) -> dict[str, NDArray[np.float64]]:
    """Return each worker's rate under current practice: agreement, gold questions, Dawid–Skene accuracy."""
    counts = np.zeros((len(now.truth), 3))
    np.add.at(counts, (now.task, now.label), 1)
    others = counts[now.task] - np.eye(3)[now.label]
    with_majority = others[np.arange(len(now.label)), now.label] >= others.max(axis=1)
    is_gold = now.task % gold_every == 0
    learned = fit_workers(now.task, now.worker, np.eye(3)[now.label], [str(w) for w in range(len(now.kind))])
    return {
        "agreement with the majority": _mean(now.worker, with_majority, np.ones(len(now.label), dtype=bool)),
        "gold questions": _mean(now.worker, now.label == now.truth[now.task], is_gold),
        "Dawid–Skene accuracy": np.array(list(learned.accuracy().values())),
    }


def crowd_kit_rates(now: Crowd) -> dict[str, NDArray[np.float64]]:
    """Return crowd-kit's rates of each worker: agreement with a weighted vote, and Dawid–Skene accuracy."""
    import pandas as pd
    from crowdkit.aggregation.classification.dawid_skene import DawidSkene  # type: ignore[import-not-found]
    from crowdkit.aggregation.classification.wawa import Wawa  # type: ignore[import-not-found]

    table = pd.DataFrame({"task": now.task, "worker": now.worker, "label": now.label})
    skills = Wawa().fit(table).skills_.sort_index()
    fitted = DawidSkene(n_iter=50).fit(table)
    index = pd.MultiIndex.from_product([range(len(now.kind)), range(3)])  # not every worker used every label
    errors = fitted.errors_.reindex(index=index, columns=range(3), fill_value=0.0).to_numpy().reshape(-1, 3, 3)
    accuracy = np.einsum("wkk,k->w", errors, fitted.priors_.sort_index().to_numpy())
    return {"crowd-kit: Wawa": skills.to_numpy(), "crowd-kit: Dawid–Skene": accuracy}


def _mean(worker: Any, entries: Any, where: Any) -> NDArray[np.float64]:
    sizes = np.maximum(np.bincount(worker[where]), 1)
    return np.asarray(np.bincount(worker[where], entries[where].astype(float)) / sizes)


def table(tasks: int = 3000, seed: int = 1) -> list[tuple[str, list[float], float]]:
    """Return for each method its name, the mean rate of each kind of worker, and the rank correlation with accuracy."""
    past, now = simulate(tasks, seed=seed), simulate(tasks, seed=seed + 1)
    rates = {"Troth": np.array(list(pay(past, now).values())), **current_practice(now)}
    if find_spec("crowdkit"):
        rates |= crowd_kit_rates(now)
    honest = now.kind == 0
    rows = []
    for name, rate in rates.items():
        by_kind = [float(rate[now.kind == kind].mean()) for kind in range(4)]
        rows.append((name, by_kind, float(spearmanr(rate[honest], now.accuracy[honest]).statistic)))
    return rows


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="What each method pays each kind of worker.")
    parser.add_argument("--tasks", type=int, default=3000)
    arguments = parser.parse_args()
    print(f"{'pay':<30}" + "".join(f"{kind:>18}" for kind in KINDS) + f"{'rank correlation':>18}")
    for name, by_kind, correlation in table(arguments.tasks):
        print(f"{name:<30}" + "".join(f"{rate:>18.3f}" for rate in by_kind) + f"{correlation:>18.3f}")


if __name__ == "__main__":
    main()
