"""Mechanism 3, corrected: the quadratic score of the distribution that a report foretells of its peers' data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from troth.errors import MissingCapabilityError, ParameterError
from troth.information import leave_one_out
from troth.mechanisms.rule import Breakdown, Round, Rule
from troth.model import Foretelling

if TYPE_CHECKING:
    from troth.model import Array


@dataclass(frozen=True)
class Brier(Rule):
    """Pay cap·(1 − ½ Σ_D (p(D|own) − 1[D = peers'])²), for models whose p(data|θ) is known.

    Nothing is enumerated: Σ p² is a quadratic form in the posterior (erratum E12).

    Parameters
    ----------
    form
        ``"types"``, the default, scores datasets up to the order of their rows. ``"paper"`` is 1 − Σ_D(…)²/|D| over
        sequences, as printed, where the incentive vanishes as peers have more rows.

    Examples
    --------
    >>> import troth
    >>> model = troth.models.Finite([0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]])
    >>> t = np.stack([model.statistics(x) for x in ([0, 0], [0, 1], [1, 1])])
    >>> Brier().pay(model, t, budget=30.0).round(3)
    array([2.864, 5.045, 3.55 ])
    """

    form: Literal["types", "paper"] = "types"

    def __post_init__(self) -> None:
        if self.form not in ("types", "paper"):
            raise ParameterError(f'Brier: form must be "types" or "paper", not {self.form!r}')

    def breakdown(self, round: Round, /) -> Breakdown:  # noqa: A002
        """Score everybody's forecast of their peers' data."""
        own_models, own = round.models, round.own
        classes: dict[Foretelling, list[int]] = {}
        for provider, model in enumerate(own_models):
            if not isinstance(model, Foretelling):
                raise MissingCapabilityError(
                    f"Brier needs to know p(data|θ) over finitely many datasets, which {type(model).__name__} does not "
                    "offer; MultiDay and SyntheticPeers need neither"
                )
            classes.setdefault(model, []).append(provider)
        peers = [(model, self._peer_counts(model, members, round)) for model, members in classes.items()]
        first = next(iter(classes))
        by_type = self.form == "types"
        probability, coincidence, log_outcomes = first.forecast(own, peers, by_type)
        gap = coincidence - 2 * probability + 1
        share = 1 - (0.5 * gap if by_type else gap * np.exp(-np.asarray(log_outcomes)))
        share = np.clip(np.where(round.peers_contradict, 0.5, share), 0.0, 1.0)
        terms = {"chance foretold of the peers' data": probability, "sum of squared chances": coincidence}
        return Breakdown(share, round.log_pmi(), share, 0.0, 1.0, terms)

    @staticmethod
    def _peer_counts(model: Foretelling, members: list[int], round: Round) -> Array:  # noqa: A002
        """For every provider the counts of its peers that have this model."""
        rows = None if round.rows is None else round.count_rows()[..., members]
        counts = model.counts(round.statistics[..., members, :], rows)
        everyone = np.zeros((*round.statistics.shape[:-1], counts.shape[-1]))
        everyone[..., members, :] = counts
        return leave_one_out(everyone, round.groups)
