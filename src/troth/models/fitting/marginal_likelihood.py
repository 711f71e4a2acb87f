"""The prior of a family from past days, by maximum marginal likelihood.

Days are independent draws of θ, so the log-likelihood of a history is the sum over days of the log evidence of their
reports:

    Σ_t log p(day t) = Σ_t [Λ(total_t) − Λ(0)] + base measure of all reports.

The base measure consists of the terms that Λ leaves out because they cancel in log PMI. They may depend on fitted
parameters, such as the noise of a normal or the mean around which its values are taken. All providers share the prior
and the known parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from troth.core.contract import Array, HasBaseMeasure
from troth.core.errors import DataError, ParameterError
from troth.core.past import History, statistics_of
from troth.models.fitting.fitted import FittedPrior
from troth.models.fitting.initial_parameters import Positive, Real

if TYPE_CHECKING:
    from troth.models.family import Family

_STEP = 1e-4  # of numerical derivatives, in free numbers
MIN_DAYS = 5


def fit_prior(family: type[Family], history: History, fixed: Mapping[str, Any]) -> FittedPrior:
    """Fit a prior that all providers share by maximum marginal likelihood, with some parameters fixed.

    Raises `DataError` if there are too few days, or every value is the same.
    """
    check_fixed(family, fixed)
    return _MarginalLikelihood(family, history, fixed).maximise()


def check_fixed(family: type[Family], fixed: Mapping[str, Any]) -> None:
    """Reject unknown parameters, and missing ones that no history determines."""
    for name in fixed:
        if name not in family._names():
            raise ParameterError(f"{family.__name__} has no parameter {name!r}")
    for parameter in family.parameters():
        if parameter.name in family.given_parameters and parameter.name not in fixed:
            needed = f"the history does not determine {parameter.name}: give {parameter.name}= ({parameter.meaning})"
            raise ParameterError(f"{family.__name__}: {needed}")


class _MarginalLikelihood:
    """The marginal likelihood of a history as a function of free numbers."""

    def __init__(self, family: type[Family], history: History, fixed: Mapping[str, Any]) -> None:
        self.family, self.fixed, self.reduction = family, dict(fixed), history.reduction
        used = np.asarray(history.present, dtype=bool).any(axis=1)
        self.days = int(used.sum())
        if self.days < MIN_DAYS:
            raise DataError(
                f"{self.days} days with reports: a fit of the prior needs at least {MIN_DAYS}, preferably hundreds, "
                "because the prior describes how days differ"
            )
        self.summaries = np.asarray(history.summaries, dtype=np.float64)[used]
        self.totals = self.summaries.sum(axis=1)
        start = family.initial_parameters(self.summaries, self.reduction, self.fixed)
        self.parameters = {name: parameter for name, parameter in start.items() if name not in fixed}

    def split(self, free: Array) -> dict[str, Array]:
        """Split the free numbers by parameter."""
        ends = np.cumsum([parameter.free for parameter in self.parameters.values()])
        return dict(zip(self.parameters, np.split(free, ends[:-1]), strict=True))

    def model(self, free: Array) -> Family:
        """Return the model for these free numbers."""
        values = {name: self.parameters[name].read(part) for name, part in self.split(free).items()}
        return self.family(**self.fixed, **values)

    def log_likelihood(self, free: Array) -> float:
        """Σ_t log p(day t)."""
        model: Any = self.model(free)
        if self.family.independent_rows:  # then statistics add over rows as well
            total = statistics_of(model, self.totals, self.reduction)
        else:
            total = statistics_of(model, self.summaries, self.reduction).sum(axis=1)
        evidence = model.log_evidence(total) - model.log_evidence(np.zeros(total.shape[-1]))
        return float(evidence.sum() + model.base_measure(self.summaries, self.reduction).sum())

    def maximise(self) -> FittedPrior:
        """Maximise from several starts, and compute the curvature at the maximum."""
        from scipy.optimize import minimize  # slow to import

        free = sum(parameter.free for parameter in self.parameters.values())
        if not free:
            raise ParameterError(f"{self.family.__name__}: every parameter is fixed; there is nothing to fit")
        if not isinstance(self.model(np.zeros(free)), HasBaseMeasure):
            raise ParameterError(f"{self.family.__name__} has no base_measure, so its prior cannot be fitted")

        def loss(x: Array) -> float:
            try:
                value = self.log_likelihood(x)
            except (ParameterError, DataError, np.linalg.LinAlgError):
                return 1e300
            return -value if np.isfinite(value) else 1e300

        reach = np.concatenate([np.full(parameter.free, parameter.reach) for parameter in self.parameters.values()])
        self.log_likelihood(np.zeros(free))  # raises an error if summaries lack what the family needs
        bounds = [(-bound, bound) for bound in reach.tolist()]
        search = partial(minimize, loss, method="L-BFGS-B", bounds=bounds, options={"maxiter": 500, "ftol": 1e-13})
        best = reduce(lambda best, other: other if other.fun < best.fun - 1e-9 else best, map(search, self._starts()))
        if best.fun >= 1e300:
            raise DataError(f"{self.family.__name__}: no prior makes this history possible")
        curvature = _hessian(loss, best.x)
        x = _newton(loss, best.x, curvature, reach)
        return FittedPrior(self.model(x), -float(loss(x)), self._errors(curvature, x), self.days, self._at_bound(x))

    def _starts(self) -> list[Array]:
        """Return the moment estimates, and these with all positive numbers ten times larger or smaller."""
        positive = [
            np.full(parameter.free, float(isinstance(parameter, Positive))) for parameter in self.parameters.values()
        ]
        return [move * np.concatenate(positive) for move in (0.0, 2.3, -2.3)]

    def _errors(self, curvature: Array, x: Array) -> dict[str, Any]:
        """Return standard errors of the parameters by the delta method."""
        try:
            values, vectors = np.linalg.eigh(curvature)
        except np.linalg.LinAlgError:
            values, vectors = np.zeros(len(x)), np.eye(len(x))
        flat = values <= 1e-7 * max(float(np.abs(values).max()), 1e-300)
        spread = (vectors / np.sqrt(np.where(flat, 1.0, values))) @ vectors.T
        covariance = spread @ spread
        undetermined = (np.abs(vectors[:, flat]) > 1e-3).any(axis=1)

        def flatten(free: Array) -> dict[str, Array]:
            model = self.model(free)
            return {name: np.asarray(getattr(model, name), dtype=np.float64) for name in self.parameters}

        moved = [(flatten(x + step), flatten(x - step)) for step in _STEP * np.eye(len(x))]
        errors: dict[str, Any] = {}
        for name in self.parameters:
            slope = np.stack([(up[name] - down[name]) / (2 * _STEP) for up, down in moved], axis=-1)
            variance = np.einsum("...i,ij,...j->...", slope, covariance, slope)
            infinite = (np.abs(slope[..., undetermined]) > 0).any(axis=-1)
            error = np.where(infinite, np.inf, np.sqrt(variance))
            errors[name] = float(error) if error.ndim == 0 else error
        return errors

    def _at_bound(self, x: Array) -> tuple[str, ...]:
        parts = ((name, self.parameters[name], part) for name, part in self.split(x).items())
        far = ((name, parameter) for name, parameter, part in parts if (np.abs(part) > 0.5 * parameter.reach).any())
        return tuple(name for name, parameter in far if not isinstance(parameter, Real))


def _newton(loss: Callable[[Array], float], x: Array, curvature: Array, reach: Array) -> Array:
    """Take one Newton step if it lowers the loss and stays within the bounds."""
    slope = np.array([(loss(x + step) - loss(x - step)) / (2 * _STEP) for step in _STEP * np.eye(len(x))])
    try:
        moved = x - np.linalg.solve(curvature, slope)
    except np.linalg.LinAlgError:
        return x
    return moved if (np.abs(moved) <= reach).all() and loss(moved) < loss(x) else x


def _hessian(loss: Callable[[Array], float], x: Array) -> Array:
    """Return the Hessian by central differences, with steps doubled until the loss rises noticeably."""
    size, centre = len(x), loss(x)
    step = np.full(size, 1e-3)
    axes = np.eye(size)
    for k in range(size):
        for _ in range(12):
            move = step[k] * axes[k]
            rise = (loss(x + move) + loss(x - move)) / 2 - centre
            if rise > 0.05 or step[k] > 0.5:
                break
            step[k] *= 2
    H = np.empty((size, size))
    for i in range(size):
        for j in range(i + 1):
            a, b = step[i] * axes[i], step[j] * axes[j]
            if i == j:
                second = loss(x + a) - 2 * centre + loss(x - a)
            else:
                second = (loss(x + a + b) - loss(x + a - b) - loss(x - a + b) + loss(x - a - b)) / 4
            H[i, j] = H[j, i] = second / (step[i] * step[j])
    return H
