"""Past days, arranged by day and provider."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import troth
from troth.core.reductions import Counts
from troth.history import History, from_summaries

REPORTS: list[tuple[Any, str, Any]] = [
    ("2026-05-02", "b", [1, 3]),
    ("2026-05-01", "a", [2, 2]),
    ("2026-05-01", "b", [4, 0]),
    ("2026-05-01", "a", [1, 0]),
]


def test_reports_are_sorted_and_added() -> None:
    past = History.from_reports(REPORTS, Counts(2))
    assert past.days == ("2026-05-01", "2026-05-02")
    assert past.providers == ("a", "b")
    assert past.summaries[0, 0].tolist() == [3, 2]
    assert past.present.tolist() == [[True, True], [False, True]]
    assert past.rows.tolist() == [[5, 4], [0, 4]]


def test_some_days_and_providers_are_selected_in_order() -> None:
    past = History.from_reports(REPORTS, Counts(2))
    later = past.select(days=["2026-05-02"], providers=["b", "a"])
    assert (later.days, later.providers) == (("2026-05-02",), ("a", "b"))
    assert later.rows.tolist() == [[0, 4]]
    with pytest.raises(troth.DataError, match="day '2026-06-01' is not in the history"):
        past.select(days=["2026-06-01"])
    with pytest.raises(troth.DataError, match="provider 'c' is not in the history"):
        past.select(providers=["c"])


def test_text_is_sorted_only_where_that_is_the_order_of_time() -> None:
    reports = [(f"2026-1-{day}", "a", [3, 1]) for day in (9, 10, 2)]
    with pytest.raises(troth.DataError, match="sorted as text, so '2026-1-10' comes before '2026-1-2'"):
        History.from_reports(reports, Counts(2))
    assert History.from_reports(reports[:1] + reports[2:], Counts(2)).days == ("2026-1-2", "2026-1-9")
    assert History.from_reports([(day, "a", [3, 1]) for day in (9, 10, 2)], Counts(2)).days == (2, 9, 10)
    with pytest.raises(troth.DataError, match=r"days of different kinds \(int, str\) cannot be sorted"):
        History.from_reports([(1, "a", [3, 1]), ("x", "a", [3, 1])], Counts(2))


@pytest.mark.parametrize(
    ("sums", "problem"),
    [
        ([-3, 1], "code 0 is -3"),
        ([0.5, 0.5], "code 0 is 0.5"),
        ([1e200, 1], "1e[+]200 is too large"),
        ([2e12, 1], "too large"),
    ],
)
def test_sums_that_no_rows_have_are_refused(sums: list[float], problem: str) -> None:
    with pytest.raises(troth.DataError, match=f"day 2, provider 'b': .*{problem}"):
        History.from_reports([(1, "b", [2, 2]), (2, "b", sums)], Counts(2))
    with pytest.raises(troth.DataError, match=f"day 1, provider '0': .*{problem}"):
        from_summaries(Counts(2), [[[2, 2]], [sums]])


def test_what_is_no_history_is_refused() -> None:
    with pytest.raises(troth.DataError, match="provider 'a': a summary must have 2 numbers"):
        History.from_reports([(1, "a", [1, 2, 3])], Counts(2))
    ones = np.ones((1, 2, 2))
    with pytest.raises(troth.DataError, match="provider 'a' occurs twice"):
        History((1,), ("a", "a"), ones, np.ones((1, 2), dtype=bool), Counts(2))
    with pytest.raises(troth.DataError, match="must have shape"):
        History((1, 2), ("a", "b"), ones, np.ones((1, 2), dtype=bool), Counts(2))
    with pytest.raises(troth.DataError, match="day 1, provider 'b': a sum is not finite"):
        History((1,), ("a", "b"), ones * [[[1], [np.nan]]], np.ones((1, 2), dtype=bool), Counts(2))
