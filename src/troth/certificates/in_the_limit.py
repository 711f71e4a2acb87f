"""Claims under a model whose evidence or draws are exact only in a limit: they are proved only there."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from troth.core.contract import one_each
from troth.core.declarations import declared

if TYPE_CHECKING:
    from troth.core.claims import Claim, Premise
    from troth.core.contract import Models

_BEYOND = "troth audit measures what lies gain outside that limit"


def limit_of(models: Models, premise: Premise = "model", *, draws: bool) -> str:
    """Return the limit in which models are exact, as far as a claim that rests on ``premise`` needs them, in words.

    It is empty if they are exact. ``draws`` says whether the rule draws peers from them.

    Examples
    --------
    >>> import troth
    >>> model = troth.models.LogisticRegression(mean=[0], precision=1)
    >>> limit_of(model, draws=True)
    'many rows with coefficients near the public point'
    >>> limit_of(model.with_features([[1.0]]), "draws", draws=True)
    ''
    """
    each = [declared(one) for one in one_each(models)]
    evidence = [one.evidence_limit for one in each if premise == "model"]
    limits = dict.fromkeys([*evidence, *(one.draws_limit for one in each if draws)])
    return ", and of ".join(words for words in limits if words)


def in_the_limit(claim: Claim, models: Models, *, draws: bool) -> Claim:
    """Leave a claim undecided that is proved only in the limit in which evidence or draws of the models are exact."""
    if claim.verdict != "proved" or claim.rests_on == "nothing":
        return claim
    limit = limit_of(models, claim.rests_on, draws=draws)
    if not limit:
        return claim
    decoys = ", from which peers are drawn" if claim.rests_on == "draws" else ""
    measured = dict.fromkeys(declared(one).limit_measured for one in one_each(models))
    beyond = "; ".join([_BEYOND, *(f"see also {where}" for where in measured if where)])
    text = f"proved in the limit of {limit}{decoys}: {claim.text}; {beyond}"
    return replace(claim, verdict="undecided", text=text, limit=limit)
