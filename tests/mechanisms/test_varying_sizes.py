"""Erratum E10 revisited: numbers of rows that vary from day to day, exactly, by enumerating every size and dataset.

Peers have few rows on some days and many on others. `LineUp` and `SyntheticPeers` draw peers of the day's own sizes, so
they are truthful whatever a provider knows about sizes. `MultiDay(exchangeable=True)` compares with the next day's
sizes, so it is truthful if, given all that the provider knows, both days' sizes have the same distribution, and not if
it can predict them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import gammaln

import troth
from registry import generator
from troth import divergences, models
from troth.core.information import log_pmi
from troth.mechanisms.breakdown import normalise
from troth.models.numerics.extremes import unordered_datasets

SIZES = (1, 6)  # rows of all peers on a quiet and on a busy day
OWN = 2
MAX_FAKE = 8
TOLERANCE = 1e-12
MODELS: dict[str, Any] = {
    "bernoulli": models.Bernoulli(1, 1),
    "skewed bernoulli": models.Bernoulli(0.6, 2),
    "finite": models.Finite([0.3, 0.7], [[0.2, 0.8], [0.7, 0.3]]),
    "finite, three states": models.Finite(
        generator(4).dirichlet(np.ones(3)), generator(5).dirichlet(np.ones(2), size=3)
    ),
}


def datasets(model: Any, rows: int) -> tuple[Any, Any]:
    """All datasets of ``rows`` rows up to their order: statistics and log numbers of orders."""
    types = unordered_datasets(rows, 2)
    t = types[:, ::-1] if isinstance(model, models.Bernoulli) else model.from_summary(types)
    return t, gammaln(rows + 1) - gammaln(types + 1).sum(axis=1)


def beliefs(model: Any, rows: int, truths: Any) -> tuple[Any, Any, Any]:
    """Peers' datasets of ``rows`` rows, their probabilities, and those given each true dataset."""
    peers, orders = datasets(model, rows)
    nothing = model.log_evidence(np.zeros(peers.shape[-1]))
    marginal = np.exp(orders + model.log_evidence(peers) - nothing)
    conditional = np.exp(orders + model.log_evidence(truths[:, None] + peers) - model.log_evidence(truths)[:, None])
    return peers, marginal, conditional


def every_report(model: Any) -> Any:
    """All possible reports of a provider: of any size, including larger than its data, and the empty one."""
    return np.concatenate([datasets(model, rows)[0] for rows in range(MAX_FAKE + 1)])


def over_two_days(model: Any, today: Any, tomorrow: Any) -> tuple[Any, Any]:
    """Expected share of every report given every true dataset, and of the truth, under the rule itself.

    ``today`` and ``tomorrow`` are the probabilities, for the provider, of a quiet and a busy day.
    """
    rule = troth.MultiDay(exchangeable=True)
    truths, _ = datasets(model, OWN)

    def expected(own: Any) -> Any:
        total = np.zeros((len(truths), len(own)))
        for p_today, now in zip(today, SIZES, strict=True):
            peers, _, conditional = beliefs(model, now, truths)
            for p_tomorrow, later in zip(tomorrow, SIZES, strict=True):
                others, marginal, _ = beliefs(model, later, truths)
                shape = (len(own), len(peers), len(others), own.shape[-1])
                first = np.stack(
                    [np.broadcast_to(own[:, None, None], shape), np.broadcast_to(peers[:, None], shape)], -2
                )
                second = np.stack([np.zeros(shape), np.broadcast_to(others, shape)], -2)
                shares = rule.explain(model, np.stack([first, second], axis=-3)).share[..., 0, 0]
                total += p_today * p_tomorrow * conditional @ (shares @ marginal).T
        return total

    return expected(every_report(model)), np.diagonal(expected(truths))


def with_synthetic_peers(model: Any, size: int) -> tuple[Any, Any]:
    """Like `over_two_days`, for peers drawn from the model with the day's size; the expectation is a sum."""
    f = divergences.logistic
    truths, _ = datasets(model, OWN)
    peers, marginal, conditional = beliefs(model, size, truths)

    def expected(own: Any) -> Any:
        s = log_pmi(model, own[:, None], peers[None])
        return conditional @ normalise((f.mismatched(s) @ marginal)[:, None] + f.matched(s), f.low, f.high).T

    return expected(every_report(model)), np.diagonal(expected(truths))


def with_a_line_up(model: Any, size: int) -> tuple[Any, Any]:
    """Like `over_two_days`, for an exhaustive line of the day's size, which pays what decoys pay on average."""
    truths, _ = datasets(model, OWN)
    peers, _, conditional = beliefs(model, size, truths)

    def expected(own: Any) -> Any:
        shape = (len(own), len(peers), own.shape[-1])
        t = np.stack([np.broadcast_to(own[:, None], shape), np.broadcast_to(peers, shape)], axis=-2)
        rows = np.broadcast_to([float(OWN), float(size)], t.shape[:-1])
        return conditional @ troth.LineUp(decoys=np.inf).explain(model, t, rows=rows).share[..., 0].T

    return expected(every_report(model)), np.diagonal(expected(truths))


def worst(result: tuple[Any, Any]) -> float:
    reports, truth = result
    return float((reports - truth[:, None]).max())


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize("busy", [0.1, 0.5, 0.8])
def test_multi_day_is_truthful_if_sizes_are_exchangeable(model: Any, busy: float) -> None:
    assert worst(over_two_days(model, (1 - busy, busy), (1 - busy, busy))) <= TOLERANCE


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize("tomorrow", [(0.0, 1.0), (0.3, 0.7)], ids=["predicted", "half predicted"])
def test_multi_day_is_not_truthful_if_a_provider_foresees_the_sizes(model: Any, tomorrow: Any) -> None:
    """A quiet day before a busy one, known or likely, as a Sunday before a Monday: some fake report gains."""
    assert worst(over_two_days(model, (1.0, 0.0), tomorrow)) > 1e-3


DRAWN = pytest.mark.parametrize("drawn", [with_synthetic_peers, with_a_line_up])


@DRAWN
@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_drawn_peers_are_truthful_whatever_is_known_about_sizes(model: Any, drawn: Any) -> None:
    """For each size separately, hence for a provider who knows it and for one who knows only its distribution."""
    for size in SIZES:
        assert worst(drawn(model, size)) <= TOLERANCE


@DRAWN
@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_the_truth_earns_more_than_an_empty_report_on_busy_and_quiet_days(model: Any, drawn: Any) -> None:
    """Truthfulness is not enough: an honest report must also earn more than an empty one, which is report 0."""
    for size in SIZES:
        reports, truth = drawn(model, size)
        _, orders = datasets(model, OWN)
        weights = np.exp(
            orders
            + model.log_evidence(datasets(model, OWN)[0])
            - model.log_evidence(np.zeros(2 if isinstance(model, models.Bernoulli) else len(model.prior)))
        )
        assert weights @ truth > weights @ reports[:, 0] + 1e-6


def test_synthetic_peers_take_the_sizes_of_the_day() -> None:
    """The rule draws the numbers of rows that peers reported: without peer rows, drawn and real peers are empty."""
    model = models.Bernoulli(1, 1)
    rule = troth.SyntheticPeers(draws=8)
    quiet = np.array([[3.0, 1.0], [0.0, 0.0]])
    share = rule.explain(model, quiet, rng=np.random.default_rng(1)).share[0]
    assert share == pytest.approx(divergences.logistic.empty_share)
