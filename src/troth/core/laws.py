"""Tests of the laws that every model must obey, with a counterexample for each failure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any, TypeAlias

import numpy as np
from scipy.special import expit

from troth.core.contract import (
    Array,
    CountsRows,
    Generator,
    HasExpectedEvidence,
    HasLogPMI,
    HasPosterior,
    HasSummary,
    Model,
    SamplesData,
    SamplesStatistics,
    check_is_model,
    design_of,
)
from troth.core.declarations import declared
from troth.core.errors import DataError, LawBrokenError, MissingCapabilityError
from troth.core.information import check_generator, log_pmi, mutual_information, second_difference
from troth.core.simulation import (
    LOG_INVERSE_LEVEL,
    SIZES,
    Simulation,
    bounded_functions,
    bounded_mean,
    pair_means,
    swap_neighbours,
)

_TOLERANCE = 1e-8
_ADDITIVE = "statistics add over providers"
_MEAN_PMI = "the mean of PMI over independent datasets is 1"

Failures: TypeAlias = Iterator[str]
"""Descriptions of failures; only the first is used."""


@dataclass(frozen=True)
class ModelCheck:
    """The laws that a model obeys, and those that were skipped."""

    model: object
    obeyed: tuple[str, ...]
    skipped: tuple[str, ...]

    def __str__(self) -> str:
        lines = [f"{type(self.model).__name__} obeys {len(self.obeyed)} laws:", *(f"  ✓ {law}" for law in self.obeyed)]
        return "\n".join([*lines, *(f"  – skipped: {law}" for law in self.skipped)])


def check_model(
    model: Model, *, rng: Generator | None = None, datasets: Sequence[Any] | None = None, draws: int = 100_000
) -> ModelCheck:
    """Check that a model obeys the laws of all models; raise an error with a counterexample for each broken law.

    The laws of arithmetic (summaries add over rows, batch equals loop, log PMI is symmetric and zero for an empty
    dataset) are checked on ``datasets``, or on datasets that the model draws. A generative model is also simulated:
    PMI must be the density ratio of matched to independent datasets, which every incorrect log evidence breaks, mutual
    information must not be negative, and fresh statistics must have the distribution of statistics of fresh data. If
    the prior is strong, datasets grow until they are informative about each other. By the empirical Bernstein
    inequality, a correct model fails a simulated law with probability at most 1e-9. Laws about capabilities
    that the model lacks are skipped. If a model declares an ``approximation``, its own draws of statistics are
    simulated: the laws then test the model within the approximation, not how good the approximation is.

    Parameters
    ----------
    model
        Any object with ``statistics`` and ``log_evidence``; its other capabilities are checked too.
    rng
        Used for all draws; defaults to a fixed seed, so that checks are reproducible.
    datasets
        Example datasets; required only if the model cannot draw its own.
    draws
        Number of simulated pairs of datasets per law and size; fewer for large datasets, more for the smallest.

    Raises
    ------
    LawBrokenError
        With a counterexample for each broken law.

    Examples
    --------
    >>> import troth
    >>> print(troth.check_model(troth.models.Bernoulli(1, 1), draws=10_000))
    Bernoulli obeys 15 laws:
      ✓ log evidence is a number ...
    """
    check_is_model(model)
    rng = np.random.default_rng(20201206) if rng is None else check_generator(rng)
    if datasets is None:
        datasets = _draw_examples(model, rng)
    if len(datasets) == 0:
        raise DataError("datasets is empty: the laws need at least one dataset, and two or more to compare")
    statistics = np.stack([np.asarray(model.statistics(data), dtype=np.float64) for data in datasets])
    obeyed: list[str] = []
    skipped: list[str] = []
    failures: dict[str, str] = {}

    def run(law: str, applies: bool, check: Callable[[], Failures]) -> None:
        if not applies:
            skipped.append(law)
            return
        try:
            failure = next(check(), None)
        except MissingCapabilityError:
            skipped.append(law)
            return
        except Exception as error:  # a custom model may raise anything
            failure = f"it raised {type(error).__name__}: {error}"
        if failure is None:
            obeyed.append(law)
        else:
            failures[law] = failure

    direct, summarised = isinstance(model, HasLogPMI), isinstance(model, HasSummary)
    simulated, several = isinstance(model, SamplesData), len(datasets) > 1
    simulation = Simulation(model, rng, draws)
    run("log evidence is a number for every dataset", True, lambda: _finite(model, statistics))
    run("statistics follow from the summary", summarised, lambda: _from_summary(model, datasets))
    run("summaries add over concatenated rows", summarised and several, lambda: _concatenation(model, datasets))
    run("summaries ignore the order of rows", summarised, lambda: _order(model, datasets, rng))
    run("rows are counted", isinstance(model, CountsRows), lambda: _rows(model, datasets))
    run("a batch gives the same as a loop", True, lambda: _batch(model, statistics, rng))
    run("log PMI is symmetric", several, lambda: _symmetric(model, statistics))
    run("log PMI is zero for an empty dataset", True, lambda: _empty(model, statistics))
    run(_ADDITIVE, simulated or (direct and len(datasets) > 2), lambda: _additive(simulation, statistics))
    run("the closed-form log PMI is the second difference", direct and several, lambda: _direct(model, statistics))
    updates_posterior = isinstance(model, HasPosterior) and len(datasets) > 2
    run(
        "log PMI given known data follows from their posterior",
        updates_posterior,
        lambda: _posterior(model, datasets, statistics),
    )
    run(_MEAN_PMI, simulated, lambda: _mean_pmi(simulation))
    run("mutual information is not negative", simulated, lambda: _information(simulation))
    draws_statistics = simulated and isinstance(model, SamplesStatistics)
    run("fresh statistics keep their design", draws_statistics, lambda: _design(model, statistics, rng))
    exact = not declared(model).approximation
    run("fresh statistics look like statistics of fresh data", draws_statistics and exact, lambda: _fresh(simulation))
    if _MEAN_PMI in failures:
        failures.pop(_ADDITIVE, None)  # its test assumes a correct PMI
    if failures:
        raise LawBrokenError(model, failures)
    return ModelCheck(model, tuple(obeyed), tuple(skipped))


def _finite(model: Model, statistics: Array) -> Failures:
    for i, evidence in enumerate(np.atleast_1d(model.log_evidence(statistics))):
        if not np.isfinite(evidence):
            yield f"dataset {i}, with statistics {_text(statistics[i])}, has log evidence {evidence}"


def _from_summary(model: Any, datasets: Sequence[Any]) -> Failures:
    for i, data in enumerate(datasets):
        expected, derived = model.statistics(data), model.from_summary(model.summary(data))
        if not _close(expected, derived):
            yield f"dataset {i} has statistics {_text(expected)} but its summary gives {_text(derived)}"


def _concatenation(model: Any, datasets: Sequence[Any]) -> Failures:
    for i in range(len(datasets) - 1):
        pooled = model.summary(_map_arrays(lambda *parts: np.concatenate(parts), datasets[i], datasets[i + 1]))
        added = model.summary(datasets[i]) + model.summary(datasets[i + 1])
        if not _close(pooled, added):
            yield f"datasets {i} and {i + 1} have summaries that add to {_text(added)}, but together {_text(pooled)}"


def _order(model: Any, datasets: Sequence[Any], rng: Generator) -> Failures:
    for i, data in enumerate(datasets):
        order = rng.permutation(_row_count(data))[::-1]
        shuffled = _map_arrays(lambda part, order=order: np.asarray(part)[order], data)
        before, after = model.summary(data), model.summary(shuffled)
        if not _close(before, after):
            yield f"dataset {i} has summary {_text(before)}, and {_text(after)} in the order {order.tolist()}"


def _rows(model: Any, datasets: Sequence[Any]) -> Failures:
    for i, data in enumerate(datasets):
        rows = float(model.rows(model.statistics(data)))
        if not np.isclose(rows, _row_count(data), rtol=1e-9):
            yield f"dataset {i} has {_row_count(data)} rows, but rows() returns {rows:g}"


def _batch(model: Model, statistics: Array, rng: Generator) -> Failures:
    batch = np.asarray(model.log_evidence(np.stack([statistics, statistics[::-1]])))
    if batch.shape != (2, len(statistics)):
        shapes = f"has shape {batch.shape}, not {(2, len(statistics))}"
        yield f"log_evidence of statistics of shape {(2, *statistics.shape)} {shapes}"
        return
    for i, t in enumerate(statistics):
        single = float(model.log_evidence(t))
        if not _close(batch[0, i], single):
            yield f"dataset {i} has log evidence {batch[0, i]} in a batch but {single} alone"
    if isinstance(model, SamplesData):
        parameters = model.draw_parameters(rng, (3,))
        data = model.draw_data(rng, parameters, 4)
        together = model.statistics(data)
        for i in range(3):
            single_statistics = model.statistics(_map_arrays(lambda part, i=i: part[i], data))
            if not _close(together[i], single_statistics):
                yield f"a dataset has statistics {_text(together[i])} in a batch but {_text(single_statistics)} alone"


def _symmetric(model: Model, statistics: Array) -> Failures:
    for i, (a, b) in enumerate(pairwise(statistics)):
        forth, back = float(log_pmi(model, a, b)), float(log_pmi(model, b, a))
        if not _close(forth, back, _rounding(model, a, b)):
            yield f"log PMI of datasets {i} and {i + 1} is {forth} one way and {back} the other"


def _empty(model: Model, statistics: Array) -> Failures:
    for i, t in enumerate(statistics):
        for value in (log_pmi(model, t, np.zeros_like(t)), log_pmi(model, np.zeros_like(t), t)):
            if not abs(float(value)) < _TOLERANCE + _rounding(model, t):
                yield f"log PMI of dataset {i} and an empty one is {float(value)}"


def _chain(model: Model, statistics: Array) -> Failures:
    for i in range(len(statistics) - 2):
        a, b, c = statistics[i : i + 3]
        from_left = log_pmi(model, a, b) + log_pmi(model, a + b, c)
        from_right = log_pmi(model, b, c) + log_pmi(model, b + c, a)
        if not _close(from_left, from_right, _rounding(model, a, b, c, a + b, b + c, a + b + c)):
            datasets = f"datasets {i}, {i + 1} and {i + 2}"
            yield f"pooling {datasets} from the left gives {from_left}, from the right {from_right}"


def _additive(simulation: Simulation, statistics: Array) -> Failures:
    if isinstance(simulation.model, HasLogPMI):
        yield from _chain(simulation.model, statistics)
    if isinstance(simulation.model, SamplesData):
        yield from _pooled(simulation)


def _direct(model: Model, statistics: Array) -> Failures:
    for i, (a, b) in enumerate(pairwise(statistics)):
        closed, generic = float(log_pmi(model, a, b)), float(second_difference(model, a, b))
        if not _close(closed, generic, _rounding(model, a, b, a + b)):
            yield f"for datasets {i} and {i + 1} it is {closed}, but the log evidence says {generic}"


def _posterior(model: Any, datasets: Sequence[Any], statistics: Array) -> Failures:
    """Compare log PMI(a, b | z) = log PMI(a, b + z) − log PMI(a, z) with that under the posterior given z."""
    for i in range(len(datasets) - 2):
        a, b, z = statistics[i : i + 3]
        expected = float(log_pmi(model, a, b + z) - log_pmi(model, a, z))
        posterior = model.posterior(z)
        own, peers = (posterior.statistics(data) for data in datasets[i : i + 2])
        value = float(log_pmi(posterior, own, peers))
        if not _close(value, expected, _rounding(model, a, b + z, z, a + b + z)):
            yield f"given dataset {i + 2}, log PMI of datasets {i} and {i + 1} is {expected}, not {value}"


def _rounding(model: Model, *statistics: Array) -> float:
    """Return a bound on the rounding error of a difference of these log evidences."""
    values = np.abs(model.log_evidence(np.stack([*statistics, np.zeros_like(statistics[0])])))
    return float(64 * np.finfo(float).eps * values.max(initial=0.0, where=np.isfinite(values)))


def _mean_pmi(simulation: Simulation) -> Failures:
    for own, peers in simulation.sizes:
        draws = (3 if (own, peers) == SIZES[0] else 1) * simulation.draws  # the smallest reveal a wrong prior best
        yield from _density_ratio(simulation, f"with {own} and {peers} rows", *simulation.draw((own, peers), draws))


def _pooled(simulation: Simulation) -> Failures:
    """Pool two peers: PMI with the sum of their statistics is a density ratio as well."""
    own, peers = simulation.sizes[-1]
    parts = (peers // 3, peers - peers // 3)
    a, b, c = simulation.draw((own, *parts))
    sizes = f"with {own} rows and the added statistics of {parts[0]} and {parts[1]}"
    yield from _density_ratio(simulation, sizes, a, b + c)


def _density_ratio(simulation: Simulation, where: str, a: Array, b: Array) -> Failures:
    """PMI is the density ratio of matched to independent pairs: E_independent[PMI·g·h] = E_matched[g·h].

    With g = 1/(1 + c·PMI) both sides are bounded, so heavy tails can neither hide nor fake a difference. h is 1, which
    as c → 0 tests the mean of PMI itself, or another bounded function of both statistics, which detects a PMI that
    ignores the data or has another prior. Neighbouring draws swap peers to become independent, and each pair of them is
    one draw of the difference between the two sides.
    """
    a, b = (t[: len(t) // 2 * 2] for t in (a, b))
    rolled = swap_neighbours(b)
    matched, independent = log_pmi(simulation.model, a, b), log_pmi(simulation.model, a, rolled)
    if np.isnan(matched).any() or np.isnan(independent).any():
        worst = int(np.argmax(np.isnan(matched) | np.isnan(independent)))
        yield f"log PMI is not a number for statistics {_text(a[worst])} and {_text(b[worst])}"
        return
    bounds = {c: (expit(independent + np.log(c)) / c, expit(-matched - np.log(c))) for c in (0.25, 1.0, 4.0)}
    for (c, bounded), weight in product(bounds.items(), bounded_functions(a, b, rolled, simulation.informative)):
        left, right = (bound * function for bound, function in zip(bounded, weight, strict=True))
        difference, margin = bounded_mean(pair_means(left - right), 1 + 1 / c)
        if abs(difference) > margin:
            mean = np.exp(np.minimum(independent, 50)).mean()
            yield (
                f"{where}, {len(a)} draws have a mean PMI of {mean:.4g}; PMI/(1 + {c:g}·PMI) of independent pairs "
                f"averages {left.mean():.4f}, but matched pairs imply {right.mean():.4f} ± {margin:.4f}; log_evidence "
                "lacks a term or has a wrong sign, or statistics do not add over providers; first pair: "
                f"{_text(a[0])} and {_text(b[0])}"
            )


def _information(simulation: Simulation) -> Failures:
    """E_matched[1/PMI] ≤ 1, so by Chernoff the mean of n draws of log PMI is below −ln(1/α)/n with probability ≤ α."""
    model = simulation.model
    for own, peers in simulation.sizes:
        a, b = simulation.draw((own, peers))
        sample = log_pmi(model, a, b)
        mean, n = float(sample.mean()), len(sample)
        slack = _rounding(model, a[0], b[0], a[0] + b[0])
        if mean < -LOG_INVERSE_LEVEL / n - slack:
            yield f"with {own} and {peers} rows it is {mean:.5f} nats"
        if isinstance(model, HasExpectedEvidence) and np.ndim(_plan_rows(model, own)) == 1:
            exact = mutual_information(model, own, peers, rng=simulation.rng, draws=10)
            # Rare datasets may have a larger log PMI than any drawn one: allow for twice as much, or for 30 nats.
            width = max(30.0, 2 * float(np.abs(sample).max()))
            variance = sample.var(ddof=1)
            error = np.sqrt(2 * variance * LOG_INVERSE_LEVEL / n) + 7 * width * LOG_INVERSE_LEVEL / (3 * n)
            if exact.method == "exact" and abs(exact.value - mean) > error + slack:
                yield f"with {own} and {peers} rows it should be {exact.value:.5f} and is {mean:.5f} ± {error:.5f} nats"


def _design(model: Any, statistics: Array, rng: Generator) -> Failures:
    design = model.design(statistics)
    parameters = model.draw_parameters(rng, (len(statistics),))
    fresh = model.draw_statistics(rng, parameters, design)
    if fresh.shape != statistics.shape:
        yield f"statistics of shape {statistics.shape} were redrawn with shape {fresh.shape}"
    elif not _close(model.design(fresh), design):
        yield f"the design {_text(design[0])} became {_text(model.design(fresh)[0])}"
    elif (single := np.shape(model.draw_statistics(rng, parameters[0], design[0]))) != statistics.shape[1:]:
        yield f"one statistic of shape {statistics.shape[1:]} was redrawn with shape {single}"


def _fresh(simulation: Simulation) -> Failures:
    """Log PMI with other data has the same distribution for redrawn statistics as for statistics of drawn data."""
    model, rng = simulation.model, simulation.rng
    for own, peers in SIZES:
        parameters = model.draw_parameters(rng, (simulation.draws,))
        real, other, matched = (model.statistics(model.draw_data(rng, parameters, rows)) for rows in (own, own, peers))
        fresh = model.draw_statistics(rng, parameters, design_of(model, other, own))
        for name, against in (("the same θ", matched), ("another θ", swap_neighbours(matched))):
            drawn, redrawn = (expit(log_pmi(model, t, against)) for t in (real, fresh))
            difference, margin = bounded_mean(pair_means(drawn - redrawn), 2.0)
            if abs(difference) > margin:
                yield (
                    f"against {peers} rows of {name}, PMI/(1 + PMI) of {own} drawn rows averages {drawn.mean():.4f}, "
                    f"of redrawn statistics {redrawn.mean():.4f} ± {margin:.4f}"
                )


def _draw_examples(model: Model, rng: Generator) -> list[Any]:
    if not isinstance(model, SamplesData):
        raise MissingCapabilityError(
            f"{type(model).__name__} cannot draw data: pass datasets=, or give it draw_parameters and draw_data"
        )
    try:
        return [model.draw_data(rng, model.draw_parameters(rng), rows) for rows in (3, 4, 7, 5)]
    except MissingCapabilityError as error:
        raise MissingCapabilityError(f"{error}; or pass datasets=") from None


def _plan_rows(model: Any, rows: int) -> Any:
    """Return the design of ``rows`` rows, or 0 if the number of rows does not determine it (a regression)."""
    try:
        return model.plan(rows)
    except ValueError:
        return 0


def _close(a: Any, b: Any, rounding: float = 0.0) -> bool:
    return bool(np.allclose(a, b, rtol=_TOLERANCE, atol=_TOLERANCE + rounding))


def _text(statistics: Any) -> str:
    return np.array2string(np.asarray(statistics), precision=6, threshold=8, separator=", ")


def _map_arrays(change: Callable[..., Any], *datasets: Any) -> Any:
    """Apply a function to the arrays of datasets: one array each, or features and target."""
    return tuple(map(change, *datasets)) if isinstance(datasets[0], tuple) else change(*datasets)


def _row_count(data: Any) -> int:
    return len(data[-1] if isinstance(data, tuple) else data)
