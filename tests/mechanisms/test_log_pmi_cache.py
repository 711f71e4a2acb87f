"""Lies that share decoys with the truth are paid exactly as without a cache."""

from __future__ import annotations

import numpy as np
import pytest

import troth
from registry import generator
from troth import models
from troth.mechanisms import Round
from troth.mechanisms.log_pmi_cache import LogPmiCache


@pytest.mark.parametrize("sizes", [[9, 9, 9], [9, 7, 9]])
@pytest.mark.parametrize("max_cached", [0, 1 << 24])
def test_payments_with_and_without_cache(sizes: list[int], max_cached: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("troth.mechanisms.log_pmi_cache._MAX_CACHED", max_cached)
    model, rule, cache = models.VaryingBernoulli(2, 2), troth.LineUp(decoys=19), LogPmiCache()
    ones = np.array([[3, 5, 8], [2, 6, 1]])
    rows = np.broadcast_to(sizes, ones.shape)
    t = model.from_summary(np.stack([rows - ones, ones], axis=-1))
    for own_ones in (ones, ones[:, ::-1], np.zeros_like(ones), ones):
        sent = np.minimum(own_ones, rows)
        own = model.from_summary(np.stack([rows - sent, sent], axis=-1))
        own[0, 1] = 0.0
        shares = [
            rule.evaluate(Round(model, t, rng=generator(1), lenient=True, cache=each).with_own(own)).share
            for each in (None, cache)
        ]
        assert np.array_equal(shares[0], shares[1])


def test_days_that_draw_their_own_decoys_do_not_share_them() -> None:
    """Days with too few later days take decoys from the model, each with its own peers' rows."""
    model = models.VaryingBernoulli(2, 2)
    rule = troth.LineUp(decoys=9, rivals=4, source="days", exchangeable=True)
    ones, rows = np.array([[3, 5, 8], [2, 6, 1], [30, 22, 17]]), np.array([[9, 9, 9], [9, 7, 9], [40, 30, 20]])
    t = model.from_summary(np.stack([rows - ones, ones], axis=-1))
    shares = [
        rule.evaluate(Round(model, t, rng=generator(1), lenient=True, cache=each)).share
        for each in (None, LogPmiCache())
    ]
    assert np.array_equal(shares[0], shares[1])


def test_the_evidence_of_decoys_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Truth and lies face the same decoys, whose own evidence is half of the cost."""
    model, cache = models.VaryingBernoulli(2, 2), LogPmiCache()
    of_rows, evidence = [], models.VaryingBernoulli.log_evidence

    def counted(self: models.VaryingBernoulli, statistics: np.ndarray) -> np.ndarray:
        of_rows.append(len(np.unique(np.reshape(statistics, (-1, statistics.shape[-1])), axis=0)))
        return np.asarray(evidence(self, statistics))

    monkeypatch.setattr(models.VaryingBernoulli, "log_evidence", counted)
    decoys = model.from_summary(np.stack([np.arange(30.0), 40 - np.arange(30.0)], axis=-1))[:, None]
    for ones in (3.0, 5.0):
        cache.score(model, model.from_summary(np.array([[9 - ones, ones]])), decoys)
    assert sorted(of_rows)[-3:] == [30, 30, 30]
    assert sum(of_rows) < 100
