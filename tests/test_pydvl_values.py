"""How a value becomes pay in the comparison with pyDVL; pyDVL itself is not needed here."""

import importlib.util
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest


@pytest.fixture(scope="module")
def values() -> Any:
    path = Path(__file__).parents[1] / "benchmarks" / "pydvl_values.py"
    spec = importlib.util.spec_from_file_location("pydvl_values", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["pydvl_values"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_the_whole_budget_is_shared_in_proportion_to_positive_values(values: Any) -> None:
    assert values.pay_from_values([1.0, -5.0, 3.0]).tolist() == [0.75, 0.0, 2.25]


def test_nobody_is_paid_if_no_value_is_positive(values: Any) -> None:
    assert values.pay_from_values([-1.0, 0.0]).tolist() == [0.0, 0.0]


def test_a_split_keeps_every_row_once_and_tests_on_one_in_four_of_everybody(values: Any) -> None:
    reports = [
        (np.arange(8.0)[:, None], np.arange(8.0)),
        (np.zeros((0, 1)), np.zeros(0)),
        (np.ones((4, 1)), np.ones(4)),
    ]
    training, (x, y) = values.split(reports)
    assert [len(rows) for _, rows in training] == [6, 0, 3]
    assert y.tolist() == [3.0, 7.0, 1.0]
    assert x[:, 0].tolist() == y.tolist()
    assert training[0][1].tolist() == [0.0, 1.0, 2.0, 4.0, 5.0, 6.0]
