"""Sensitivity: whether every report with another posterior earns strictly less, and the minimum cost of a lie.

Under a strictly proper score, a lie is free only if p(peers|report) = p(peers|truth) for all possible reports of the
peers. For finite Θ this is a rank condition (the paper's Theorem on sensitivity, made exact by erratum E15). For
exponential families, the peers' predictive distribution must distinguish any two posteriors (the paper's h-condition).
Each family proves this in the docstring of its ``sensitivity`` or ``one_row_suffices``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

from troth.core.claims import Verdict
from troth.core.contract import Model

Peers: TypeAlias = Sequence[tuple[Any, int]]
"""The model and the number of rows of each peer."""


@dataclass(frozen=True)
class Sensitivity:
    """Whether a provider has a free lie, the reason, and an example."""

    verdict: Verdict
    reason: str
    margin: float | None = None
    witness: tuple[Any, Any] | None = None


class Price(NamedTuple):
    """The minimum cost of a lie that moves the posterior by Δ, in nats of log score."""

    quadratic: float  # the lie loses at least quadratic·‖Δ‖²
    linear: float | None  # and at least linear·‖Δ‖; None if there are too many admissible reports to compare


@runtime_checkable
class HasSensitivity(Model, Protocol):
    """A model that knows whether its peers' data distinguish posteriors."""

    def sensitivity(self, rows: int, peers: Peers, /) -> Sensitivity:
        """Return the sensitivity of a provider with up to ``rows`` rows to the given peers."""

    def price_of_lying(self, rows: int, peers: Peers, low: float, /) -> Price | None:
        """Return the minimum cost of a lie if no score is below ``low``, or None if it is unknown."""

    def k_rank_condition(self, peers: Peers, /) -> bool | None:
        """Return whether the paper's k-rank condition holds, or None if it does not apply."""


def unproved(model: Any) -> Sensitivity:
    """Return the undecided sensitivity of a model without a proof."""
    return Sensitivity("undecided", f"no proof is known for {type(model).__name__}")


def refuted_without_data(peers: Peers) -> Sensitivity | None:
    """Return a refuted sensitivity if no peer has data, because every lie is then free; otherwise None."""
    if any(rows for _, rows in peers):
        return None
    return Sensitivity("refuted", "peers without data cannot distinguish anything", 0.0, ("any report", "any other"))
