"""What families of labels share: counts with a Dirichlet prior."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from troth.core.contract import Array, Extremes
from troth.core.sensitivity import Peers, Sensitivity
from troth.models.family import CompleteEvidence
from troth.models.numerics.extremes import dirichlet_extremes
from troth.models.numerics.identification import dirichlet_sensitivity
from troth.models.numerics.possible import none_negative
from troth.models.numerics.predictive import expected_log_evidence_of_counts
from troth.models.numerics.second_difference import dirichlet_log_pmi


@dataclass(frozen=True)
class DirichletCounts(CompleteEvidence):
    """A family whose statistic is the count of each label, with a Dirichlet prior on their probabilities."""

    @property
    def _pseudo_counts(self) -> Array:
        """The prior's pseudo-counts, in the order of the statistic."""
        raise NotImplementedError

    def log_pmi(self, own: Array, peers: Array, both: Array | None = None, /) -> Array:
        """Log PMI in a form that keeps its digits at any number of rows."""
        return dirichlet_log_pmi(self._pseudo_counts, own, peers, both)

    def rows(self, statistics: Array, /) -> Array:
        """Sum the counts."""
        return np.asarray(np.sum(statistics, axis=-1), dtype=np.float64)

    possible_statistics: ClassVar[str] = "counts are at least 0"

    def possible(self, statistics: Array, /) -> NDArray[np.bool_]:
        """Return where no count is negative."""
        return none_negative(np.asarray(statistics))

    def log_pmi_extremes(self, rows: int, peers: Peers, _: tuple[float, float] | None = None, /) -> Extremes:
        """Extremes over every report of up to ``rows`` rows."""
        peer_rows = sum(count for _, count in self._in_one_space(peers))
        return Extremes(*dirichlet_extremes(self._pseudo_counts, rows, peer_rows))

    def expected_log_evidence(self, design: Array, /) -> Array | None:
        """E[Λ], up to a linear part: Λ is a sum over labels, and each count is Beta-binomial."""
        return expected_log_evidence_of_counts(self._pseudo_counts, design)

    def sensitivity(self, rows: int, peers: Peers, /) -> Sensitivity:
        """Two peer rows suffice.

        Proof. With posterior counts x and N = Σx, one row has the predictive x_k/N. Two rows both in category k have
        x_k(x_k + 1)/(N(N + 1)); divided by the former, (x_k + 1)/(N + 1). From r = x_k/N and s = (x_k + 1)/(N + 1)
        follows N = (1 − s)/(s − r), where s > r because N > x_k, and then x. With one row only the ratios x_k/N show,
        so reports with proportional counts collide (erratum E3). ∎
        """
        return dirichlet_sensitivity(self, self._pseudo_counts, rows, peers)
