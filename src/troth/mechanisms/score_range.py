"""Ranges of log PMI that are fixed before any report is seen and hold for every admissible one.

Normalising by the realised minimum and maximum score would make the scale depend on the report (erratum E9).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from troth.core.contract import Bounds, Extremes, HasPaperBounds, HasScoreRange, Model, Models, has_independent_rows
from troth.core.errors import DataError, ParameterError, UnboundedRangeError
from troth.core.provider_models import model_per_provider, shared_evidence

if TYPE_CHECKING:
    from collections.abc import Sequence

ROUNDING_NATS = 1e-12
"""The maximum size of log PMI that is a rounding error."""


@dataclass(frozen=True)
class ScoreRange:
    """A scale from ``low`` to ``high`` for log PMI.

    Attributes
    ----------
    low, high
        The ends, in nats.
    epsilon
        The most that any lie can gain in expectation because scores are clipped, in nats: ln(1 + e^low), or 0 without
        clipping. It is always computed; a given value is ignored.
    source
        The origin of the range. A ``"clipped"`` range raises scores below ``low`` to it; with all others a score
        outside the range stops the round.

    Examples
    --------
    >>> ScoreRange(-8, 2)
    ScoreRange(low=-8.0, high=2.0, epsilon=0.0, source='declared')
    >>> round(ScoreRange(-0.2, 1, source="clipped").epsilon, 4)
    0.5981
    """

    low: float
    high: float
    epsilon: float = 0.0
    source: str = "declared"

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            object.__setattr__(self, name, float(getattr(self, name)))
        object.__setattr__(self, "epsilon", float(np.log1p(np.exp(self.low))) if self.clips else 0.0)
        if self.clips and not self.low < 0:
            raise ParameterError(f"low must be below 0, the score of an empty report, not {self.low!r}")
        if not (np.isfinite([self.low, self.high]).all() and self.low < self.high):
            raise ParameterError(f"a range needs finite ends low < high, not {self.low!r} and {self.high!r}")

    @property
    def clips(self) -> bool:
        """Whether scores below ``low`` are raised to it."""
        return self.source == "clipped"

    @property
    def epsilon_share(self) -> float:
        """The most that any lie can gain, as a share of the cap."""
        return self.epsilon / (self.high - self.low)


def exact_range(model: Models, rows: Sequence[int], values: Bounds | None = None) -> ScoreRange:
    """Return the exact minimum and maximum of log PMI over all admissible reports of all providers.

    If PMI = 0 is possible, which pays 0, the low end lies one nat below the minimum finite log PMI: with a smaller
    margin a lie can be profitable (erratum E5). One range serves all providers (erratum E13).

    Parameters
    ----------
    model
        One model, or one per provider.
    rows
        Each provider's maximum number of rows.
    values
        The minimum and maximum value of a row, for families with unbounded values.

    Raises
    ------
    UnboundedRangeError
        If the family has no finite range, with the reason and the rules that need none.

    Examples
    --------
    >>> import troth
    >>> scale = exact_range(troth.models.Bernoulli(1, 1), rows=[40] * 5)
    >>> round(scale.low, 3), round(scale.high, 3)
    (-93.935, 3.492)
    """
    low, high = _with_margin(_extremes(model, rows, values))
    if np.isinf(low):
        raise UnboundedRangeError(
            "log PMI has no minimum, because features may be arbitrarily large", "choose a clipped range"
        )
    if not high - low > ROUNDING_NATS:
        raise _no_information()
    return ScoreRange(low, high, source="exact")


def clipped_range(model: Models, rows: Sequence[int], values: Bounds | None = None, *, low: float = -8.0) -> ScoreRange:
    """Return a range with a chosen low end, to which lower scores are raised; no lie gains more than ε from this.

    The clipped score is the log score of max(q, e^low·m), whose mass is at most 1 + e^low, so any lie gains at most
    ε = ln(1 + e^low) nats. In exchange the scale is short, and incentives are strong.

    Examples
    --------
    >>> import troth
    >>> clipped_range(troth.models.Bernoulli(1, 1), rows=[100] * 10, low=-8).epsilon_share < 3e-5
    True
    """
    extremes = _extremes(model, rows, values)
    if not any(e.high > ROUNDING_NATS or e.low < -ROUNDING_NATS for e in extremes):
        raise _no_information()
    return ScoreRange(low, max(e.high for e in extremes), source="clipped")


def paper_range(model: Models, rows: Sequence[int], values: Bounds | None = None) -> ScoreRange:
    """Return the paper's closed-form bounds: valid, but so loose that incentives nearly vanish (erratum E14).

    For finite models these are the bounds of the paper's appendix on log PMI, with the margin of erratum E5 if PMI = 0
    is possible; for a normal mean the corrected bounds, which need bounds on the values (erratum E1).
    """
    extremes = []
    for own, limit, peers in situations(model, rows):
        if not isinstance(own, HasPaperBounds):
            raise UnboundedRangeError(f"the paper has no range for {type(own).__name__}", "try exact_range")
        extremes.append(own.paper_bounds(limit, peers, values))
    return ScoreRange(*_with_margin(extremes), source="paper")


def _with_margin(extremes: list[Extremes]) -> tuple[float, float]:
    margin = 1.0 if any(e.impossible for e in extremes) else 0.0
    return min(e.low for e in extremes) - margin, max(e.high for e in extremes)


def _no_information() -> UnboundedRangeError:
    return UnboundedRangeError("log PMI is 0 for every report: the data say nothing about each other")


def _extremes(model: Models, rows: Sequence[int], values: Bounds | None) -> list[Extremes]:
    extremes = []
    for own, limit, peers in situations(model, rows):
        if not isinstance(own, HasScoreRange):
            raise UnboundedRangeError(
                f"log PMI of {type(own).__name__} has no finite range, or none is known, however rows are limited"
            )
        extremes.append(own.log_pmi_extremes(limit, peers, values))
    return extremes


def situations(
    model: Models,
    rows: Sequence[int],
    groups: Sequence[Any] | None = None,
    peer_rows: Sequence[int] | None = None,
    panels: int = 1,
) -> list[tuple[Model, int, list[tuple[Model, int]]]]:
    """Return every distinct (own model, own limit, peers' models and rows) of a round.

    Peers of one model are pooled into one peer, unless a provider's rows share a random effect.

    Parameters
    ----------
    groups
        One label per provider; members of a group are never each other's peers.
    peer_rows
        Each provider's number of rows as a peer of others; its limit by default.
    panels
        The number of panels; only the peers of the largest possible panel are returned.
    """
    shared_evidence(model)
    limits = _row_limits(rows)
    if len(limits) < 2:
        raise DataError("a range needs the row limits of at least two providers")
    models = model_per_provider(model, len(limits))
    labels = range(len(limits)) if groups is None else list(groups)
    as_peers = limits if peer_rows is None else _row_limits(peer_rows)
    for noun, listed in (("group labels", labels), ("numbers of peers' rows", as_peers)):
        if len(listed) != len(limits):
            raise DataError(f"{len(listed)} {noun} for {len(limits)} row limits: give one each")
    all_providers = Counter(zip(models, as_peers, strict=True))
    members: dict[Any, Counter[tuple[Model, int]]] = {}
    for label, member, count in zip(labels, models, as_peers, strict=True):
        members.setdefault(label, Counter())[member, count] += 1
    cases: dict[Any, tuple[Model, int, Counter[tuple[Model, int]]]] = {}
    for label, own, limit in zip(labels, models, limits, strict=True):
        cases.setdefault((own, limit, frozenset(members[label].items())), (own, limit, members[label]))
    return [(own, limit, _peers(all_providers, group, panels)) for own, limit, group in cases.values()]


def _row_limits(rows: Sequence[int]) -> list[int]:
    limits = [int(n) for n in rows]
    if any(n < 0 or n != given for n, given in zip(limits, rows, strict=True)):
        raise DataError(f"row limits must be whole numbers of at least 0, not {list(rows)!r}")
    return limits


def _peers(
    all_providers: Counter[tuple[Model, int]], group: Counter[tuple[Model, int]], panels: int = 1
) -> list[tuple[Model, int]]:
    """Return the models and rows of all providers outside a group, or of their largest possible panel."""
    pooled: dict[Model, int] = {}
    separate: list[tuple[Model, int]] = []
    peers = all_providers - group
    seats = -(-peers.total() // panels)
    for (other, rows), count in sorted(peers.items(), key=lambda item: -item[0][1]) if panels > 1 else peers.items():
        seated = min(count, seats)
        seats -= seated
        if has_independent_rows(other):
            pooled[other] = pooled.get(other, 0) + seated * rows
        else:
            separate += [(other, rows)] * seated
    return [*pooled.items(), *separate]
