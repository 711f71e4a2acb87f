"""Mechanism 1, corrected: log PMI with the peers on a scale that is fixed in advance.

A campaign file names the scale, which is computed once the model and the numbers of rows are known.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from troth.core.claims import Claim
from troth.core.contract import Array, Bounds, Model, Models
from troth.core.errors import ParameterError, TrothError, UnboundedRangeError
from troth.core.settings import Section, numbers
from troth.mechanisms.breakdown import Breakdown, normalise
from troth.mechanisms.description import NO_LIE_GAINS, PriceScale
from troth.mechanisms.options import Choice, Number, Option, option
from troth.mechanisms.rule import Rule
from troth.mechanisms.score_range import ScoreRange, clipped_range, exact_range, paper_range

if TYPE_CHECKING:
    from collections.abc import Sequence

    from troth.mechanisms.round import Round

_ROUNDING = 1e-9  # nats
RANGES = {"exact": exact_range, "clipped": clipped_range, "paper": paper_range}
_LOW = Number(
    "low",
    -8.0,
    "no lie gains more than ln(1 + e^low) nats",
    label="Low end",
    hint="of a clipped range",
    above=-1e6,
    below=0,
    expected="a number below 0, the score of an empty report",
)


@dataclass(frozen=True)
class NamedRange:
    """A range to be computed for a model: ``"exact"``, ``"clipped"`` at ``low`` or ``"paper"``."""

    kind: str = "exact"
    low: float = -8.0

    def __post_init__(self) -> None:
        if self.kind not in RANGES:
            raise ParameterError(f"a range is one of {', '.join(RANGES)}, not {self.kind!r}")

    def compute(self, model: Models, rows: Sequence[int], values: Bounds | None = None) -> ScoreRange:
        """Return the range for a model and each provider's maximum number of rows."""
        models: Any = model if isinstance(model, Model) else tuple(model)
        return _compute(self, models, tuple(rows), values)


@lru_cache(maxsize=64)
def _compute(name: NamedRange, model: Any, rows: tuple[int, ...], values: Bounds | None) -> ScoreRange:
    if name.kind == "clipped":
        return clipped_range(model, rows, values, low=name.low)
    return RANGES[name.kind](model, rows, values)


@dataclass(frozen=True)
class RangeOption(Choice):
    """A range by name, as a pair of ends, or as a table with low, high, epsilon and source."""

    @property
    def settings(self) -> tuple[Option, ...]:
        """The name, and the low end of a clipped range."""
        return (self, _LOW)

    def problem(self, value: Any) -> str:
        return "" if isinstance(value, ScoreRange | NamedRange) else f"must be a range, not {value!r}"

    def read(self, section: Section) -> ScoreRange | NamedRange:
        kind, low = section.take(self.key, self.default), _LOW.read(section)
        if isinstance(kind, dict | list):
            return _read_ends(section, self.key, kind)
        if kind not in RANGES:
            raise section.error_at(self.key, f"must be one of {', '.join(RANGES)} or a pair [low, high], not {kind!r}")
        return NamedRange(kind, float(low))

    def write(self, value: ScoreRange | NamedRange) -> dict[str, Any] | None:
        if isinstance(value, NamedRange):
            return {self.key: value.kind, _LOW.key: value.low}
        return {self.key: asdict(value)}


def _read_ends(section: Section, key: str, given: dict[str, Any] | list[Any]) -> ScoreRange:
    """Read a range given by its ends: a pair, or a table with low, high, source and epsilon, which is recomputed."""
    if isinstance(given, list) and len(given) != 2:
        raise section.error_at(key, f"must be a pair [low, high], not {given!r}")
    table = given if isinstance(given, dict) else dict(zip(("low", "high"), given, strict=True))
    unknown = sorted(set(table) - {"low", "high", "epsilon", "source"})
    if unknown:
        raise section.error_at(key, f"has no {unknown[0]!r}; it has low, high, epsilon and source")
    if not isinstance(table.get("source", ""), str):
        raise section.error_at(key, f"source must be text, not {table['source']!r}")
    try:
        return ScoreRange(**{name: value if name == "source" else numbers(value) for name, value in table.items()})
    except (TrothError, TypeError, ValueError) as error:
        raise section.error_at(key, str(error)) from None


_RANGE = RangeOption(
    "range",
    "exact",
    "or exact, paper, or a pair [low, high] in nats",
    label="Range",
    example="clipped",
    choices={name: name for name in RANGES},
)


@dataclass(frozen=True)
class OneTime(Rule):
    """Pay cap·(log PMI − low)/(high − low), and 0 if PMI = 0.

    Truthful if the range holds for every admissible report and, if PMI = 0 is possible, has a margin of one nat
    (erratum E5), as `exact_range` and `paper_range` ensure. With a `clipped_range` it is truthful up to ε.

    Parameters
    ----------
    score_range
        A `ScoreRange`, or a `NamedRange` that is computed for a campaign.

    Examples
    --------
    >>> import troth
    >>> model = troth.models.Bernoulli(1, 1)
    >>> rule = OneTime(troth.clipped_range(model, rows=[4] * 3))
    >>> t = np.stack([model.statistics(x) for x in ([1, 1, 1, 0], [1, 1, 0, 1], [0, 0, 0, 0])])
    >>> rule.pay(model, t, budget=90.0).round(2)
    array([25.4 , 25.4 , 18.65])
    """

    score_range: ScoreRange | NamedRange = option(_RANGE, NamedRange())

    purpose = "one round without a seed; needs a row limit"
    constant_empty_share = True
    pools_peers = True
    symmetric = True
    strict = True
    score_formula = r"\text{score} = \log \text{PMI}"
    score_meaning = "The score is the log PMI itself. Its expectation is highest for the truth."

    @property
    def needs_rows(self) -> str:  # type: ignore[override]
        return "its range is fixed before any report is seen" if isinstance(self.score_range, NamedRange) else ""

    @property
    def scale(self) -> ScoreRange:
        if isinstance(self.score_range, NamedRange):
            raise ParameterError(
                "OneTime: the range depends on the model and the rows; give a ScoreRange, or first call "
                "prepared(model, rows)"
            )
        return self.score_range

    def prepared(self, model: Models, rows: Sequence[int] | None, values: Bounds | None = None) -> Rule:
        if not isinstance(self.score_range, NamedRange) or rows is None:
            return self
        return replace(self, score_range=self.score_range.compute(model, rows, values))

    def breakdown(self, this_round: Round, /) -> Breakdown:
        scale, log_pmi = self.scale, this_round.log_pmi()
        score = np.maximum(log_pmi, scale.low if scale.clips else -np.inf)
        impossible = np.isneginf(score)
        possible = np.where(impossible, scale.low, score)
        share = np.where(impossible, 0.0, normalise(possible, scale.low, scale.high, this_round.lenient))
        note = "PMI is 0: the peers' data rule this report out"
        return Breakdown(share, log_pmi, score, scale.low, scale.high, note=note, noted=impossible)

    def evaluate_empty(self, this_round: Round, /) -> Array:
        """Return the position of 0 on the scale, because an empty report has log PMI 0."""
        share = normalise(np.zeros(1), self.scale.low, self.scale.high)[0]
        return np.full(this_round.own.shape[:-1], share)

    def truthful(self, model: Models, rows: Sequence[int], values: Bounds | None = None) -> Claim:
        """Compare the range, whatever its source, with the exact range of this campaign."""
        scale = self.scale
        try:
            exact = exact_range(model, rows, values)
        except UnboundedRangeError as error:
            return Claim("truthful", "undecided", f"the range cannot be checked: {error}", "E9")
        above = scale.high - exact.high
        room = above if scale.clips else min(exact.low - scale.low, above)
        if room < -_ROUNDING:
            text = f"the range is {-room:.3g} nats too narrow for these rows; a score outside it stops the round"
            return Claim("truthful", "undecided", text, "E5 and E9")
        if scale.clips:
            text = f"no lie gains more than ε = {scale.epsilon:.3g} nats, {scale.epsilon_share:.3g} of the cap"
            return Claim("truthful", "proved", text, "clipped log score", scale.epsilon_share)
        text = f"{NO_LIE_GAINS}: the range holds for all reports"
        return Claim("truthful", "proved", text, "Theorem on Mechanism 1, E5, E9", 0.0)

    def price_scale(self, exactly_truthful: bool) -> PriceScale | None:
        if not exactly_truthful:
            return None
        return PriceScale(self.scale.low, self.scale.high - self.scale.low, "the cap")
