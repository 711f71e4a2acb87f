"""What audits of tasks say of their errors."""

from __future__ import annotations

import numpy as np
import pytest

from registry import generator
from troth.audits.tasks import mean_over_tasks


def test_the_error_of_a_mean_over_tasks_is_that_of_tasks_drawn_again() -> None:
    """Reports on a task resemble each other, and tasks differ in size; declared: 8%, ten times what drawing leaves."""
    rng = generator(3, 61)
    sizes = rng.integers(1, 6, 300)
    task = np.repeat(np.arange(300), sizes)
    entries = rng.normal(size=300)[task] + rng.normal(size=len(task))
    mean, error = mean_over_tasks(task, entries)
    again = rng.integers(300, size=(8000, 300))
    means = np.bincount(task, entries)[again].sum(axis=1) / sizes[again].sum(axis=1)
    assert mean == pytest.approx(entries.mean())
    assert error == pytest.approx(means.std(), rel=0.08)
