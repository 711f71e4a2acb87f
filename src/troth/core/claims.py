"""Claims about a campaign: what is proved, and why."""

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

_OUTSIDE_LIMIT = "troth audit measures what lies gain outside that limit"


@dataclass(frozen=True)
class Claim:
    """One statement about a campaign.

    Attributes
    ----------
    name
        A short name, such as ``"truthful"``.
    verdict
        ``"proved"``, ``"refuted"`` or ``"undecided"``.
    text
        The statement and its assumptions.
    basis
        The theorem or erratum behind it.
    margin
        The distance from failure, or the possible loss, in the unit given in the text.
    witness
        A counterexample.
    min_rows
        The number of rows that every provider must report for the claim to hold; None if it does not depend on rows.
    rests_on
        What the proof assumes: nothing about the data; the model (its evidence, and its draws if the rule draws); or
        only that the model's draws have the distribution of the data.
    limit
        The limit in which the claim is proved, such as ``"many rows"``; empty for every other claim.
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
        """Return the claim, undecided if its proof holds only in the limit in which the models are exact."""
        limit = limit_of(models, self.rests_on, draws=draws) if self.verdict == "proved" else ""
        if not limit:
            return self
        decoys = ", from which peers are drawn" if self.rests_on == "draws" else ""
        pages = dict.fromkeys(declared(model).limit_measured for model in one_each(models))
        measurements = "; ".join([_OUTSIDE_LIMIT, *(f"see also {page}" for page in pages if page)])
        text = f"proved in the limit of {limit}{decoys}: {self.text}; {measurements}"
        return replace(self, verdict="undecided", text=text, limit=limit)


def limit_of(models: Models, premise: Premise = "model", *, draws: bool) -> str:
    """Describe the limit in which models are exact, as far as a claim that rests on ``premise`` needs it.

    Empty if they are always exact. ``draws`` says whether the rule draws peers from the models.

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
    return ", and of ".join(limit for limit in limits if limit)
