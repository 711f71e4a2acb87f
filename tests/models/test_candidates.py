"""Candidates: a finite model of anybody's likelihood."""

from __future__ import annotations

from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import troth
from registry import SOAK, generator
from troth import models
from troth.core.errors import DataError, MissingCapabilityError, ParameterError
from troth.mechanisms.line import rank_share


def symbols(prior: Any, table: Any) -> models.Candidates:
    """Rows are symbols, whose probabilities each candidate has in a row of the table."""
    log_table = np.log(table)
    return models.Candidates(
        prior,
        lambda rows: log_table[:, np.asarray(rows, dtype=int)].sum(axis=1),
        lambda rng, candidate, rows: rng.choice(table.shape[1], size=rows, p=table[candidate]),
    )


@pytest.mark.parametrize("size", [2, 3, 4])
def test_it_is_exactly_truthful_by_enumeration(size: int) -> None:
    """Every truth, every report and every line of one or two decoys: no report beats the truth."""
    for seed in range(20 if SOAK else 3):
        rng = generator(size, seed)
        prior, table = rng.dirichlet(np.ones(size)), rng.dirichlet(np.ones(3), size)
        model = symbols(prior, table)
        reports = list(product(range(3), repeat=2))
        t = np.stack([model.statistics(report) for report in reports])
        chance = np.exp(t)
        joint = np.einsum("s,as,bs->ab", prior, chance, chance)
        peers = joint.sum(axis=0)
        score = np.round(troth.log_pmi(model, t[:, None], t), 9)
        for decoys in (1, 2):
            pay = np.zeros((len(reports), len(reports)))
            for real, *line in product(range(len(reports)), repeat=1 + decoys):
                above = (score[:, line] > score[:, [real]]).sum(axis=1)
                tied = (score[:, line] == score[:, [real]]).sum(axis=1)
                share = rank_share(above, tied, decoys, 1)
                pay += joint[:, real, None] / peers[:, None] * np.prod(peers[line]) * share
            assert (np.diagonal(pay)[:, None] >= pay - 1e-12).all()


def test_it_prices_as_a_finite_model_does() -> None:
    prior, table = np.array([0.2, 0.5, 0.3]), np.array([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1], [0.1, 0.8, 0.1]])
    model, finite = symbols(prior, table), models.Finite(prior, table)
    own, peers = [0, 1, 1], [2, 1, 0, 0]
    assert troth.log_pmi(model, model.statistics(own), model.statistics(peers)) == pytest.approx(
        float(troth.log_pmi(finite, finite.statistics(own), finite.statistics(peers)))
    )
    t = np.stack([model.statistics(own), model.statistics(peers)])
    paid = troth.LineUp(decoys=9).pay([model.with_features(3), model.with_features(4)], t, budget=2.0, rng=generator(1))
    assert ((paid >= 0) & (paid <= 1)).all()


def test_effective_candidates_are_counted_and_near_one_is_said() -> None:
    model = symbols(np.full(4, 0.25), np.array([[0.9, 0.1], [0.6, 0.4], [0.4, 0.6], [0.1, 0.9]]))
    few = model.effective(np.stack([model.statistics([0, 1]), model.statistics([1, 0])]))
    assert 2 < few.together <= few.each.min() <= 4
    assert not few.near_one
    many = model.effective(np.stack([model.statistics([0] * 60), model.statistics([1])]))
    assert many.near_one
    assert "near one" in str(many)


def test_trained_estimators_are_candidates() -> None:
    rng = generator(3)
    z = rng.normal(size=(300, 2))
    y = np.where(rng.random(300) < 1 / (1 + np.exp(-2 * z[:, 0])), "sick", "well")
    trained = [LogisticRegression(C=c).fit(z[:100] * flip, y[:100]) for c in (0.01, 1.0) for flip in (1, -1)]
    model = models.Candidates.from_estimators(trained)
    data = [(z[a : a + 50], y[a : a + 50]) for a in (100, 150, 200)]
    t = np.stack([model.statistics(each) for each in data])
    assert model.posterior_probabilities(t.sum(axis=0)).argmax() == 2
    rule = troth.LineUp(decoys=49)
    paid = rule.pay([model.with_features(part) for part, _ in data], t, budget=3.0, rng=rng)
    t[0] = 0.0
    nothing = rule.pay([model.with_features(part) for part, _ in data], t, budget=3.0, rng=rng)
    assert paid[0] > nothing[0] == pytest.approx(0.2)
    with pytest.raises(DataError, match="do not know the label 'dead'"):
        model.statistics((z[:1], ["dead"]))
    with pytest.raises(ParameterError, match="same classes"):
        models.Candidates.from_estimators([trained[0], LogisticRegression().fit(z[:100], y[:100] == "sick")])


def test_draws_of_a_posterior_are_candidates() -> None:
    """Of the shape that ArviZ gives an InferenceData: groups of variables by chain and draw."""
    rng = generator(4)
    values = {"mean": rng.normal(size=(2, 100)), "scale": np.ones((2, 100))}
    variables = {name: SimpleNamespace(values=array) for name, array in values.items()}

    class Dataset(dict[str, Any]):
        data_vars = tuple(variables)

    draws = SimpleNamespace(posterior=Dataset(variables))
    model = models.Candidates.from_draws(
        draws, lambda p, x: float(-0.5 * (((np.asarray(x) - p["mean"]) / p["scale"]) ** 2).sum()), most=50
    )
    assert len(model.prior) == 50
    assert model.effective(model.statistics([0.1, 0.4])).together > 5
    with pytest.raises(ParameterError, match="no group 'prior'"):
        models.Candidates.from_draws(draws, lambda p, x: 0.0, group="prior")
    with pytest.raises(MissingCapabilityError, match="draw="):
        model.draw_data(rng, np.array([0]), 3)


def test_log_likelihoods_that_make_no_sense_are_refused() -> None:
    with pytest.raises(DataError, match="shape"):
        models.Candidates([0.5, 0.5], lambda x: [0.0]).statistics([1])
    with pytest.raises(DataError, match="candidate 1"):
        models.Candidates([0.5, 0.5], lambda x: [0.0, np.nan]).statistics([1])
