"""Is any lie free? Whether every report with another posterior earns strictly less, and the least that a lie costs.

Under a strictly proper score a lie is free only if p(peers|report) = p(peers|truth) for all that peers could report.
For finite Θ that is a matter of rank (the paper's Theorem on sensitivity, made exact by erratum E15); for exponential
families of whether the peers' predictive distribution distinguishes any two posteriors (the paper's h-condition). Each
family proves it for itself, in the docstring of its ``sensitivity`` or of its ``one_row_suffices``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

from troth.core.claims import Verdict
from troth.core.contract import Model

Peers: TypeAlias = Sequence[tuple[Any, int]]
"""The peers' models, and how many rows each has."""


@dataclass(frozen=True)
class Sensitivity:
    """Whether one provider has a free lie, why, and if so which."""

    verdict: Verdict
    reason: str
    margin: float | None = None
    witness: tuple[Any, Any] | None = None


class Price(NamedTuple):
    """What a lie that moves the posterior by Δ costs at least, in nats of log score."""

    quadratic: float  # it loses at least this times ‖Δ‖²
    linear: float | None  # and at least this times ‖Δ‖; None if admissible reports are too many to compare


@runtime_checkable
class HasSensitivity(Model, Protocol):
    """A model that knows whether its peers' data distinguish posteriors."""

    def sensitivity(self, rows: int, peers: Peers, /) -> Sensitivity:
        """Decide for a provider with up to ``rows`` rows whose peers have the given models and rows."""

    def price_of_lying(self, rows: int, peers: Peers, low: float, /) -> Price | None:
        """Return what a lie costs at least if no score falls below ``low``, or None where it is not known."""

    def k_rank_condition(self, peers: Peers, /) -> bool | None:
        """Return whether the paper's k-rank condition holds, or None where it does not apply."""


def unproved(model: Any) -> Sensitivity:
    """Return the sensitivity of a model whose predictive distribution may or may not distinguish posteriors."""
    return Sensitivity("undecided", f"no proof is known for {type(model).__name__}")


def refuted_without_data(peers: Peers) -> Sensitivity | None:
    """Return that every lie is free if no peer has any data; otherwise None."""
    if any(rows for _, rows in peers):
        return None
    return Sensitivity("refuted", "peers without data cannot distinguish anything", 0.0, ("any report", "any other"))
