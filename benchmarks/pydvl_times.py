"""Seconds for one round by each method, from the rows on, single-threaded."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks import pydvl_values as values
from benchmarks.pydvl_pay import EFFORTS, MODELS, RULES, share
from benchmarks.pydvl_rounds import SETTINGS, as_reports, draw, statistics, together
from benchmarks.timing import best_time
from troth import baselines
from troth.mechanisms import LineUp, Round

CONVERGED = 100  # permutations that pyDVL's default stopping rule looks back over, so it cannot stop sooner


def seconds(setting: int, providers: int) -> dict[str, float]:
    """Seconds for one round from the rows on, single-threaded."""
    model, task = SETTINGS[setting].model, SETTINGS[setting].task
    world = draw(SETTINGS[setting], providers, 0)
    told, test = as_reports(world.rows[0]), as_reports([world.test])[0]
    t, t_test = next(statistics(SETTINGS[setting], world)), model.statistics(world.test)
    permutations = EFFORTS[providers].permutations

    def rows_to_statistics() -> Any:
        return model.statistics(together(world.rows[0]))

    def evidence() -> Any:
        return baselines.LeaveOneOutValue().breakdown(Round(model, t[0], test=t_test)).score

    same = np.abs(evidence() - values.evidence_leave_one_out(model, t[0], t_test)).max()
    if same > 1e-6:
        raise AssertionError(f"leave-one-out by evidence differs between the libraries by {same:g}")
    calls: dict[str, Callable[[], object]] = {
        "rows to statistics": rows_to_statistics,
        "Troth: LineUp, 999 decoys": lambda: share(LineUp(), model, t[None], 0),
        "Troth: SyntheticPeers, 64 draws": lambda: share(RULES["Troth: SyntheticPeers"], model, t[None], 0),
        "Troth: MultiDay": lambda: share(RULES["Troth: MultiDay"], model, t[None], 0),
        "Troth: leave-one-out of the evidence, a test set": evidence,
        "pyDVL: leave-one-out of Troth's evidence, a test set": lambda: values.evidence_leave_one_out(
            model, t[0], t_test
        ),
        "pyDVL: leave-one-out, a test set": lambda: values.leave_one_out(task, told, test),
        f"pyDVL: Shapley, {permutations} permutations": lambda: values.shapley(task, told, test, permutations, 0),
        f"pyDVL: Data-OOB, {MODELS} models": lambda: values.out_of_bag(task, told, MODELS, 0),
    }
    with threadpool_limits(1):
        times = {name: _time(call) for name, call in calls.items()}
    shared = times.pop("rows to statistics")
    for name in times:
        if name.startswith("Troth") or "Troth's" in name:
            times[name] += shared
    shapley = times.pop(f"pyDVL: Shapley, {permutations} permutations")
    times["pyDVL: Shapley, 20 permutations"] = shapley * 20 / permutations
    times[f"pyDVL: Shapley, {CONVERGED} permutations, extrapolated"] = shapley * CONVERGED / permutations
    return times


def time_table(setting: int) -> list[str]:
    """Milliseconds for a round, and how many times as long as LineUp it takes, in Markdown."""
    by_effort = {n: seconds(setting, n) for n in EFFORTS}
    first = "Troth: LineUp, 999 decoys"
    out = [f"### Time for a round: {SETTINGS[setting].name}", ""]
    out += [f"| method | {' | '.join(f'{n:,} providers' for n in EFFORTS)} |", "|---" * (len(EFFORTS) + 1) + "|"]
    for name in by_effort[10]:
        cells = []
        for n, times in by_effort.items():
            guess = "≈ " if "Shapley" in name and (EFFORTS[n].permutations < 20 or str(CONVERGED) in name) else ""
            cells.append(f"{guess}{_digits(1000 * times[name])} ms ({_digits(times[name] / times[first])}×)")
        out.append(f"| {name} | {' | '.join(cells)} |")
    return [*out, ""]


def _time(call: Callable[[], object]) -> float:
    """Best of a few, or the first try where that takes seconds already."""
    start = time.perf_counter()
    call()
    once = time.perf_counter() - start
    return once if once > 2 else best_time(call, 3)


def _digits(x: float) -> str:
    return f"{x:.2g}" if x < 10 else f"{x:,.0f}"
