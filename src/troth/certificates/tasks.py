"""What is proved about a campaign of many small tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from troth.certificates.claims import Certificate
from troth.certificates.task_losses import least_loss
from troth.core.claims import Claim
from troth.mechanisms.task_lines import labels_of

if TYPE_CHECKING:
    from troth.mechanisms import Rule
    from troth.mechanisms.tasks import Tasks


def certify_tasks(tasks: Tasks, rule: Rule, *, guessed: bool = False) -> Certificate:
    """Say what is proved about tasks with these likelihoods; ``guessed`` ones were read off the paid reports."""
    base = (
        "an answer that says nothing about the task beyond what everybody knows earns at most the base share on "
        "average, and one without a peer exactly that"
    )
    claims = [
        Claim(
            "truthful",
            "proved",
            "no answers to all tasks together have a higher expected payment than the true ones: tasks are independent "
            "under the model, a payment is a sum over tasks, and the rule is truthful on each",
            rule.truthful_by,
            0.0,
        ),
        Claim("bounded", "proved", "each task pays between 0 and the price, whatever is answered", "by construction"),
        Claim("base share", "proved", base, "exchangeability"),
        _from_elsewhere(guessed),
        _strict(tasks, rule),
    ]
    return Certificate(tuple(claims))


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
    return Claim("likelihoods from other tasks", "proved", text, "by construction")


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
