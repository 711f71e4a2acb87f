"""The time of one round under each method, starting from rows, single-threaded."""

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

CONVERGED = 100  # the minimum number of permutations under pyDVL's default stopping rule


def seconds(setting: int, providers: int) -> dict[str, float]:
    """Return the seconds of one round under each method."""
    model, task = SETTINGS[setting].model, SETTINGS[setting].task
    world = draw(SETTINGS[setting], providers, 0)
    reports, test = as_reports(world.rows[0]), as_reports([world.test])[0]
    t, t_test = next(statistics(SETTINGS[setting], world)), model.statistics(world.test)
    permutations = EFFORTS[providers].permutations

    def rows_to_statistics() -> Any:
        return model.statistics(together(world.rows[0]))

    def evidence() -> Any:
        return baselines.LeaveOneOutValue().breakdown(Round(model, t[0], test=t_test)).score

    difference = np.abs(evidence() - values.evidence_leave_one_out(model, t[0], t_test)).max()
    if difference > 1e-6:
        raise AssertionError(f"leave-one-out by evidence differs between the libraries by {difference:g}")
    calls: dict[str, Callable[[], object]] = {
        "rows to statistics": rows_to_statistics,
        "Troth: LineUp, 999 decoys": lambda: share(LineUp(), model, t[None], 0),
        "Troth: SyntheticPeers, 64 draws": lambda: share(RULES["Troth: SyntheticPeers"], model, t[None], 0),
        "Troth: MultiDay": lambda: share(RULES["Troth: MultiDay"], model, t[None], 0),
        "Troth: leave-one-out of the evidence, a test set": evidence,
        "pyDVL: leave-one-out of Troth's evidence, a test set": lambda: values.evidence_leave_one_out(
            model, t[0], t_test
        ),
        "pyDVL: leave-one-out, a test set": lambda: values.leave_one_out(task, reports, test),
        f"pyDVL: Shapley, {permutations} permutations": lambda: values.shapley(task, reports, test, permutations, 0),
        f"pyDVL: Data-OOB, {MODELS} models": lambda: values.out_of_bag(task, reports, MODELS, 0),
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
    """Tabulate the milliseconds of a round, and their ratio to those of `LineUp`, in Markdown."""
    by_effort = {n: seconds(setting, n) for n in EFFORTS}
    reference = "Troth: LineUp, 999 decoys"
    out = [f"### Time for a round: {SETTINGS[setting].name}", ""]
    out += [f"| method | {' | '.join(f'{n:,} providers' for n in EFFORTS)} |", "|---" * (len(EFFORTS) + 1) + "|"]
    for name in by_effort[10]:
        cells = []
        for n, times in by_effort.items():
            prefix = "≈ " if "Shapley" in name and (EFFORTS[n].permutations < 20 or str(CONVERGED) in name) else ""
            cells.append(f"{prefix}{_rounded(1000 * times[name])} ms ({_rounded(times[name] / times[reference])}×)")
        out.append(f"| {name} | {' | '.join(cells)} |")
    return [*out, ""]


def _time(call: Callable[[], object]) -> float:
    """Return the minimum of a few times, or the first if it exceeds two seconds."""
    start = time.perf_counter()
    call()
    seconds = time.perf_counter() - start
    return seconds if seconds > 2 else best_time(call, 3)


def _rounded(x: float) -> str:
    return f"{x:.2g}" if x < 10 else f"{x:,.0f}"
