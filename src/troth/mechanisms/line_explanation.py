"""How a line-up explains a share: the place of the real peers, and the shares that are possible given the place."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from troth.core.errors import DataError
from troth.core.formats import share_in_full
from troth.mechanisms.breakdown import Figures, Line, Step
from troth.mechanisms.disclosure import MAX_ROUNDING, Span, rounded_from
from troth.mechanisms.line import limit_share, mean_place_share, rank_share

if TYPE_CHECKING:
    from collections.abc import Mapping

    from troth.mechanisms.line_up import LineUp

_REAL = "the real peers"


def explain_place(rule: LineUp, figures: Figures) -> tuple[Step, ...]:
    """Explain the place of the real peers in the line, and what it pays."""
    line, place = _line_step(rule, figures), "From the place to a share"
    if line is None:
        return (Step(place, symbol="share", value=share_in_full(figures.share), meaning=figures.note),)
    score = figures.terms.get("strict_score", 0.0)
    parts = []
    if rule.strict < 1:
        rank = (figures.share - rule.strict * score) / (1 - rule.strict)
        parts.append(
            f"Against {rule.rivals} of these picked at random they would win with probability {_percent(rank)}"
        )
    if rule.strict:
        parts.append(f"{rule.strict:.0%} of the share is a score of how clearly your data tell the real peers apart")
    meaning = "; ".join(parts) + f": you are paid {_percent(figures.share)} of your cap."
    if rule.ties == "lot" and figures.terms["tied"] > 0:
        meaning += " Groups that fit equally well stand in random order."
    if rule.panels > 1:
        meaning += f" It is the mean over up to {rule.panels} panels of your peers, with a line each."
    if "contradicting" in figures.terms:
        part = f"{figures.terms['contradicting']:.0%} of the panels"
        meaning += f" In {part} your peers contradict each other: there you are paid as for an empty report."
    terms = ((rule.term_labels["strict_score"], score),) if "strict_score" in figures.terms else ()
    formula = rule.score_formula + _line_values(rule, figures)
    return line, Step(place, formula, terms, "share", f"{figures.share:.4f}", meaning=meaning)


def _percent(share: float) -> str:
    """Format a share without decimals, unless it would read as 0% or 100%."""
    return f"{share:.2%}" if 0 < share < 0.01 or 0.99 < share < 1 else f"{share:.0%}"


def _line_values(rule: LineUp, figures: Figures) -> str:
    """Return K, j and r of a single line, in LaTeX."""
    if "decoys" not in figures.terms or rule.panels > 1:
        return ""
    decoys, above, tied = (int(figures.terms[key]) for key in ("decoys", "above", "tied"))
    last = rf" \text{{ to }} {above + tied}" if tied else ""
    return rf", \allowbreak K = {decoys}, \allowbreak j = {above}{last}, \allowbreak r = {rule.rivals}"


def _line_step(rule: LineUp, figures: Figures) -> Step | None:
    if figures.note or "above" not in figures.terms:
        return None
    above, tied = figures.terms["above"], figures.terms["tied"]
    if "decoys" not in figures.terms:
        peers, average = ("each panel of your peers", "on average ") if rule.panels > 1 else ("your peers", "")
        text = (
            f"Of all that {peers} could have reported, by its probability under the model, what they did report "
            f"{average}fits your data better than {max(0.0, 1 - above - tied):.1%} and worse than {above:.1%}."
        )
        better = f"{above:.1%}"
        title = f"What fits better than the real peers' reports has a probability of {better}"
        drawn_peers, label = "all that peers could report", "probability of a better fit"
        return Step("The line", meaning=text, line=Line(None, above, tied, _REAL, drawn_peers, title, label, better))
    decoys = int(figures.terms["decoys"])
    if rule.panels > 1:
        drawn = f"We drew {decoys:,} imaginary groups for each panel of your peers"
        later_days = f"The reports of each panel of your peers on {decoys:,} later days stand for other groups"
        real = "On average the real ones"
    else:
        drawn = f"We drew {decoys:,} imaginary groups of peers"
        later_days = f"Your peers' reports on {decoys:,} later days stand for {decoys:,} other groups of peers"
        real = "The real ones"
    drawn_peers = later_days if "later_days" in figures.terms else drawn
    text = f"{drawn_peers}. {real} fit your data better than {decoys - above - tied:,.0f} of them"
    text += f", and as well as {tied:,.0f}." if round(tied) else "."
    better = f"{above:,.0f} of {decoys:,}"
    title, label = f"The real peers come after {better} decoys", "decoys that fit better"
    return Step("The line", meaning=text, line=Line(decoys, above, tied, _REAL, "decoys", title, label, better))


def share_at_place(rule: LineUp, terms: Mapping[str, float]) -> Span:
    """Return the possible shares at a place: exactly one for a single line with averaged ties and no strict score.

    For several panels only the mean place is shown. φ is convex, so the share is at least φ at the mean place, and at
    most the height there of the straight line from 1 to 0. Strict scores and exhaustive lines are shown with two
    decimals. With random tie-breaking, all shares from the first to the last tied place are possible.
    """
    above, tied, count = (terms.get(key, inf) for key in ("above", "tied", "decoys"))
    _check_place(rule, above, tied, count)
    if rule.panels == 1 and tied == count and rule.ties == "average":
        empty = replace(rule, decoys=int(count)).line_empty_share
        return Span(empty, empty)
    if rule.panels > 1:
        span = _share_of_panels(rule, above, tied, count)
    elif count == inf:
        span = _share_among_all(rule, above, tied)
    else:
        span = _share_among_decoys(rule, above, tied, int(count))
    if rule.strict:
        span = span.mix(rule.strict, rounded_from(terms["strict_score"]))
    return span.within(0.0, 1.0)


def _check_place(rule: LineUp, above: float, tied: float, count: float) -> None:
    """Reject a place that no line of this rule has."""
    integral = rule.panels > 1 or count == inf or all(number.is_integer() for number in (above, tied))
    drawn_as_declared = count == rule.decoys or (rule.source == "days" and rule.rivals <= count <= rule.decoys)
    limit = (1.0 if count == inf else count) + 2 * MAX_ROUNDING
    if not (drawn_as_declared and integral and min(above, tied) >= 0 and above + tied <= limit):
        raise DataError(f"{rule.name} has no place behind {above:g} of {count:g} decoys, with {tied:g} that tie")


def _share_among_decoys(rule: LineUp, above: float, tied: float, count: int) -> Span:
    ends = [(above + tied, 0.0), (above, 0.0)] if rule.ties == "lot" else [(above, tied)] * 2
    shares = (rank_share(np.array(first), np.array(ties), count, rule.rivals) for first, ties in ends)
    return Span(*map(float, shares))


def _share_among_all(rule: LineUp, above: float, tied: float) -> Span:
    better = rounded_from(above).within(0.0, 1.0)
    worse = Span(1 - above - tied - 2 * MAX_ROUNDING, 1 - above - tied + 2 * MAX_ROUNDING).within(0.0, 1.0)
    if rule.ties == "lot":
        return Span(worse.low**rule.rivals, (1 - better.low) ** rule.rivals)
    ends = (better.high, worse.low), (better.low, worse.high)
    return Span(*(float(limit_share(np.array(b), np.array(w), rule.rivals)) for b, w in ends))


def _share_of_panels(rule: LineUp, above: float, tied: float, count: float) -> Span:
    first, behind = (above, above + tied) if rule.ties == "lot" else [above + tied / 2] * 2
    low = mean_place_share(behind + 2 * MAX_ROUNDING, None if count == inf else int(count), rule.rivals)
    return Span(low, 1 - (first - 2 * MAX_ROUNDING) / (1.0 if count == inf else count))
