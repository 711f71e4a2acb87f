"""Ranges by name, which a campaign file gives and which are computed once the model and the rows are known."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from troth.core.contract import Bounds, Model, Models
from troth.core.errors import ParameterError, TrothError
from troth.core.settings import numbers
from troth.mechanisms.options import Choice, Number, Option
from troth.mechanisms.score_range import ScoreRange, clipped_range, exact_range, paper_range

if TYPE_CHECKING:
    from collections.abc import Sequence

    from troth.core.settings import Section

RANGES = {"exact": exact_range, "clipped": clipped_range, "paper": paper_range}


@dataclass(frozen=True)
class NamedRange:
    """A range that is yet to be computed: ``"exact"``, ``"clipped"`` at ``low`` or ``"paper"``."""

    kind: str = "exact"
    low: float = -8.0

    def __post_init__(self) -> None:
        if self.kind not in RANGES:
            raise ParameterError(f"a range is one of {', '.join(RANGES)}, not {self.kind!r}")

    def compute(self, model: Models, rows: Sequence[int], values: Bounds | None = None) -> ScoreRange:
        """Return the range for a model and the most rows of each provider."""
        models: Any = model if isinstance(model, Model) else tuple(model)
        return _computed(self, models, tuple(rows), values)


@lru_cache(maxsize=64)
def _computed(named: NamedRange, model: Any, rows: tuple[int, ...], values: Bounds | None) -> ScoreRange:
    if named.kind == "clipped":
        return clipped_range(model, rows, values, low=named.low)
    return RANGES[named.kind](model, rows, values)


@dataclass(frozen=True)
class RangeOption(Choice):
    """A range by its name, as a pair of its ends, or as a table with low, high, epsilon and source."""

    @property
    def settings(self) -> tuple[Option, ...]:
        """The name, and the low end of a clipped range."""
        return (self, _LOW)

    def problem(self, value: Any) -> str:
        """Say that it must be a range."""
        return "" if isinstance(value, ScoreRange | NamedRange) else f"must be a range, not {value!r}"

    def read(self, section: Section) -> ScoreRange | NamedRange:
        """Take the name or the numbers, and the low end."""
        kind, low = section.take(self.key, self.default), _LOW.read(section)
        if isinstance(kind, dict | list):
            return _declared(section, self.key, kind)
        if kind not in RANGES:
            raise section.fail(self.key, f"must be one of {', '.join(RANGES)} or a pair [low, high], not {kind!r}")
        return NamedRange(kind, float(low))

    def write(self, value: ScoreRange | NamedRange) -> dict[str, Any] | None:
        """Return the name, or all numbers."""
        if isinstance(value, NamedRange):
            return {self.key: value.kind, _LOW.key: value.low}
        return {self.key: {"low": value.low, "high": value.high, "epsilon": value.epsilon, "source": value.source}}


_LOW = Number(
    "low",
    -8.0,
    "no lie gains more than ln(1 + e^low) nats",
    label="Low end",
    hint="of a clipped range",
    above=-1e6,
    below=0,
    wanted="a number below 0, the score of an empty report",
)


def _declared(section: Section, key: str, plain: dict[str, Any] | list[Any]) -> ScoreRange:
    """Read a range that is written out: a pair, or a table with low, high, source and an epsilon, which is computed."""
    if isinstance(plain, list) and len(plain) != 2:
        raise section.fail(key, f"must be a pair [low, high], not {plain!r}")
    table = plain if isinstance(plain, dict) else dict(zip(("low", "high"), plain, strict=True))
    unknown = sorted(set(table) - {"low", "high", "epsilon", "source"})
    if unknown:
        raise section.fail(key, f"has no {unknown[0]!r}; it has low, high, epsilon and source")
    if not isinstance(table.get("source", ""), str):
        raise section.fail(key, f"source must be a text, not {table['source']!r}")
    try:
        return ScoreRange(**{name: value if name == "source" else numbers(value) for name, value in table.items()})
    except (TrothError, TypeError, ValueError) as error:
        raise section.fail(key, str(error)) from None
