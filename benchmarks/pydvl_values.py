"""pyDVL's leave-one-out, Shapley and Data-OOB values of providers, and how values become payments.

A report is ``(x, y)``, and a provider is a group of pyDVL's ``GroupedDataset``. Data-OOB compares row indices with
those of the bagging model, so it values rows, whose values are summed here.
"""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

INSTALL = "pip install 'troth[benchmarks]' && pip install --no-deps pydvl==0.10.0"
Report = tuple[Any, Any]


@dataclass(frozen=True)
class Task:
    """What pyDVL refits: an estimator, the mean log-likelihood of test rows, and the score in [0, 1] of one row."""

    estimator: Callable[[], Any]
    log_likelihood: Callable[[Any, Any], float]
    row_score: Callable[[Any, Any], Any]
    nothing: float  # the log-likelihood of the prior mean


def is_installed() -> bool:
    """Whether pyDVL is installed."""
    return importlib.util.find_spec("pydvl") is not None


def pay_from_values(values: Any) -> Any:
    """Return payments in proportion to max(value, 0), in units of an equal share; 0 if no value is positive."""
    positive = np.maximum(np.asarray(values, dtype=np.float64), 0.0)
    total = positive.sum()
    return positive * (len(positive) / total) if total > 0 else positive


def leave_one_out(task: Task, reports: Sequence[Report], test: Report) -> Any:
    """Return how much the test score falls without each provider, by one refit each."""
    dvl = _pydvl()
    return _by_group(reports, lambda data: dvl.LOOValuation(_utility(dvl, task, test)).fit(data))


def shapley(task: Task, reports: Sequence[Report], test: Report, permutations: int, seed: int) -> Any:
    """Estimate truncated Monte Carlo Shapley values, with pyDVL's default truncation."""
    dvl = _pydvl()

    def fit(data: Any) -> Any:
        done = dvl.MinUpdates(permutations)
        utility = _utility(dvl, task, test)
        return dvl.TMCShapleyValuation(utility, is_done=done, seed=seed, show_warnings=False).fit(data)

    return _by_group(reports, fit)


def out_of_bag(task: Task, reports: Sequence[Report], estimators: int, seed: int) -> tuple[Any, Any]:
    """Return the mean and sum of a provider's out-of-bag scores: how well models not fitted on a row predict it."""
    from sklearn.ensemble import BaggingRegressor

    dvl = _pydvl()
    x, y, groups = stack(reports)
    bag = BaggingRegressor(task.estimator(), n_estimators=estimators, random_state=seed).fit(x, y)
    score = dvl.DataOOBValuation(bag, score=lambda y_true, y_pred: task.row_score(y_pred, y_true))
    values = np.nan_to_num(score.fit(dvl.Dataset(x, y)).result.values)
    total = np.bincount(groups, values, len(reports))
    return total / np.maximum(np.bincount(groups, minlength=len(reports)), 1), total


def evidence_leave_one_out(model: Any, statistics: Any, test: Any) -> Any:
    """Return pyDVL's leave-one-out values with log p(test | S) from Troth's evidence, without refits."""
    dvl = _pydvl()
    providers = len(statistics)
    data = dvl.GroupedDataset(np.zeros((providers, 1)), np.zeros(providers), list(range(providers)))
    return dvl.LOOValuation(Evidence(model, statistics, test)).fit(data).result.values


def split(reports: Sequence[Report], every: int = 4) -> tuple[list[Report], Report]:
    """Split off every fourth row of each report for testing, as a buyer without a test set can do."""
    tests = [np.arange(len(y)) % every == every - 1 for _, y in reports]
    training = [(x[~t], y[~t]) for (x, y), t in zip(reports, tests, strict=True)]
    x, y, _ = stack([(x[t], y[t]) for (x, y), t in zip(reports, tests, strict=True)])
    return training, (x, y)


def stack(reports: Sequence[Report]) -> tuple[Any, Any, Any]:
    """Return all features, all answers, and the provider of each row."""
    x, y = (np.concatenate([report[k] for report in reports]) for k in (0, 1))
    return x, y, np.repeat(np.arange(len(reports)), [len(report[1]) for report in reports])


@dataclass
class Evidence:
    """Λ(t_S + t_test) − Λ(t_S), as a pyDVL utility."""

    model: Any
    statistics: Any
    test: Any
    training_data: Any = None

    def with_dataset(self, data: Any) -> Evidence:
        """Return the utility for a dataset."""
        return Evidence(self.model, self.statistics, self.test, data)

    def __call__(self, sample: Any) -> float:
        """Evaluate a coalition."""
        subset = [] if sample is None else sample.subset
        t = self.statistics[np.asarray(subset, dtype=int)].sum(axis=0)
        return float(self.model.log_evidence(t + self.test) - self.model.log_evidence(t))


def _pydvl() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # pyDVL 0.10 with newer pyDeprecate
        import pydvl.valuation
    return pydvl.valuation


def _utility(dvl: Any, task: Task, test: Report) -> Any:
    def score(model: Any, x: Any, y: Any) -> float:
        return task.log_likelihood(model.predict(x), y)

    scorer = dvl.SupervisedScorer(score, dvl.Dataset(*test), default=task.nothing)
    return dvl.ModelUtility(task.estimator(), scorer, catch_errors=False)


def _by_group(reports: Sequence[Report], fit: Callable[[Any], Any]) -> Any:
    """Return values of providers; those without rows get 0, as they add nothing to any coalition."""
    sent = [i for i, (_, y) in enumerate(reports) if len(y)]
    x, y, groups = stack([reports[i] for i in sent])
    values = np.zeros(len(reports))
    result = fit(_pydvl().GroupedDataset(x, y, groups.tolist())).result
    values[np.asarray(sent)[result.indices]] = result.values
    return values
