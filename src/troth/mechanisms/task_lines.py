"""Exact line-ups of many tasks with labels, by enumerating everything that peers could answer.

Given the class θ of a task, a label of provider j has probability W_j[θ, label]. Peers' labels b have probability
p(b) = Σ_θ p(θ) Π_j W_j[θ, b_j], and PMI(a, b) = Σ_θ p(θ|a) Π_j W_j[θ, b_j] / p(b). With few labels and peers there are
few b, so a line contains all of them. Lines of tasks with the same likelihoods and labels are scored once.

If peers have too many joint answers, they are split into panels by their indexes, and the share is the mean over a
line-up with each panel: a mean of truthful rules is truthful, as long as answers do not decide who is on which panel.
If there are more peers than fill a few panels, each report faces only some of them, evenly spaced from it, so that the
cost is linear in the number of reports even if all of them are on one task.
"""

from __future__ import annotations

from math import log
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from troth.core.blocks import for_each_chunk
from troth.core.errors import DataError, ReportError
from troth.mechanisms.line import exhaustive_line_score, limit_share
from troth.mechanisms.task_labels import MAX_OUTCOMES, Labels, priors_of
from troth.mechanisms.tasks import Tasks, TaskShares, count_peers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from troth.core.contract import Array, Indexes

MAX_PANELS = 8
"""The maximum number of panels that a report faces."""

_TOO_MANY = "peers have too many possible answers to enumerate: choose a number of decoys, or one label per report"
_BLOCK = 1 << 18  # numbers in a block


class _Lines(NamedTuple):
    """Lines with the same number of peers' labels: the report, the peers' codes (see `_lines`), and the weight."""

    report: Indexes
    peers: Indexes
    weight: Array


def share_by_enumeration(tasks: Tasks, labels: Labels, rivals: int, strict: float) -> TaskShares:
    """Return each report's share in an exhaustive line of peers' answers, with a strict score of weight ``strict``.

    A report without peers, and one whose peers contradict each other, is paid 1/(r + 1).
    """
    empty = 1 / (rivals + 1)
    total, log_pmi, weights = np.zeros((3, len(tasks)))
    own, code = _own_likelihoods(tasks, labels)
    possible = (own[code] > 0).any(axis=1)
    if not possible.all():
        raise ReportError(
            int(np.argmin(possible)), "the report cannot occur under any state of the model: leave it out"
        )
    prior, z = priors_of(tasks, labels)
    for lines in _lines(tasks, labels):
        first, inverse = _distinct(code[lines.report], z[tasks.task[lines.report]], lines.peers)
        reports = lines.report[first]
        line = own[code[reports]], prior[z[tasks.task[reports]]], lines.peers[first]
        share, value = _scores(*line, labels.tables, rivals, strict)
        for sums, entries in ((total, share[inverse]), (log_pmi, value[inverse]), (weights, 1.0)):
            sums += np.bincount(lines.report, lines.weight * entries, len(tasks))
    share = np.where(weights > 0, np.clip(total, 0.0, 1.0), empty)
    return TaskShares(share, log_pmi, count_peers(tasks), np.full(len(tasks), empty))


def _own_likelihoods(tasks: Tasks, labels: Labels) -> tuple[Array, Indexes]:
    """Return p(report | θ) of the distinct reports and likelihoods, ``(code, θ)``, and the code of each report."""
    likelihood, summaries = tasks.likelihood_of[tasks.provider], tasks.scored
    size = labels.tables.shape[2]
    if (summaries.sum(axis=1) == 1).all():
        code = likelihood * size + summaries.argmax(axis=1)
        return labels.tables.transpose(0, 2, 1).reshape(-1, labels.tables.shape[1]), code
    rows = np.concatenate([likelihood[:, None], summaries], axis=1)
    distinct, code = np.unique(rows, axis=0, return_inverse=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(labels.tables[distinct[:, 0].astype(np.intp)]) * distinct[:, None, 1:]
    table = np.exp(np.where(distinct[:, None, 1:] == 0, 0.0, logs).sum(axis=2))
    return table, code.ravel()


def _lines(tasks: Tasks, labels: Labels) -> Iterator[_Lines]:
    """Yield lines by number of peers' labels, each coded as one number with its likelihood, in ascending order."""
    size = labels.tables.shape[2]
    counts = tasks.summaries.astype(np.intp)
    report, label = np.nonzero(counts)
    cell = np.repeat(np.arange(len(report)), counts[report, label])
    report, code = report[cell], (tasks.likelihood_of[tasks.provider[report]] * size + label)[cell]
    panel_size = max(1, int(log(MAX_OUTCOMES) / log(size) + 1e-9)) if size > 1 else 1
    task = tasks.task[report]
    starts = np.flatnonzero(np.diff(task, prepend=-1))
    sizes = np.diff(starts, append=len(task))
    group = tasks.group[tasks.provider]
    limit = MAX_PANELS * panel_size if len(report) == len(tasks) else len(report)
    for number in np.unique(sizes).tolist():
        begin = starts[sizes == number]
        faced = min(number, limit)
        step = max(1, _BLOCK // (number * faced))
        parts: dict[int, list[_Lines]] = {}
        for start in range(0, len(begin), step):
            cells = begin[start : start + step, None] + np.arange(number)
            members = report[cells]
            row, place = np.nonzero(np.diff(members, axis=1, prepend=-1))  # the first label of each report
            line = members[row, place]
            offsets = np.arange(number)[None, :]
            if number - 1 > limit:
                offsets = (place[:, None] + np.arange(1, faced + 1) * number // (faced + 1)) % number
            reports_on_task = cells[row[:, None], offsets]
            are_peers = group[report[reports_on_task]] != group[line][:, None]
            counts = are_peers.sum(axis=1)
            for count in np.unique(counts[counts > 0]).tolist():
                tasks_of_size = np.flatnonzero(counts == count)
                peers = reports_on_task[tasks_of_size][are_peers[tasks_of_size]].reshape(-1, count)
                panels = np.array_split(np.arange(count), -(-count // panel_size))
                if len(panels) > 1 and len(report) > len(tasks):
                    raise DataError(_TOO_MANY)
                for panel in panels:
                    codes = np.sort(code[peers[:, panel]], axis=1)
                    weights = np.full(len(tasks_of_size), 1 / len(panels))
                    parts.setdefault(len(panel), []).append(_Lines(line[tasks_of_size], codes, weights))
        for lines_of_size in parts.values():
            yield _Lines(*(np.concatenate(arrays) for arrays in zip(*lines_of_size, strict=True)))


def _distinct(own: Indexes, known: Indexes, peers: Indexes) -> tuple[Indexes, Indexes]:
    """Return one line of each kind, and the kind of each line; all lines if there are too many kinds to number."""
    key = np.zeros(len(own), dtype=np.int64)
    kinds = 1
    for column in (own, known, *peers.T):
        size = int(column.max()) + 1
        kinds *= size
        if kinds >= 1 << 62:
            return np.arange(len(own)), np.arange(len(own))
        key = key * size + column
    _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
    return first, inverse.ravel()


def _scores(own: Array, prior: Array, peers: Indexes, tables: Array, rivals: int, strict: float) -> tuple[Array, Array]:
    """Return the share and log PMI of each line, computed in blocks by several threads."""
    states, size = tables.shape[1:]
    step = max(1, _BLOCK // max(states * size, size ** peers.shape[1]))
    share, log_pmi = np.zeros((2, len(own)))

    def score(part: slice) -> None:
        share[part], log_pmi[part] = _score(own[part], prior[part], peers[part], tables, rivals, strict)

    for_each_chunk(len(own), step, score)
    return share, log_pmi


def _score(own: Array, prior: Array, peers: Indexes, tables: Array, rivals: int, strict: float) -> tuple[Array, Array]:
    joint = prior * own
    evidence = joint.sum(axis=1, keepdims=True)
    possible = evidence > 0
    posterior = np.where(possible, joint / np.where(possible, evidence, 1.0), prior)
    middle = (peers.shape[1] + 1) // 2
    half, real_half = _answers(peers[:, :middle], tables)
    other_half, real_other = _answers(peers[:, middle:], tables)
    # Σ_θ p(θ)·p(one half of the answers | θ)·p(the other half | θ), a product of two small matrices for each line
    probability, pmi = (
        ((weights[:, :, None] * half).transpose(0, 2, 1) @ other_half).reshape(len(own), -1)
        for weights in (prior, posterior)
    )
    np.divide(pmi, probability, out=pmi, where=probability > 0)
    lines, real = np.arange(len(own)), real_half * other_half.shape[2] + real_other
    order = _on_mantissa_grid(pmi)
    place = order[lines, real][:, None]
    better, worse = (np.einsum("lo,lo->l", probability, side) for side in (order > place, order < place))
    share = limit_share(better, worse, rivals)
    pmi_real = pmi[lines, real]
    if strict:
        squares = np.einsum("lo,lo,lo->l", probability, pmi, pmi)
        score = exhaustive_line_score(pmi_real, squares, 1 / prior.min(axis=1), rivals)
        share = (1 - strict) * share + strict * score
    contradicts = (probability[lines, real] <= 0) | ~possible[:, 0]
    with np.errstate(divide="ignore"):
        log_pmi = np.log(pmi_real)
    return np.where(contradicts, 1 / (rivals + 1), share), np.where(contradicts, 0.0, log_pmi)


def _answers(peers: Indexes, tables: Array) -> tuple[Array, Indexes]:
    """Return p(answers | θ) of all joint answers, ``(line, θ, answers)``, and the index of the real ones."""
    states, size = tables.shape[1:]
    table, real = np.ones((len(peers), states, 1)), np.zeros(len(peers), dtype=np.intp)
    for likelihood, label in zip(*np.divmod(peers.T, size), strict=True):
        table = (table[:, :, :, None] * tables[likelihood][:, :, None, :]).reshape(len(peers), states, -1)
        real = real * size + label
    return table, real


def _on_mantissa_grid(pmi: Array) -> NDArray[np.int64]:
    """Return integers in the order of PMI, with 30 significant bits, so that values equal up to rounding tie."""
    return (pmi.view(np.int64) + (1 << 21)) >> 22
