"""A claim about a campaign: whether it is proved, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

Verdict: TypeAlias = Literal["proved", "refuted", "undecided"]

Premise: TypeAlias = Literal["nothing", "model", "draws"]

STRENGTH: dict[Verdict, int] = {"refuted": 0, "undecided": 1, "proved": 2}
"""Verdicts from the weakest to the strongest."""


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
    least_rows
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
    least_rows: int | None = None
    rests_on: Premise = "model"
    limit: str = ""
