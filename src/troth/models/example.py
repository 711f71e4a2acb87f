"""The campaign that shows a family at work."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Example:
    """What a family's example campaign is about; its hyper-parameters are declared with the fields.

    Attributes
    ----------
    story
        What is to be learned.
    columns, target
        The columns that the model reads, and the one that a regression explains.
    provider
        What a provider is called.
    labels
        What codes 0, 1, … are called in the data.
    values
        The least and the greatest value of a row, for rules that need them.
    seed
        Of the rows. Some seed draws rows that look as if the model were wrong, which an example should not show first.
    """

    story: str = "what several providers measure"
    columns: tuple[str, ...] = ("value",)
    provider: str = "provider"
    target: str | None = None
    labels: tuple[str, ...] | None = None
    values: tuple[float, float] | None = None
    seed: int = 20201206
