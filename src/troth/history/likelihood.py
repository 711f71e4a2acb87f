"""The probability of past days under a model, with the terms that cancel in log PMI put back.

Λ(total) − Λ(0) leaves out what does not depend on θ. To compare models, or to fit parameters that such terms depend on
(the noise of a normal, how much a provider's rows move together), they are needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import gammaln

from troth.core.errors import DataError
from troth.core.reductions import Moments
from troth.history.convert import statistics_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from troth.core.contract import Array
    from troth.core.reductions import Reduction
    from troth.history.record import History


def log_marginal(model: Any, history: History, days: NDArray[np.intp] | None = None) -> Array:
    """Log p of everything reported on each day, up to terms that are the same for every model of the same sums.

    Reports of numbers are rows where the history has squares, and otherwise their means.

    Parameters
    ----------
    model
        One model, or one per provider.
    days
        Numbers of the days; all by default.
    """
    summaries = history.summaries if days is None else history.summaries[days]
    models = list(model) if isinstance(model, list | tuple) else [model] * summaries.shape[1]
    parts = [statistics_of(each, summaries[:, i], history.reduction) for i, each in enumerate(models)]
    here = history.reduction.rows(summaries) > 0
    total = np.where(here[..., None], np.stack(parts, axis=1), 0.0).sum(axis=1)
    evidence = models[0].log_evidence(total) - models[0].log_evidence(np.zeros(total.shape[-1]))
    for provider, each in enumerate(models):
        rest = left_out(each, summaries[:, provider], history.reduction)
        evidence = evidence + np.where(here[:, provider], rest, 0.0)
    return np.asarray(evidence)


def left_out(model: Any, summaries: Array, reduction: Reduction) -> Array:
    """Return the part of a report's log-likelihood that depends on the model's parameters but not on θ."""
    rest = _LEFT_OUT.get(type(model).__name__)
    return np.zeros(summaries.shape[:-1]) if rest is None else np.asarray(rest(model, summaries, reduction))


def _normal(model: Any, summaries: Array, reduction: Reduction) -> Array:
    """Return −½ ln(2πσ²) − (x − mean)²/2σ² for each row; without squares a report is one value, its mean."""
    s = _moments(summaries, reduction, model.mean)
    n, unit = s[..., 0], model.noise**2
    if s.shape[-1] == 3:
        return np.asarray(-n / 2 * np.log(2 * np.pi * unit) - s[..., 2] / (2 * unit))
    rows = np.maximum(n, 1.0)
    return np.asarray(0.5 * np.log(rows / (2 * np.pi * unit)) - s[..., 1] ** 2 / rows / (2 * unit))


def _around(model: Any, summaries: Array, reduction: Reduction, location: float, noise: float) -> Array:
    """Log-density of a report whose mean is N(location, τ² + σ²/n), rows included where there are squares."""
    s = _moments(summaries, reduction, location)
    n = np.maximum(s[..., 0], 1.0)
    variance = model.dispersion**2 + noise**2 / n
    density = -0.5 * np.log(2 * np.pi * variance) - (s[..., 1] / n) ** 2 / (2 * variance)
    if s.shape[-1] == 3:
        scatter = np.maximum(s[..., 2] - s[..., 1] ** 2 / n, 0.0)
        density = density - 0.5 * (n - 1) * np.log(2 * np.pi * noise**2) - scatter / (2 * noise**2) - 0.5 * np.log(n)
    return np.asarray(density)


def _provider_normal(model: Any, summaries: Array, reduction: Reduction) -> Array:
    return _around(model, summaries, reduction, model.mean + model.offset, model.noise)


def _latent_class(model: Any, summaries: Array, reduction: Reduction) -> Array:
    """Of numbers, the density under type 0, from which statistics are differences; of counts, what dispersion adds."""
    if model.outcome == "real":
        return _around(model, summaries, reduction, float(model.means[0]), model.spread)
    if model.outcome == "count" and model.dispersion:
        total, shape = reduction.convert(summaries, model.reduction)[..., 1], 1 / model.dispersion
        return np.asarray(gammaln(shape + total) - gammaln(shape) - total * np.log(shape))
    return np.zeros(summaries.shape[:-1])


def _multivariate_normal(model: Any, summaries: Array, reduction: Reduction) -> Array:
    s, d = reduction.convert(summaries, model.reduction), len(model.mean)
    noise = np.array(model.noise)
    scatter = s[..., d + 1 :].reshape(*s.shape[:-1], d, d)
    spread = np.einsum("ij,...ji->...", np.linalg.inv(noise), scatter)
    return np.asarray(-s[..., 0] / 2 * np.linalg.slogdet(2 * np.pi * noise)[1] - spread / 2)


def _regression(model: Any, summaries: Array, reduction: Reduction) -> Array:
    s, unit = reduction.convert(summaries, model.reduction), model.noise**2
    return np.asarray(-s[..., 0] / 2 * np.log(2 * np.pi * unit) - s[..., -1] / (2 * unit))


def _student(_: Any, summaries: Array, __: Reduction) -> Array:
    return np.asarray(-summaries[..., 0] / 2 * np.log(2 * np.pi))


def _wishart(model: Any, summaries: Array, _: Reduction) -> Array:
    return np.asarray(-summaries[..., 0] * len(model.mean) / 2 * np.log(np.pi))


_LEFT_OUT: dict[str, Callable[[Any, Array, Reduction], Array]] = {
    "Normal": _normal,
    "ProviderNormal": _provider_normal,
    "LatentClass": _latent_class,
    "MultivariateNormal": _multivariate_normal,
    "LinearRegression": _regression,
    "NormalUnknownVariance": _student,
    "LinearRegressionUnknownNoise": _student,
    "MultivariateNormalUnknownCovariance": _wishart,
}


def _moments(summaries: Array, reduction: Reduction, mean: float) -> Array:
    if not isinstance(reduction, Moments):
        raise DataError("a normal model needs numbers, not codes")
    return reduction.convert(summaries, Moments((mean,), squares=reduction.squares))
