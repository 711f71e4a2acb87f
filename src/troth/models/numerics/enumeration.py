"""Enumeration of all possible reports, for models with finitely many values."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb
from typing import Any

import numpy as np
from scipy.special import gammaln

from troth.core.contract import Array, HasSummary, HasSupport, explains_target
from troth.core.errors import MissingCapabilityError
from troth.core.support import Support
from troth.models.numerics.extremes import unordered_datasets


def enumerate_reports(model: Any, sizes: Sequence[int]) -> tuple[Array, Array, Array]:
    """Return all datasets of the given sizes up to order: counts, statistics and the logarithm of the number of orders.

    Examples
    --------
    >>> import troth
    >>> counts, statistics, _ = enumerate_reports(troth.models.Bernoulli(1, 1), [2])
    >>> statistics  # (ones, zeros) of counts of 0 and of 1
    array([[2., 0.],
           [1., 1.],
           [0., 2.]])
    """
    labels = _labels(model)
    counts = np.concatenate([unordered_datasets(int(n), labels) for n in sizes])
    single = np.stack([model.summary([label]) for label in range(labels)])
    statistics = model.from_summary(counts @ single)
    possible = np.isfinite(model.log_evidence(statistics))
    orders = gammaln(counts.sum(axis=1) + 1) - gammaln(counts + 1).sum(axis=1)
    return counts[possible], statistics[possible], orders[possible]


def enumerate_together(reports: Sequence[tuple[Any, int]], width: int) -> tuple[Array, Array]:
    """Return all sums of one report per model and size: statistics and the logarithm of the number of orders."""
    total, log_orders = np.zeros((1, width)), np.zeros(1)
    for model, rows in reports:
        _, statistics, orders = enumerate_reports(model, [rows])
        total = (total[:, None] + statistics).reshape(-1, width)
        log_orders = (log_orders[:, None] + orders).ravel()
    return total, log_orders


def count_reports(model: Any, rows: int) -> int:
    """Return the number of datasets of ``rows`` rows up to order."""
    labels = _labels(model)
    return comb(rows + labels - 1, labels - 1)


def _labels(model: Any) -> int:
    support = model.support if isinstance(model, HasSupport) and isinstance(model, HasSummary) else Support()
    if not support.finite or explains_target(model):  # features have no finite support
        raise MissingCapabilityError(
            f"{type(model).__name__} has too many datasets to enumerate; use troth.audit instead"
        )
    return int(support.high) + 1
