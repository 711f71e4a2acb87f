"""The numbers behind providers' shares, and the steps that explain them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from troth.core.errors import ScoreOutOfRangeError
from troth.core.formats import number, share_in_full

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from troth.core.contract import Array


@dataclass(frozen=True, kw_only=True)
class Figures:
    """The numbers behind one share.

    Attributes
    ----------
    log_pmi
        Log PMI of the report with its peers', in nats.
    score, low, high
        The score and the ends of its scale; None without a score.
    terms
        The components of the score, by key.
    share, empty_share
        The share of the cap that is paid, and the share that an empty report would have been paid.
    note
        Anything else that the provider should know.
    """

    log_pmi: float | None
    score: float | None
    low: float | None
    high: float | None
    terms: dict[str, float]
    share: float
    empty_share: float
    note: str = ""


@dataclass(frozen=True)
class Breakdown:
    """The `Figures` behind all shares: arrays with one entry per provider (and day).

    A share is the position of the score on the scale from ``low`` to ``high``, unless the rule overrides ``steps`` and
    ``share_shown``. Without a score nothing is explained. ``labels`` describes the terms, by key, and ``noted`` is a
    mask of the shares that the note concerns.
    """

    share: Array
    log_pmi: Array | None = None
    score: Array | None = None
    low: Array | float = 0.0
    high: Array | float = 1.0
    terms: Mapping[str, Array] = field(default_factory=dict)
    note: str = ""
    noted: Any = False
    labels: Mapping[str, str] = field(default_factory=dict)

    def at(self, *index: int, empty_share: float = np.nan) -> Figures:
        """Return one provider's figures, for an index such as ``(provider,)`` or ``(day, provider)``."""

        def entry(array: Any) -> float | None:
            if array is None:
                return None
            value = float(np.broadcast_to(array, np.shape(self.share))[index])
            return None if np.isnan(value) else value

        score = entry(self.score)
        noted = self.note and bool(np.broadcast_to(self.noted, np.shape(self.share))[index])
        return Figures(
            log_pmi=entry(self.log_pmi),
            score=score,
            low=None if score is None else entry(self.low),
            high=None if score is None else entry(self.high),
            terms={key: value for key, array in self.terms.items() if (value := entry(array)) is not None},
            share=float(self.share[index]),
            empty_share=empty_share,
            note=self.note if noted else "",
        )

    def explain(self, *index: int) -> str:
        """Return an explanation of one provider's share, for an index such as ``(provider,)`` or ``(day, provider)``.

        Examples
        --------
        >>> shares = Breakdown(np.array([0.25]), np.array([-6.0]), np.array([-6.0]), low=-8.0, high=0.0)
        >>> print(shares.explain(0))
        log PMI with peers: −6.0000 nats
        score: −6.0000 on a scale from −8.0000 to 0.0000
        share of the cap: 25.00%
        """
        figures = self.at(*index)
        lines = [] if figures.log_pmi is None else [f"log PMI with peers: {number(figures.log_pmi)} nats"]
        lines += [f"{self.labels.get(key, key)}: {number(value)}" for key, value in figures.terms.items()]
        if figures.score is not None and np.isfinite(figures.score):
            lines.append(
                f"score: {number(figures.score)} on a scale from {number(figures.low)} to {number(figures.high)}"
            )
        lines.append(f"share of the cap: {figures.share:.2%}")
        return "\n".join([*lines, figures.note] if figures.note else lines)


def join_days(days: Sequence[Breakdown]) -> Breakdown:
    """Concatenate breakdowns ``(..., day, provider)`` along days, with NaN for numbers that a day lacks."""

    def joined(numbers: Iterable[Any]) -> Array:
        parts = zip(numbers, days, strict=True)
        arrays = (np.broadcast_to(np.nan if part is None else part, day.share.shape) for part, day in parts)
        return np.concatenate(list(arrays), axis=-2)

    keys = dict.fromkeys(key for day in days for key in day.terms)
    terms = {key: joined(day.terms.get(key) for day in days) for key in keys}
    names = ("share", "log_pmi", "score", "low", "high", "noted")
    numbers: dict[str, Any] = {name: joined(getattr(day, name) for day in days) for name in names}
    return Breakdown(**numbers, terms=terms)


@dataclass(frozen=True)
class Scale:
    """A score, the ends of its scale, and the position of an empty report on it, from 0 to 1."""

    score: float
    low: float
    high: float
    empty_share: float


@dataclass(frozen=True)
class Line:
    """A place in a line, ordered from the best fit of a report to the worst, with the rule's descriptions.

    Attributes
    ----------
    count
        The number of other members of the line; None if it contains everything possible, weighted by probability.
    above, tied
        The number, or the probability, of others that fit better and equally well.
    real, drawn
        The names of the member at this place and of the others, such as "the real peers" and "decoys".
    title, label, value
        The place as a sentence, and as a row of a table, such as "decoys that fit better" and "12 of 999".
    """

    count: int | None
    above: float
    tied: float
    real: str = ""
    drawn: str = ""
    title: str = ""
    label: str = ""
    value: str = ""


@dataclass(frozen=True)
class Step:
    """One step of the explanation from data to a share.

    Attributes
    ----------
    title, formula
        The title, such as "The score", and the formula in LaTeX.
    terms
        The inputs, as labels and values.
    symbol, value, calculation
        The result, such as "score" and "1.0444", and its calculation, such as "0.7311 + 0.3133".
    meaning
        The step in sentences.
    scale, line
        The picture: the score on its scale, or a place in a line.
    """

    title: str
    formula: str = ""
    terms: tuple[tuple[str, float], ...] = ()
    symbol: str = ""
    value: str = ""
    calculation: str = ""
    meaning: str = ""
    scale: Scale | None = None
    line: Line | None = None


def step_on_scale(figures: Figures) -> Step:
    """Return the step from a score to a share: the position of the score on its scale."""
    score, low, high = figures.score, figures.low, figures.high
    if score is None or low is None or high is None:
        raise ValueError("there is no score")
    inside = figures.share not in (0.0, 1.0)
    return Step(
        "From score to share",
        formula=r"\text{share} = \frac{\text{score} - \text{low}}{\text{high} - \text{low}}",
        symbol="share",
        value=share_in_full(figures.share),
        calculation=f"({number(score)} − {number(low)}) / ({number(high)} − {number(low)})" if inside else "",
        meaning="The scale was fixed before anybody reported.",
        scale=Scale(score, low, high, figures.empty_share) if high > low else None,
    )


def normalise(score: Array, low: float, high: float, lenient: bool = False) -> Array:
    """Map scores between low and high to shares between 0 and 1.

    Scores that are outside by no more than rounding errors are clipped. Any other score outside raises an error that
    names the provider or, if ``lenient``, becomes NaN.
    """
    slack = 1e-9 * (1 + abs(low) + abs(high))
    outside = ~((score >= low - slack) & (score <= high + slack))
    if outside.any() and not lenient:
        where = tuple(int(i) for i in np.argwhere(outside)[0])
        raise ScoreOutOfRangeError(where[-1], float(score[where]), low, high)
    share = np.asarray(np.clip((score - low) / (high - low), 0.0, 1.0))
    return np.where(outside, np.nan, share) if outside.any() else share
