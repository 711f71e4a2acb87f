"""Troth and pyDVL on the same providers: the time of a round, and the expected payment that each lie loses.

pyDVL's values are turned into payments in proportion to max(value, 0). The unit is an equal share of the budget, which
is Troth's cap. Run ``python -m benchmarks pydvl``, with ``--full`` for ten times the simulations, ``--plot`` to draw
the picture and ``--write`` to update the tables of the documentation. Needs pyDVL: `benchmarks.pydvl_values.INSTALL`.
"""

from __future__ import annotations

import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from benchmarks import pydvl_values as values
from benchmarks.pydvl_pay import EFFORTS, Outcome, outcomes
from benchmarks.pydvl_rounds import LIES, ROWS, SETTINGS, TEST_ROWS
from benchmarks.pydvl_times import time_table
from benchmarks.tables import replace_table

PAGE = Path(__file__).parents[1] / "docs" / "comparison.md"
PICTURE = Path(__file__).parents[1] / "docs" / "images" / "pydvl.png"
MIN_SIMULATIONS = 5  # means of fewer simulations are in brackets


def loss_table(setting: int, providers: int, by_rule: dict[str, Outcome]) -> list[str]:
    """Tabulate what each lie loses in percent of an equal share, in Markdown."""
    out = [f"### Pay lost by a lie: {SETTINGS[setting].name}, {providers:,} providers", ""]
    out += [f"| method | {' | '.join(LIES)} | honest pay | simulations |", "|---" * (len(LIES) + 3) + "|"]
    for name, outcome in by_rule.items():
        cells = [f"{100 * m:.1f} ± {100 * e:.1f}" for m, e in zip(outcome.mean(), outcome.error(), strict=True)]
        cells = [f"({cell})" if len(outcome.loss) < MIN_SIMULATIONS else cell for cell in cells]
        out.append(f"| {name} | {' | '.join(cells)} | {100 * outcome.honest.mean():.0f} | {len(outcome.loss):,} |")
    return [*out, ""]


def rank_table(setting: int, by_rule: dict[str, Outcome]) -> list[str]:
    """Tabulate how many of the honest providers are valued above the liar, in Markdown."""
    out = [f"### Honest providers who rank above the liar, in percent: {SETTINGS[setting].name}, 10 providers", ""]
    out += [f"| method | {' | '.join(LIES)} |", "|---" * (len(LIES) + 1) + "|"]
    for name, outcome in by_rule.items():
        out.append(f"| {name} | {' | '.join(f'{100 * r:.0f}' for r in outcome.rank.mean(axis=0))} |")
    return [*out, ""]


def main() -> None:
    if not values.is_installed():
        print(f"The comparison with pyDVL is left out: pyDVL is not installed. {values.INSTALL}")
        return
    start, factor = time.perf_counter(), 10 if "--full" in sys.argv else 1
    print(f"Troth and pyDVL: {ROWS} rows a provider, a test set of {TEST_ROWS} rows for methods that need one\n")
    lines, small = [], {}
    for setting in range(len(SETTINGS)):
        lines += _print_table(time_table(setting))
    ranks: list[list[str]] = []
    with ProcessPoolExecutor(2) as pool:
        for setting in range(len(SETTINGS)):
            for providers in EFFORTS:
                by_rule = outcomes(setting, providers, factor, pool)
                lines += _print_table(loss_table(setting, providers, by_rule))
                if providers == min(EFFORTS):
                    small[SETTINGS[setting].name] = by_rule
                    ranks.append(rank_table(setting, by_rule))
    for table in ranks:
        lines += _print_table(table)
    print(f"{time.perf_counter() - start:.0f} s in all")
    if "--plot" in sys.argv:
        from benchmarks.pydvl_picture import draw_picture

        draw_picture(small, PICTURE)
    if "--write" in sys.argv:
        replace_table(PAGE, "table", lines)


def _print_table(table: list[str]) -> list[str]:
    print("\n".join(table), flush=True)
    return table


if __name__ == "__main__":
    main()
