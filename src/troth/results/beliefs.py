"""Prior and posterior of θ as plain data for pictures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from troth.campaigns.check import evidence_cost
from troth.core.contract import HasFiniteStates, NamesParameters, SamplesData, SamplesPosterior
from troth.core.declarations import declared
from troth.core.errors import DataError
from troth.core.provider_models import one_each
from troth.data.request import level_names

if TYPE_CHECKING:
    from troth.campaigns.terms import Campaign
    from troth.core.support import Array
    from troth.data import Report

_DRAWS, _MIN_DRAWS = 20_000, 4_000
_MAX_STATES = 16
_COARSE_BINS, _MAX_FLAT_CHI2 = 16, 37.7  # bins, and the 99.9% quantile of χ² for a flat density in them


@dataclass(frozen=True)
class Belief:
    """Prior and posterior of one parameter, as plain data.

    If it is discrete, ``places`` are states and the values are probabilities; otherwise the values are densities at the
    places, relative to their maximum. The posterior may be empty.
    """

    name: str
    places: list[Any]
    prior: list[float]
    posterior: list[float]
    discrete: bool = False
    summary: str = ""


def beliefs_of(campaign: Campaign, reports: list[Report]) -> list[Belief]:
    """Return prior and posterior of each parameter given all reports of a day; without reports they are equal."""
    campaign = campaign.on(reports[0].day) if reports else campaign
    models = campaign.models_for([report.provider for report in reports])
    model = one_each(models)[0]
    if reports:
        total = campaign.statistics_of(models, [report.summary for report in reports]).sum(axis=0)
    else:
        total = campaign.statistics(model, np.zeros(campaign.request.reduction.width))
    if isinstance(model, HasFiniteStates):
        return [_belief_in_states(model, total)]
    if not isinstance(model, SamplesData) or (reports and not isinstance(model, SamplesPosterior)):
        return []
    rng = np.random.default_rng(20201206)
    prior = posterior = np.asarray(model.draw_parameters(rng, (_DRAWS,)))
    if reports and isinstance(model, SamplesPosterior):
        count = max(_MIN_DRAWS, _DRAWS // evidence_cost(model))
        posterior = np.asarray(model.draw_posterior(rng, np.broadcast_to(total, (count, len(total)))))
    columns = level_names(campaign.columns, campaign.levels)
    names = model.parameter_names(columns, campaign.categories) if isinstance(model, NamesParameters) else []
    names = names or [f"parameter {k + 1}" for k in range(prior.shape[-1])]
    return [belief_from_draws(name, prior[:, k], posterior[:, k]) for k, name in enumerate(names[:6])]


def _belief_in_states(model: HasFiniteStates, total: Array) -> Belief:
    """Return the probabilities of states, or of the most probable ones if there are many."""
    prior, posterior = (model.posterior_probabilities(t) for t in (np.zeros_like(total), total))
    noun = declared(model).state_word
    listed = np.sort(np.argsort(-posterior, kind="stable")[:_MAX_STATES])
    places = [f"{noun} {k + 1}" for k in listed]
    remainder = posterior.sum() - posterior[listed].sum()
    summary = ""
    if others := len(posterior) - len(listed):
        subject = "the other one has" if others == 1 else f"the other {others} together have"
        summary = f"{subject} {remainder:.2%}"
    name = "state of the world" if noun == "state" else f"{noun}s"
    return Belief(name, places, prior[listed].tolist(), posterior[listed].tolist(), discrete=True, summary=summary)


def belief_from_draws(name: str, prior: Array, posterior: Array) -> Belief:
    """Return the belief about a number, given draws from its prior and its posterior."""
    if not (np.isfinite(prior).all() and np.isfinite(posterior).all()):
        raise DataError(f"{name} is too large to draw")
    low, high = np.percentile(prior, [1, 99])
    centre, spread = float(posterior.mean()), float(posterior.std())
    if spread < (high - low) / 40:
        low, high = max(low, centre - 12 * spread), min(high, centre + 12 * spread)
    low, high = min(low, np.percentile(posterior, 0.5)), max(high, np.percentile(posterior, 99.5))
    if not high > low:
        raise DataError(f"{name} has a posterior too narrow to draw")
    edges = np.linspace(low, high, 161)
    lower, upper = np.percentile(posterior, [2.5, 97.5])
    summary = f"{centre:.4g} (95%: {lower:.4g} to {upper:.4g})".replace("-", "−")
    places = ((edges[1:] + edges[:-1]) / 2).tolist()
    return Belief(name, places, _density(prior, edges), _density(posterior, edges), summary=summary)


def _density(draws: Array, edges: Array) -> list[float]:
    """Return a smoothed histogram with maximum 1."""
    from scipy.ndimage import gaussian_filter1d

    counts, _ = np.histogram(draws, edges)
    coarse = counts.reshape(_COARSE_BINS, -1).sum(axis=1)
    if coarse.sum() and ((coarse - coarse.mean()) ** 2).sum() / coarse.mean() < _MAX_FLAT_CHI2:
        return [1.0] * len(counts)  # not significantly different from a flat density
    scale = min(float(draws.std()), float(np.subtract(*np.percentile(draws, [75, 25]))) / 1.35)
    width = min(max(1.0, scale / (edges[1] - edges[0]) * 0.25), 20.0)
    smooth = gaussian_filter1d(counts.astype(float), width, truncate=3.0)
    heights: list[float] = (smooth / max(smooth.max(), 1e-300)).tolist()
    return heights
