"""Frequencies of labels under the model: tails are those of the exact distribution, and alarms as rare as they say."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import troth
from registry import SOAK
from troth.audits import label_frequencies as frequencies
from troth.audits.label_frequencies import label_frequencies
from troth.audits.task_fit import check_task_fit
from troth.audits.tasks import draw_world
from troth.mechanisms.task_labels import labels_of
from troth.mechanisms.tasks import Tasks

if TYPE_CHECKING:
    from troth.core.contract import Array

RULE = troth.LineUp(decoys=float("inf"), rivals=4, strict=0.1)


def world(count: int, prior: Any, rights: Any, each: int = 3, known: Array | None = None) -> Any:
    """Return tasks with workers that are right so often, wrong labels being alike, everybody answering 0."""
    size = len(prior)
    likelihoods = tuple(
        troth.models.Finite(prior, [[r if a == b else (1 - r) / (size - 1) for b in range(size)] for a in range(size)])
        for r in rights
    )
    task, place = np.divmod(np.arange(count * each), each)
    workers = np.arange(len(rights) + each)
    provider = (task + place) % len(workers)
    order = np.lexsort((provider, task))
    answers = np.eye(size)[np.zeros(len(task), dtype=int)]
    return Tasks(task, provider[order], answers, likelihoods, workers % len(likelihoods), workers, known)


def exact_counts(tasks: Any, code: int) -> Array:
    """Return the distribution of the number of answers with a label, by convolution over classes and tasks."""
    labels: Any = labels_of(tasks)
    total = np.ones(1)
    for task in range(int(tasks.task[-1]) + 1):
        mixture = np.zeros(int((tasks.task == task).sum()) + 1)
        for state, chance in enumerate(labels.prior):
            counts = np.ones(1)
            for number in tasks.likelihood_of[tasks.provider[tasks.task == task]]:
                rate = labels.tables[number, state, code]
                counts = np.convolve(counts, [1 - rate, rate])
            mixture += chance * counts
        total = np.convolve(total, mixture)
    return total


@pytest.mark.parametrize(
    ("prior", "rights"), [([0.5, 0.5], [0.7]), ([0.9, 0.1], [0.85, 0.6]), ([0.7, 0.27, 0.03], [0.95, 0.8])]
)
def test_tails_are_those_of_the_exact_distribution(prior: Any, rights: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frequencies, "TOLERATED", 0.0)
    tasks = world(20, prior, rights)
    labels: Any = labels_of(tasks)
    for code in range(len(prior)):
        exact = exact_counts(tasks, code)
        for count in range(0, 61, 3):
            answers = np.full(60, (code + 1) % len(prior))
            answers[:count] = code
            given = Tasks(
                tasks.task,
                tasks.provider,
                np.eye(len(prior))[answers],
                tasks.likelihoods,
                tasks.likelihood_of,
                tasks.group,
            )
            p = label_frequencies(given, labels, list(map(str, range(len(prior)))))[code].p_value
            true = min(1.0, 2 * min(exact[count:].sum(), exact[: count + 1].sum()))
            if 1e-9 < true < 0.5:
                assert p == pytest.approx(true, rel=0.15), (code, count)


@pytest.mark.parametrize(("count", "rounds"), [(20, 1000 if SOAK else 50), (300, 300 if SOAK else 25)])
def test_alarms_are_rare_where_the_model_is_right(count: int, rounds: int) -> None:
    tasks = world(count, [0.6, 0.25, 0.15], [0.6, 0.75, 0.9])
    labels: Any = labels_of(tasks)
    rng = np.random.default_rng(1)
    verdicts = [check_task_fit(draw_world(rng, tasks, labels)[0], RULE, ["a", "b", "c"]).verdict for _ in range(rounds)]
    assert verdicts.count("does not fit") <= 2 + rounds / 100
    assert verdicts.count("fits") >= 0.93 * rounds


def test_a_small_difference_is_let_pass_and_a_larger_one_is_not() -> None:
    tasks = world(4000, [0.5, 0.5], [0.8])
    for share, word in ((0.515, "fits"), (0.56, "does not fit")):
        rng = np.random.default_rng(2)
        drawn = world(4000, [share, 1 - share], [0.8])
        labels: Any = labels_of(drawn)
        answers = draw_world(rng, drawn, labels)[0].summaries
        changed_tasks = Tasks(tasks.task, tasks.provider, answers, tasks.likelihoods, tasks.likelihood_of, tasks.group)
        assert check_task_fit(changed_tasks, RULE, ["no", "yes"]).verdict == word


def test_what_everybody_knows_is_expected() -> None:
    known = np.log(np.tile([0.95, 0.05], (50, 1)))
    tasks = world(50, [0.5, 0.5], [0.9], known=known)
    labels: Any = labels_of(tasks)
    first = label_frequencies(tasks, labels, ["no", "yes"])[0]
    assert first.expected == pytest.approx(0.95 * 0.9 + 0.05 * 0.1)
    assert first.p_value > 1e-6
    unknown = Tasks(tasks.task, tasks.provider, tasks.summaries, tasks.likelihoods, tasks.likelihood_of, tasks.group)
    assert label_frequencies(unknown, labels, ["no", "yes"])[0].p_value < 1e-12


def test_sure_laws_are_no_trouble() -> None:
    tasks = world(30, [0.5, 0.5], [1.0])
    labels: Any = labels_of(tasks)
    assert max(finding.p_value for finding in label_frequencies(tasks, labels, ["a", "b"])) < 1e-6
    for answers, low, high in ((tasks.task % 2, 0.5, 1.0), (tasks.task % 5 % 2, 0.05, 1.0), (tasks.provider % 2, 0, 1)):
        changed_tasks = Tasks(
            tasks.task, tasks.provider, np.eye(2)[answers], tasks.likelihoods, tasks.likelihood_of, tasks.group
        )
        assert all(low <= finding.p_value <= high for finding in label_frequencies(changed_tasks, labels, ["a", "b"]))


def test_the_fewer_past_tasks_a_model_was_learnt_from_the_less_a_difference_says() -> None:
    tasks = world(400, [0.5, 0.5], [0.7])
    tasks = replace(tasks, summaries=np.eye(2)[np.arange(len(tasks)) % 9 // 5])  # 5 of 9 are 0, and half is expected
    labels: Any = labels_of(tasks)
    by_past = [
        label_frequencies(tasks, labels, ["a", "b"], past=past)[0].p_value for past in (None, 10**9, 4000, 400, 40)
    ]
    assert by_past[0] == pytest.approx(by_past[1], rel=1e-3)
    assert by_past == sorted(by_past)
    assert by_past[3] > 1.5 * by_past[0]
