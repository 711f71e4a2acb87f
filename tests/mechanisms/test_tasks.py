"""Many tasks settled together: exactly truthful, equal to task by task, and fair to a worker without peers."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from troth import LineUp, models
from troth.core.errors import ReportError, TrothError
from troth.mechanisms import task_lines
from troth.mechanisms.tasks import Tasks, count_peers, share_by_stacks

if TYPE_CHECKING:
    from troth.core.contract import Array

RULE = LineUp(decoys=inf, strict=0.1)


def confusion_matrices(rng: np.random.Generator, count: int, classes: int, labels: int, noise: float = 0.6) -> Array:
    """Draw confusion matrices that differ from worker to worker."""
    table = (1 - noise) * np.eye(classes, labels) + noise * rng.dirichlet(np.ones(labels), (count, classes))
    return np.asarray(table / table.sum(axis=-1, keepdims=True))


def tasks_of(prior: Any, tables: Array, labels: Any, **options: Any) -> Tasks:
    """Return tasks with labels ``(task, worker)``; −1 is no answer."""
    task, worker = np.nonzero(labels >= 0)
    finite = tuple(models.Finite(list(prior), table.tolist()) for table in tables)
    summaries = np.eye(tables.shape[-1])[labels[task, worker]]
    places = np.arange(len(tables))
    return Tasks(task, worker, summaries, finite, places, options.pop("group", places), **options)


@pytest.mark.parametrize(("classes", "labels"), [(2, 2), (3, 3), (2, 3)])
@pytest.mark.parametrize(("workers", "count"), [(2, 1), (2, 2), (2, 3), (3, 1), (3, 2), (4, 1)])
@pytest.mark.parametrize("strict", [0.0, 0.1, 1.0])
def test_no_answers_to_any_number_of_tasks_pay_more_than_the_true_ones(
    classes: int, labels: int, workers: int, count: int, strict: float
) -> None:
    rng = np.random.default_rng(classes * 100 + labels * 10 + workers)
    prior, tables = rng.dirichlet(np.full(classes, 3.0)), confusion_matrices(rng, workers, classes, labels)
    own = np.array(list(product(range(labels), repeat=count)))
    peers = np.array(list(product(range(labels), repeat=count * (workers - 1)))).reshape(-1, count, workers - 1)
    combinations = np.concatenate(
        [np.repeat(own, len(peers), axis=0)[:, :, None], np.tile(peers, (len(own), 1, 1))], axis=2
    ).reshape(-1, workers)
    rule = replace(RULE, strict=strict)
    shares = rule.evaluate_tasks(tasks_of(prior, tables, combinations)).share.reshape(-1, workers)[:, 0]
    paid = shares.reshape(len(own), len(peers), count).sum(axis=2)

    alone = tables[0].T * prior  # p(label, class)
    alone /= alone.sum(axis=1, keepdims=True)
    others = np.prod([tables[j][:, peers[:, :, j - 1]] for j in range(1, workers)], axis=0)  # (class, peers, task)
    chance = np.einsum("dtc,cpt->dpt", alone[own], others).prod(axis=2)  # p(peers | true labels)
    expected = chance @ paid.T  # [true labels, reported labels]
    truth = np.diag(expected)
    assert chance.sum(axis=1) == pytest.approx(1.0, abs=1e-12)
    assert (expected - truth[:, None]).max() <= 1e-12
    assert (truth >= count / 5 - 1e-12).all()
    if strict:
        other = ~np.eye(len(own), dtype=bool)
        assert (truth[:, None] - expected)[other].min() > 1e-6


@pytest.mark.parametrize("strict", [0.0, 0.1, 1.0])
def test_a_worker_gains_nothing_by_shaping_its_confusion_matrix(strict: float) -> None:
    """The matrix only orders the line, and no order pays more than the correct one, for any answers."""
    rng, rule = np.random.default_rng(5), replace(RULE, strict=strict)
    for classes in (2, 3, 3, 3):
        prior, tables = rng.dirichlet(np.full(classes, 3.0)), confusion_matrices(rng, 3, classes, classes)
        combinations = np.array(list(product(range(classes), repeat=3)))
        given = tables[0].T * prior
        given /= given.sum(axis=1, keepdims=True)
        peers = combinations[: classes**2, 1:]
        chance = given @ (tables[1][:, peers[:, 0]] * tables[2][:, peers[:, 1]])  # p(peers | true label)

        def expected(own: Array) -> Array:
            paid_by = tasks_of(prior, np.stack([own, *tables[1:]]), combinations)  # noqa: B023
            shares = rule.evaluate_tasks(paid_by).share.reshape(classes, -1, 3)[:, :, 0]  # noqa: B023
            return np.asarray(chance @ shares.T)  # noqa: B023

        best = np.diag(expected(tables[0]))
        assert best == pytest.approx(expected(tables[0]).max(axis=1), abs=1e-12)
        shaped = confusion_matrices(rng, 10, classes, classes, noise=1.0)
        assert max((expected(own).max(axis=1) - best).max() for own in shaped) <= 1e-12


@pytest.mark.parametrize("strict", [0.0, 0.3])
def test_shares_are_those_of_a_line_up_for_each_task(strict: float) -> None:
    rng = np.random.default_rng(3)
    tables = confusion_matrices(rng, 6, 3, 4)
    labels = np.where(rng.random((15, 6)) < 0.5, rng.integers(4, size=(15, 6)), -1)
    log_likelihoods = np.log(tables[0].T)[rng.integers(4, size=15)]
    tasks = tasks_of([0.5, 0.3, 0.2], tables, labels, known=log_likelihoods, group=np.array([0, 0, 1, 2, 3, 4]))
    rule = LineUp(decoys=inf, strict=strict)
    together, one_by_one = rule.evaluate_tasks(tasks), share_by_stacks(rule, tasks, None)
    assert together.share == pytest.approx(one_by_one.share, abs=1e-9)
    assert together.log_pmi == pytest.approx(one_by_one.log_pmi, abs=1e-9)
    assert (together.peers == one_by_one.peers).all()
    assert together.share[together.peers == 0] == pytest.approx(0.2)
    assert (together.peers == 0).any()


def test_public_data_earn_the_empty_share() -> None:
    """A function of the public guess earns 1/(r + 1) by the order, and less by the strict score."""
    rng = np.random.default_rng(5)
    prior, tables = np.array([0.6, 0.4]), confusion_matrices(rng, 3, 2, 2)
    peers = np.array(list(product(range(2), repeat=2)))
    for guess in range(2):
        log_likelihood = np.log([0.85, 0.15] if guess == 0 else [0.2, 0.8])
        posterior = prior * np.exp(log_likelihood)
        posterior /= posterior.sum()
        chance = np.einsum("c,cp,cp->p", posterior, tables[1][:, peers[:, 0]], tables[2][:, peers[:, 1]])
        for report in range(2):
            labels = np.concatenate([np.full((4, 1), report), peers], axis=1)
            tasks = tasks_of(prior, tables, labels, known=np.tile(log_likelihood, (4, 1)))
            order, score = (
                chance @ replace(RULE, strict=part).evaluate_tasks(tasks).share.reshape(4, 3)[:, 0]
                for part in (0.0, 1.0)
            )
            assert order == pytest.approx(0.2, abs=1e-12)
            assert score < 0.2


def test_a_report_that_cannot_occur_is_refused() -> None:
    tables = np.array([[[1.0, 0.0, 0.0], [0.5, 0.5, 0.0]]] * 2)
    with pytest.raises(ReportError):
        RULE.evaluate_tasks(tasks_of([0.5, 0.5], tables, np.array([[2, 0]])))


def test_peers_that_contradict_each_other_pay_the_empty_share() -> None:
    tables = np.array([[[1.0, 0.0], [0.0, 1.0]]] * 3)
    share = RULE.evaluate_tasks(tasks_of([0.5, 0.5], tables, np.array([[0, 0, 1]]))).share
    assert share[:2] == pytest.approx(0.2)
    assert share[2] < 0.1


def test_many_peers_are_split_into_panels_and_truth_stays_best(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(8)
    prior, tables = np.array([0.5, 0.5]), confusion_matrices(rng, 5, 2, 2)
    monkeypatch.setattr(task_lines, "MAX_OUTCOMES", 4)
    peers = np.array(list(product(range(2), repeat=4)))
    labels = np.array([[own, *rest] for own in range(2) for rest in peers])
    share = RULE.evaluate_tasks(tasks_of(prior, tables, labels)).share.reshape(2, 16, 5)[:, :, 0]
    joint = np.einsum(
        "c,cl,cp->lp", prior, tables[0], np.prod([tables[j + 1][:, peers[:, j]] for j in range(4)], axis=0)
    )
    chance = joint / joint.sum(axis=1, keepdims=True)
    expected = chance @ share.T
    assert (np.diag(expected)[:, None] - expected).min() >= -1e-12


def test_the_cost_of_one_task_is_linear_in_its_reports(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(0)
    tables = confusion_matrices(rng, 400, 2, 2)
    lines: list[int] = []
    scored = task_lines._scores

    def counted(own: Any, *rest: Any) -> Any:
        lines.append(len(own))
        return scored(own, *rest)

    monkeypatch.setattr(task_lines, "_scores", counted)
    shares = RULE.evaluate_tasks(tasks_of([0.5, 0.5], tables, rng.integers(2, size=(1, 400)))).share
    assert sum(lines) == 400 * task_lines.MAX_PANELS
    assert ((shares >= 0) & (shares <= 1)).all()
    related = tasks_of([0.5, 0.5], tables, rng.integers(2, size=(1, 400)), group=np.zeros(400, dtype=np.intp))
    assert RULE.evaluate_tasks(related).share == pytest.approx(0.2)


def test_truth_stays_best_if_a_report_faces_only_some_peers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_lines, "MAX_OUTCOMES", 4)
    monkeypatch.setattr(task_lines, "MAX_PANELS", 1)
    rng = np.random.default_rng(3)
    tables, prior = confusion_matrices(rng, 5, 2, 2), np.array([0.6, 0.4])
    combinations = np.array(list(product(range(2), repeat=5)))
    shares = RULE.evaluate_tasks(tasks_of(prior, tables, combinations)).share.reshape(-1, 5)
    chance = np.prod([tables[j][:, combinations[:, j]] for j in range(5)], axis=0).T @ prior
    for worker in range(5):
        for truth in range(2):
            real = combinations[:, worker] == truth
            lie = np.flatnonzero(real) + (1 - 2 * truth) * (1 << (4 - worker))  # the same peers, the other label
            assert chance[real] @ shares[real, worker] > chance[real] @ shares[lie, worker] + 1e-6


def test_several_labels_of_a_worker_count_together() -> None:
    rng = np.random.default_rng(2)
    tasks = tasks_of([0.5, 0.5], confusion_matrices(rng, 3, 2, 2), rng.integers(2, size=(20, 3)))
    double = replace(tasks, summaries=tasks.summaries * np.where(tasks.provider == 1, 2, 1)[:, None])
    rule = LineUp(decoys=inf)
    assert rule.evaluate_tasks(double).share == pytest.approx(share_by_stacks(rule, double, None).share, abs=1e-9)


def test_other_families_and_rules_settle_tasks_too() -> None:
    rng = np.random.default_rng(4)
    model = models.Normal(0.0, 1.0, noise=0.5)
    task, worker = np.divmod(np.arange(90), 3)
    ratings = rng.normal(size=30)[task] + 0.5 * rng.normal(size=90)
    summaries = np.stack([model.summary([x]) for x in ratings])
    tasks = Tasks(task, worker, summaries, (model,), np.zeros(3, dtype=int), np.arange(3))
    honest = LineUp(decoys=19).evaluate_tasks(tasks, np.random.default_rng(1))
    zero = np.stack([model.summary([0.0])] * 90)
    lazy = LineUp(decoys=19).evaluate_tasks(tasks.with_own(zero), np.random.default_rng(1))
    assert honest.share.mean() > lazy.share.mean() + 0.1


def test_reports_must_be_in_the_order_of_tasks() -> None:
    with pytest.raises(TrothError, match="sorted by task"):
        Tasks(np.array([1, 0]), np.array([0, 1]), np.eye(2), (), np.zeros(2, dtype=int), np.arange(2))


def test_a_report_that_cannot_be_paid_is_named_with_its_task() -> None:
    task, provider = np.repeat(np.arange(4), 2), np.tile([0, 1], 4)
    summaries = np.column_stack([np.ones(8), np.zeros(8)])
    summaries[5, 1] = 1e101
    tasks = Tasks(task, provider, summaries, (models.Normal(0, 1, 1),), np.zeros(2, dtype=np.intp), np.arange(2))
    with pytest.raises(ReportError, match="statistic 1 is") as error:
        LineUp(decoys=9).evaluate_tasks(tasks, np.random.default_rng(1))
    assert error.value.provider == 5


def test_related_workers_are_not_each_others_peers() -> None:
    model = models.Finite([0.5, 0.5], [[0.8, 0.2], [0.2, 0.8]])
    task, worker, group = np.array([0, 0, 0, 1, 1]), np.array([0, 1, 2, 0, 1]), np.array([4, 4, 7])
    tasks = Tasks(task, worker, np.eye(2)[[0] * 5], (model,), np.zeros(3, dtype=int), group)
    assert count_peers(tasks).tolist() == [1, 1, 2, 0, 0]
