"""Peers are drawn for each distinct design; designs are equal only if all their numbers are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import troth
from registry import generator
from troth import models
from troth.mechanisms import Round
from troth.mechanisms.drawn_peers import SeparatePeers, design_ranks, distinct_designs, draw_peers

REGRESSION = models.LinearRegression([0, 0], [[1e18, 0], [0, 1]], 1.0)


def regression_round(rng: Any, providers: int = 6) -> Round:
    """A column of size 1e9 that all providers share, and one of size 1, with sum 0, that differs."""
    small = rng.integers(1, 1000, (providers, 1)) / 256.0 * np.array([-1, 0, 1])
    z = np.stack([np.full((providers, 3), 1e9), small], axis=-1)
    z[-1] = z[0]
    y = rng.standard_normal((providers, 3))
    return Round(REGRESSION, np.stack([REGRESSION.statistics((a, b)) for a, b in zip(z, y, strict=True)]))


@pytest.mark.parametrize("groups", [None, list("aabbcd")])
def test_each_provider_faces_the_design_of_its_own_peers(groups: Any) -> None:
    this_round = regression_round(generator(1))
    this_round = Round(REGRESSION, this_round.statistics, groups, rng=generator(2))
    (drawn,) = next(draw_peers(this_round, 1))
    peers = troth.leave_one_out(REGRESSION.design(this_round.statistics), groups)
    assert np.array_equal(REGRESSION.design(drawn), peers)
    assert len(np.unique(drawn, axis=0)) == len(np.unique(peers, axis=0))


def test_draws_for_a_provider_do_not_contain_its_own_features() -> None:
    """The draws for a provider do not change by a bit when its own column of size 1 changes."""
    this_round = regression_round(generator(2), providers=2)
    other = this_round.statistics.copy()
    other[0] = REGRESSION.statistics(([[1e9, 5.0], [1e9, -5.0], [1e9, 0.0]], [0.1, 0.2, 0.3]))
    facing = []
    for t in (this_round.statistics, other):
        (drawn,) = next(draw_peers(Round(REGRESSION, t, rng=generator(3)), 1))
        facing.append(REGRESSION.design(drawn[0]))
    assert np.array_equal(facing[0], facing[1])


def test_draws_keep_the_noise_of_a_small_column_beside_a_large_one() -> None:
    """Zᵀε of the column of size 1 has variance σ²·n, whatever the size of the other column."""
    design = REGRESSION.plan(np.array([[1e9, 1.0], [-1e9, 2.0], [1e9, 1.0], [1e9, 0.0]]))
    t = REGRESSION.draw_statistics(generator(3), np.zeros((20_000, 2)), design)
    assert t[:, 5].var() == pytest.approx(6.0, rel=0.06)
    assert t[:, 4].var() == pytest.approx(4e18, rel=0.06)
    assert t[:, 6].mean() == pytest.approx(4.0, rel=0.03)


def test_designs_that_differ_in_the_last_bit_are_two_kinds() -> None:
    model = models.ProviderNormal(0, 1, 1)
    base = 1.9
    while base * np.sqrt(2.0) != np.nextafter(base, 3) * np.sqrt(2.0):
        base = np.nextafter(base, 3)
    weights = np.array([[base, 0.0], [np.nextafter(base, 3), 0.0], [base, 0.0]])
    peers = SeparatePeers({model: ([0, 1, 2], model.design(weights))}, Round(model, weights))
    drawn = peers.draw(generator(4), np.zeros((50, 1, 1)))
    assert np.array_equal(drawn[:, 0], drawn[:, 2])
    assert not np.array_equal(drawn[:, 0], drawn[:, 1])


def test_ranks_agree_with_sorting() -> None:
    rng = generator(5)
    designs = rng.integers(0, 3, size=(20, 12, 3)) * np.array([1e-9, 1.0, 1e9])
    for design, ranks in zip(designs, design_ranks(designs), strict=True):
        assert np.array_equal(np.unique(design, axis=0, return_inverse=True)[1].ravel(), ranks)
    order = rng.permutation(12)
    assert np.array_equal(design_ranks(designs[:, order]), design_ranks(designs)[:, order])
    assert np.array_equal(design_ranks(np.array([[0.0, 1.0], [-0.0, 1.0]])), [0, 0])


def test_equal_designs_have_one_rank_and_a_different_last_column_is_detected() -> None:
    wide = generator(9).standard_normal((5, 2000))
    wide[3] = wide[1]
    wide[4] = wide[1]
    wide[4, -1] += 1.0
    assert design_ranks(wide).tolist() == _ranks_of_sorted(wide)


def _ranks_of_sorted(rows: Any) -> list[int]:
    distinct = sorted({tuple(row) for row in rows.tolist()})
    return [distinct.index(tuple(row)) for row in rows.tolist()]


def test_designs_have_no_negative_zero() -> None:
    designs, which = distinct_designs(np.array([[0.0], [-0.0], [1.0]]))
    assert which.tolist() == [0, 0, 1]
    assert not np.signbit(designs).any()
