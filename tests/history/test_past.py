"""Sums of past days: taken from rows, moved to another centre, and refused where they say nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from registry import EXAMPLES, generator
from troth import models
from troth.core.errors import DataError
from troth.core.past import History, statistics_of
from troth.core.reductions import Counts, Moments
from troth.history import from_rows, from_summaries


@pytest.mark.parametrize("name", EXAMPLES)
def test_statistics_of_converted_sums_are_those_of_the_rows(name: str) -> None:
    model: Any = EXAMPLES[name]
    rng = generator(3)
    data = model.draw_data(rng, model.draw_parameters(rng), 7)
    reduction: Any
    if hasattr(model, "precision"):
        table, reduction = np.column_stack(data), Moments((0.5, -0.2, 0.1), squares=True)
    elif isinstance(model.reduction, Counts):
        table, reduction = np.asarray(data)[:, None], model.reduction
    else:
        table = np.asarray(data).reshape(7, -1)
        reduction = Moments((0.7,) * model.reduction.columns, squares=True)
    t = statistics_of(model, reduction.of_rows(table), reduction)
    assert np.allclose(t, model.from_summary(model.summary(data)), rtol=1e-9, atol=1e-9)


def test_what_was_never_added_up_is_refused() -> None:
    with pytest.raises(DataError, match="squares=True"):
        Moments().convert(np.ones(2), Moments(squares=True))
    with pytest.raises(DataError, match="2 columns of numbers|3 codes"):
        Counts(3).convert(np.ones(3), Moments((0.0, 0.0)))
    with pytest.raises(DataError, match="linear=True"):
        Moments(linear=False, squares=True).convert(np.ones(2), Moments((1.0,)))
    with pytest.raises(DataError, match="1 columns, but the model needs 2"):
        Moments().convert(np.ones(2), Moments((0.0, 0.0)))


def test_rows_are_added_up_by_day_and_provider() -> None:
    rng = generator(5)
    provider, day = rng.integers(0, 3, 200), rng.integers(0, 4, 200)
    values = rng.normal(size=200)
    past = from_rows(provider, day, values)
    assert isinstance(past.reduction, Moments)
    model = models.Normal(0.5, 1, 2)
    t = statistics_of(model, past.summaries, past.reduction)
    for i in range(3):
        for d in range(4):
            assert np.allclose(t[d, i], model.statistics(values[(provider == i) & (day == d)]))
    assert np.allclose(past.rows.sum(), 200)
    some = past.select(days=[3, 1], providers=["2"])
    assert some.days == (1, 3)
    assert np.array_equal(some.summaries, past.summaries[[1, 3], 2:])
    with pytest.raises(DataError, match="provider '7' is not in the history"):
        past.select(providers=["7"])


def test_bad_histories_are_refused() -> None:
    with pytest.raises(DataError, match="shape"):
        from_summaries(Counts(2), np.ones((3, 2)))
    with pytest.raises(DataError, match="day 1, provider '0'"):
        from_summaries(Counts(2), np.array([[[1.0, 2.0]], [[np.nan, 1.0]]]))
    with pytest.raises(DataError, match="one of each per row"):
        from_rows(["a", "b"], [1, 2, 3], [1.0, 2.0])


def test_two_parts_of_a_report_add() -> None:
    parts = [("mon", "a", [3, 1]), ("mon", "a", [1, 2]), ("mon", "b", [0, 5])]
    assert History.from_reports(parts, Counts(2)).summaries.tolist() == [[[4, 3], [0, 5]]]
