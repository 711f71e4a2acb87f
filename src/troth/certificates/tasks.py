"""Claims about a campaign of many small tasks, including the exact cost of a wrong label on a task."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from troth.certificates.claims import Certificate
from troth.core.claims import Claim
from troth.core.errors import MissingCapabilityError, ReportError
from troth.core.posterior import posterior
from troth.mechanisms.round import empty_round
from troth.mechanisms.task_labels import MAX_OUTCOMES, labels_of
from troth.mechanisms.tasks import Tasks, count_peers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from troth.core.contract import Array
    from troth.mechanisms import Rule

_MAX_KINDS = 40  # kinds of tasks on which losses are computed


def certify_tasks(tasks: Tasks, rule: Rule, *, guessed: bool = False) -> Certificate:
    """Return claims about tasks; ``guessed`` says whether their likelihoods were guessed from the paid reports."""
    truthful, empty = promises(tasks, rule)
    text = "each task pays between 0 and the price, for any answers"
    bounded = Claim("bounded", "proved", text, "by construction", rests_on="nothing")
    strict = _strict(tasks, rule).in_the_limit(tasks.likelihoods, draws=rule.needs_seed)
    return Certificate((truthful, bounded, empty, _claim_about_likelihoods(guessed), strict))


def promises(tasks: Tasks, rule: Rule) -> tuple[Claim, Claim]:
    """Return the claims that true answers are best, and that uninformed answers earn at most the empty share."""
    truthful = _truthful(tasks, rule)
    empty = _uninformed(tasks, rule, exact=truthful.verdict == "proved" and not truthful.margin)
    likelihoods, draws = tasks.likelihoods, rule.needs_seed
    return truthful.in_the_limit(likelihoods, draws=draws), empty.in_the_limit(likelihoods, draws=draws)


def _truthful(tasks: Tasks, rule: Rule) -> Claim:
    """Return the claim for all tasks from the claim for each: a mean gains no more than its largest term."""
    together = "tasks are independent under the model, and a payment is a sum over tasks"
    if rule.truthful_by:
        text = f"no set of answers has a higher expected payment than the true answers: {together}"
        return Claim("truthful", "proved", f"{text}; the rule is truthful on each", rule.truthful_by, 0.0)
    if tasks.known is not None:
        text = f"the proofs about {rule.name} depend on a range, and public data about tasks change it"
        return Claim("truthful", "undecided", text, "")
    max_rows = int(tasks.likelihoods[0].reduction.rows(tasks.summaries).max(initial=1))
    models = [tasks.likelihoods[number] for number in tasks.likelihood_of]
    claim = rule.truthful(models, [max_rows] * len(models))
    return replace(claim, text=f"on each task {claim.text}; {together}")


def _uninformed(tasks: Tasks, rule: Rule, exact: bool) -> Claim:
    name = "uninformed answers earn at most the empty share"
    if rule.needs_seed and not rule.constant_empty_share:
        return Claim(name, "undecided", f"{rule.name} draws what it pays for an uninformative answer", "")
    if not rule.constant_empty_share:
        alone = float(rule.evaluate_empty(empty_round(tasks.likelihoods[0], 1))[0])
        text = (
            f"what {rule.name} pays for an uninformative answer depends on how many others work on the task: without "
            f"a peer it is {alone:.3g} of the price, so it pays to make up tasks that nobody else works on"
        )
        return Claim(name, "refuted", text, "definition", alone, witness="a task with one answer", rests_on="nothing")
    if not exact:
        text = "a made-up answer may earn more than the empty share, by as much as a lie may gain"
        return Claim(name, "undecided", text, "")
    text = (
        "an answer that adds nothing to what is public about the task earns at most the empty share on average, and "
        "an answer without a peer exactly that"
    )
    basis = "exchangeability" if rule.fixed_empty_share is not None else "truthfulness"
    return Claim(name, "proved", text, basis, rests_on="draws")


def _claim_about_likelihoods(guessed: bool) -> Claim:
    if guessed:
        text = (
            "the terms say that prior and noise were guessed from the reports that are paid ([model] guessed), so "
            "they influence their own pay; write what you knew before, and remove that line"
        )
        return Claim("likelihoods from other tasks", "undecided", text, "by the terms")
    text = (
        "the likelihoods are in the terms, which the ledger fixes before any report: no paid report influences them, "
        "unless the author of the terms had seen it"
    )
    return Claim("likelihoods from other tasks", "proved", text, "by construction", rests_on="nothing")


def _strict(tasks: Tasks, rule: Rule) -> Claim:
    claim = partial(Claim, "wrong labels cost", basis="enumeration")
    if labels_of(tasks) is None or rule.needs_seed:
        text = "losses are enumerated only for labels of classes; an audit simulates lies about values"
        return claim(verdict="undecided", text=text)
    try:
        loss, kinds, labels = _min_loss(tasks, rule)
    except ReportError as error:
        return claim(verdict="undecided", text=f"some answers stop the round: {error.problem}")
    if not kinds:
        return claim(verdict="undecided", text="no task has few enough answers to enumerate")
    tried = f"{kinds} kinds of tasks that were tried"
    if loss > 1e-9:
        text = f"on each of {tried}, every wrong label loses at least {loss:.3g} of the price"
        return claim(verdict="proved", text=text, margin=loss)
    text = f"on one of {tried} a wrong label is free: two labels say the same about peers"
    return claim(verdict="refuted", text=text, margin=loss, witness=labels)


def expected_shares(rule: Rule, own: Any, peers: Sequence[Any]) -> Array:
    """Return E[share | true label, reported label] of a provider on a task with its peers, exactly, ``(label, label)``.

    The models must be of labels with finitely many classes, in a shared space of statistics.

    Examples
    --------
    >>> import troth
    >>> good, poor = (troth.models.Finite([0.5, 0.5], [[p, 1 - p], [1 - p, p]]) for p in (0.9, 0.6))
    >>> expected_shares(troth.LineUp(decoys=float("inf")), good, [good, poor]).round(3)
    array([[0.326, 0.074],
           [0.074, 0.326]])
    """
    size, count = own.reduction.labels, len(peers)
    answers = np.array(list(product(range(size), repeat=count)))
    answers_by_task = np.concatenate(
        [np.repeat(np.arange(size), len(answers))[:, None], np.tile(answers, (size, 1))], axis=1
    )
    task, worker = np.divmod(np.arange(answers_by_task.size), count + 1)
    workers = np.arange(count + 1)
    tasks = Tasks(task, worker, np.eye(size)[answers_by_task.ravel()], (own, *peers), workers, workers)
    share = rule.evaluate_tasks(tasks).share.reshape(size, len(answers), count + 1)[:, :, 0]
    labels = labels_of(tasks)
    if labels is None:
        raise MissingCapabilityError("losses are enumerated for labels with finitely many classes")
    joint = labels.tables[0].T * labels.prior
    joint = joint / joint.sum(axis=1, keepdims=True)
    chance = joint @ np.prod([table[:, answers[:, peer]] for peer, table in enumerate(labels.tables[1:])], axis=0)
    return np.asarray(chance @ share.T)


def _min_loss(tasks: Tasks, rule: Rule) -> tuple[float, int, tuple[int, int]]:
    """Return the exact minimum cost of a wrong label over a sample of tasks, with the sample size and the labels.

    The labels are the true one and the reported one.
    """
    size = tasks.summaries.shape[1]
    group, likelihood = tasks.group[tasks.provider], tasks.likelihood_of[tasks.provider]
    count = count_peers(tasks)
    candidates = np.flatnonzero((count > 0) & (size ** (count + 1.0) <= MAX_OUTCOMES))
    min_loss, cheapest = np.inf, (0, 0)
    sample = np.random.default_rng(0).permutation(candidates)[:_MAX_KINDS]
    for report in sample:
        on_task = np.arange(*np.searchsorted(tasks.task, tasks.task[report] + np.arange(2)))
        peers = on_task[group[on_task] != group[report]]
        models: Any = [tasks.likelihoods[number] for number in likelihood[[report, *peers]]]
        if tasks.known is not None:
            models = posterior(models, tasks.known[tasks.task[report]])
        own, *others = models
        expected = expected_shares(rule, own, others)
        loss = np.diag(expected)[:, None] - expected + np.where(np.eye(size, dtype=bool), np.inf, 0.0)
        if loss.min() < min_loss:
            min_loss, (true, reported) = float(loss.min()), np.unravel_index(int(loss.argmin()), loss.shape)
            cheapest = int(true), int(reported)
    return min_loss, len(sample), cheapest
