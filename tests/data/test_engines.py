"""Whoever executes a plan yields its parts in the order of the plan: sums of floats depend on it in their last digits."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from troth.data.engines import in_threads


@dataclass(frozen=True)
class Fragment:
    number: int

    def summarise(self, request: Any, /, look: Any = None) -> Any:
        time.sleep(0.002 * (self.number % 3 == 0))  # later ones end sooner
        return self.number


def test_parts_come_in_plan_order() -> None:
    fragments: Any = [Fragment(number) for number in range(40)]
    parts: Any = in_threads(fragments, None)  # type: ignore[arg-type]
    assert list(parts) == list(range(40))
