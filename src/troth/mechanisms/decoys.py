"""Decoys: peers drawn from the model with the designs of the real ones, or all that peers could report.

Providers that face the same design share their decoys, so equal reports are paid equally, and what is drawn does not
depend on the order of providers.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from math import ceil, log, prod
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from troth.core.contract import (
    Array,
    Generator,
    HasAnswerPart,
    HasEvidenceCost,
    HasFiniteStates,
    HasLineLogPMI,
    HasLogPMI,
    Indexes,
    Model,
    Models,
    OrdersPeers,
    SamplesStatistics,
    has_independent_rows,
    one_each,
    shared_evidence,
)
from troth.core.errors import DataError, MissingCapabilityError
from troth.core.information import leave_one_out, line_log_pmi, log_pmi
from troth.mechanisms.drawn_peers import BLOCK, design_ranks, designs_of, draw_part, draw_peers, sampling_classes
from troth.mechanisms.line import Standing, compare, compare_ordered, first_place, on_grid, whole_line_score
from troth.models.numerics.reports import count_reports, enumerate_reports

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from troth.mechanisms.line_memory import LineMemory
    from troth.mechanisms.panels import Panels
    from troth.mechanisms.round import Round

_MOST_OUTCOMES = 1 << 22
_CHOOSE = "choose a number of decoys, such as 999"
_TOO_MANY = f"peers could report too many things to try them all: {_CHOOSE}"
_AT_ONCE = 32  # decoys that are drawn together however wide statistics are: they share the work on their design
_SEARCH_FROM = 64  # decoys, from which a search of ordered ones scores fewer than all


@dataclass(frozen=True)
class Part:
    """The peers of one model within a design.

    Attributes
    ----------
    kinds
        Where a provider's rows share an effect, so that peers are drawn one by one: the designs of single peers. The
        columns of a design then say how many peers of each kind there are, and otherwise they are the pooled design.
    """

    model: SamplesStatistics
    columns: slice
    kinds: Array | None


class Lines:
    """Everybody's real peers and the design of their decoys: one line for each provider and panel of each round.

    Where the real peers of a line contradict each other, which ``contradict`` says, everything in it ties.

    Parameters
    ----------
    panels
        Who is on which panel, or None for all peers together.

    Attributes
    ----------
    rounds, per_round
        How many rounds there are, and how many lines in each.
    """

    def __init__(self, this_round: Round, panels: Panels | None) -> None:
        shape = this_round.statistics.shape
        self._round, self._model, self._panels = this_round, this_round.evidence, panels
        t = this_round.statistics.reshape(-1, *shape[-2:])
        own = np.ascontiguousarray(this_round.own).reshape(t.shape)
        real = self.sum_peers(t)
        self.rounds, self.per_round = len(t), shape[-2] if panels is None else len(panels.provider)
        self.own = (own if panels is None else own[:, panels.provider]).reshape(-1, shape[-1])
        self.real = real.reshape(-1, shape[-1])
        self.contradict = np.zeros(len(self.real), dtype=bool)
        if self.real.min(initial=0.0) == -np.inf:
            self.contradict = np.isneginf(self._model.log_evidence(self.real))
            # as if nobody had reported: all members of the line tie, whatever the own report is (erratum E16)
            self.own, self.real = (np.where(self.contradict[:, None], 0.0, t) for t in (self.own, self.real))
        self._parts: list[Part] = []
        designs = []
        start = 0
        for model, members in sampling_classes(this_round).items():
            design = designs_of(model, this_round, members)
            design = design.reshape(-1, *design.shape[-2:])
            kinds = None
            if not has_independent_rows(model):
                flat = design.reshape(-1, design.shape[-1])
                kinds, which = _distinct_rows(flat)
                design = (which[:, None] == np.arange(len(kinds))).astype(np.float64).reshape(*design.shape[:2], -1)
            designs.append(self.sum_peers(this_round.among_all(design, members)))
            self._parts.append(Part(model, slice(start, start + design.shape[-1]), kinds))
            start += design.shape[-1]
        joined = designs[0] if len(designs) == 1 else np.concatenate(designs, axis=-1)
        joined += 0.0  # −0 and 0 are one design
        self._designs = joined.reshape(-1, start)
        self._answers: int | None = None  # how many entries answers change, if these alone are drawn
        if all(isinstance(model, HasAnswerPart) for model in (self._model, *(part.model for part in self._parts))):
            self._answers = cast("HasAnswerPart", self._model).answer_part(self.real).shape[-1]
        self._width = shape[-1] if self._answers is None else self._answers

    @property
    def _apart(self) -> bool:
        return any(part.kinds is not None for part in self._parts)

    def log_pmi(self) -> Array:
        """Return log PMI with the real peers, ``(round, line)``: NaN where a report is impossible."""
        return log_pmi(self._model, self.own, self.real).reshape(self.rounds, self.per_round)

    def stand(self, decoys: int, priorities: Array, strict: bool, rng: Generator) -> Standing:
        """Draw decoys, and return how the real peers stand among them, ``(round, line)`` each.

        Parameters
        ----------
        priorities
            What the lot gives the real peers and each decoy, ``(1 + decoys, round)``: the lower comes first.
        """
        ahead = (priorities[1:] < priorities[0]).astype(np.float64)
        counts = np.zeros((4, len(self.own)))
        if self._apart and self._panels is None:
            step, compared = 0, self._comparison(slice(None), strict, self._answers is not None)
            for block, keys in self._fresh(decoys):
                first = np.repeat(ahead[step : step + len(block)], self.per_round, axis=1)
                counts += compared(block, first, keys)
                step += len(block)
        else:
            self._stand_by_design(counts, decoys, ahead, strict, rng)
        return Standing(*counts.reshape(4, self.rounds, self.per_round))

    def _fresh(self, decoys: int) -> Iterator[tuple[Array, list[bytes] | None]]:
        """Draw decoys one by one, ``(decoy, line, entry)``, with keys of lines where scores are remembered."""

        def drawn() -> Iterator[Array]:
            for fresh in draw_peers(self._round, decoys, self._answers):
                yield fresh.reshape(len(fresh), len(self.own), -1)

        if self._memory is None:
            yield from ((block, None) for block in drawn())
        else:
            yield from self._memory.decoys(drawn, decoys * len(self.own) * self._width)

    @property
    def _memory(self) -> LineMemory | None:
        """What is remembered of other reports of the same round, where log evidence is an integral."""
        integral = isinstance(self._model, HasEvidenceCost) and not isinstance(self._model, HasLineLogPMI | HasLogPMI)
        return self._round.memory if integral and self._answers is None else None

    def stand_among(self, decoys: Array, priorities: Array, strict: bool) -> Standing:
        """Return how the real peers stand among given decoys, ``(decoy, round, line, statistic)``."""
        ahead = np.repeat((priorities[1:] < priorities[0]).astype(np.float64), self.per_round, axis=1)
        compared = self._comparison(slice(None), strict, answers=False)
        counts = compared(decoys.reshape(len(decoys), *self.own.shape), ahead)
        return Standing(*counts.reshape(4, self.rounds, self.per_round))

    def sum_peers(self, statistics: Array) -> Array:
        """Return the sums of other statistics over the same peers, ``(round, line, statistic)``."""
        t = statistics.reshape(-1, *statistics.shape[-2:])
        return leave_one_out(t, self._round.groups) if self._panels is None else self._panels.sum(t)

    def _stand_by_design(self, counts: Array, decoys: int, ahead: Array, strict: bool, rng: Generator) -> None:
        key = rng.bytes(32)
        search = (
            isinstance(self._model, OrdersPeers) and not strict and decoys >= _SEARCH_FROM and len(self._parts) == 1
        )
        for lines, rounds, local, design in self._blocks(decoys):
            own_rng = rng if self._panels is None else self._keyed(key, design[0])
            size = max(_AT_ONCE, BLOCK // max(1, len(rounds) * self._width))
            for start in range(0, decoys, size):
                stop = min(start + size, decoys)
                members = self._draw(own_rng, (stop - start, len(rounds)), design)
                first = ahead[start:stop, rounds]
                if search and stop - start == decoys:
                    weights = np.stack([np.ones_like(first), first])
                    counts[:, lines] = self._search(lines, local, members, weights)
                    continue
                each_its_own = len(local) == members.shape[1]
                chunk = max(1, BLOCK // max(1, len(members) * self._width))
                for begin in range(0, len(lines), chunk):
                    part = slice(begin, begin + chunk)
                    at: Any = part if each_its_own else local[part]
                    compared = self._comparison(lines[part], strict, self._answers is not None)
                    counts[:, lines[part]] += compared(members[:, at], first[:, at])

    def _blocks(self, decoys: int) -> Iterator[tuple[Indexes, Indexes, Indexes, Array]]:
        """Yield lines that face some designs: their numbers, the round of each design, and which design they face.

        With panels, and where peers are drawn one by one, a block has one design, in any number of rounds.
        """
        designs, which = _distinct_rows(self._designs)
        of_round = np.repeat(np.arange(self.rounds), self.per_round)
        pairs, row = np.unique(which * self.rounds + of_round, return_inverse=True)
        design_of_row, round_of_row = np.divmod(pairs, self.rounds)
        order = np.argsort(row.ravel(), kind="stable")
        ends = np.searchsorted(row.ravel()[order], np.arange(len(pairs) + 1))
        size = max(1, BLOCK // max(1, decoys * self._width))
        one_by_one = self._panels is not None or self._apart
        start = 0
        while start < len(pairs):
            stop = min(start + size, len(pairs))
            if one_by_one:
                same = design_of_row[start:stop] == design_of_row[start]
                stop = start + int(np.argmin(same)) if not same.all() else stop
            lines = order[ends[start] : ends[stop]]
            yield lines, round_of_row[start:stop], row.ravel()[lines] - start, designs[design_of_row[start:stop]]
            start = stop

    def _keyed(self, key: bytes, design: Array) -> Generator:
        """Return a generator that depends on the seed of the round and on a design alone."""
        digest = sha256(key)
        for part in self._parts:
            columns = design[part.columns]
            if part.kinds is not None:
                columns = np.concatenate([part.kinds, columns[:, None]], axis=1)[columns > 0]
            digest.update(np.ascontiguousarray(columns).tobytes())
        return np.random.default_rng(int.from_bytes(digest.digest(), "big"))

    def _draw(self, rng: Generator, shape: tuple[int, int], design: Array) -> Array:
        """Draw peers with the designs of the rows, ``(decoy, row, statistic)``."""
        theta = self._parts[0].model.draw_parameters(rng, shape)
        if len(self._parts) == 1 and self._parts[0].kinds is None:
            return draw_part(self._parts[0].model, self._answers)(rng, theta, design)
        total = np.zeros((*shape, self._width))
        for part in self._parts:
            columns, draw = design[:, part.columns], draw_part(part.model, self._answers)
            if part.kinds is None:
                total += draw(rng, theta, columns)
                continue
            for kind, count in zip(part.kinds, columns[0].astype(int), strict=True):
                for _ in range(count):
                    total += draw(rng, theta, kind)
        return total

    def _comparison(self, lines: Any, strict: bool, answers: bool) -> Callable[..., Array]:
        """Return what compares some lines with blocks of decoys, ``(decoy, line, entry)``, lots, and keys of lines.

        Decoys are statistics, or with ``answers`` what answers change of them.
        """
        model: Any = self._model
        own, real = self.own[lines], self.real[lines]
        count, reporting = len(own), own.any(axis=-1)
        at: Any = slice(None) if reporting.all() else reporting
        own, real = own[at], real[at]
        score = model.answer_scorer(own, real) if answers else partial(line_log_pmi, model, own)
        v_real = on_grid(score((model.answer_part(real) if answers else real)[None])) if len(own) else np.empty((1, 0))

        def compared(decoys: Array, ahead: Array, keys: list[bytes] | None = None) -> Array:
            counts = np.zeros((4, count))
            counts[1], counts[2], counts[3] = len(decoys), ahead.sum(axis=0), len(decoys) * strict  # empty: all tie
            if not len(own):
                return counts
            if keys is None or self._memory is None:
                v = score(decoys[:, at])
            else:
                keys_here = [key for key, reports in zip(keys, reporting, strict=True) if reports]
                v = self._memory.score(model, own, decoys[:, at], keys_here)
            counts[:, at] = compare(on_grid(v), v_real, ahead[:, at], strict)
            return counts

        return compared

    def _search(self, lines: Indexes, local: Indexes, decoys: Array, weights: Array) -> Array:
        """Compare with ordered decoys, ``(decoy, design, statistic)``, of weights ``(2, decoy, design)``."""
        model: Any = self._model
        order = np.argsort(model.peer_order(decoys), axis=0, kind="stable")
        decoys = np.take_along_axis(decoys, order[..., None], axis=0)
        keys = model.peer_order(decoys)
        weights = np.take_along_axis(np.broadcast_to(weights, (2, *order.shape)), order[None], axis=1)
        totals = np.concatenate([np.zeros((2, 1, order.shape[1])), np.cumsum(weights, axis=1)], axis=1)
        differs = np.diff(keys, axis=0) != 0
        edge = np.ones((1, keys.shape[1]), dtype=bool)
        places = np.arange(len(keys))[:, None]
        starts = np.maximum.accumulate(np.where(np.concatenate([edge, differs]), places, 0), axis=0)
        last = np.where(np.concatenate([differs, edge]), places + 1, len(keys))
        ends = np.minimum.accumulate(last[::-1], axis=0)[::-1]
        counts = np.zeros((4, len(lines)))
        counts[1:3] = totals[:, -1, local]  # an empty report ties with everybody
        reporting = np.flatnonzero(self.own[lines].any(axis=-1))
        local, own, real = local[reporting], self.own[lines[reporting]], self.real[lines[reporting]]
        counts[:, reporting] = compare_ordered(
            lambda at: on_grid(log_pmi(model, own, decoys[at, local])),
            on_grid(log_pmi(model, own, real)),
            first_place(keys, local, model.peer_order(real)),
            (lambda at: ends[at, local], lambda at: starts[at, local]),
            lambda at: totals[:, at, local],
            len(keys),
        )
        return counts

    def stand_among_all(self, rivals: int | None = None) -> tuple[Array, Array, Array]:
        """Return the chances that peers fit the report better and worse than the real ones, ``(round, line)``.

        The last is the strict score of the whole line for that number of rivals; zeros without them.
        """
        better, worse, strict = np.zeros((3, len(self.own)))
        for lines, statistics, chances in self._all():
            if isinstance(self._model, OrdersPeers) and rivals is None:
                here = np.zeros_like(lines)
                above, tied, *_ = self._search(lines, here, statistics[:, None], chances[:, None])
                below = 1 - above - tied
                better[lines], worse[lines] = above, np.where(below > 1e-15, below, 0.0)
                continue
            for part, v, v_real in self._scored(lines, statistics):
                better[part] = np.where(v > v_real, chances[:, None], 0.0).sum(axis=0)
                worse[part] = np.where(v < v_real, chances[:, None], 0.0).sum(axis=0)
                if rivals is not None:
                    squares = (chances[:, None] * np.exp(2 * v)).sum(axis=0)
                    strict[part] = whole_line_score(np.exp(v_real), squares, self._most_pmi(chances), rivals)
        shape = self.rounds, self.per_round
        return better.reshape(shape), worse.reshape(shape), strict.reshape(shape)

    def _most_pmi(self, chances: Array) -> float:
        """Bound PMI over its norm: by the least probability of a state, or of what peers could report."""
        if isinstance(self._model, HasFiniteStates):
            return float(1 / self._model.posterior_probabilities(np.zeros(self.own.shape[-1])).min())
        return float(1 / np.sqrt(chances[chances > 0].min()))

    def expected_spherical(self, decoys: int) -> Array:
        """Return the spherical score of a line in expectation over its decoys, ``(round, line)``.

        With w = PMI²/PMI² of the real peers, E[(1 + Σ w)^(−½)] = π^(−½) ∫ s^(−½) e^(−s) E[e^(−sw)]^K ds. In ln s the
        trapezoidal rule converges exponentially.
        """
        score = np.zeros(len(self.own))
        grid = np.arange(-75.0, 5.0, 0.2)
        s = np.exp(grid)
        for lines, statistics, chances in self._all():
            for part, v, v_real in self._scored(lines, statistics):
                with np.errstate(invalid="ignore", over="ignore"):
                    ratio = np.where(v == v_real, 1.0, np.exp(2 * (v - v_real)))
                for line, w in zip(part, ratio.T, strict=True):
                    kernel = np.exp(-s[:, None] * w) @ chances
                    score[line] = 0.2 / np.sqrt(np.pi) * (np.exp(grid / 2 - s) * kernel**decoys).sum()
        return score.reshape(self.rounds, self.per_round)

    def _all(self) -> Iterator[tuple[Indexes, Array, Array]]:
        """Yield lines that face one design, all that its peers could report, and with what probability."""
        designs, which = _distinct_rows(self._designs)
        order = np.argsort(which, kind="stable")
        ends = np.searchsorted(which[order], np.arange(len(designs) + 1))
        for number, design in enumerate(designs):
            yield order[ends[number] : ends[number + 1]], *self._outcomes(design)

    def _scored(self, lines: Indexes, statistics: Array) -> Iterator[tuple[Indexes, Array, Array]]:
        """Yield some lines with log PMI of everything that peers could report, and of what they reported."""
        size = max(1, BLOCK // (len(statistics) * statistics.shape[-1]))
        for start in range(0, len(lines), size):
            part = lines[start : start + size]
            v = on_grid(log_pmi(self._model, self.own[part], statistics[:, None]))
            yield part, v, on_grid(log_pmi(self._model, self.own[part], self.real[part]))

    def _listed(self, design: Array) -> list[tuple[Model, int]]:
        """Return the models and rows of the reports that peers of a design could send, if there are not too many."""
        peers: list[tuple[Model, int]] = []
        for part in self._parts:
            columns = design[part.columns]
            if part.kinds is None:
                peers.append((part.model, int(columns[0])))
            else:
                of_kinds = zip(part.kinds, columns.astype(int), strict=True)
                peers += [(part.model, int(kind[0])) for kind, count in of_kinds for _ in range(count)]
        if prod(_count(model, rows) for model, rows in peers) > _MOST_OUTCOMES:
            raise DataError(_TOO_MANY)
        return peers

    def _outcomes(self, design: Array) -> tuple[Array, Array]:
        """Return all that peers of a design could report, and with what probability."""
        total, log_orders = np.zeros((1, self.own.shape[-1])), np.zeros(1)
        for model, rows in self._listed(design):
            _, statistics, orders = enumerate_reports(model, [rows])
            total = (total[:, None] + statistics).reshape(-1, total.shape[-1])
            log_orders = (log_orders[:, None] + orders).ravel()
        chances = _chances(self._model, total, log_orders)
        return total, chances / chances.sum()


def refuse_unlisted(model: Models, rows: Sequence[int], groups: Sequence[Any] | None, panels: int) -> None:
    """Refuse models and numbers of rows of which not all that peers could report can be tried."""
    each_model = one_each(model, len(rows))
    labels = list(range(len(rows))) if groups is None else list(groups)
    evidence, sizes = shared_evidence(model), np.array(rows, dtype=np.float64)
    total: defaultdict[Model, float] = defaultdict(float)
    of_group: defaultdict[tuple[Model, Any], float] = defaultdict(float)
    for each in dict.fromkeys(each_model):
        _count(each, 1)
        _chances(evidence, *enumerate_reports(each, [1])[1:])
    for each, label, size in zip(each_model, labels, sizes, strict=True):
        weight = size if has_independent_rows(each) else log(_count(each, int(size)))
        total[each] += weight
        of_group[each, label] += weight
    for label in dict.fromkeys(labels):
        log_count = 0.0
        for each, weight in total.items():
            among = (weight - of_group[each, label]) / panels
            log_count += log(_count(each, ceil(among))) if has_independent_rows(each) else among
        if log_count > log(_MOST_OUTCOMES):
            raise MissingCapabilityError(_TOO_MANY)


def _chances(model: Model, statistics: Array, log_orders: Array) -> Array:
    """Return how probable reports are, which a model need not say that was made from posteriors."""
    empty = model.log_evidence(np.zeros(statistics.shape[-1]))
    chances = np.exp(log_orders + model.log_evidence(statistics) - empty)
    if abs(chances.sum() - 1) > 1e-6:
        raise MissingCapabilityError(f"the model does not say how probable peers' data are: {_CHOOSE}")
    return chances


def _count(model: Model, rows: int) -> int:
    try:
        return count_reports(model, rows)
    except MissingCapabilityError:
        raise MissingCapabilityError(endless(model)) from None


def endless(model: object) -> str:
    """Say that not all that peers could report can be tried, and what to do."""
    return f"what {type(model).__name__} peers could report is endless: {_CHOOSE}"


def _distinct_rows(rows: Array) -> tuple[Array, Indexes]:
    """Return the distinct rows in order, and which of them each row is."""
    which = design_ranks(rows)
    distinct = np.empty((int(which.max(initial=0)) + 1, rows.shape[-1]))
    distinct[which] = rows
    return distinct, which
