"""What is proved about a campaign of many small tasks."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from troth.certificates.claims import Certificate
from troth.certificates.in_the_limit import in_the_limit
from troth.certificates.task_losses import least_loss
from troth.core.claims import STRENGTH, Claim
from troth.mechanisms.task_lines import labels_of

if TYPE_CHECKING:
    from troth.core.claims import Premise
    from troth.mechanisms import Rule
    from troth.mechanisms.tasks import Tasks

_KINDS = 20  # of tasks, for which a rule is asked what it promises


def certify_tasks(tasks: Tasks, rule: Rule, *, guessed: bool = False) -> Certificate:
    """Say what is proved about tasks with these likelihoods; ``guessed`` ones were read off the paid reports."""
    truthful, base = promises(tasks, rule)
    bounded = Claim(
        "bounded",
        "proved",
        "each task pays between 0 and the price, whatever is answered",
        "by construction",
        rests_on="nothing",
    )
    strict = in_the_limit(_strict(tasks, rule), tasks.likelihoods, draws=rule.needs_seed)
    return Certificate((truthful, bounded, base, _from_elsewhere(guessed), strict))


def promises(tasks: Tasks, rule: Rule) -> tuple[Claim, Claim]:
    """Claim that the true answers are the best ones, and that an answer that says nothing earns the base share."""
    on_each = _truthful_on_each(tasks, rule)
    if on_each.margin == 0.0:
        text = (
            "no answers to all tasks together have a higher expected payment than the true ones: tasks are independent "
            "under the model, a payment is a sum over tasks, and the rule is truthful on each"
        )
        most = "at most the base share"
    else:
        text = f"on a task: {on_each.text}; a payment is a sum over tasks, which are independent under the model"
        most = "at most the base share, and what a lie may gain,"
    base = (
        f"an answer that says nothing about the task beyond what everybody knows earns {most} on average, and one "
        "without a peer exactly the base share"
    )
    nothing: tuple[str, Premise] = ("exchangeability", "draws") if rule.truthful_by else (on_each.basis, "model")
    claims = (
        replace(on_each, text=text),
        Claim("base share", on_each.verdict, base, nothing[0], rests_on=nothing[1]),
    )
    truthful, lazy = (in_the_limit(claim, tasks.likelihoods, draws=rule.needs_seed) for claim in claims)
    return truthful, lazy


def _truthful_on_each(tasks: Tasks, rule: Rule) -> Claim:
    """Return what the rule says of itself on some kinds of tasks, the weakest of it."""
    if rule.truthful_by:
        return Claim("truthful", "proved", "", rule.truthful_by, 0.0)
    rows = int(tasks.likelihoods[0].reduction.rows(tasks.summaries).max())
    claims = []
    for places, _, _ in islice(tasks.stacks(), _KINDS):
        models = [tasks.likelihoods[number] for number in tasks.likelihood_of[tasks.provider[places[0]]]]
        claims.append(rule.truthful(models, [rows] * len(models)))
    return min(claims, key=lambda claim: (STRENGTH[claim.verdict], -(claim.margin or 0.0)))


def _from_elsewhere(guessed: bool) -> Claim:
    if guessed:
        text = (
            "the terms say that prior and noise were guessed from the reports that are paid ([model] guessed): these "
            "decide on what pays them; write what was known before, and remove that line"
        )
        return Claim("likelihoods from other tasks", "undecided", text, "by the terms")
    text = (
        "the likelihoods are in the terms, which the ledger fixes before any report: no report that is paid enters "
        "them, unless whoever wrote the terms had seen it"
    )
    return Claim("likelihoods from other tasks", "proved", text, "by construction", rests_on="nothing")


def _strict(tasks: Tasks, rule: Rule) -> Claim:
    if labels_of(tasks) is None or rule.needs_seed:
        return Claim(
            "wrong labels cost",
            "undecided",
            "losses are enumerated for labels of classes alone; an audit simulates lies about values",
            "enumeration",
        )
    loss, kinds = least_loss(tasks, rule)
    if not kinds:
        return Claim("wrong labels cost", "undecided", "no task has few enough answers to enumerate", "enumeration")
    text = (
        f"on each of {kinds} kinds of tasks that were tried, every wrong label loses at least {loss:.3g} of the price"
    )
    if loss > 1e-9:
        return Claim("wrong labels cost", "proved", text, "enumeration", loss)
    free = f"on one of {kinds} kinds of tasks that were tried a wrong label is free: two labels say the same to peers"
    return Claim("wrong labels cost", "refuted", free, "enumeration", loss)
