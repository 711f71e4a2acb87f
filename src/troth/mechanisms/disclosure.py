"""The rounded figures that a provider sees, and the shares that are possible given these."""

from __future__ import annotations

from dataclasses import replace
from math import isfinite, nextafter
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from troth.mechanisms.breakdown import Figures

if TYPE_CHECKING:
    from troth.mechanisms.description import RuleDescription

F = TypeVar("F", bound=Figures)

_DECIMALS, _LOG_PMI_DECIMALS = 2, 1
MAX_ROUNDING = nextafter(0.5 * 10.0**-_DECIMALS, 1.0) * (1 + 1e-9)
"""The maximum rounding error of a figure that is shown."""

SHARE_TOLERANCE = 5.1e-5
"""The maximum rounding error of a share that is shown with four decimals."""


class Span(NamedTuple):
    """The interval of values that a number can have; its ends are equal if the number is known exactly.

    Examples
    --------
    >>> Span(0.25, 0.5).mix(0.5, Span(1.0, 1.0))
    Span(low=0.625, high=0.75)
    """

    low: float
    high: float

    @property
    def exact(self) -> bool:
        """Whether there is only one possible value."""
        return self.low == self.high

    def contains(self, value: float, slack: float = SHARE_TOLERANCE) -> bool:
        """Return whether a value is possible, by default up to the rounding of shares."""
        return self.low - slack <= value <= self.high + slack

    def __str__(self) -> str:
        return f"{self.low:.4f}" if self.exact else f"{self.low:.4f} to {self.high:.4f}"

    def mix(self, part: float, other: Span) -> Span:
        """Return the possible values of (1 − part)·this + part·other."""
        ends = ((1 - part) * end + part * end_of_other for end, end_of_other in zip(self, other, strict=True))
        return Span(*ends)

    def within(self, low: float, high: float) -> Span:
        """Clip both ends to two bounds."""
        return Span(*(min(max(end, low), high) for end in self))


def rounded_from(value: float) -> Span:
    """Return the numbers that are shown as this value after rounding."""
    return Span(value - MAX_ROUNDING, value + MAX_ROUNDING)


def disclosed(rule: RuleDescription, figures: F) -> F:
    """Round figures for their provider, because more precision would reveal the peers' data.

    The pooled data of the peers can often be computed from a score at full precision. Places in a line are integers and
    stay exact. Log PMI is shown only if the share depends on its size.
    """

    def rounded(value: float | None, decimals: int) -> float | None:
        return None if value is None else round(value, decimals)

    return replace(
        figures,
        log_pmi=rounded(figures.log_pmi, _LOG_PMI_DECIMALS) if rule.log_pmi_first else None,
        score=rounded(figures.score, _DECIMALS),
        terms={key: round(value, _DECIMALS) for key, value in figures.terms.items()},
        empty_share=round(figures.empty_share, 4 if rule.constant_empty_share else _DECIMALS),
    )


def share_on_scale(figures: Figures) -> Span | None:
    """Return the possible positions of a score on its scale; None without a score or with an unbounded scale."""
    score, low, high = figures.score, figures.low, figures.high
    if score is None or low is None or high is None or not isfinite(high - low) or high <= low:
        return None
    return Span(*((end - low) / (high - low) for end in rounded_from(score)))
