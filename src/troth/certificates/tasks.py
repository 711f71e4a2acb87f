"""What is proved about a campaign of many small tasks."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from troth.certificates.claims import Certificate
from troth.certificates.in_the_limit import in_the_limit
from troth.certificates.task_losses import least_loss
from troth.core.claims import Claim
from troth.core.errors import ReportError
from troth.mechanisms.round import empty_round
from troth.mechanisms.task_lines import labels_of

if TYPE_CHECKING:
    from troth.mechanisms import Rule
    from troth.mechanisms.tasks import Tasks


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
    truthful = _truthful(tasks, rule)
    base = _base(tasks, rule, exactly=truthful.verdict == "proved" and not truthful.margin)
    likelihoods, draws = tasks.likelihoods, rule.needs_seed
    return in_the_limit(truthful, likelihoods, draws=draws), in_the_limit(base, likelihoods, draws=draws)


def _truthful(tasks: Tasks, rule: Rule) -> Claim:
    """Claim for all tasks what holds on each: a mean over tasks gains no more than its largest term."""
    together = "tasks are independent under the model, and a payment is a sum over tasks"
    if rule.truthful_by:
        text = f"no answers to all tasks together have a higher expected payment than the true ones: {together}"
        return Claim("truthful", "proved", f"{text}; the rule is truthful on each", rule.truthful_by, 0.0)
    if tasks.known is not None:
        text = f"what is proved about {rule.name} depends on a range, which what is known about tasks changes"
        return Claim("truthful", "undecided", text, "")
    most = int(tasks.likelihoods[0].reduction.rows(tasks.summaries).max(initial=1))
    models = [tasks.likelihoods[number] for number in tasks.likelihood_of]
    claim = rule.truthful(models, [most] * len(models))
    return replace(claim, text=f"on each task {claim.text}; {together}")


def _base(tasks: Tasks, rule: Rule, exactly: bool) -> Claim:
    name, basis = "base share", "exchangeability" if rule.fixed_empty_share is not None else "truthfulness"
    if not rule.constant_empty_share:
        alone = float(rule.evaluate_empty(empty_round(tasks.likelihoods[0], 1))[0])
        text = (
            f"what {rule.name} pays an answer that says nothing depends on how many others work on the task: without a "
            f"peer {alone:.3g} of the price, so tasks that nobody else works on pay whoever makes them up"
        )
        return Claim(name, "refuted", text, "definition", alone, witness="a task with one answer", rests_on="nothing")
    if not exactly:
        text = "a made-up answer may earn more than the base share, by as much as a lie may gain"
        return Claim(name, "undecided", text, "")
    text = (
        "an answer that says nothing about the task beyond what everybody knows earns at most the base share on "
        "average, and one without a peer exactly that"
    )
    return Claim(name, "proved", text, basis, rests_on="draws")


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
    try:
        loss, kinds, labels = least_loss(tasks, rule)
    except ReportError as error:
        return Claim("wrong labels cost", "undecided", f"some answers stop the round: {error.problem}", "enumeration")
    if not kinds:
        return Claim("wrong labels cost", "undecided", "no task has few enough answers to enumerate", "enumeration")
    text = (
        f"on each of {kinds} kinds of tasks that were tried, every wrong label loses at least {loss:.3g} of the price"
    )
    if loss > 1e-9:
        return Claim("wrong labels cost", "proved", text, "enumeration", loss)
    free = f"on one of {kinds} kinds of tasks that were tried a wrong label is free: two labels say the same to peers"
    return Claim("wrong labels cost", "refuted", free, "enumeration", loss, witness=labels)
