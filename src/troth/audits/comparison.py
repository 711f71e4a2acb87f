"""Under which rule does which lie pay? One table and one picture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from troth.audits.simulate import audit
from troth.audits.strategies import Lie, as_strategy
from troth.core.formats import number

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from troth.audits.findings import Audit
    from troth.core.contract import Models
    from troth.mechanisms.rule import Rule


@dataclass(frozen=True)
class Comparison:
    """Audits of several rules with the same lies."""

    audits: dict[str, Audit]
    lies: tuple[str, ...]

    def __str__(self) -> str:
        width = max((len(name) for name in self.audits), default=0) + 2
        head = " " * width + "".join(f"{_short(lie):>22}" for lie in self.lies)
        lines = ["gain of each lie in percent of the cap; * gains significantly", head]
        for name, audited in self.audits.items():
            found = [audited[lie] for lie in self.lies]
            cells = (f"{number(100 * f.gain, 1, sign=True)}{'*' if f.low > 0 else ' '}" for f in found)
            lines.append(f"{name:<{width}}" + "".join(f"{cell:>22}" for cell in cells))
        return "\n".join(lines)

    def plot(self, path: Any = None) -> Any:
        """Draw rules against lies; needs matplotlib (the extra ``plots``)."""
        from troth.audits.plots import plot_comparison

        return plot_comparison(self, path)


def compare(
    model: Models, rules: Mapping[str, Rule], lies: Sequence[Lie], rows: Sequence[int], **options: Any
) -> Comparison:
    """Audit several rules with the same lies and the same random numbers.

    Parameters
    ----------
    rules
        Rules and baselines, by the names that tables give them.
    lies, rows, options
        As for `audit`.
    """
    strategies = [as_strategy(lie) for lie in lies]
    audits = {name: audit(model, rule, strategies, rows, **options) for name, rule in rules.items()}
    names = tuple(finding.lie for finding in next(iter(audits.values())).findings) if audits else ()
    return Comparison(audits, names)


def _short(name: str) -> str:
    return name if len(name) <= 21 else name[:10] + "…" + name[-10:]
