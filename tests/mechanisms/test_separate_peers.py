"""Separate draws of peers whose rows share an effect: correct, in any order, and equal for equal providers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

import troth
from registry import EXAMPLES, generator
from troth import models
from troth.mechanisms import Round
from troth.mechanisms.drawn_peers import SeparatePeers

PRIOR = (0.3, 0.3, 0.4)
LIKELIHOODS: list[Any] = [
    models.LatentClass(PRIOR, "binary", [0.15, 0.45, 0.8], 0.3),
    models.LatentClass(PRIOR, "binary", [0.15, 0.45, 0.8], 0.3),
    models.LatentClass(PRIOR, "real", [0.0, 1.0, 4.0], 0.5, 1.0),
    models.LatentClass(PRIOR, "binary", [0.15, 0.45, 0.8], 0.3),
    models.LatentClass(PRIOR, "count", [1.0, 2.0, 6.0], 0.2),
]
ROWS = np.array([6.0, 6.0, 9.0, 3.0, 5.0])


def drawn_peers(likelihoods: list[Any], rows: Any, groups: Any, draws: int, seed: int) -> Any:
    """Peers of every provider, as the rule draws them: ``(draw, provider, statistic)``."""
    t = np.ones((len(likelihoods), len(PRIOR)))
    round_ = Round(likelihoods, t, groups, rows)
    classes: dict[Any, list[int]] = {}
    for provider, likelihood in enumerate(likelihoods):
        classes.setdefault(likelihood, []).append(provider)
    separate = SeparatePeers(
        {
            likelihood: (classes[likelihood], likelihood.plan(rows[classes[likelihood]]))
            for likelihood in sorted(classes, key=repr)
        },
        round_,
    )
    rng = generator(seed)
    theta = likelihoods[0].draw_parameters(rng, (draws, 1))
    return separate.draw(rng, theta), theta[:, 0]


@pytest.mark.parametrize("groups", [None, ["a", "b", "a", "c", "c"], ["a", "a", "b", "a", "c"]])
def test_drawn_peers_are_distributed_like_peers(groups: Any) -> None:
    """Kolmogorov-Smirnov tests on projections of each provider's peers: 45 tests at level 1e-6."""
    draws = 20_000
    statistics, _ = drawn_peers(LIKELIHOODS, ROWS, groups, draws, 1)
    rng = generator(2)
    theta = LIKELIHOODS[0].draw_parameters(rng, (draws,))
    everyone = [
        likelihood.statistics(likelihood.draw_data(rng, theta, int(n)))
        for likelihood, n in zip(LIKELIHOODS, ROWS, strict=True)
    ]
    for i in range(len(LIKELIHOODS)):
        others = [j for j in range(len(LIKELIHOODS)) if (groups[j] != groups[i] if groups else j != i)]
        expected = sum(everyone[j] for j in others)
        for direction in np.array([[1.0, -1.0, 0.0], [0.0, 1.0, -1.0], [1.0, 1.0, 1.0]]):
            assert stats.ks_2samp(statistics[:, i] @ direction, expected @ direction).pvalue > 1e-6, (i, direction)


def test_equal_providers_face_the_same_draws() -> None:
    statistics, _ = drawn_peers(LIKELIHOODS, ROWS, None, 50, 3)
    assert np.array_equal(statistics[:, 0], statistics[:, 1])
    assert not np.array_equal(statistics[:, 0], statistics[:, 3])


@pytest.mark.parametrize("groups", [None, ["a", "b", "a", "c", "c"]])
@pytest.mark.parametrize(
    "name", ["different likelihoods", "day types, binary", "day types, categorical", "provider normal"]
)
def test_payments_are_permuted_with_providers(name: str, groups: Any) -> None:
    likelihoods: list[Any] = LIKELIHOODS if name == "different likelihoods" else [EXAMPLES[name]] * 5
    rng = generator(4)
    theta = likelihoods[0].draw_parameters(rng, (3,))
    t = np.stack(
        [
            likelihood.statistics(likelihood.draw_data(rng, theta, int(n)))
            for likelihood, n in zip(likelihoods, ROWS, strict=True)
        ],
        axis=-2,
    )
    t[:, 1] = t[:, 0]
    order = np.array([3, 1, 4, 0, 2])
    rule = troth.SyntheticPeers(draws=6)

    def pay(places: Any) -> Any:
        provider_models: Any = [likelihoods[i] for i in places] if name == "different likelihoods" else likelihoods[0]
        labels = None if groups is None else [groups[i] for i in places]
        return rule.pay(provider_models, t[:, places], budget=5.0, rng=generator(5), rows=ROWS[places], groups=labels)

    straight, permuted = pay(np.arange(5)), pay(order)
    assert np.array_equal(straight[:, order], permuted)
    if groups is None:
        assert np.array_equal(straight[:, 0], straight[:, 1])


def test_sizes_may_differ_from_round_to_round() -> None:
    model: Any = EXAMPLES["day types, binary"]
    rng = generator(6)
    t = model.statistics(model.draw_data(rng, model.draw_parameters(rng, (2, 4)), 5))
    rows = np.array([[5.0, 3.0, 5.0, 2.0], [1.0, 1.0, 1.0, 5.0]])
    payments = troth.SyntheticPeers(draws=400).pay(model, t, budget=4.0, rng=generator(7), rows=rows)
    for day in range(2):
        alone = troth.SyntheticPeers(draws=400).pay(model, t[day], budget=4.0, rng=generator(8), rows=rows[day])
        np.testing.assert_allclose(alone, payments[day], atol=0.08)


def test_models_with_and_without_an_effect_are_drawn_together() -> None:
    """Peers with i.i.d. rows and peers whose rows share an effect, in one round."""

    class Independent(models.LatentClass):
        independent_rows = True

    iid: Any = Independent(PRIOR, "binary", [0.15, 0.45, 0.8])
    likelihoods = [iid, iid, LIKELIHOODS[0]]
    rng = generator(9)
    theta = iid.draw_parameters(rng)
    t = np.stack([likelihood.statistics(likelihood.draw_data(rng, theta, 6)) for likelihood in likelihoods])
    mixed = troth.SyntheticPeers(draws=4000).pay(likelihoods, t, budget=3.0, rng=generator(1), rows=[6, 6, 6])
    apart = [models.LatentClass(PRIOR, "binary", [0.15, 0.45, 0.8])] * 2 + [LIKELIHOODS[0]]
    np.testing.assert_allclose(
        mixed, troth.SyntheticPeers(draws=4000).pay(apart, t, budget=3.0, rng=generator(2), rows=[6, 6, 6]), atol=0.02
    )


def test_draws_are_exactly_truthful_in_expectation() -> None:
    """The mean over draws of the mismatched term is its expectation over everything that peers could report."""
    model: Any = models.LatentClass(PRIOR, "binary", [0.15, 0.45, 0.8], 0.3)
    own = model.statistics([1, 1, 0])
    t = np.stack([own, model.statistics([1, 0]), model.statistics([1, 1])])
    breakdown = troth.SyntheticPeers(draws=40_000).explain(model, t, rows=[3, 2, 2], rng=generator(3))
    counts = [(0, 2), (1, 1), (2, 0)]
    orders = [1, 2, 1]
    expected = 0.0
    for a, x in zip(counts, orders, strict=True):
        for b, y in zip(counts, orders, strict=True):
            peers = model.from_summary(np.array(a, dtype=float)) + model.from_summary(np.array(b, dtype=float))
            chance = x * y * np.exp(model.log_evidence(peers))
            expected += chance * float(troth.divergences.logistic.mismatched(troth.log_pmi(model, own, peers)))
    assert breakdown.terms["drawn_peers"][0] == pytest.approx(expected, abs=0.004)
