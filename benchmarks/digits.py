"""Digits: copied, mislabelled, noised and partial datasets, valued by Troth and by pyDVL side by side.

Ten providers have 60 images each of scikit-learn's digits, embedded by eight principal components of public images.
In a second setting they have 10 images and two components each; the decoys are then near enough for the line-up to
tell small lies from the truth. Provider 0 corrupts its data. pyDVL's methods get 300 clean test images (Data-OOB needs
none); Troth gets none. ``python -m benchmarks digits`` prints, for each method and lie, the cost of the lie in units of
an equal share, how often provider 0 ranks last, and the time to value all providers once.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.ensemble import BaggingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

from benchmarks.pydvl_values import INSTALL, is_installed, pay_from_values, stack
from troth import LineUp, models
from troth.core.information import leave_one_out, log_pmi

PROVIDERS, PUBLIC, TEST = 10, 297, 300
SETTINGS = ((60, 8), (10, 2))
"""Images per provider and components."""

Reports = list[tuple[Any, Any]]


def corrupt(rng: np.random.Generator, reports: Reports, lie: str) -> Reports:
    """Return the reports with that of provider 0 changed by a lie."""
    (x, y), *rest = reports
    if lie == "copied from a peer":
        x, y = rest[0]
    elif lie == "30% mislabelled":
        y = np.where(rng.random(len(y)) < 0.3, (y + rng.integers(1, 10, len(y))) % 10, y)
    elif lie == "noised":
        x = x + rng.normal(size=x.shape)
    elif lie == "half of the rows":
        x, y = x[::2], y[::2]
    elif lie == "labels shuffled":
        y = rng.permutation(y)
    return [(x, y), *rest]


LIES = ("truth", "copied from a peer", "30% mislabelled", "noised", "half of the rows", "labels shuffled")


def embedded(seed: int, rows: int, components: int) -> tuple[Reports, Any, Any]:
    """Return the providers' rows, the test rows and the public rows of a random split."""
    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(y))
    public, test = order[:PUBLIC], order[PUBLIC : PUBLIC + TEST]
    z = PCA(components, whiten=True, random_state=0).fit(x[public]).transform(x)
    start = PUBLIC + TEST
    parts = [order[start + k * rows : start + (k + 1) * rows] for k in range(PROVIDERS)]
    return [(z[p], y[p]) for p in parts], (z[test], y[test]), (z[public], y[public])


def line_up(reports: Reports, public: Any, strict: float) -> Any:
    """Return shares of the caps under `LineUp` with a softmax regression expanded at the mode of public rows."""
    model = _model(public)
    t = np.stack([model.statistics((_with_intercept(x), y)) for x, y in reports])
    sampled = [model.with_features(_with_intercept(x)) for x, _ in reports]
    rule = LineUp(decoys=49, strict=strict)
    return rule.pay(sampled, t, budget=float(PROVIDERS), rng=np.random.default_rng(1))


def scores(reports: Reports, public: Any) -> Any:
    """Return the log PMI of each provider with its peers, which is what the line-up ranks."""
    model = _model(public)
    t = np.stack([model.statistics((_with_intercept(x), y)) for x, y in reports])
    return log_pmi(model, t, leave_one_out(t))


def _model(public: Any) -> Any:
    z = _with_intercept(public[0])
    model = models.SoftmaxRegression(np.zeros(10 * z.shape[1]), 1.0, classes=10)
    return model.expanded_at_mode((z, public[1]))


def _with_intercept(x: Any) -> Any:
    return np.column_stack([np.ones(len(x)), x])


def pydvl_values(method: str, reports: Reports, test: Any, _: Any) -> Any:
    """Return the values of providers under a method of pyDVL; values of rows are summed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dvl: Any = import_module("pydvl.valuation")
    x, y, groups = stack(reports)
    clean = dvl.Dataset(*test)
    classifier = LogisticRegression(max_iter=200)
    if method == "Data-OOB":
        bag = BaggingClassifier(classifier, n_estimators=50, random_state=0).fit(x, y)
        values = dvl.DataOOBValuation(bag).fit(dvl.Dataset(x, y)).result.values
        return np.bincount(groups, np.nan_to_num(values), len(reports))
    if method == "kNN-Shapley":
        valuation = dvl.KNNShapleyValuation(KNeighborsClassifier(5), clean, progress=False)
        return np.bincount(groups, valuation.fit(dvl.Dataset(x, y)).result.values, len(reports))
    scorer = dvl.SupervisedScorer("accuracy", clean, default=0.1, range=(0, 1))
    utility = dvl.ModelUtility(classifier, scorer, show_warnings=False)
    if method == "leave-one-out":
        valuation = dvl.LOOValuation(utility)
    else:
        valuation = dvl.TMCShapleyValuation(utility, is_done=dvl.MinUpdates(10), seed=1, show_warnings=False)
    result = valuation.fit(dvl.GroupedDataset(x, y, groups.tolist())).result
    values = np.zeros(len(reports))
    values[result.indices] = result.values
    return values


def main(simulations: int = 3) -> None:
    """Print the comparison."""
    if not is_installed():
        print(f"pyDVL is not installed: {INSTALL}")
        return
    methods: dict[str, Callable[[Reports, Any, Any], Any]] = {
        "line-up": lambda reports, _, public: line_up(reports, public, 0.0),
        "line-up, strict 0.5": lambda reports, _, public: line_up(reports, public, 0.5),
        "log PMI": lambda reports, _, public: scores(reports, public),
    }
    for name in ("leave-one-out", "Shapley", "Data-OOB", "kNN-Shapley"):
        methods[name] = partial(pydvl_values, name)
    for setting in SETTINGS:
        print(f"{setting[0]} images of each provider, {setting[1]} components")
        compare(methods, simulations, *setting)


def compare(
    methods: dict[str, Callable[[Reports, Any, Any], Any]], simulations: int, rows: int, components: int
) -> None:
    """Print a line for each method: the cost of each lie, how often the liar ranks last, and the time."""
    for name, method in methods.items():
        pay, last, start = np.zeros((simulations, len(LIES))), np.zeros(len(LIES)), time.process_time()
        for k in range(simulations):
            reports, test, public = embedded(k, rows, components)
            for j, lie in enumerate(LIES):
                values = method(corrupt(np.random.default_rng(k), reports, lie), test, public)
                pay[k, j] = values[0] if name.startswith("line-up") else pay_from_values(values)[0]
                last[j] += values[0] <= values.min() + 1e-12 and (values < values.max()).any()
        seconds = (time.process_time() - start) / (simulations * len(LIES))
        lost = pay[:, :1] - pay
        cells = ", ".join(
            f"{lie} {lost[:, j].mean():+.2f} ± {lost[:, j].std() / np.sqrt(simulations):.2f} (last {last[j] / simulations:.0%})"
            for j, lie in enumerate(LIES)
            if j
        )
        print(f"{name}: {cells}; {seconds:.2f} s", flush=True)


if __name__ == "__main__":
    main()
