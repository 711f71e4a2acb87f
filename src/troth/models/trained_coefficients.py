"""Coefficients of trained linear estimators, as scikit-learn names them: only numbers are read of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from troth.core.errors import ParameterError
from troth.core.support import Array


def trained_coefficients(estimators: Sequence[Any]) -> tuple[Array, int]:
    """Return a row of coefficients for each estimator, and how many classes they know (0 for counts and numbers).

    With several classes the coefficients follow each other class by class. If any estimator has an intercept, it is the
    first coefficient of each class.
    """
    if not estimators:
        raise ParameterError("give at least one trained estimator")
    for k, each in enumerate(estimators):
        if not hasattr(each, "coef_"):
            raise ParameterError(
                f"estimator {k} ({type(each).__name__}) has no coef_: train a linear one. Where a pipeline "
                "standardises columns, give the campaign [model.scales] and train on these"
            )
    classes = [[str(label) for label in getattr(each, "classes_", ())] for each in estimators]
    if any(each != classes[0] for each in classes):
        raise ParameterError("give estimators that were trained on the same classes")
    slopes = [np.atleast_2d(np.asarray(each.coef_, dtype=np.float64)) for each in estimators]
    if len({each.shape for each in slopes}) > 1:
        raise ParameterError("give estimators that were trained on the same columns")
    constants = [np.broadcast_to(np.ravel(getattr(each, "intercept_", 0.0)), len(slopes[0])) for each in estimators]
    if any(np.any(each) for each in constants):
        slopes = [np.column_stack([first, rest]) for first, rest in zip(constants, slopes, strict=True)]
    return np.stack([each.ravel() for each in slopes]), len(classes[0])
