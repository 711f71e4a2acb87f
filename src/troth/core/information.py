"""The information that datasets share: log PMI, mutual information and leave-one-out sums, for any model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np

from troth.core.blocks import for_each_chunk
from troth.core.contract import (
    Array,
    Generator,
    HasExpectedEvidence,
    HasLineLogPMI,
    HasLogPMI,
    Indexes,
    Mask,
    Model,
    Models,
    SamplesData,
    SamplesStatistics,
)
from troth.core.errors import DataError, MissingCapabilityError, ParameterError, ReportError
from troth.core.provider_models import one_each, shared_evidence
from troth.core.support import as_floats

_CHUNK_SIZE = 1 << 16  # numbers summed at a time
_CHUNK_ROWS = 1 << 22  # rows drawn at a time
_MAX_ROUNDING = 1e-6  # above which a closed form does not count as exact


@runtime_checkable
class HasWidth(Model, Protocol):
    """A model that knows the length of its statistics."""

    @property
    def width(self) -> int:
        """The number of statistics of a dataset."""


def log_pmi(model: Models, own: Array, peers: Array, both: Array | None = None) -> Array:
    """Return the pointwise mutual information of two datasets, in nats, from their statistics.

    log PMI(a, b) = log p(A, B) / (p(A) p(B)) = Λ(a + b) + Λ(0) − Λ(a) − Λ(b): the mixed second difference of
    the log evidence (the paper's Definition of PMI and its Lemma on computing it). It is 0 if either dataset is
    empty, and −∞ if the two cannot occur together, which includes datasets that are impossible by themselves.

    Parameters
    ----------
    model
        One model, or one per provider in a shared space of statistics (see `troth.combine`).
    own, peers
        Statistics of shape ``(..., statistic)``; leading axes broadcast.
    both
        ``own + peers``, if already known, such as the total of a round.

    Examples
    --------
    >>> import troth
    >>> model = troth.models.Bernoulli(alpha=1, beta=1)
    >>> a, b = model.statistics([1, 1, 0]), model.statistics([1, 1, 1, 0])
    >>> round(float(troth.log_pmi(model, a, b)), 6)
    0.356675
    """
    evidence = shared_evidence(model)
    own, peers = as_floats(own, "statistic"), as_floats(peers, "statistic")
    both = None if both is None else as_floats(both, "statistic")
    _check_sizes(evidence, own, peers, both)
    if isinstance(evidence, HasLogPMI):
        return evidence.log_pmi(own, peers, both)
    return second_difference(evidence, own, peers, both)


def line_log_pmi(model: Models, own: Array, line: Array) -> Array:
    """Return log PMI of reports ``(..., statistic)`` with every member of their lines, ``(member, ..., statistic)``.

    All members of a line have the same design; families may share the work between them. Equal members have equal log
    PMI, bit for bit.
    """
    evidence = shared_evidence(model)
    if isinstance(evidence, HasLineLogPMI):
        return evidence.line_log_pmi(own, line)
    return log_pmi(evidence, own, line)


def _check_sizes(model: Model, own: Array, peers: Array, both: Array | None) -> None:
    """Raise an error if the shapes of statistics do not match the model or each other."""
    parts = {"own": own, "peers": peers} if both is None else {"own": own, "peers": peers, "both": both}
    for name, t in parts.items():
        if t.ndim < 1:
            raise DataError(f"{name} must have shape (..., statistic), not {t.shape}")
        expected = model.width if isinstance(model, HasWidth) else own.shape[-1]
        if t.shape[-1] != expected:
            raise DataError(
                f"{name} has {t.shape[-1]} statistics on its last axis, but {type(model).__name__} has {expected}"
            )
    try:
        np.broadcast_shapes(*(t.shape for t in parts.values()))
    except ValueError:
        shapes = " and ".join(f"{name} {t.shape}" for name, t in parts.items())
        raise DataError(f"the leading axes of {shapes} do not broadcast") from None


def second_difference(
    model: Model, own: Array, peers: Array, both: Array | None = None, peer_evidence: Array | None = None
) -> Array:
    """Return log PMI as the difference of four log evidences: valid for every model, but imprecise for large datasets.

    ``peer_evidence`` is the log evidence of the peers, if already known.
    """
    if both is None:
        both = own + peers
    joint, alone, empty = (np.asarray(model.log_evidence(t)) for t in (both, own, np.zeros(own.shape[-1])))
    peer_evidence = np.asarray(model.log_evidence(peers)) if peer_evidence is None else peer_evidence
    with np.errstate(invalid="ignore"):  # −∞ − −∞, replaced on the next line
        information = (joint - peer_evidence) - (alone - empty)
    return np.where(np.isneginf(joint), -np.inf, information)


def impossible(model: Model, statistics: Array) -> Mask:
    """Return which statistics are impossible: every state of the model gives some of their data probability 0.

    Such statistics contain −∞; if none do, the evidence is not computed.

    Examples
    --------
    >>> import troth
    >>> model = troth.models.Finite([0.5, 0.5], [[1.0, 0.0], [0.0, 1.0]])
    >>> zero, one = model.statistics([0]), model.statistics([1])
    >>> impossible(model, np.stack([zero, zero + one]))
    array([False,  True])
    """
    if statistics.min(initial=0.0) > -np.inf:
        return np.zeros(statistics.shape[:-1], dtype=bool)
    return np.isneginf(model.log_evidence(statistics))


def leave_one_out(statistics: Array, groups: Sequence[Any] | None = None) -> Array:
    """Return for each provider the sum of its peers' statistics, that is of all other providers.

    The sums are exact up to a final rounding, so they depend only on the set of reports: permuting providers
    permutes the result bit for bit, equal reports have equal sums, and a small report keeps its precision next to
    a large one. Statistics of −∞ (a parameter that a report rules out) never produce NaN. The cost is linear.

    Statistics are ``(..., provider, statistic)``. Providers with the same label in ``groups`` are related, and never
    each other's peers.

    Examples
    --------
    >>> leave_one_out(np.array([[1.0, 0.0], [2.0, 5.0], [4.0, 0.0]]))
    array([[6., 5.],
           [5., 0.],
           [3., 5.]])
    >>> leave_one_out(np.array([[1.0], [2.0], [4.0]]), groups=["a", "a", "b"])
    array([[4.],
           [4.],
           [3.]])
    """
    t = np.asarray(statistics, dtype=np.float64)
    if t.ndim < 2:
        raise DataError(f"statistics must have shape (..., provider, statistic), not {t.shape}")
    labels = None if groups is None else _group_codes(groups, t.shape[-2])
    finite = np.isfinite(t)
    if finite.all():
        return _exact_sums(t, labels)[0]
    excluded = np.isneginf(t)
    if not (finite | excluded).all():
        where = np.argwhere(~(finite | excluded))[0]
        raise ReportError(int(where[-2]), f"statistic {where[-1]} is {t[tuple(where)]}; it must be a number or -inf")
    peers, _ = _exact_sums(np.where(finite, t, 0.0), labels)
    exclusions, _ = _exact_sums(excluded.astype(np.float64), labels)
    return np.where(exclusions > 0, -np.inf, peers)


def sum_subsets(statistics: Array, members: Mask) -> Array:
    """Sum the statistics of subsets of providers, exactly up to a final rounding.

    Statistics are ``(..., provider, statistic)``, and ``members`` of subsets ``(..., subset, provider)``.

    Examples
    --------
    >>> sum_subsets(np.array([[1.0], [2.0], [4.0]]), np.array([[True, False, True], [False, True, False]]))
    array([[5.],
           [2.]])
    """
    leading = np.broadcast_shapes(statistics.shape[:-2], members.shape[:-2])
    t = np.broadcast_to(statistics, (*leading, *statistics.shape[-2:]))
    indexes = np.broadcast_to(members, (*leading, *members.shape[-2:]))
    total = np.empty((*indexes.shape[:-1], t.shape[-1]))
    excluded = np.isneginf(t)
    finite = np.where(excluded, 0.0, t)
    size = max(1, _CHUNK_ROWS // max(1, t.size))
    for start in range(0, indexes.shape[-2], size):
        part = indexes[..., start : start + size, :, None]
        sums = _exact_sums(np.where(part, finite[..., None, :, :], 0.0), None)[1][..., 0, :]
        ruled_out = (part & excluded[..., None, :, :]).any(axis=-2) if excluded.any() else False
        total[..., start : start + size, :] = np.where(ruled_out, -np.inf, sums)
    return total


def add_exactly(statistics: Array, add: Callable[[Array], Array]) -> Array:
    """Apply a function that adds up statistics, exactly up to a final rounding, whatever its order of addition.

    The function forms sums of ``(..., provider, statistic)`` over providers, and differences of such sums, in which no
    provider occurs more than once. Sums that include −∞ are −∞.

    Examples
    --------
    >>> add_exactly(np.array([[1e30], [1.0], [2.0]]), lambda t: np.cumsum(t, axis=0)[1:] - t[0])
    array([[1.],
           [3.]])
    """
    excluded = np.isneginf(statistics)
    finite = np.where(excluded, 0.0, statistics)
    total = add(np.zeros_like(finite))
    for cut in _cuts(finite, axis=-2):
        total = total + add(cut)
    return np.where(add(excluded.astype(np.float64)) > 0, -np.inf, total) if excluded.any() else total


def peer_log_pmi(model: Models, statistics: Array, groups: Sequence[Any] | None = None) -> Array:
    """Return log PMI of every provider's report with its peers' reports, shape ``(..., provider)``.

    Examples
    --------
    >>> import troth
    >>> model = troth.models.Poisson(shape=2, rate=1)
    >>> reports = np.stack([model.statistics(x) for x in ([3, 4], [2, 5, 3], [9, 12])])
    >>> peer_log_pmi(model, reports).round(3)
    array([ 0.307, -0.387, -2.101])
    """
    t = as_floats(statistics, "statistic")
    if t.ndim < 2:
        raise DataError(f"statistics must have shape (..., provider, statistic), not {t.shape}")
    one_each(model, t.shape[-2])  # validates the number of models
    if groups is not None or not np.isfinite(t).all():
        return log_pmi(model, t, leave_one_out(t, groups))
    return log_pmi(model, t, *_exact_sums(t, None))


@dataclass(frozen=True)
class Information:
    """A mutual information in nats, and how it was computed.

    Attributes
    ----------
    value
        The mutual information.
    standard_error
        The standard error of the simulation; 0 if the value is exact.
    method
        ``"exact"`` (a closed form or a full sum) or ``"simulated"``.
    """

    value: float
    standard_error: float
    method: Literal["exact", "simulated"]

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        if self.method == "exact":
            return f"{self.value:.6f} nats (exact)"
        return f"{self.value:.6f} ± {self.standard_error:.6f} nats (simulated)"


def mutual_information(
    model: Model, own: Any, peers: Any, *, rng: Generator | None = None, draws: int = 100_000
) -> Information:
    """Return the mutual information of two future datasets: the expected log PMI of honest reports.

    I = E[Λ(a + b)] + Λ(0) − E[Λ(a)] − E[Λ(b)], each expectation over its own prior predictive. The result is exact if
    the family knows E[Λ], up to terms linear in the design, which cancel, and the rounding error is below 1e-6. Any
    other generative model is simulated; the result says which.

    Parameters
    ----------
    own, peers
        Numbers of rows or, for a regression, the features of each side, ``(rows, d)``.
    rng, draws
        Only used to simulate; without a generator, a model that needs simulation raises an error.

    Examples
    --------
    >>> import troth
    >>> print(mutual_information(troth.models.Bernoulli(1, 1), 10, 20))
    0.671328 nats (exact)
    """
    if rng is not None:
        check_generator(rng)
    exact = _exact_information(model, own, peers) if isinstance(model, HasExpectedEvidence) else None
    if exact is not None:
        return Information(exact, 0.0, "exact")
    if not isinstance(model, SamplesData):
        raise MissingCapabilityError(
            f"{type(model).__name__} has no exact mutual information and cannot draw data to estimate it: "
            "give it draw_parameters and draw_data"
        )
    if rng is None:
        raise MissingCapabilityError(
            f"{type(model).__name__} has no exact mutual information here; pass rng= to estimate it by simulation"
        )
    if not draws > 1:
        raise ParameterError(f"draws must be above 1, not {draws!r}")
    sample = np.concatenate([log_pmi(model, a, b) for a, b in _draw_pairs(model, rng, own, peers, draws)])
    return Information(float(sample.mean()), float(sample.std(ddof=1) / np.sqrt(draws)), "simulated")


def _exact_information(model: HasExpectedEvidence, own: Any, peers: Any) -> float | None:
    own_plan, peer_plan = model.plan(own), model.plan(peers)
    values = []
    for design in (own_plan + peer_plan, np.zeros_like(own_plan), own_plan, peer_plan):
        expected = model.expected_log_evidence(design)
        if expected is None:
            return None
        values.append(float(np.asarray(expected)))
    if np.finfo(float).eps * np.abs(values).max() > _MAX_ROUNDING:
        return None
    joint, empty, alone, peers_alone = values
    return max((joint - peers_alone) - (alone - empty), 0.0)


def _draw_pairs(model: SamplesData, rng: Generator, own: Any, peers: Any, draws: int) -> Iterator[tuple[Array, Array]]:
    """Draw matched statistics in chunks, without drawing rows if the model can."""
    if isinstance(model, HasExpectedEvidence) and isinstance(model, SamplesStatistics):
        designs = model.plan(own), model.plan(peers)
        block = max(1, _CHUNK_ROWS // max(design.shape[-1] for design in designs))
    else:
        designs = None
        block = max(1, _CHUNK_ROWS // max(1, *(int(np.size(n) if np.ndim(n) else n) for n in (own, peers))))
    for start in range(0, draws, block):
        parameters = model.draw_parameters(rng, (min(block, draws - start),))
        if designs is not None and isinstance(model, SamplesStatistics):
            own_draws, peer_draws = (model.draw_statistics(rng, parameters, design) for design in designs)
        else:
            own_draws, peer_draws = (model.statistics(model.draw_data(rng, parameters, rows)) for rows in (own, peers))
        yield own_draws, peer_draws


def check_generator(rng: object) -> Generator:
    """Raise an error for anything but a generator, such as a seed, so that no draw depends on hidden state."""
    if not isinstance(rng, np.random.Generator):
        raise ParameterError(f"rng must be a numpy.random.Generator, such as numpy.random.default_rng(7), not {rng!r}")
    return rng


def _group_codes(groups: Sequence[Any], providers: int) -> Indexes:
    if len(groups) != providers:
        raise DataError(f"{len(groups)} group labels for {providers} providers: give one label per provider")
    codes: dict[Any, int] = {}
    return np.array([codes.setdefault(label, len(codes)) for label in groups], dtype=np.intp)


def _exact_sums(t: Array, labels: Indexes | None) -> tuple[Array, Array]:
    """Return sums over the provider axis without each provider's own group, and in total, exact up to a final rounding.

    Columns are processed in blocks that fit the processor's cache but fill cache lines. If there are only a few
    columns, providers are the innermost axis.
    """
    providers, leading = t.shape[-2], (*t.shape[:-2], t.shape[-1])
    if t.size == 0:
        return np.zeros_like(t), np.zeros(leading)[..., None, :]
    columns = np.moveaxis(t, -2, 0).reshape(providers, -1)
    peers, totals = np.empty_like(columns), np.empty(columns.shape[1])
    width = max(64, _CHUNK_SIZE // providers)
    providers_last = columns.shape[1] < 16 < providers

    def work(block: slice) -> None:
        part = np.ascontiguousarray(columns[:, block].T if providers_last else columns[:, block])
        part, total = _exact_block(part, labels, axis=int(providers_last))
        peers[:, block] = part.T if providers_last else part
        totals[block] = total.ravel()

    for_each_chunk(columns.shape[1], width, work)
    by_provider = np.moveaxis(peers.reshape(providers, *leading), 0, -2)
    return np.ascontiguousarray(by_provider), totals.reshape(leading)[..., None, :]


def _exact_block(t: Array, labels: Indexes | None, axis: int) -> tuple[Array, Array]:
    """Return sums of a block along an axis without each provider's group, and in total.

    The leading parts are added first: if they cancel, their sum is exact, and later parts keep their precision.
    """
    sums: tuple[Array, Array] | None = None
    for cut in _cuts(t, axis):
        total = cut.sum(axis=axis, keepdims=True)
        own = cut if labels is None else _group_sums(cut, labels, axis)
        peers = np.subtract(total, own, out=own)  # in place, as allocating an array costs as much as the arithmetic
        sums = (peers, total) if sums is None else (np.add(sums[0], peers, out=sums[0]), sums[1] + total)
        del cut, own, peers
    return (np.zeros_like(t), np.zeros_like(t.take([0], axis=axis))) if sums is None else sums


def _cuts(remaining: Array, axis: int) -> Iterator[Array]:
    """Cut numbers into parts, leading bits first, whose sums along an axis are exact in any order.

    Each pass cuts so few bits off every number that the sum of all cuts fits a double. Only the addition of the few
    parts is then rounded.
    """
    while remaining.size:
        peak = np.maximum(remaining.max(axis=axis, keepdims=True), -remaining.min(axis=axis, keepdims=True))
        if not peak.any():
            break
        exponent = np.frexp(peak)[1] + remaining.shape[axis].bit_length() + 1
        if exponent.max() > 1023:
            raise DataError("statistics are too large: sums overflow; rescale the values")
        sigma = np.ldexp(1.0, exponent)
        cut = remaining + sigma
        cut -= sigma
        remaining = remaining - cut
        yield cut


def _group_sums(t: Array, labels: Indexes, axis: int) -> Array:
    """Return for every provider the sum over its group."""
    order = np.argsort(labels, kind="stable")
    starts = np.flatnonzero(np.diff(labels[order], prepend=-1))
    return np.add.reduceat(t.take(order, axis=axis), starts, axis=axis).take(labels, axis=axis)
