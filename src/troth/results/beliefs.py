"""Prior and posterior of what is to be learned: plain data, ready to be drawn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from troth.campaigns.settle import statistics_of
from troth.core.contract import Model, SamplesPosterior
from troth.core.errors import DataError

if TYPE_CHECKING:
    from troth.campaigns.terms import Campaign
    from troth.core.support import Array
    from troth.data import Report


@dataclass(frozen=True)
class Belief:
    """Prior and posterior of one parameter, as plain data.

    Attributes
    ----------
    places
        Names of states, or numbers at which the densities are given.
    prior, posterior
        Probabilities of states, or densities as parts of their maximum. Without a posterior the prior stands alone.
    discrete
        Whether the places are states.
    summary
        Mean and interval of the posterior in words.
    """

    name: str
    places: list[Any]
    prior: list[float]
    posterior: list[float]
    discrete: bool = False
    summary: str = ""


def beliefs_of(campaign: Campaign, reports: list[Report]) -> list[Belief]:
    """Prior and posterior of the parameters, from all reports of a day together; of none, the prior twice."""
    names = [report.provider for report in reports]
    models = campaign.models_for(names)
    model: Any = models if isinstance(models, Model) else models[0]
    nothing = statistics_of(model, np.zeros(model.reduction.width)) if not reports else None
    total = statistics_of_reports(models, reports).sum(axis=0) if nothing is None else nothing
    if hasattr(model, "likelihood") or hasattr(model, "law"):
        log = np.log(np.array(model.prior)) + total
        posterior = np.exp(log - log.max())
        posterior /= posterior.sum()
        states = [f"state {k + 1}" for k in range(len(posterior))]
        return [Belief("state of the world", states, list(model.prior), posterior.tolist(), discrete=True)]
    if not (isinstance(model, SamplesPosterior) and hasattr(model, "draw_parameters")):
        return []
    rng = np.random.default_rng(20201206)
    prior = np.asarray(model.draw_parameters(rng, (20_000,)))
    posterior = np.asarray(model.draw_posterior(rng, np.broadcast_to(total, (20_000, len(total)))))
    labels = _parameter_names(campaign, model, prior.shape[-1])
    return [belief_from_draws(label, prior[:, k], posterior[:, k]) for k, label in enumerate(labels[:6])]


def statistics_of_reports(model: Any, reports: list[Report]) -> Array:
    """Return the statistics of reports under one model, or under one for each."""
    models = [model] * len(reports) if isinstance(model, Model) else model
    return np.array([statistics_of(m, report.summary) for m, report in zip(models, reports, strict=True)])


def belief_from_draws(name: str, prior: Array, posterior: Array) -> Belief:
    """Return the belief about a number from draws of its prior and its posterior."""
    if not (np.isfinite(prior).all() and np.isfinite(posterior).all()):
        raise DataError(f"{name} is too large to draw")
    low, high = np.percentile(prior, [1, 99])
    centre, spread = float(posterior.mean()), float(posterior.std())
    if spread < (high - low) / 40:
        low, high = max(low, centre - 12 * spread), min(high, centre + 12 * spread)
    low, high = min(low, np.percentile(posterior, 0.5)), max(high, np.percentile(posterior, 99.5))
    if not high > low:
        raise DataError(f"{name} is known too well to draw")
    edges = np.linspace(low, high, 161)
    least, most = np.percentile(posterior, [2.5, 97.5])
    summary = f"{centre:.4g} (95%: {least:.4g} to {most:.4g})"
    places = ((edges[1:] + edges[:-1]) / 2).tolist()
    return Belief(name, places, _density(prior, edges), _density(posterior, edges), summary=summary)


def _density(draws: Array, edges: Array) -> list[float]:
    """Return a smoothed histogram, as high as 1 at most."""
    counts, _ = np.histogram(draws, edges)
    width = max(1.0, float(draws.std()) / (edges[1] - edges[0]) * 0.25)
    reach = int(min(60, np.ceil(3 * width)))
    kernel = np.exp(-0.5 * (np.arange(-reach, reach + 1) / width) ** 2)
    padded = np.concatenate([counts[:reach][::-1], counts, counts[-reach:][::-1]]).astype(float)
    smooth = np.convolve(padded, kernel / kernel.sum(), mode="same")[reach:-reach]
    return [float(height) for height in smooth / max(smooth.max(), 1e-300)]


def _parameter_names(campaign: Campaign, model: Any, count: int) -> list[str]:
    columns = [name for name in campaign.columns if name is not None]
    name = type(model).__name__
    if name == "Categorical":
        return [f"chance of {label!r}" for label in (campaign.categories or [str(k) for k in range(count)])]
    if name.startswith("LinearRegression"):
        features = ["intercept" if column is None else f"coefficient of {column}" for column in campaign.columns[:-1]]
        return [*features, "variance of the noise"][:count]
    if name.startswith("MultivariateNormal"):
        return [f"mean of {column}" for column in columns]
    value = columns[0] if columns else "value"
    known = {
        "Bernoulli": [f"rate of {value}"],
        "Geometric": ["chance of success"],
        "NegativeBinomial": ["chance of success"],
        "Poisson": [f"mean of {value}"],
        "Exponential": [f"rate of {value}"],
        "Gamma": [f"rate of {value}"],
        "Normal": [f"mean of {value}"],
        "NormalUnknownVariance": [f"mean of {value}", f"variance of {value}"],
    }
    return known.get(name, [f"parameter {k + 1}" for k in range(count)])
