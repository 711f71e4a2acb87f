"""What one malicious report costs its sender and each of the others under each rule: ``python -m benchmarks griefing``.

The last of eight providers turns malicious. Costs are shares of the cap, averaged over rounds that are simulated with
and without the attack. If a rule rejects a report, the report is left out, and the others are paid without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import troth
from troth import models
from troth.core.errors import ReportError
from troth.mechanisms.tasks import Tasks

if TYPE_CHECKING:
    from collections.abc import Callable

PROVIDERS, ROWS, SIMULATIONS = 8, 40, 200
PANELS = (1, 2, 4, 8)
VALUES_ALLOWED = (-10.0, 10.0)


class Attack(NamedTuple):
    """A model, and how the last provider changes its honest summary; ``rows`` counts the rows of a summary."""

    name: str
    model: Any
    malicious: Callable[[Any], Any]
    rows: Callable[[Any], float] = lambda summary: float(summary.sum())


def _opposite(rows: float) -> Callable[[Any], Any]:
    return lambda honest: np.where(honest == honest.max(), 0.0, rows)


def _value(size: float) -> Callable[[Any], Any]:
    return lambda honest: honest + np.array([0.0, size])


def _features(size: float) -> Callable[[Any], Any]:
    """Features of this size that explain nothing; a summary is n and the Gram matrix of the columns."""
    return lambda honest: np.append(honest[0], np.diag([size**2, size**2, honest[-1]]).ravel())


YES_NO = models.Bernoulli(2, 2)
VALUES = models.Normal(0, 2, 1)
DIFFERING, DIFFERING_VALUES = models.VaryingBernoulli(2, 2), models.VaryingNormal(0, 2, 1)
REGRESSION = models.LinearRegressionUnknownNoise([0, 0], [[1, 0], [0, 1]], 3, 2)
CERTAIN = models.Finite([0.5, 0.5], [[0.5, 0.5, 0.0], [0.5, 0.0, 0.5]])

ATTACKS = [
    Attack("4,000 opposite yes/no rows", YES_NO, _opposite(4e3)),
    Attack("a billion opposite rows", YES_NO, _opposite(1e9)),
    Attack("10¹⁹ rows", YES_NO, _opposite(1e19)),
    Attack("one value of 10⁹", VALUES, _value(1e9), lambda s: s[0]),
    Attack("one value of 10²⁰⁰", VALUES, _value(1e200), lambda s: s[0]),
    Attack("a Gram matrix of 10¹⁸", REGRESSION, _features(1e9), lambda s: s[0]),
    Attack("a symbol that rules out the true state", CERTAIN, lambda honest: np.where(honest == 0, 2.0, 0.0)),
]


HIERARCHICAL = [
    Attack("4,000 opposite yes/no rows", DIFFERING, _opposite(4e3)),
    Attack("a billion opposite rows", DIFFERING, _opposite(1e9)),
    Attack("a value of 10⁹", DIFFERING_VALUES, lambda honest: honest + np.array([0.0, 1e9, 1e18]), lambda s: s[0]),
]
"""The same attacks under models whose providers may differ."""


def rules() -> dict[str, Any]:
    """Return the rules to compare."""
    line_ups = {f"LineUp, {b} panel{'s' * (b > 1)}": troth.LineUp(panels=b, decoys=99) for b in PANELS}
    return {"SyntheticPeers": troth.SyntheticPeers(draws=64), **line_ups}


def measure(
    attack: Attack, rule: Any, limited: bool = False, simulations: int = SIMULATIONS
) -> tuple[float, float, str]:
    """Return the cost of the attack to its sender and to each of the others, and whose report was rejected, if any.

    ``limited`` stands for a campaign that allows ``ROWS`` rows of values between −10 and 10.
    """
    model, costs, rejected = attack.model, [], ""
    for seed in range(simulations):
        rng = np.random.default_rng([seed, 7])
        theta = model.draw_parameters(rng)
        summaries = np.stack([model.summary(model.draw_data(rng, theta, ROWS)) for _ in range(PROVIDERS)])
        attacked = summaries.copy()
        attacked[-1] = attack.malicious(summaries[-1])
        sizes = np.full(PROVIDERS, float(ROWS))

        def pay(reports: Any, sizes: Any, seed: int = seed) -> Any:
            with np.errstate(all="ignore"):
                t = model.from_summary(reports)
                return rule.pay(model, t, budget=PROVIDERS, rows=sizes, rng=np.random.default_rng(seed))

        honest = pay(summaries, sizes)
        attacked_sizes = np.append(sizes[:-1], attack.rows(attacked[-1]))
        try:
            if limited and not _allowed(attack, attacked[-1]):
                raise ReportError(PROVIDERS - 1, "beyond the campaign's limits")
            paid = pay(attacked, attacked_sizes)
        except ReportError as error:
            attacked[error.provider], attacked_sizes[error.provider] = 0.0, 0.0
            paid = pay(attacked, attacked_sizes)
            paid[error.provider] = 0.0
            rejected = "named" if error.provider == PROVIDERS - 1 else "an honest provider"
        costs.append((honest[-1] - paid[-1], (honest - paid)[:-1].mean()))
    own, others = np.mean(costs, axis=0)
    return float(own), float(others), rejected


def _allowed(attack: Attack, summary: Any) -> bool:
    try:
        attack.model.reduction.check(summary, VALUES_ALLOWED)
    except troth.DataError:
        return False
    return attack.rows(summary) <= ROWS


def extra_row() -> tuple[float, float]:
    """Return the cost of an extra row on the next day to its sender and to each of the others under `MultiDay`."""
    costs = []
    for seed in range(SIMULATIONS):
        rng = np.random.default_rng([seed, 8])
        theta = YES_NO.draw_parameters(rng, (2,))[:, None]
        t = YES_NO.draw_statistics(rng, theta, np.full((2, PROVIDERS, 1), float(ROWS)))
        attacked = t.copy()
        attacked[1, -1, 0] += 1
        honest, paid = (troth.MultiDay().pay(YES_NO, days, budget=PROVIDERS)[0] for days in (t, attacked))
        costs.append((honest[-1] - paid[-1], (honest - paid)[:-1].mean()))
    own, others = np.mean(costs, axis=0)
    return float(own), float(others)


LABELS = models.Finite([1 / 3] * 3, (0.7 * np.eye(3) + 0.1).tolist())
TASKS: dict[str, tuple[Any, Callable[[Any], Any]]] = {
    "another label on every task": (LABELS, lambda honest: np.roll(honest, 1, axis=1)),
    "one label on every task": (LABELS, lambda honest: np.tile([1.0, 0.0, 0.0], (len(honest), 1))),
    "30 on every task": (VALUES, lambda honest: np.tile([1.0, 30.0], (len(honest), 1))),
    "10 on every task": (VALUES, lambda honest: np.tile([1.0, 10.0], (len(honest), 1))),
    "10⁹ on every task": (VALUES, lambda honest: np.tile([1.0, 1e9], (len(honest), 1))),
}
"""Malicious answers of one worker: to labels of three classes that are correct with probability 0.8, or to values."""


def measure_tasks(name: str, workers: int, panels: int = 1, tasks: int = 500) -> tuple[float, float]:
    """Return the cost to the malicious worker and to each other worker, as shares of the price; all answer all tasks."""
    model, malicious = TASKS[name]
    rng = np.random.default_rng([len(name), workers])
    theta = [model.draw_parameters(rng) for _ in range(tasks)]
    honest = np.array(
        [model.summary(model.draw_data(rng, parameters, 1)) for parameters in theta for _ in range(workers)]
    )
    task, worker = np.divmod(np.arange(len(honest)), workers)
    attacked = honest.copy()
    attacked[worker == workers - 1] = malicious(honest[worker == workers - 1])
    rule = troth.LineUp(panels=panels, **troth.LineUp.task_defaults(model) if panels == 1 else {"decoys": 49})
    zeros = np.zeros(workers, dtype=np.intp)
    honest_pay, attacked_pay = (
        rule.evaluate_tasks(Tasks(task, worker, each, (model,), zeros, np.arange(workers)), np.random.default_rng(1))
        for each in (honest, attacked)
    )
    lost = (honest_pay.share - attacked_pay.share).reshape(tasks, workers).mean(axis=0)
    return float(lost[-1]), float(lost[:-1].mean())


def main() -> None:
    """Print the costs of each attack to its sender and to each of the others, without and with limits."""
    compared = rules()
    print("| attack | " + " | ".join([*compared, "with [limits]"]) + " |")
    print("|---" * (len(compared) + 2) + "|")
    for attack in ATTACKS:
        cells = [_cell(*measure(attack, rule)) for rule in compared.values()]
        cells.append(_cell(*measure(attack, compared["SyntheticPeers"], limited=True)))
        print(f"| {attack.name} | " + " | ".join(cells) + " |", flush=True)
    print("under models whose providers may differ")
    for attack in HIERARCHICAL:
        line_ups = [rule for name, rule in compared.items() if name != "SyntheticPeers"]
        cells = [_cell(*measure(attack, rule, simulations=SIMULATIONS // 5)) for rule in line_ups]
        print(f"| {attack.name} | " + " | ".join(cells) + " |", flush=True)
    print(f"one extra row under MultiDay: {_cell(*extra_row())}")
    print("on tasks with four workers each, with 1, 2 and 3 panels")
    for name in TASKS:
        cells = [_cell(*measure_tasks(name, 4, panels)) for panels in (1, 2, 3)]
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def _cell(own: float, others: float, rejected: str = "") -> str:
    return f"{own:+.0%} / {others:+.0%}" + (f" ({rejected})" if rejected else "")


if __name__ == "__main__":
    main()
