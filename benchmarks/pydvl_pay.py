"""Payments under each method on the same rounds, with all providers honest and with liars."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from itertools import repeat
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import troth
from benchmarks import pydvl_values as values
from benchmarks.pydvl_rounds import LIES, ROWS, SETTINGS, as_reports, draw, plays, reported, statistics

MODELS = 50  # in the bag of Data-OOB
BATCH = 20  # rounds per call of Troth


@dataclass(frozen=True)
class Effort:
    """Rounds per method (0 to skip it) and Shapley permutations, for a number of providers."""

    troth: int
    evidence: int
    leave_one_out: int
    leave_one_out_split: int
    shapley: int
    shapley_split: int
    out_of_bag: int
    permutations: int


EFFORTS = {
    10: Effort(2000, 200, 200, 200, 40, 40, 40, 20),
    100: Effort(300, 20, 20, 20, 8, 0, 10, 40),
    1000: Effort(40, 2, 2, 0, 2, 0, 2, 4),
}
RULES: dict[str, troth.Rule] = {
    "Troth: LineUp": troth.LineUp(decoys=49),  # the expected payment does not depend on the number of decoys
    "Troth: SyntheticPeers": troth.SyntheticPeers(),
    "Troth: MultiDay": troth.MultiDay(exchangeable=True),  # features of the next day are unpredictable
}


@dataclass(frozen=True)
class Outcome:
    """A method's results: loss and rank of each lie, ``(round, lie)``, and what honest providers earn."""

    loss: Any
    rank: Any
    honest: Any

    def mean(self) -> Any:
        """Return the mean loss of each lie."""
        return self.loss.mean(axis=0)

    def error(self) -> Any:
        """Return the standard error of the mean loss."""
        return self.loss.std(axis=0, ddof=1) / np.sqrt(len(self.loss))


def pydvl_values(method: str, setting: int, providers: int, seed: int, play: dict[int, str]) -> dict[str, Any]:
    """Return all providers' values under one of pyDVL's methods in one round."""
    task, world = SETTINGS[setting].task, draw(SETTINGS[setting], providers, seed)
    if method == "evidence":
        model = SETTINGS[setting].model
        t = np.stack([model.statistics(rows) for rows in reported(world, play)])
        value = values.evidence_leave_one_out(model, t, model.statistics(world.test))
        return {"pyDVL: leave-one-out of Troth's evidence, a test set": value}
    reports, test = as_reports(reported(world, play)), as_reports([world.test])[0]
    if method == "out_of_bag":
        mean, total = values.out_of_bag(task, reports, MODELS, seed)
        return {"pyDVL: Data-OOB, mean of rows": mean, "pyDVL: Data-OOB, sum of rows": total}
    test_source = "a test set"
    if method.endswith("split"):
        reports, test = values.split(reports)
        test_source = "rows split off"
    if method.startswith("shapley"):
        permutations = EFFORTS[providers].permutations
        return {f"pyDVL: Shapley, {test_source}": values.shapley(task, reports, test, permutations, seed)}
    return {f"pyDVL: leave-one-out, {test_source}": values.leave_one_out(task, reports, test)}


def pydvl_round(method: str, setting: int, providers: int, seed: int) -> dict[str, Any]:
    """Return loss and rank of each lie in one round, and what liars would have earned with the truth."""
    with threadpool_limits(1):
        truth = pydvl_values(method, setting, providers, seed, {})
        played = [(play, pydvl_values(method, setting, providers, seed, play)) for play in plays(providers)]
    return {
        name: _compare(
            values.pay_from_values(value),
            [(play, values.pay_from_values(by_name[name]), by_name[name]) for play, by_name in played],
        )
        for name, value in truth.items()
    }


def troth_rounds(setting: int, providers: int, start: int) -> dict[str, list[Any]]:
    """Return loss and rank of each lie under Troth's rules for a batch of rounds; pyDVL values the first rounds."""
    model = SETTINGS[setting].model
    with threadpool_limits(1):
        worlds = [draw(SETTINGS[setting], providers, seed) for seed in range(start, start + BATCH)]
        drawn = [np.stack(t) for t in zip(*(statistics(SETTINGS[setting], w) for w in worlds), strict=True)]
        shares = {name: [share(rule, model, t, start) for t in drawn] for name, rule in RULES.items()}
    return {
        name: [
            _compare(truth[r], [(play, lies[k][r], lies[k][r]) for k, play in enumerate(plays(providers))])
            for r in range(BATCH)
        ]
        for name, (truth, *lies) in shares.items()
    }


def outcomes(setting: int, providers: int, factor: int, pool: ProcessPoolExecutor) -> dict[str, Outcome]:
    """Return the outcome of every method for a number of providers."""
    rounds = {name: factor * number for name, number in asdict(EFFORTS[providers]).items() if name != "permutations"}
    constant = repeat(setting), repeat(providers)
    parts = list(pool.map(troth_rounds, *constant, range(0, rounds.pop("troth"), BATCH)))
    by_rule = {name: _outcome([outcome for part in parts for outcome in part[name]]) for name in RULES}
    for method, number in rounds.items():
        valued = list(pool.map(pydvl_round, repeat(method), *constant, range(number)))
        by_rule |= {name: _outcome([outcome[name] for outcome in valued]) for name in (valued[0] if valued else ())}
    return by_rule


def share(rule: troth.Rule, model: Any, t: Any, seed: int) -> Any:
    """Return shares of the first day, given ``(round, day, provider, statistic)``; truth and lies share their draws."""
    daily = isinstance(rule, troth.MultiDay)
    t = t if daily else t[:, 0]
    counts = np.full(t.shape[1:-1], float(ROWS))
    paid = rule.explain(model, t, rows=counts, rng=np.random.default_rng((5, seed))).share
    return paid[:, 0] if daily else paid


def _compare(truth: Any, played: list[tuple[dict[int, str], Any, Any]]) -> tuple[Any, Any, float]:
    """Return loss and rank of each lie, averaged over its liars, given ``(play, payments, values)``."""
    loss: dict[str, list[float]] = {lie: [] for lie in LIES}
    rank: dict[str, list[float]] = {lie: [] for lie in LIES}
    for play, pay, value in played:
        honest = np.delete(value, list(play))
        for liar, lie in play.items():
            loss[lie].append(float(truth[liar] - pay[liar]))
            rank[lie].append(float(np.mean(honest > value[liar]) + np.mean(honest == value[liar]) / 2))
    liars = sorted({liar for play, _, _ in played for liar in play})
    means = [np.array([np.mean(per_lie[lie]) for lie in LIES]) for per_lie in (loss, rank)]
    return means[0], means[1], float(truth[liars].mean())


def _outcome(parts: list[tuple[Any, Any, float]]) -> Outcome:
    loss, rank, honest = zip(*parts, strict=True)
    return Outcome(np.array(loss), np.array(rank), np.array(honest))
