"""A claim about a campaign: whether it is proved, and why."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from troth.core.declarations import declared
from troth.core.provider_models import one_each

if TYPE_CHECKING:
    from troth.core.contract import Models

Verdict: TypeAlias = Literal["proved", "refuted", "undecided"]

Premise: TypeAlias = Literal["nothing", "model", "draws"]

STRENGTH: dict[Verdict, int] = {"refuted": 0, "undecided": 1, "proved": 2}
"""Verdicts from the weakest to the strongest."""

_BEYOND = "troth audit measures what lies gain outside that limit"


@dataclass(frozen=True)
class Claim:
    """One statement about a campaign.

    Attributes
    ----------
    name
        Such as ``"truthful"``.
    verdict
        ``"proved"``, ``"refuted"`` or ``"undecided"``.
    text
        The statement in words, with what it assumes.
    basis
        The theorem or erratum that it rests on.
    margin
        How far from failing, or how much can be lost, in the unit that the text names.
    witness
        An example that refutes it.
    min_rows
        The number of rows that every provider must report for it to hold; None if it does not depend on rows.
    rests_on
        What a proof assumes: nothing about the data; the model, that is its evidence, and its draws if the rule draws;
        or only that draws of the model have the distribution of the data.
    limit
        The limit in which it is proved, in words, such as ``"many rows"``; empty for every other claim.
    """

    name: str
    verdict: Verdict
    text: str
    basis: str
    margin: float | None = None
    witness: Any = None
    min_rows: int | None = None
    rests_on: Premise = "model"
    limit: str = ""

    def in_the_limit(self, models: Models, *, draws: bool) -> Claim:
        """Leave it undecided if it is proved only in the limit in which evidence or draws of the models are exact."""
        if self.verdict != "proved" or not (limit := limit_of(models, self.rests_on, draws=draws)):
            return self
        decoys = ", from which peers are drawn" if self.rests_on == "draws" else ""
        measured = dict.fromkeys(declared(model).limit_measured for model in one_each(models))
        beyond = "; ".join([_BEYOND, *(f"see also {page}" for page in measured if page)])
        text = f"proved in the limit of {limit}{decoys}: {self.text}; {beyond}"
        return replace(self, verdict="undecided", text=text, limit=limit)


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
    >>> candidates = troth.models.LogisticCandidates([[0.0], [1.0]])
    >>> limit_of(candidates, draws=True), limit_of(candidates, draws=False)
    ('many rows', '')
    """
    declarations = [declared(model) for model in one_each(models)] if premise != "nothing" else []
    evidence = [declaration.evidence_limit for declaration in declarations if premise == "model"]
    limits = dict.fromkeys([*evidence, *(declaration.draws_limit for declaration in declarations if draws)])
    return ", and of ".join(words for words in limits if words)
