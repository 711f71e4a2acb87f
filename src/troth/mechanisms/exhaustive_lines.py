"""Exhaustive lines: everything that peers could report, weighted by probability, if that is finite."""

from __future__ import annotations

from math import log, prod
from typing import TYPE_CHECKING, Any

import numpy as np

from troth.core.contract import Array, HasFiniteStates, Indexes, Model, Models, OrdersPeers
from troth.core.errors import DataError, MissingCapabilityError
from troth.core.information import log_pmi
from troth.core.provider_models import one_each, shared_evidence
from troth.mechanisms.decoys import Lines
from troth.mechanisms.drawn_peers import BLOCK, distinct_designs
from troth.mechanisms.line import compare_ordered, exhaustive_line_score, on_grid
from troth.mechanisms.score_range import situations
from troth.models.numerics.enumeration import count_reports, enumerate_reports, enumerate_together

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_MAX_OUTCOMES = 1 << 22
_REMEDY = "choose a number of decoys, such as 999"
_TOO_MANY = f"peers have too many possible reports to try them all: {_REMEDY}"


class ExhaustiveLines(Lines):
    """Lines whose decoys are everything that peers of the same design could report."""

    def place_among_all(self, rivals: int | None = None) -> tuple[Array, Array, Array]:
        """Return the probabilities of better and worse fits than the real peers, and strict scores, ``(round, line)``.

        Without ``rivals`` strict scores are 0.
        """
        better, worse, strict = np.zeros((3, len(self.own)))
        for lines, statistics, probabilities in self._outcomes_by_design():
            if isinstance(self.model, OrdersPeers) and rivals is None:
                line = self.own[lines], self.real[lines], np.zeros_like(lines)
                above, tied, *_ = compare_ordered(self.model, *line, statistics[:, None], probabilities[:, None])
                below = 1 - above - tied
                better[lines], worse[lines] = above, np.where(below > 1e-15, below, 0.0)
                continue
            for part, v, v_real in self._score_blocks(lines, statistics):
                better[part] = np.where(v > v_real, probabilities[:, None], 0.0).sum(axis=0)
                worse[part] = np.where(v < v_real, probabilities[:, None], 0.0).sum(axis=0)
                if rivals is not None:
                    squares = (probabilities[:, None] * np.exp(2 * v)).sum(axis=0)
                    bound = self._bound_pmi(probabilities)
                    strict[part] = exhaustive_line_score(np.exp(v_real), squares, bound, rivals)
        shape = self.rounds, self.per_round
        return better.reshape(shape), worse.reshape(shape), strict.reshape(shape)

    def _bound_pmi(self, probabilities: Array) -> float:
        """Bound PMI/‖PMI‖ by the minimum probability of a state, or of what peers could report."""
        if isinstance(self.model, HasFiniteStates):
            return float(1 / self.model.posterior_probabilities(np.zeros(self.own.shape[-1])).min())
        return float(1 / np.sqrt(probabilities[probabilities > 0].min()))

    def expected_spherical(self, decoys: int) -> Array:
        """Return the expectation over decoys of a line's spherical score, ``(round, line)``.

        With w = PMI²/PMI² of the real peers, E[(1 + Σ w)^(−½)] = π^(−½) ∫ s^(−½) e^(−s) E[e^(−sw)]^K ds. In ln s the
        trapezoidal rule converges exponentially.
        """
        score = np.zeros(len(self.own))
        grid = np.arange(-75.0, 5.0, 0.2)
        s = np.exp(grid)
        for lines, statistics, probabilities in self._outcomes_by_design():
            for part, v, v_real in self._score_blocks(lines, statistics):
                with np.errstate(invalid="ignore", over="ignore"):
                    ratio = np.where(v == v_real, 1.0, np.exp(2 * (v - v_real)))
                for line, w in zip(part, ratio.T, strict=True):
                    kernel = np.exp(-s[:, None] * w) @ probabilities
                    score[line] = 0.2 / np.sqrt(np.pi) * (np.exp(grid / 2 - s) * kernel**decoys).sum()
        return score.reshape(self.rounds, self.per_round)

    def _outcomes_by_design(self) -> Iterator[tuple[Indexes, Array, Array]]:
        """Yield, for each design, its lines, everything that its peers could report, and the probabilities."""
        designs, design_of_row = distinct_designs(self.designs)
        order = np.argsort(design_of_row, kind="stable")
        ends = np.searchsorted(design_of_row[order], np.arange(len(designs) + 1))
        for number, design in enumerate(designs):
            yield order[ends[number] : ends[number + 1]], *self._outcomes(design)

    def _score_blocks(self, lines: Indexes, statistics: Array) -> Iterator[tuple[Indexes, Array, Array]]:
        """Yield blocks of lines, with log PMI of everything that peers could report, and of what they reported."""
        size = max(1, BLOCK // (len(statistics) * statistics.shape[-1]))
        for start in range(0, len(lines), size):
            part = lines[start : start + size]
            v = on_grid(log_pmi(self.model, self.own[part], statistics[:, None]))
            yield part, v, on_grid(log_pmi(self.model, self.own[part], self.real[part]))

    def _list_peers(self, design: Array) -> list[tuple[Model, int]]:
        """Return the models and rows of a design's peers; raise an error if they have too many possible reports."""
        peers: list[tuple[Model, int]] = []
        for part in self.parts:
            columns = design[part.columns]
            if part.kinds is None:
                peers.append((part.model, int(columns[0])))
            else:
                counts_by_kind = zip(part.kinds, columns.astype(int), strict=True)
                peers += [(part.model, int(kind[0])) for kind, count in counts_by_kind for _ in range(count)]
        if prod(_count(model, rows) for model, rows in peers) > _MAX_OUTCOMES:
            raise DataError(_TOO_MANY)
        return peers

    def _outcomes(self, design: Array) -> tuple[Array, Array]:
        """Return everything that peers of a design could report, and the probabilities."""
        total, log_orders = enumerate_together(self._list_peers(design), self.own.shape[-1])
        probabilities = _probabilities(self.model, total, log_orders)
        return total, probabilities / probabilities.sum()


def reject_unenumerable(model: Models, rows: Sequence[int], groups: Sequence[Any] | None, panels: int) -> None:
    """Reject models and numbers of rows for which peers have too many possible reports to enumerate."""
    evidence = shared_evidence(model)
    for peer_model in dict.fromkeys(one_each(model, len(rows))):
        _count(peer_model, 1)
        _probabilities(evidence, *enumerate_reports(peer_model, [1])[1:])
    for _, _, peers in situations(model, rows, groups, panels=panels):
        if sum(log(_count(peer_model, size)) for peer_model, size in peers) > log(_MAX_OUTCOMES):
            raise MissingCapabilityError(_TOO_MANY)


def _probabilities(model: Model, statistics: Array, log_orders: Array) -> Array:
    """Return the probability of each report, which a model made from posteriors may not determine."""
    empty = model.log_evidence(np.zeros(statistics.shape[-1]))
    probabilities = np.exp(log_orders + model.log_evidence(statistics) - empty)
    if abs(probabilities.sum() - 1) > 1e-6:
        raise MissingCapabilityError(f"the model does not say how probable peers' data are: {_REMEDY}")
    return probabilities


def _count(model: Model, rows: int) -> int:
    try:
        return count_reports(model, rows)
    except MissingCapabilityError:
        raise MissingCapabilityError(infinite_reports_message(model)) from None


def infinite_reports_message(model: object) -> str:
    """Return the message that peers have infinitely many possible reports, and the remedy."""
    return f"{type(model).__name__} has infinitely many possible reports: {_REMEDY}"
