"""Reductions yield the statistics of every family, and reject impossible sums."""

from __future__ import annotations

import numpy as np
import pytest

from registry import EXAMPLES, generator
from troth.core.contract import HasReduction
from troth.core.errors import DataError
from troth.core.reductions import Counts, Expansion, Expansions, Moments
from troth.core.reductions.answer_likelihoods import Answer, Classes, CountAnswers, YesNo
from troth.core.support import Array
from troth.models import Family


def table_of(model: Family, data: object) -> Array:
    """Return rows as a table ``(row, column)``: features, then answers."""
    parts = data if isinstance(data, tuple) else (data,)
    arrays = [np.asarray(part, dtype=np.float64) for part in parts]
    return np.column_stack([a[:, None] if a.ndim == 1 else a for a in arrays])


def draw(model: Family, rows: int, seed: int = 1) -> object:
    rng = generator(seed)
    theta = model.draw_parameters(rng)  # type: ignore[attr-defined]
    return model.draw_data(rng, theta, rows)  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", EXAMPLES)
def test_reductions_yield_the_statistics(name: str) -> None:
    model = EXAMPLES[name]
    assert isinstance(model, HasReduction)
    data = draw(model, 57)
    table = table_of(model, data)
    summary = model.reduction.of_rows(table)
    assert summary.shape == (model.reduction.width,)
    assert table.shape[1] == model.reduction.columns
    assert model.reduction.rows(summary) == 57
    np.testing.assert_allclose(model.from_summary(summary), model.statistics(data), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(model.summary(data), summary, rtol=1e-12, atol=1e-12)
    model.reduction.check(summary)
    model.reduction.check(np.zeros_like(summary))


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("in_order", [True, False])
def test_rows_are_added_up_by_code(name: str, in_order: bool) -> None:
    model = EXAMPLES[name]
    table = table_of(model, draw(model, 300, seed=2))
    codes = generator(3).integers(0, 7, 300)
    codes[codes == 4] = 5
    codes = np.sort(codes) if in_order else codes
    summaries = model.reduction.add(list(np.ascontiguousarray(table.T)), codes, 7)
    expected = np.stack([model.reduction.of_rows(table[codes == code]) for code in range(7)])
    np.testing.assert_allclose(summaries, expected, rtol=1e-12, atol=1e-11)
    np.testing.assert_allclose(
        summaries[:4].sum(axis=0) + summaries[4:].sum(axis=0), model.reduction.of_rows(table), rtol=1e-11, atol=1e-11
    )


@pytest.mark.parametrize(
    ("reduction", "summary", "message"),
    [
        (Counts(2), [3, -1], "count of code 1 is -1"),
        (Counts(3), [3, 1.5, 0], "count of code 1 is 1.5"),
        (Moments(), [-1, 0], "number of rows is -1"),
        (Moments(), [0, 3], "no rows"),
        (Moments(support=EXAMPLES["poisson"].support), [3, -1], "sum of column 0 is -1"),
        (Moments(support=EXAMPLES["poisson"].support), [3, 1.5], "whole"),
        (Moments(support=EXAMPLES["gamma"].support), [3, 0], "cannot have"),
        (Moments(squares=True), [4, 10, 20], "too small for the sum"),
        (Moments(squares=True), [4, 10, -20], "below 0"),
        (Moments(squares=True), [1, 2, 7], "rank 2"),
        (Moments((0.0, 0.0), linear=False, squares=True), [9, 1, 2, 2, 1], "positive semi-definite"),
        (Moments((0.0, 0.0), linear=False, squares=True), [9, 1, 0.5, 0.2, 1], "not symmetric"),
    ],
)
def test_impossible_sums_are_rejected(reduction: Counts | Moments, summary: list[float], message: str) -> None:
    with pytest.raises(DataError, match=message):
        reduction.check(np.array(summary, dtype=np.float64))


@pytest.mark.parametrize(
    ("reduction", "message"),
    [
        (Moments((0.0,) * 3, linear=False, squares=True), "a constant 1, has a sum of squares of 18 over 2 rows"),
        (Expansion(YesNo(), (0.0, 0.0)), "a constant 1, has a curvature above 0.5 over 2 rows"),
        (Expansion(Classes(3), (0.0,) * 6), "a constant 1, has a curvature above 0.5 over 2 rows"),
    ],
)
def test_an_intercept_is_a_constant_1(reduction: Moments | Expansion, message: str) -> None:
    """Declared values bound the other columns, not the intercept."""
    rows = np.array([[1.0, 0.2, 0.0], [1.0, -0.3, 1.0]])
    reduction.check(reduction.of_rows(rows), (-1.0, 1.0), (0,))
    with pytest.raises(DataError, match=message):
        reduction.check(reduction.of_rows(rows * [3.0, 1.0, 1.0]), (-1.0, 1.0), (0,))


def test_declared_values_bound_sums() -> None:
    reduction = Moments((10.0,))
    reduction.check(np.array([4.0, 8.0]), (8, 12))
    with pytest.raises(DataError, match="sum of column 0 is 8.1"):
        reduction.check(np.array([4.0, 8.1]), (8, 12))


@pytest.mark.parametrize(
    ("answer", "point"),
    [
        pytest.param(YesNo(), (0.3, -0.2), id="labels"),
        pytest.param(YesNo(), (0.3, 0.0), id="labels, an intercept alone"),
        pytest.param(CountAnswers(), (0.0, 0.0), id="counts at nought"),
        pytest.param(Classes(2), (0.4, 0.1, -0.2, 0.3), id="two classes"),
        pytest.param(Classes(3), (0.4, 0.1, -0.2, 0.3, 0.0, 0.7), id="three classes"),
        pytest.param(Classes(3), (0.4, 0.1, 0.4, 0.1, 0.4, 0.1), id="three equal classes"),
        pytest.param(Classes(3), (0.4, 0.0, -0.2, 0.0, 0.1, 0.0), id="three classes, intercepts alone"),
    ],
)
def test_many_rows_of_one_code_are_added_up_in_blocks(answer: Answer, point: tuple[float, ...]) -> None:
    rng, rows = generator(3), 120_000  # more than fit one block
    z = np.column_stack([np.ones(rows), rng.normal(0.3, 1.0, rows)])
    y = rng.integers(0, answer.labels or 4, rows).astype(np.float64)
    codes = np.where(rng.random(rows) < 0.01, rng.integers(0, 300, rows), 5)
    expansion = Expansion(answer, point)
    total = expansion.add([*z.T, y], codes, 301)
    several = Expansions(answer, (point, tuple(x + 0.1 * k for k, x in enumerate(point))))
    for code in (0, 5, 300):
        expected = expansion.of_datasets(z[codes == code], y[codes == code])
        np.testing.assert_allclose(total[code], expected, rtol=1e-10, atol=1e-8)
    np.testing.assert_allclose(several.add([*z.T, y], codes, 301)[:, : expansion.width], total, rtol=1e-10, atol=1e-8)
    products = Moments((0.5, 0.0, 0.0), squares=True).add([*z.T, y], codes, 301)
    np.testing.assert_allclose(
        products[5], Moments((0.5, 0.0, 0.0), squares=True).of_rows(np.column_stack([z, y])[codes == 5]), rtol=1e-10
    )


def test_a_share_of_labels_is_shifted_by_that_share_on_average() -> None:
    summaries = np.tile([6.0, 4.0], (4000, 1))
    for by in (0.05, -0.05):
        moved = Counts(2).shifted(summaries, np.array([-by, by]), generator(55))
        assert (moved == np.floor(moved)).all()
        assert moved[:, 1].mean() - 4 == pytest.approx(10 * by, abs=4 * 0.5 / np.sqrt(4000))


@pytest.mark.parametrize(("by", "expected"), [(0.6, [0.0, 0.0, 10.0]), (-0.9, [5.0, 5.0, 0.0]), (0.0, [2.0, 2.0, 6.0])])
def test_no_more_rows_are_shifted_than_there_are(by: float, expected: list[float]) -> None:
    summaries = np.array([[2.0, 2.0, 6.0]] * 20)
    shifted = Counts(3).shifted(summaries, np.array([0.0, 0.0, by]), generator(4))
    np.testing.assert_array_equal(shifted, [expected] * 20)
