"""Data that everybody knows: the posterior as everybody's prior."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import troth
from rayleigh import Rayleigh
from registry import EXAMPLES, MISSING, generator
from troth.core.posterior import conditioned_on


def draw_statistics(model: Any, seed: int, *rows: int) -> list[Any]:
    """Datasets of one θ, so that none contradicts another."""
    rng = generator(seed)
    theta = model.draw_parameters(rng)
    return [model.draw_data(rng, theta, size) for size in rows]


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_log_pmi_given_known_data(name: str, seed: int) -> None:
    """Λ(a+b+z) + Λ(z) − Λ(a+z) − Λ(b+z), and the predictive chain: what b adds for a beyond what z says."""
    model: Any = EXAMPLES[name]
    datasets = draw_statistics(model, seed, 4, 7, 9)
    a, b, z = (model.statistics(data) for data in datasets)
    evidence = model.log_evidence
    differences = evidence(a + b + z) + evidence(z) - evidence(a + z) - evidence(b + z)
    chain = troth.log_pmi(model, a, b + z) - troth.log_pmi(model, a, z)
    posterior: Any = troth.posterior(model, z)
    assert isinstance(posterior, type(model)) != (name in MISSING["posterior"])
    own, peers = (posterior.statistics(data) for data in datasets[:2])
    value = troth.log_pmi(posterior, own, peers)
    assert value == pytest.approx(differences, abs=1e-12 * (1 + abs(float(evidence(a + b + z)))))
    assert value == pytest.approx(chain, abs=1e-12)
    wrapped = conditioned_on(model, z)
    assert troth.log_pmi(wrapped, a, b) == pytest.approx(value, abs=1e-12)
    assert troth.log_pmi(wrapped, a, np.zeros_like(a)) == 0


@pytest.mark.parametrize("name", EXAMPLES)
def test_nothing_known_changes_nothing(name: str) -> None:
    model: Any = EXAMPLES[name]
    same: Any = troth.posterior(model, np.zeros(model.width))
    a, b = (model.statistics(data) for data in draw_statistics(model, 4, 5, 6))
    assert troth.log_pmi(same, a, b) == pytest.approx(troth.log_pmi(model, a, b), abs=1e-12)


@pytest.mark.parametrize("name", EXAMPLES)
def test_in_two_steps(name: str) -> None:
    """Knowing z and then y is knowing both."""
    model: Any = EXAMPLES[name]
    datasets = draw_statistics(model, 5, 4, 7, 3, 6)
    z, y = (model.statistics(data) for data in datasets[2:])
    at_once: Any = troth.posterior(model, z + y)
    first: Any = troth.posterior(model, z)
    then: Any = troth.posterior(first, first.statistics(datasets[3]))
    one, second = (
        troth.log_pmi(updated, updated.statistics(datasets[0]), updated.statistics(datasets[1]))
        for updated in (at_once, then)
    )
    assert one == pytest.approx(second, abs=1e-11)


@pytest.mark.parametrize("name", [name for name in EXAMPLES if "zeros" not in name])  # which renumber their states
def test_draws_are_those_of_the_posterior(name: str) -> None:
    """The posterior's prior draws and the model's posterior draws have one distribution (Kolmogorov and Smirnov)."""
    from scipy.stats import ks_2samp

    model: Any = EXAMPLES[name]
    z = model.statistics(draw_statistics(model, 6, 8)[0])
    posterior: Any = troth.posterior(model, z)
    rng = generator(7)
    prior_draws = posterior.draw_parameters(rng, (4000,))
    draws = model.draw_posterior(rng, np.broadcast_to(z, (4000, len(z))))
    for k in range(draws.shape[-1]):
        assert ks_2samp(prior_draws[:, k], draws[:, k]).pvalue > 1e-6


@pytest.mark.parametrize("name", EXAMPLES)
def test_draws_beside_known_data_are_draws_given_these(name: str) -> None:
    """As families without a posterior of their own have it: θ given z, and given a report and z."""
    model: Any = EXAMPLES[name]
    a, z = (model.statistics(data) for data in draw_statistics(model, 6, 3, 8))
    wrapped: Any = conditioned_on(model, z)
    given_z, given_both = (np.broadcast_to(t, (5, len(t))) for t in (z, a + z))
    assert np.array_equal(wrapped.draw_parameters(generator(7), (5,)), model.draw_posterior(generator(7), given_z))
    draws = wrapped.draw_posterior(generator(7), np.broadcast_to(a, (5, len(a))))
    assert np.array_equal(draws, model.draw_posterior(generator(7), given_both))


@pytest.mark.parametrize("name", EXAMPLES)
def test_summaries_convert(name: str) -> None:
    """A report that was added up for the declared prior is one for the posterior, without its rows."""
    model: Any = EXAMPLES[name]
    data, public = draw_statistics(model, 8, 6, 9)
    posterior: Any = troth.posterior(model, model.statistics(public))
    summary = model.reduction.convert(model.summary(data), posterior.reduction)
    np.testing.assert_allclose(posterior.from_summary(summary), posterior.statistics(data), rtol=1e-11, atol=1e-11)


def test_excluded_states_are_left_out() -> None:
    model = troth.models.Finite([0.3, 0.7], [[0.2, 0.3, 0.5], [0.6, 0.4, 0.0]])
    assert troth.posterior(model, model.statistics([2])) == troth.models.Finite([1.0], [[0.2, 0.3, 0.5]])
    with pytest.raises(troth.DataError, match="cannot occur"):
        troth.posterior(model, np.full(2, -np.inf))


def test_states_that_become_tiny_stay() -> None:
    model: Any = troth.models.Finite([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]])
    posterior: Any = troth.posterior(model, 2000 * model.statistics([0]))
    assert len(posterior.prior) == 2
    assert 0 < posterior.prior[1] < 1e-300


def test_providers_that_differ() -> None:
    """Each provider's model is conditioned on the same data, in the space that all share."""
    good, poor = troth.combine([troth.models.Normal(0, 1, noise=1), troth.models.Normal(0, 1, noise=2)])
    z = good.statistics([0.4, 1.1])
    updated = troth.posterior([good, poor], z)
    first, second = (model.statistics(rows) for model, rows in zip(updated, ([1.0, 0.2], [0.7, 1.9]), strict=True))
    a, b = good.statistics([1.0, 0.2]), poor.statistics([0.7, 1.9])
    expected = troth.log_pmi(good, a, b + z) - troth.log_pmi(good, a, z)
    assert troth.log_pmi(updated, first, second) == pytest.approx(expected, abs=1e-13)


def test_a_custom_model() -> None:
    """A model that has no posterior of its own is conditioned by adding, and offers what it can still offer."""
    model = Rayleigh(3.0, 2.0)
    rng = generator(9)
    a, b, z = (model.statistics(rng.rayleigh(1.0, size=n)) for n in (3, 5, 8))
    updated: Any = troth.posterior(model, z)
    expected = troth.log_pmi(model, a, b + z) - troth.log_pmi(model, a, z)
    assert troth.log_pmi(updated, a, b) == pytest.approx(expected, abs=1e-12)
    assert pickle.loads(pickle.dumps(updated)) == updated  # noqa: S301
    assert len({updated, troth.posterior(model, z), troth.posterior(model, a)}) == 2
    assert type(updated).__name__ == "Rayleigh"


def test_statistics_of_one_dataset() -> None:
    with pytest.raises(troth.DataError, match="one vector"):
        troth.posterior(troth.models.Bernoulli(1, 1), np.zeros((3, 2)))


def test_limits_and_costs_stay() -> None:
    model = troth.models.VaryingPoisson(mean=3, scale=2)
    updated: Any = troth.posterior(model, model.statistics([2, 4]))
    assert updated.max_rows == model.max_rows < troth.models.Poisson(1, 1).max_rows
    assert updated.evidence_cost == model.evidence_cost > 1
