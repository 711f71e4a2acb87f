"""The prior of a conjugate family from past days, by maximum marginal likelihood.

Days are independent draws of θ, so the likelihood of a history is a product over days of the evidence of all that was
reported on it:

    Σ_t log p(day t) = Σ_t [Λ(total_t) − Λ(0)] + terms that Λ leaves out.

Λ leaves out what cancels in log PMI. Where that depends on a parameter that is fitted (the noise of a normal, or the
mean around which its values are taken) it is put back here. All providers share the law: a textbook case that the
backtest compares with laws that differ by provider.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from scipy.optimize import minimize

from troth.core.errors import DataError, ParameterError
from troth.core.reductions import Counts, Moments, Reduction
from troth.history.convert import statistics_of
from troth.models import (
    Bernoulli,
    Categorical,
    Exponential,
    Family,
    Finite,
    Gamma,
    Geometric,
    LinearRegression,
    LinearRegressionUnknownNoise,
    MultivariateNormal,
    MultivariateNormalUnknownCovariance,
    NegativeBinomial,
    Normal,
    NormalUnknownVariance,
    Poisson,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from troth.core.contract import Array
    from troth.history.record import History

_WIDEST = 16.0  # how far from its start the logarithm of a parameter may move
_STEP = 1e-4  # of numerical derivatives, in standardised units
LEAST_DAYS = 5


@dataclass(frozen=True)
class FittedPrior:
    """A fitted prior and how well the history determines it.

    Attributes
    ----------
    model
        The family with its fitted parameters.
    log_likelihood
        Σ_t log p(day t), up to terms that no parameter changes.
    errors
        Standard errors from the curvature at the maximum, shaped as the parameters; infinite where the history does
        not determine them.
    days
        How many days were used.
    at_bound
        Parameters that ran away: the history is best explained by days that do not differ, or differ without limit.
    """

    model: Family
    log_likelihood: float
    errors: Mapping[str, Any]
    days: int
    at_bound: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [f"{type(self.model).__name__} from {self.days} days, log-likelihood {self.log_likelihood:.3f}"]
        for name, error in self.errors.items():
            value = np.array2string(np.asarray(getattr(self.model, name)), precision=4, separator=", ")
            spread = np.array2string(np.asarray(error), precision=2, separator=", ")
            lines.append(f"  {name} = {value} ± {spread}".replace("\n", " "))
        if self.at_bound:
            lines.append(f"  the history does not bound {', '.join(self.at_bound)}: days hardly differ, or too much")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {
            "model": self.model.to_dict(),
            "log_likelihood": self.log_likelihood,
            "errors": {name: np.asarray(error).tolist() for name, error in self.errors.items()},
            "days": self.days,
            "at_bound": list(self.at_bound),
        }


def fit_prior(family: type[Family] | str, history: History, **fixed: Any) -> FittedPrior:
    """Fit the prior of a family that all providers share, by maximum marginal likelihood.

    Parameters
    ----------
    family
        A conjugate family or its name.
    history
        Past reports as sums by day and provider.
    fixed
        Parameters to keep: ``r`` of the negative binomial, ``known_shape`` of the gamma and ``likelihood`` of a finite
        model must be given, and any other may be.

    Raises
    ------
    DataError
        If there are too few days, or every value is the same.

    Examples
    --------
    >>> from troth.history.arrange import from_summaries
    >>> rng = np.random.default_rng(1)
    >>> ones = rng.binomial(20, rng.beta(2, 6, size=(400, 1)), size=(400, 3))
    >>> found = fit_prior("Bernoulli", from_summaries(Counts(2), np.stack([20 - ones, ones], axis=-1)))
    >>> print(found)
    Bernoulli from 400 days, log-likelihood -12286.824
      alpha = 1.9959 ± 0.16
      beta = 6.3735 ± 0.54
    """
    law = _family(family)
    if law is Finite:
        return _fit_finite(history, **fixed)
    if law not in _PARAMETERS:
        raise ParameterError(
            f"{law.__name__} has more than a prior to learn: see fit_latent_class, or choose a conjugate family"
        )
    unknown = [name for name in fixed if name not in _PARAMETERS[law] and name not in _GIVEN.get(law, ())]
    if unknown:
        raise ParameterError(f"{law.__name__} has no parameter {unknown[0]!r}")
    missing = [name for name in _GIVEN.get(law, ()) if name not in fixed]
    if missing:
        raise ParameterError(f"{law.__name__}: the history does not tell {missing[0]}: give {missing[0]}=")
    return _Problem(law, history, fixed).solve()


class _Parameter(NamedTuple):
    """How a parameter is written as free numbers: its kind, and its size."""

    kind: str
    size: int

    @property
    def free(self) -> int:
        return self.size * (self.size + 1) // 2 if self.kind == "matrix" else self.size

    def read(self, free: Array, origin: Array, scale: Array) -> Any:
        """Return the parameter: real numbers in units of the data, logarithms of positive ones, Cholesky factors."""
        if self.kind == "real":
            value = origin + scale * free
            return float(value[0]) if self.size == 1 else value
        if self.kind == "positive":
            positive = origin * np.exp(free)
            return float(positive[0]) if self.size == 1 else positive
        root = np.zeros((self.size, self.size))
        root[np.tril_indices(self.size)] = free
        root[np.diag_indices(self.size)] = np.exp(np.diagonal(root))
        root = np.diag(scale) @ root  # origin is not needed: the start is the diagonal of squared scales
        return root @ root.T


_SCALAR: dict[type[Family], dict[str, str]] = {
    Bernoulli: {"alpha": "positive", "beta": "positive"},
    Categorical: {"alpha": "positive vector"},
    Geometric: {"alpha": "positive", "beta": "positive"},
    NegativeBinomial: {"alpha": "positive", "beta": "positive"},
    Poisson: {"shape": "positive", "rate": "positive"},
    Exponential: {"shape": "positive", "rate": "positive"},
    Gamma: {"shape": "positive", "rate": "positive"},
    Normal: {"mean": "real", "scale": "positive", "noise": "positive"},
    NormalUnknownVariance: {"mean": "real", "strength": "positive", "shape": "positive", "scale": "positive"},
    MultivariateNormal: {"mean": "real vector", "covariance": "matrix", "noise": "matrix"},
    MultivariateNormalUnknownCovariance: {
        "mean": "real vector",
        "strength": "positive",
        "dof": "positive",
        "scale": "matrix",
    },
    LinearRegression: {"mean": "real vector", "precision": "matrix", "noise": "positive"},
    LinearRegressionUnknownNoise: {
        "mean": "real vector",
        "precision": "matrix",
        "shape": "positive",
        "scale": "positive",
    },
}
_PARAMETERS = _SCALAR
_GIVEN: dict[type[Family], tuple[str, ...]] = {NegativeBinomial: ("r",), Gamma: ("known_shape",)}

_Guess: TypeAlias = dict[str, tuple[Any, Any]]  # origin and scale of each parameter


class _Problem:
    """The marginal likelihood of a history as a function of free numbers."""

    def __init__(self, law: type[Family], history: History, fixed: Mapping[str, Any]) -> None:
        self.law, self.history, self.fixed = law, history, dict(fixed)
        present = np.asarray(history.present, dtype=bool)
        self.used = np.flatnonzero(present.any(axis=1))
        if len(self.used) < LEAST_DAYS:
            raise DataError(
                f"{len(self.used)} days with reports: a prior is fitted to at least {LEAST_DAYS}, "
                "better to hundreds; its parameters are the spread of days"
            )
        self.summaries = np.asarray(history.summaries, dtype=np.float64)[self.used]
        self.totals = self.summaries.sum(axis=1)
        self.reduction = history.reduction
        self.guess, size = _start(law, self.summaries, self.reduction, self.fixed)
        self.parameters = {
            name: _Parameter(
                kind.split()[-1] if kind == "matrix" else kind.split()[0],
                size if " " in kind or kind == "matrix" else 1,
            )
            for name, kind in _PARAMETERS[law].items()
            if name not in fixed
        }

    def model(self, free: Array) -> Family:
        """Return the model with these free numbers."""
        values, start = dict(self.fixed), 0
        for name, parameter in self.parameters.items():
            origin, scale = self.guess[name]
            values[name] = parameter.read(
                free[start : start + parameter.free], np.atleast_1d(origin), np.atleast_1d(scale)
            )
            start += parameter.free
        if self.law is MultivariateNormalUnknownCovariance and "dof" in self.parameters:
            values["dof"] += len(values["mean"]) - 1
        return self.law(**values)

    def log_likelihood(self, free: Array) -> float:
        """Σ_t log p(day t)."""
        model: Any = self.model(free)
        total = statistics_of(model, self.totals, self.reduction)  # statistics of these families add over rows
        evidence = model.log_evidence(total) - model.log_evidence(np.zeros(total.shape[-1]))
        return float(evidence.sum() + model.base_measure(self.summaries, self.reduction).sum())

    def solve(self) -> FittedPrior:
        """Climb from several starts, and measure the curvature at the top."""
        free = sum(parameter.free for parameter in self.parameters.values())
        if not free:
            raise ParameterError(f"{self.law.__name__}: every parameter is fixed; there is nothing to fit")

        def loss(x: Array) -> float:
            try:
                value = self.log_likelihood(x)
            except (ParameterError, DataError, np.linalg.LinAlgError):
                return 1e300
            return -value if np.isfinite(value) else 1e300

        bounds = [(-_WIDEST, _WIDEST)] * free
        self.log_likelihood(np.zeros(free))  # refuses sums that lack what the family needs
        best = None
        for start in self._starts(free):
            found = minimize(loss, start, method="L-BFGS-B", bounds=bounds, options={"maxiter": 500, "ftol": 1e-13})
            if best is None or found.fun < best.fun - 1e-9:
                best = found
        assert best is not None  # noqa: S101 (there is at least one start)
        if best.fun >= 1e300:
            raise DataError(f"{self.law.__name__}: no prior makes this history possible")
        curvature = _hessian(loss, best.x)
        x = _newton(loss, best.x, curvature)
        return FittedPrior(
            self.model(x), -float(loss(x)), self._errors(curvature, x), len(self.used), self._at_bound(x)
        )

    def _starts(self, free: int) -> list[Array]:
        """Start at the guess by moments, and with each positive number ten times larger or smaller."""
        starts = [np.zeros(free)]
        for move in (2.3, -2.3):
            start, place = np.zeros(free), 0
            for parameter in self.parameters.values():
                if parameter.kind == "positive":
                    start[place : place + parameter.free] = move
                place += parameter.free
            starts.append(start)
        return starts

    def _errors(self, curvature: Array, x: Array) -> dict[str, Any]:
        """Return standard errors of the parameters themselves, by the delta method."""
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

        base, gradient = flatten(x), {}
        for name, value in base.items():
            gradient[name] = np.zeros((*value.shape, len(x)))
        for k in range(len(x)):
            step = np.zeros(len(x))
            step[k] = _STEP
            up, down = flatten(x + step), flatten(x - step)
            for name in base:
                gradient[name][..., k] = (up[name] - down[name]) / (2 * _STEP)
        errors: dict[str, Any] = {}
        for name, slope in gradient.items():
            variance = np.einsum("...i,ij,...j->...", slope, covariance, slope)
            lost = (np.abs(slope[..., undetermined]) > 0).any(axis=-1)
            found = np.where(lost, np.inf, np.sqrt(variance))
            errors[name] = float(found) if found.ndim == 0 else found
        return errors

    def _at_bound(self, x: Array) -> tuple[str, ...]:
        names, place = [], 0
        for name, parameter in self.parameters.items():
            part = x[place : place + parameter.free]
            place += parameter.free
            if parameter.kind != "real" and (np.abs(part) > 0.5 * _WIDEST).any():
                names.append(name)
        return tuple(names)


def _newton(loss: Callable[[Array], float], x: Array, curvature: Array) -> Array:
    """Take the last step that a search by slopes alone leaves, if it leads up."""
    step = 1e-4
    slope = np.array([(loss(x + move) - loss(x - move)) / (2 * step) for move in step * np.eye(len(x))])
    try:
        found = x - np.linalg.solve(curvature, slope)
    except np.linalg.LinAlgError:
        return x
    return found if np.abs(found).max() <= _WIDEST and loss(found) < loss(x) else x


def _hessian(loss: Callable[[Array], float], x: Array) -> Array:
    """Return second derivatives by central differences, with steps that change the loss by about one."""
    size = len(x)
    centre = loss(x)
    step = np.full(size, 1e-3)
    for k in range(size):
        for _ in range(12):
            move = np.zeros(size)
            move[k] = step[k]
            rise = (loss(x + move) + loss(x - move)) / 2 - centre
            if rise > 0.05 or step[k] > 0.5:
                break
            step[k] *= 2
    H = np.empty((size, size))
    for i in range(size):
        for j in range(i + 1):
            a, b = np.zeros(size), np.zeros(size)
            a[i], b[j] = step[i], step[j]
            if i == j:
                second = loss(x + a) - 2 * centre + loss(x - a)
            else:
                second = (loss(x + a + b) - loss(x + a - b) - loss(x - a + b) + loss(x - a - b)) / 4
            H[i, j] = H[j, i] = second / (step[i] * step[j])
    return H


def _start(law: type[Family], summaries: Array, reduction: Reduction, fixed: Mapping[str, Any]) -> tuple[_Guess, int]:
    """Guess parameters by moments of days, and say how many columns there are; refuse data that do not vary."""
    if issubclass(law, Bernoulli | Categorical):
        return _start_counts(law, summaries, reduction)
    if not isinstance(reduction, Moments):
        raise DataError(f"{law.__name__} needs numbers, but the history has counts of {reduction.labels} codes")
    if issubclass(law, LinearRegression | LinearRegressionUnknownNoise):
        return _start_regression(summaries, reduction, law)
    total = summaries.sum(axis=1)
    n = total[:, 0]
    if not reduction.linear:
        raise DataError(f"{law.__name__} needs sums of the values")
    d = reduction.columns
    means = total[:, 1 : d + 1] / n[:, None] + np.array(reduction.centre)
    centre, between = means.mean(axis=0), means.var(axis=0, ddof=1)
    within = _within(summaries, reduction)
    if (between <= 0).any() and (within <= 0).any():
        raise DataError(f"column {int(np.argmin(between))}: every value is the same, so no prior can be fitted to it")
    if issubclass(law, Poisson):
        excess = np.maximum(between - centre * np.mean(1 / n), 0.05 * between)
        return {"shape": (centre**2 / excess, 1), "rate": (centre / excess, 1)}, 1
    if issubclass(law, NegativeBinomial):
        r = float(fixed.get("r", 1.0))
        theta = r / (r + means[:, 0])
        return _beta_guess(theta), 1
    if issubclass(law, Gamma):
        k = float(fixed.get("known_shape", 1.0))
        rates = k / np.maximum(means[:, 0], 1e-300)
        variance = max(float(rates.var()) * 0.7, 1e-6 * float(rates.mean()) ** 2)
        shape = float(rates.mean()) ** 2 / variance
        return {"shape": (shape, 1), "rate": (shape / float(rates.mean()), 1)}, 1
    spread = np.sqrt(np.maximum(between - within * np.mean(1 / n), 0.05 * between) + 1e-12 * within)
    noise = np.sqrt(np.maximum(within, 1e-3 * between))
    if issubclass(law, Normal):
        return {"mean": (centre, np.sqrt(between)), "scale": (spread, 1), "noise": (noise, 1)}, 1
    if issubclass(law, NormalUnknownVariance):
        strength = within / np.maximum(spread**2, 1e-300)
        return {
            "mean": (centre, np.sqrt(between)),
            "strength": (strength, 1),
            "shape": (3.0, 1),
            "scale": (2 * noise**2, 1),
        }, 1
    guess: _Guess = {"mean": (centre, np.sqrt(between)), "covariance": (0, spread), "noise": (0, noise)}
    guess |= {"strength": (float(np.mean(within / np.maximum(spread**2, 1e-300))), 1), "dof": (4.0, 1)}
    guess["scale"] = (0, noise * 2)
    return guess, d


def _within(summaries: Array, reduction: Moments) -> Array:
    """Variance of one row around its day's mean, from squares or else from what providers' means differ by."""
    d = reduction.columns
    n, s = summaries[..., 0], summaries[..., 1 : d + 1]
    total, count = s.sum(axis=1), n.sum(axis=1)
    if reduction.squares:
        square = np.diagonal(summaries[..., 1 + d :].reshape(*summaries.shape[:-1], d, d), axis1=-2, axis2=-1).sum(
            axis=1
        )
        freedom = float((count - 1).sum())
    else:
        square = (s**2 / np.maximum(n, 1.0)[..., None]).sum(axis=1)
        freedom = float(((n > 0).sum(axis=1) - 1).sum())
    scatter = np.maximum(square - total**2 / count[:, None], 0.0).sum(axis=0)
    return np.asarray(scatter / max(freedom, 1.0))


def _start_counts(law: type[Family], summaries: Array, reduction: Reduction) -> tuple[_Guess, int]:
    if not isinstance(reduction, Counts):
        raise DataError(f"{law.__name__} needs codes that were counted, but the history has sums of numbers")
    if issubclass(law, Bernoulli) and reduction.size != 2:
        raise DataError(f"Bernoulli needs two codes, but the history has {reduction.size}: use Categorical")
    total = summaries.sum(axis=1)
    seen = total.sum(axis=0)
    if (seen == 0).any():
        code = int(np.argmin(seen))
        raise DataError(f"code {code} never occurs in the history, so its weight in the prior cannot be fitted")
    rates = total / total.sum(axis=1, keepdims=True)
    mean = rates.mean(axis=0)
    excess = rates.var(axis=0).sum() - (mean * (1 - mean)).sum() * float(np.mean(1 / total.sum(axis=1)))
    strength = max((mean * (1 - mean)).sum() / max(excess, 1e-4) - 1, 0.5)
    if issubclass(law, Bernoulli):
        return {"alpha": (mean[1] * strength, 1), "beta": (mean[0] * strength, 1)}, 1
    return {"alpha": (mean * strength, 1)}, reduction.size


def _beta_guess(theta: Array) -> _Guess:
    mean, variance = float(theta.mean()), max(float(theta.var()) * 0.7, 1e-6)
    strength = max(mean * (1 - mean) / variance - 1, 0.5)
    return {"alpha": (mean * strength, 1), "beta": ((1 - mean) * strength, 1)}


def _start_regression(summaries: Array, reduction: Moments, law: type[Family]) -> tuple[_Guess, int]:
    if not reduction.squares or any(reduction.centre) or reduction.residual:
        raise DataError("a regression needs products of features and answers, taken around zero")
    d = reduction.columns - 1
    total = summaries.sum(axis=(0, 1))
    matrix = total[1 + reduction.columns * reduction.linear :].reshape(d + 1, d + 1)
    if np.linalg.matrix_rank(matrix[:d, :d]) < d:
        raise DataError("the features of the history are linearly dependent, so their coefficients cannot be fitted")
    mean = np.linalg.solve(matrix[:d, :d], matrix[:d, d])
    rows = float(total[0])
    noise = float(np.sqrt(max(matrix[d, d] - mean @ matrix[:d, d], 1e-12 * matrix[d, d]) / max(rows - d, 1.0)))
    if noise <= 0:
        raise DataError("every answer of the history is 0, so no prior can be fitted to it")
    scale = noise / np.sqrt(np.diagonal(matrix)[:d] / rows)  # a coefficient that moves answers by one noise
    in_units = noise if issubclass(law, LinearRegressionUnknownNoise) else 1.0
    return {
        "mean": (mean, scale),
        "precision": (0, in_units / scale),
        "noise": (noise, 1),
        "shape": (3.0, 1),
        "scale": (2 * noise**2, 1),
    }, d


def _fit_finite(history: History, likelihood: Any = None, tolerance: float = 1e-10) -> FittedPrior:
    """Weights of the states of a known table by expectation maximisation; the likelihood is concave in them."""
    if likelihood is None:
        raise ParameterError("Finite: give the table likelihood= of p(symbol|state); the weights of states are fitted")
    states = len(likelihood)
    weights = np.full(states, 1 / states)
    model = Finite(weights, likelihood)
    present = np.asarray(history.present, dtype=bool).any(axis=1)
    if present.sum() < LEAST_DAYS:
        raise DataError(f"{int(present.sum())} days with reports: weights are fitted to at least {LEAST_DAYS}")
    t = statistics_of(model, np.asarray(history.summaries)[present], history.reduction).sum(axis=-2)
    peak = t.max(axis=-1, keepdims=True)
    if np.isneginf(peak).any():
        day = int(np.flatnonzero(present)[int(np.argmax(np.isneginf(peak[:, 0])))])
        raise DataError(f"day {history.days[day]}: no state of the table could have produced these reports")
    chance = np.exp(t - peak)
    previous = -np.inf
    for _ in range(100_000):
        joint = chance * weights
        total = joint.sum(axis=1)
        reached = float(np.log(total).sum())
        weights = np.maximum((joint / total[:, None]).mean(axis=0), 1e-12)
        weights /= weights.sum()
        if reached - previous < tolerance * len(t):
            break
        previous = reached
    information = (chance / total[:, None]).T @ (chance / total[:, None])
    across = np.linalg.svd(np.ones((1, states)))[2][1:]  # directions in which weights still sum to 1
    covariance = across.T @ np.linalg.pinv(across @ information @ across.T) @ across
    vanished = tuple(f"prior[{k}]" for k in np.flatnonzero(weights < 1e-9))
    return FittedPrior(
        Finite(weights, likelihood),
        float((np.log(total) + peak[:, 0]).sum()),
        {"prior": np.sqrt(np.maximum(np.diagonal(covariance), 0.0))},
        int(present.sum()),
        vanished,
    )


def _family(family: type[Family] | str) -> type[Family]:
    if isinstance(family, str):
        from troth.models import FAMILIES

        if family not in FAMILIES:
            raise ParameterError(f"there is no family {family!r}; there are {', '.join(FAMILIES)}")
        return FAMILIES[family]
    return family
