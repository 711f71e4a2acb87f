"""A simulated crowd: who earns what, and what each kind of lie loses under what people do today.

A fifth of the workers answer at random, a tenth always the most frequent label, a twentieth copy one public guess, and
the rest are honest each with its own accuracy. Confusion matrices are learnt from past tasks on which
everybody behaved the same. The docs show ``--tasks 10000``. For crowd-kit: ``pip install attrs tqdm nltk``, then ``pip
install --no-deps crowd-kit``.
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
    """Labels ``(report,)``, who gave them on which task, the classes, the guess, kinds and accuracies of workers."""

    task: NDArray[np.intp]
    worker: NDArray[np.intp]
    label: NDArray[np.intp]
    truth: NDArray[np.intp]
    guess: NDArray[np.intp]
    kind: NDArray[np.intp]
    accuracy: NDArray[np.float64]


def simulate(tasks: int, workers: int = 200, each: int = 4, seed: int = 0, people: int = 0) -> Crowd:
    """Draw a crowd; the same ``people`` have the same kinds and accuracies."""
    who = np.random.default_rng(people)
    kind = who.permutation(np.repeat(np.arange(4), np.round(np.array(SHARES) * workers).astype(int)))
    accuracy = who.uniform(0.55, 0.95, size=workers)
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
    """Pay the crowd by the past's confusion matrices, the guess being public; return shares by worker."""
    names = [f"w{w:03d}" for w in range(len(now.kind))]
    everybody = [*names, "public data"]
    task = np.append(past.task, np.arange(len(past.guess)))
    worker = np.append(past.worker, np.full(len(past.guess), len(names)))
    labels = np.eye(3)[np.append(past.label, past.guess)]
    learned = fit_workers(task, worker, labels, everybody)
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


def today(now: Crowd, gold_every: int = 10) -> dict[str, NDArray[np.float64]]:
    """Return what people do today, as a rate for each worker: agreement, gold questions, Dawid and Skene's accuracy."""
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


def of_crowd_kit(now: Crowd) -> dict[str, NDArray[np.float64]]:
    """Return what crowd-kit says of each worker: agreement with the weighted vote, and Dawid and Skene's accuracy."""
    import pandas as pd
    from crowdkit.aggregation.classification.dawid_skene import DawidSkene  # type: ignore[import-not-found]
    from crowdkit.aggregation.classification.wawa import Wawa  # type: ignore[import-not-found]

    table = pd.DataFrame({"task": now.task, "worker": now.worker, "label": now.label})
    skills = Wawa().fit(table).skills_.sort_index()
    fitted = DawidSkene(n_iter=50).fit(table)
    index = pd.MultiIndex.from_product([range(len(now.kind)), range(3)])  # not everybody gave every label
    errors = fitted.errors_.reindex(index=index, columns=range(3), fill_value=0.0).to_numpy().reshape(-1, 3, 3)
    right = np.einsum("wkk,k->w", errors, fitted.priors_.sort_index().to_numpy())
    return {"crowd-kit: Wawa": skills.to_numpy(), "crowd-kit: Dawid–Skene": right}


def _mean(worker: Any, entries: Any, where: Any) -> NDArray[np.float64]:
    sizes = np.maximum(np.bincount(worker[where]), 1)
    return np.asarray(np.bincount(worker[where], entries[where].astype(float)) / sizes)


def table(tasks: int = 3000, seed: int = 1) -> list[tuple[str, list[float], float]]:
    """Return for each way to pay the mean rate of each kind of worker, and the rank correlation with accuracy."""
    past, now = simulate(tasks, seed=seed), simulate(tasks, seed=seed + 1)
    rates = {"Troth": np.array(list(pay(past, now).values())), **today(now)}
    if find_spec("crowdkit"):
        rates |= of_crowd_kit(now)
    honest = now.kind == 0
    rows = []
    for name, rate in rates.items():
        by_kind = [float(rate[now.kind == kind].mean()) for kind in range(4)]
        rows.append((name, by_kind, float(spearmanr(rate[honest], now.accuracy[honest]).statistic)))
    return rows


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="What each kind of worker is paid, by the way of paying.")
    parser.add_argument("--tasks", type=int, default=3000)
    arguments = parser.parse_args()
    print(f"{'pay':<30}" + "".join(f"{kind:>18}" for kind in KINDS) + f"{'rank correlation':>18}")
    for name, by_kind, correlation in table(arguments.tasks):
        print(f"{name:<30}" + "".join(f"{rate:>18.3f}" for rate in by_kind) + f"{correlation:>18.3f}")


if __name__ == "__main__":
    main()
