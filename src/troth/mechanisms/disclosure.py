"""The numbers behind a share that a provider is shown, and the shares that are possible given these."""

from __future__ import annotations

from dataclasses import replace
from math import isfinite, nextafter
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from troth.mechanisms.breakdown import Figures

if TYPE_CHECKING:
    from troth.mechanisms.description import RuleDescription

F = TypeVar("F", bound=Figures)

_DIGITS, _DIGITS_OF_LOG_PMI = 2, 1
HALF = nextafter(0.5 * 10.0**-_DIGITS, 1.0) * (1 + 1e-9)
"""How far a number that is shown can be from the one that it was rounded from."""

SHOWN_SHARE = 5.1e-5
"""How far a share that is shown with four digits can be from the one that it was rounded from."""


class Span(NamedTuple):
    """From the least to the most that a number can be; an exact one has both the same.

    Examples
    --------
    >>> Span(0.25, 0.5).mix(0.5, Span(1.0, 1.0))
    Span(low=0.625, high=0.75)
    """

    low: float
    high: float

    @property
    def exact(self) -> bool:
        """Whether it can be one number only."""
        return self.low == self.high

    def has(self, value: float, slack: float = SHOWN_SHARE) -> bool:
        """Return whether a number can be this one, up to how shares are rounded."""
        return self.low - slack <= value <= self.high + slack

    def __str__(self) -> str:
        return f"{self.low:.4f}" if self.exact else f"{self.low:.4f} to {self.high:.4f}"

    def mix(self, part: float, other: Span) -> Span:
        """Return what it can be with a part of another number mixed in."""
        ends = ((1 - part) * end + part * end_of_other for end, end_of_other in zip(self, other, strict=True))
        return Span(*ends)

    def within(self, low: float, high: float) -> Span:
        """Return what it can be between two bounds."""
        return Span(*(min(max(end, low), high) for end in self))


def rounded_from(value: float) -> Span:
    """Return what a number can be that is shown rounded."""
    return Span(value - HALF, value + HALF)


def disclosed(rule: RuleDescription, figures: F) -> F:
    """Return figures as their provider sees them: rounded, because more digits reveal others' data.

    From a score with all its digits the peers' data together can often be computed. Places in a line are whole numbers
    and stay what they are; log PMI is shown only if the share is made of it.
    """

    def rounded(value: float | None, digits: int) -> float | None:
        return None if value is None else round(value, digits)

    return replace(
        figures,
        log_pmi=rounded(figures.log_pmi, _DIGITS_OF_LOG_PMI) if rule.log_pmi_first else None,
        score=rounded(figures.score, _DIGITS),
        terms={key: round(value, _DIGITS) for key, value in figures.terms.items()},
        empty_share=round(figures.empty_share, 4 if rule.constant_empty_share else _DIGITS),
    )


def share_on_scale(figures: Figures) -> Span | None:
    """Return what the share of a score on its scale can be; None if there is no such score or no end to the scale."""
    score, low, high = figures.score, figures.low, figures.high
    if score is None or low is None or high is None or not isfinite(high - low) or high <= low:
        return None
    return Span(*((end - low) / (high - low) for end in rounded_from(score)))
