"""Payment rules as a table of settings, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from troth.campaigns.settings import CampaignError, Section, numbers
from troth.core.errors import TrothError
from troth.mechanisms import (
    Bonded,
    Brier,
    LogPmiRule,
    MultiDay,
    OneTime,
    Rule,
    ScoreRange,
    SyntheticPeers,
    clipped_range,
    divergences,
    exact_range,
    paper_range,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from troth.core.contract import Model

RULES = ("SyntheticPeers", "MultiDay", "OneTime", "Brier")
_RANGES = ("exact", "clipped", "paper")
_OPTIONS = {
    "SyntheticPeers": ("draws", "divergence", "power"),
    "MultiDay": ("divergence", "power", "last", "exchangeable"),
    "OneTime": ("range", "low"),
    "Brier": ("form",),
}


class Mechanism:
    """A checked ``[mechanism]`` table: which rule, and what it takes to make it for a number of providers.

    Examples
    --------
    >>> Mechanism(Section("[mechanism]", {"rule": "synthetic peers", "draws": 16})).rule_for(None, 5)
    SyntheticPeers(draws=16, divergence=Logistic(...))
    """

    def __init__(self, section: Section, *, rows: int | None = None, values: tuple[float, float] | None = None) -> None:
        self.rows, self.values = rows, values
        self.name: str = section.text("rule", "SyntheticPeers", among=(*RULES, "LogPmiRule"))
        if self.name == "LogPmiRule":
            raise section.fail("rule", "LogPmiRule has no budget and pays negative amounts; use " + " or ".join(RULES))
        self.bonded = section.flag("bonded")
        known = ("rule", "bonded", "commitment", *_OPTIONS[self.name])
        self._make: Callable[[Any, int], Rule] = getattr(self, "_" + self.name.lower())(section)
        section.done(known)

    @property
    def draws(self) -> bool:
        """Whether the rule, or that of the last day, draws random numbers."""
        return self.name == "SyntheticPeers" or (
            self.name == "MultiDay" and self._last is not None and self._last.draws
        )

    @property
    def most_draws(self) -> int:
        """How many times peers are drawn in a round, at most."""
        return self._draws if self._last is None else max(self._draws, self._last.most_draws)

    @property
    def daily(self) -> bool:
        """Whether a day is paid only when the next one is in."""
        return self.name == "MultiDay"

    def rule_for(self, model: Model | Sequence[Model] | None, providers: int) -> Rule:
        """Make the rule for so many providers, whose number a range depends on."""
        rule = self._make(model, providers)
        return Bonded(rule) if self.bonded else rule

    _last: Mechanism | None = None
    _draws = 1

    def _syntheticpeers(self, section: Section) -> Callable[[Any, int], Rule]:
        draws, divergence = section.whole("draws", 64, least=1, most=1_000_000), _divergence(section)
        self._draws = draws
        return lambda model, providers: SyntheticPeers(draws, divergence)  # noqa: ARG005

    def _multiday(self, section: Section) -> Callable[[Any, int], Rule]:
        divergence, exchangeable = _divergence(section), section.flag("exchangeable")
        last = section.take("last", "equal")
        if last != "equal":
            table = {"rule": last} if isinstance(last, str) else last
            inner = Section(section.place.rstrip("]") + ".last]", table)
            self._last = Mechanism(inner, rows=self.rows, values=self.values)
            if self._last.daily or self._last.bonded:
                raise section.fail("last", "must be equal, or a rule that looks at one day")

        def make(model: Any, providers: int) -> Rule:
            return MultiDay(
                divergence, "equal" if self._last is None else self._last.rule_for(model, providers), exchangeable
            )

        return make

    def _onetime(self, section: Section) -> Callable[[Any, int], Rule]:
        kind = section.take("range", "exact")
        low = section.take("low", -8.0)
        if isinstance(low, bool) or not isinstance(low, int | float) or not -1e6 < low < 0:
            raise section.fail("low", f"must be a number below 0, the score of an empty report, not {low!r}")
        if isinstance(kind, dict | list):
            scale = _declared(section, kind)
            return lambda model, providers: OneTime(scale)  # noqa: ARG005
        if kind not in _RANGES:
            raise section.fail("range", f"must be one of {', '.join(_RANGES)} or a pair [low, high], not {kind!r}")
        if self.rows is None:
            raise CampaignError(
                f"{section.place}: OneTime needs [limits] rows, the most rows that a report may have: its range is "
                "fixed before any report is seen"
            )
        rows = self.rows
        known: dict[Any, OneTime] = {}

        def make(model: Any, providers: int) -> Rule:
            key = (model if not isinstance(model, list) else tuple(model), providers)
            if key not in known:
                limits = [rows] * providers
                if kind == "clipped":
                    known[key] = OneTime(clipped_range(model, limits, self.values, low=float(low)))
                else:
                    known[key] = OneTime((exact_range if kind == "exact" else paper_range)(model, limits, self.values))
            return known[key]

        return make

    @staticmethod
    def _brier(section: Section) -> Callable[[Any, int], Rule]:
        form = section.text("form", "types", among=("types", "paper"))
        return lambda model, providers: Brier(form)  # noqa: ARG005


def mechanism_of(rule: Rule | str) -> dict[str, Any] | None:
    """Return the table of settings that makes this rule, or None if no table can."""
    if isinstance(rule, str):
        return {"rule": rule}
    if isinstance(rule, Bonded):
        inner = mechanism_of(rule.rule)
        return None if inner is None else {**inner, "bonded": True}
    if isinstance(rule, LogPmiRule):
        return {"rule": "LogPmiRule"}
    if type(rule) is OneTime:
        scale = rule.score_range
        table = {"low": scale.low, "high": scale.high, "epsilon": scale.epsilon, "source": scale.source}
        return {"rule": "OneTime", "range": table}
    if type(rule) is Brier:
        return {"rule": "Brier", "form": rule.form}
    if type(rule) is SyntheticPeers:
        divergence = _named(rule.divergence)
        return None if divergence is None else {"rule": "SyntheticPeers", "draws": int(rule.draws), **divergence}
    if type(rule) is MultiDay:
        last = "equal" if isinstance(rule.last, str) else mechanism_of(rule.last)
        divergence = _named(rule.divergence)
        if last is None or divergence is None:
            return None
        return {"rule": "MultiDay", **divergence, "last": last, "exchangeable": rule.exchangeable}
    return None


def _named(divergence: divergences.Divergence) -> dict[str, Any] | None:
    if isinstance(divergence, divergences.Power):
        return {"divergence": "power", "power": divergence.k}
    return {"divergence": divergence.name} if divergences.ALL.get(divergence.name) == divergence else None


def _divergence(section: Section) -> divergences.Divergence:
    name = section.text("divergence", "logistic", among=tuple(divergences.ALL))
    power = section.take("power")
    if power is None:
        return divergences.ALL[name]
    if name != "power":
        raise section.fail("power", 'goes with divergence = "power" only')
    try:
        return divergences.power(float(numbers(power)))
    except (TrothError, TypeError, ValueError) as error:
        raise section.fail("power", str(error)) from None


def _declared(section: Section, kind: Any) -> ScoreRange:
    """Read a range that is written out: a pair, or a table with low, high, epsilon and source."""
    plain = kind if isinstance(kind, dict) else dict(zip(("low", "high"), kind, strict=False))
    unknown = sorted(set(plain) - {"low", "high", "epsilon", "source"})
    if unknown:
        raise section.fail("range", f"has no {unknown[0]!r}; it has low, high, epsilon and source")
    if not isinstance(plain.get("source", ""), str):
        raise section.fail("range", f"source must be a text, not {plain['source']!r}")
    if isinstance(kind, list) and len(kind) != 2:
        raise section.fail("range", f"must be a pair [low, high], not {kind!r}")
    try:
        return ScoreRange(**{key: value if key == "source" else numbers(value) for key, value in plain.items()})
    except (TrothError, TypeError, ValueError) as error:
        raise section.fail("range", str(error)) from None
