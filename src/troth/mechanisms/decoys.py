"""Decoys: peers drawn from the model with the designs of the real ones.

Providers that face the same design share their decoys, so equal reports are paid equally, and draws do not depend on
the order of providers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from troth.core.contract import (
    Array,
    Generator,
    HasAnswerPart,
    HasLineLogPMI,
    HasLogPMI,
    Indexes,
    OrdersPeers,
    SamplesStatistics,
    has_independent_rows,
)
from troth.core.declarations import declared
from troth.core.information import impossible, leave_one_out, line_log_pmi, log_pmi
from troth.mechanisms.drawn_peers import BLOCK, designs_of, distinct_designs, draw_part, draw_peers, sampling_classes
from troth.mechanisms.line import Places, compare, compare_ordered, on_grid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from troth.mechanisms.panels import Panels
    from troth.mechanisms.round import Round

_MIN_BLOCK = 32  # decoys drawn together, however wide statistics are: they share the work on their design
_MIN_SORTED = 64  # decoys from which bisection scores fewer than all of them


@dataclass(frozen=True)
class Part:
    """The peers of one model, as columns of the pooled design.

    If a provider's rows share a random effect, peers are drawn one by one. Columns then count the peers of each of the
    ``kinds``, which are designs of single peers.
    """

    model: SamplesStatistics
    columns: slice
    kinds: Array | None


class Lines:
    """The real peers and the design of the decoys of each line: one line per round, provider and panel.

    Without ``panels`` all peers are pooled. ``contradict`` marks the lines whose real peers contradict each other; all
    members of such a line tie.

    Attributes
    ----------
    own, real
        The report of each line, and the sum of its real peers' reports, ``(line, statistic)``.
    rounds, per_round
        The number of rounds, and of lines in each.
    parts, designs
        The peers of each model, and the design of all peers of each line, ``(line, design)``.
    """

    def __init__(self, this_round: Round, panels: Panels | None) -> None:
        shape = this_round.statistics.shape
        self._round, self.model, self._panels = this_round, this_round.evidence, panels
        t = this_round.statistics.reshape(-1, *shape[-2:])
        own = np.ascontiguousarray(this_round.own).reshape(t.shape)
        real = self.sum_peers(t)
        self.rounds, self.per_round = len(t), shape[-2] if panels is None else len(panels.provider)
        self.own = (own if panels is None else own[:, panels.provider]).reshape(-1, shape[-1])
        self.real = real.reshape(-1, shape[-1])
        self.contradict = impossible(self.model, self.real)
        if self.contradict.any():
            # as if nobody had reported: all members of the line tie, whatever the report (erratum E16)
            self.own, self.real = (np.where(self.contradict[:, None], 0.0, t) for t in (self.own, self.real))
        self.parts: list[Part] = []
        designs = []
        start = 0
        for model, members in sampling_classes(this_round).items():
            design = designs_of(model, this_round, members)
            design = design.reshape(-1, *design.shape[-2:])
            kinds = None
            if not has_independent_rows(model):
                kinds, design_of_row = distinct_designs(design.reshape(-1, design.shape[-1]))
                design = (
                    (design_of_row[:, None] == np.arange(len(kinds))).astype(np.float64).reshape(*design.shape[:2], -1)
                )
            designs.append(self.sum_peers(this_round.scatter(design, members)))
            self.parts.append(Part(model, slice(start, start + design.shape[-1]), kinds))
            start += design.shape[-1]
        joined = designs[0] if len(designs) == 1 else np.concatenate(designs, axis=-1)
        self.designs = joined.reshape(-1, start)
        self._answers: int | None = None  # the width of answer parts, if only these are drawn
        if all(isinstance(model, HasAnswerPart) for model in (self.model, *(part.model for part in self.parts))):
            self._answers = cast("HasAnswerPart", self.model).answer_part(self.real).shape[-1]
        self._width = shape[-1] if self._answers is None else self._answers

    @property
    def _drawn_separately(self) -> bool:
        return any(part.kinds is not None for part in self.parts)

    def log_pmi(self) -> Array:
        """Return log PMI with the real peers, ``(round, line)``, or NaN if a report is impossible."""
        return log_pmi(self.model, self.own, self.real).reshape(self.rounds, self.per_round)

    def place_among_drawn(self, ahead: Array, strict: bool, rng: Generator) -> Places:
        """Draw decoys, and return the places of the real peers among them, ``(round, line)`` each.

        ``ahead`` is 1 for decoys that random tie-breaking puts before the real peers, and 0 for the others,
        ``(decoy, round)``.
        """
        decoys = len(ahead)
        if self._drawn_separately and self._panels is None:
            return self.place_among(draw_peers(self._round, decoys, self._answers), ahead, strict, self._answers)
        counts, done = np.zeros((4, len(self.own))), 0
        key = rng.bytes(32)
        ordered = isinstance(self.model, OrdersPeers) and not strict and decoys >= _MIN_SORTED and len(self.parts) == 1
        for lines, rounds, local, design in self._blocks(decoys):
            own_rng = rng if self._panels is None else self._seeded_by(key, design[0])
            size = max(_MIN_BLOCK, BLOCK // max(1, len(rounds) * self._width))
            for start in range(0, decoys, size):
                stop = min(start + size, decoys)
                members = self._draw(own_rng, (stop - start, len(rounds)), design)
                done += (stop - start) * len(lines)
                first = ahead[start:stop, rounds]
                if ordered and stop - start == decoys:
                    weights = np.stack([np.ones_like(first), first])
                    model = cast("OrdersPeers", self.model)
                    counts[:, lines] = compare_ordered(
                        model, self.own[lines], self.real[lines], local, members, weights
                    )
                    self._round.report_progress(done / (decoys * len(self.own)))
                    continue
                one_line_per_design = len(local) == members.shape[1]
                chunk = max(1, BLOCK // max(1, len(members) * self._width))
                for begin in range(0, len(lines), chunk):
                    part = slice(begin, begin + chunk)
                    faced: Any = part if one_line_per_design else local[part]
                    compared = self._comparer(lines[part], strict, self._answers is not None)
                    counts[:, lines[part]] += compared(members[:, faced], first[:, faced])
                self._round.report_progress(done / (decoys * len(self.own)))
        return Places(*counts.reshape(4, self.rounds, self.per_round))

    def place_among(self, blocks: Iterable[Array], ahead: Array, strict: bool, answers: int | None = None) -> Places:
        """Like `place_among_drawn`, for given decoys ``(decoy, ..., line, statistic)`` or their answer parts."""
        counts, step = np.zeros((4, len(self.own))), 0
        compared = self._comparer(slice(None), strict, answers is not None)
        for block in blocks:
            first = np.repeat(ahead[step : step + len(block)], self.per_round, axis=1)
            counts += compared(block.reshape(len(block), len(self.own), -1), first)
            step += len(block)
        return Places(*counts.reshape(4, self.rounds, self.per_round))

    def sum_peers(self, statistics: Array) -> Array:
        """Sum other statistics over the same peers, ``(round, line, statistic)``."""
        t = statistics.reshape(-1, *statistics.shape[-2:])
        return leave_one_out(t, self._round.groups) if self._panels is None else self._panels.sum(t)

    def _blocks(self, decoys: int) -> Iterator[tuple[Indexes, Indexes, Indexes, Array]]:
        """Yield blocks of lines: their indexes, the round of each design, each line's design, and the designs.

        With panels, or if peers are drawn one by one, a block has a single design, in any number of rounds.
        """
        designs, design_of_line = distinct_designs(self.designs)
        round_of_line = np.repeat(np.arange(self.rounds), self.per_round)
        pairs, row = np.unique(design_of_line * self.rounds + round_of_line, return_inverse=True)
        design_of_row, round_of_row = np.divmod(pairs, self.rounds)
        order = np.argsort(row.ravel(), kind="stable")
        ends = np.searchsorted(row.ravel()[order], np.arange(len(pairs) + 1))
        size = max(1, BLOCK // max(1, decoys * self._width))
        one_by_one = self._panels is not None or self._drawn_separately
        start = 0
        while start < len(pairs):
            stop = min(start + size, len(pairs))
            if one_by_one:
                same = design_of_row[start:stop] == design_of_row[start]
                stop = start + int(np.argmin(same)) if not same.all() else stop
            lines = order[ends[start] : ends[stop]]
            yield lines, round_of_row[start:stop], row.ravel()[lines] - start, designs[design_of_row[start:stop]]
            start = stop

    def _seeded_by(self, key: bytes, design: Array) -> Generator:
        """Return a generator that depends only on the round's key and on a design."""
        digest = sha256(key)
        for part in self.parts:
            columns = design[part.columns]
            if part.kinds is not None:
                columns = np.concatenate([part.kinds, columns[:, None]], axis=1)[columns > 0]
            digest.update(np.ascontiguousarray(columns).tobytes())
        return np.random.default_rng(int.from_bytes(digest.digest(), "big"))

    def _draw(self, rng: Generator, shape: tuple[int, int], design: Array) -> Array:
        """Draw peers with the designs of the rows, ``(decoy, row, statistic)``."""
        theta = self.parts[0].model.draw_parameters(rng, shape)
        if len(self.parts) == 1 and self.parts[0].kinds is None:
            return draw_part(self.parts[0].model, self._answers)(rng, theta, design)
        total = np.zeros((*shape, self._width))
        for part in self.parts:
            columns, draw = design[:, part.columns], draw_part(part.model, self._answers)
            if part.kinds is None:
                total += draw(rng, theta, columns)
                continue
            for kind, count in zip(part.kinds, columns[0].astype(int), strict=True):
                for _ in range(count):
                    total += draw(rng, theta, kind)
        return total

    def _comparer(self, lines: Any, strict: bool, answers: bool) -> Callable[..., Array]:
        """Return a function that compares lines with a block of decoys ``(decoy, line, entry)``, given ``ahead``.

        Decoys are statistics or, with ``answers``, their answer parts. If log evidence is an integral, its values are
        cached for other reports in the same round.
        """
        model: Any = self.model
        own, real = self.own[lines], self.real[lines]
        count, reporting = len(own), own.any(axis=-1)
        scored: Any = slice(None) if reporting.all() else reporting
        own, real = own[scored], real[scored]
        integral = declared(model).evidence_cost > 1 and not isinstance(model, HasLineLogPMI | HasLogPMI)
        cache = self._round.cache if integral else None
        score = partial(line_log_pmi if cache is None else cache.score, model, own)
        if answers:
            score = model.answer_scorer(own, real)
        v_real = on_grid(score((model.answer_part(real) if answers else real)[None])) if len(own) else np.empty((1, 0))

        def compared(decoys: Array, ahead: Array) -> Array:
            counts = np.zeros((4, count))
            # an empty report ties with all decoys
            counts[1], counts[2], counts[3] = len(decoys), ahead.sum(axis=0), len(decoys) * strict
            if len(own):
                counts[:, scored] = compare(on_grid(score(decoys[:, scored])), v_real, ahead[:, scored], strict)
            return counts

        return compared
