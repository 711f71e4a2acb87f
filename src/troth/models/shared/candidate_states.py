"""Base classes of candidates: θ is one of finitely many, and data leave an effective number of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from troth.core.contract import Array, Bounds, Extremes
from troth.core.effective_candidates import EffectiveCandidates
from troth.core.errors import DataError, ParameterError
from troth.core.sensitivity import Peers
from troth.models.family import Vector
from troth.models.parameters import parameter, probabilities
from troth.models.shared.finite_states import FiniteStates, FittedStates

FEATURES_UNKNOWN = (
    "log-likelihoods do not show features, so Troth cannot check that peers have the same features on compared days "
    "(erratum E10): declare exchangeable=True if providers cannot predict how features vary from day to day, or give "
    "each provider's features (with_features) if the model can use them"
)


@dataclass(frozen=True)
class CandidateStates(FiniteStates):
    """θ is one of S candidates. Λ(t) = logsumexp(log p + t), with t the log-likelihoods of a report."""

    prior: Vector = field(metadata=parameter("probabilities of the candidates", probabilities))

    state_word: ClassVar[str] = "candidate"
    assumption: ClassVar[str] = (
        "θ is one of the candidates: if so, what is proved holds exactly. The effective number of candidates that "
        "reports leave says when they are too few"
    )

    def effective_candidates(self, statistics: Array, /) -> EffectiveCandidates:
        """Return the effective number of candidates given each report ``(provider, statistic)``, and given all.

        It is 0 if every candidate gives some report probability 0.
        """
        t = np.atleast_2d(np.asarray(statistics, dtype=np.float64))
        with np.errstate(invalid="ignore"):
            separate, together = (
                np.where(np.isneginf(x).all(axis=-1), 0.0, 1 / (self.posterior_probabilities(x) ** 2).sum(axis=-1))
                for x in (t, t.sum(axis=0))
            )
        return EffectiveCandidates(np.asarray(separate), float(together), len(self.prior))

    def log_pmi_extremes(self, rows: int, peers: Peers, values: Bounds | None = None, /) -> Extremes:
        """PMI = Σ p(θ|a) p(θ|b)/p(θ) is at most 1/min p(θ), and may be arbitrarily close to 0."""
        self._in_one_space(peers)
        return Extremes(-np.inf, float(-np.log(min(self.prior))))


@dataclass(frozen=True)
class FittedCandidates(FittedStates, CandidateStates):
    """Given candidates, whose probabilities can be fitted to past days."""

    prior: Vector | None = field(  # type: ignore[assignment]
        default=None,
        kw_only=True,
        metadata=parameter("probabilities of the candidates; all the same if empty", probabilities),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        size = len(getattr(self, self.given_parameters[0]))
        if self.prior is None:
            object.__setattr__(self, "prior", (1 / size,) * size)
        elif len(self.prior) != size:
            raise ParameterError(
                f"{type(self).__name__}: prior has {len(self.prior)} entries for {size} candidates", parameter="prior"
            )


def reject_identical_candidates(family: str, likelihoods: Array, parameter: str) -> None:
    """Reject a single candidate, or candidates with the same likelihood: no data would be informative about θ."""
    if len(np.unique(likelihoods, axis=0)) < 2:
        raise ParameterError(
            f"{family}: give at least two different candidates: data are paid for telling them apart",
            parameter=parameter,
        )


def draws_by_name(draws: Any, group: str, max_draws: int) -> dict[str, Any]:
    """Return arrays of up to ``max_draws`` evenly spaced draws by name; chains of an InferenceData are concatenated."""
    variables = _by_name(draws, group)
    counts = {len(values) for values in variables.values()}
    if len(counts) != 1 or not min(counts):
        raise ParameterError(f"every variable needs the same number of draws, at least one, not {sorted(counts)}")
    (count,) = counts
    thinned = np.unique(np.linspace(0, count - 1, min(max_draws, count)).round().astype(int))
    return {name: values[thinned] for name, values in variables.items()}


def _by_name(draws: Any, group: str) -> Mapping[str, Any]:
    if isinstance(draws, Mapping) and not hasattr(draws, "groups"):
        dataset = draws.get(group, draws)
    else:
        dataset = getattr(draws, group, None)
    if dataset is None:
        raise ParameterError(f"there is no group {group!r} among these draws")
    if not hasattr(dataset, "data_vars"):
        return {str(name): np.asarray(values) for name, values in dataset.items()}
    arrays = {str(name): np.asarray(dataset[name].values) for name in dataset.data_vars}
    return {name: values.reshape(-1, *values.shape[2:]) for name, values in arrays.items()}


def reject_other_draws(data: Any, published: Mapping[str, Any], group: str, max_draws: int) -> None:
    """Reject log-likelihoods that come with draws other than the published ones."""
    has_draws = group in data if isinstance(data, Mapping) else hasattr(data, group)
    if not has_draws:
        return
    draws = draws_by_name(data, group, max_draws)
    for name, values in published.items():
        if name in draws and not (
            np.shape(draws[name]) == np.shape(values) and np.allclose(draws[name], values, rtol=1e-6, equal_nan=True)
        ):
            raise DataError(
                f"these log-likelihoods are of other draws of {name!r} than the candidates: compute them for the "
                f"{group} that was published, draw by draw and in its order"
            )


def summed_log_likelihoods(data: Any, max_draws: int) -> Array:
    """Return the log-likelihood of a dataset under each draw, from the group ``log_likelihood`` of an InferenceData."""
    variables = draws_by_name(data, "log_likelihood", max_draws)
    return np.asarray(np.sum([values.reshape(len(values), -1).sum(axis=1) for values in variables.values()], axis=0))
