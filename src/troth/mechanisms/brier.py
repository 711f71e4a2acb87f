"""Mechanism 3, corrected: the quadratic score of the distribution that a report predicts for its peers' data."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from troth.core.contract import Array, Forecast, PredictsPeersSeparately, PredictsPooledPeers
from troth.core.errors import MissingCapabilityError
from troth.core.information import leave_one_out
from troth.mechanisms.breakdown import Breakdown
from troth.mechanisms.options import Choice, option
from troth.mechanisms.rule import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from troth.mechanisms.round import Round


_REQUIREMENT = "Brier needs finitely many possible datasets with known p(data|θ)"
_FORMS = {"unordered": "unordered", "paper": "the paper's"}


@contextmanager
def _suggesting_other_rules() -> Iterator[None]:
    """Add the rule's requirement and alternative rules to the error of a model that cannot predict peers."""
    try:
        yield
    except MissingCapabilityError as error:
        raise MissingCapabilityError(f"{_REQUIREMENT}: {error}; use SyntheticPeers or MultiDay") from error


@dataclass(frozen=True)
class Brier(Rule):
    """Pay cap·(1 − ½ Σ_D (p(D|own) − 1[D = peers'])²), for models whose p(data|θ) is known.

    No datasets are enumerated: Σ p² is a quadratic form in the posterior (erratum E12). Peers of one model whose rows
    are i.i.d. given θ are pooled into one dataset. If a provider's rows share a random effect, each peer's dataset is
    predicted separately.

    Parameters
    ----------
    form
        ``"unordered"``, the default, scores datasets up to the order of their rows. ``"paper"`` is 1 − Σ_D(…)²/|D| over
        sequences, as printed in the paper; its incentive vanishes as the number of peers' rows grows.

    Examples
    --------
    >>> import troth
    >>> model = troth.models.Finite([0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]])
    >>> t = np.stack([model.statistics(x) for x in ([0, 0], [0, 1], [1, 1])])
    >>> Brier().pay(model, t, budget=30.0).round(3)
    array([2.864, 5.045, 3.55 ])
    """

    form: Literal["unordered", "paper"] = option(Choice("form", "unordered", "or paper", label="Form", choices=_FORMS))

    purpose = "finite models; quadratic score"
    needs_finite_data = True
    truthful_by = "Theorem on Mechanism 3, with E12"
    symmetric = True
    strict = True
    term_labels: ClassVar[Mapping[str, str]] = {
        "probability": "probability predicted for the peers' data",
        "collision_probability": "sum of squared probabilities",
    }
    score_meaning = "The report is taken as a forecast of the peers' data, and scored by the quadratic rule."

    @property
    def score_formula(self) -> str:  # type: ignore[override]
        weight = r"\frac{1}{2}" if self.form == "unordered" else r"\frac{1}{|D|}"
        distance = r"\left(p(D \mid \text{own}) - 1[D = \text{peers’}]\right)^2"
        return rf"\text{{score}} = 1 - {weight} \allowbreak \sum_D {distance}"

    def breakdown(self, this_round: Round, /) -> Breakdown:
        unordered = self.form == "unordered"
        probability, collision_probability, log_outcomes = self._forecast(this_round, unordered)
        gap = collision_probability - 2 * probability + 1
        share = 1 - (0.5 * gap if unordered else gap * np.exp(-np.asarray(log_outcomes)))
        share = np.clip(np.where(this_round.peers_contradict, 0.5, share), 0.0, 1.0)
        terms = {"probability": probability, "collision_probability": collision_probability}
        return Breakdown(share, this_round.log_pmi(), share, 0.0, 1.0, terms)

    def _forecast(self, this_round: Round, unordered: bool) -> Forecast:
        """Predict each provider's peers: pooled if rows are i.i.d. given θ, otherwise one by one."""
        classes = this_round.providers_by_model
        pooled = {model: members for model, members in classes.items() if isinstance(model, PredictsPooledPeers)}
        if len(pooled) == len(classes):
            peers = [(model, self._peer_counts(model, members, this_round)) for model, members in pooled.items()]
            with _suggesting_other_rules():
                return next(iter(pooled)).forecast(this_round.own, peers, unordered)
        separate = {model: members for model, members in classes.items() if isinstance(model, PredictsPeersSeparately)}
        if len(separate) < len(classes):
            unsupported = next(model for model in classes if model not in separate)
            raise MissingCapabilityError(
                f"{_REQUIREMENT}, which {type(unsupported).__name__} does not offer; use SyntheticPeers or MultiDay"
            )
        rows = this_round.count_rows()
        with _suggesting_other_rules():
            terms = [
                model.forecast_terms(this_round.statistics[..., members, :], rows[..., members], unordered)
                for model, members in separate.items()
            ]
        joined = np.concatenate(terms, axis=-2)[..., np.argsort(np.concatenate(list(separate.values()))), :]
        return next(iter(separate)).forecast_separately(this_round.own, leave_one_out(joined, this_round.groups))

    @staticmethod
    def _peer_counts(model: PredictsPooledPeers, members: list[int], this_round: Round) -> Array:
        """Return, for each provider, the pooled counts of its peers with this model."""
        rows = None if this_round.rows is None else this_round.count_rows()[..., members]
        counts = model.counts(this_round.statistics[..., members, :], rows)
        return leave_one_out(this_round.scatter(counts, members), this_round.groups)
