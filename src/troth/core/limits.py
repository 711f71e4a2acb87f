"""How large a report may be, where a campaign sets no limits of its own.

Beyond them sums overflow or log PMI has no digits left, so one report could stop everybody's payment.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

MOST_ROWS = 10**12
"""The most rows of a report, up to which log PMI is compared with 50-digit arithmetic."""

LARGEST_SUM = 1e100
"""The largest number that a summary or a statistic may have: its square and its cube are still numbers."""


@runtime_checkable
class LimitsRows(Protocol):
    """A model that keeps its digits up to a number of rows of its own."""

    @property
    def most_rows(self) -> int:
        """The most rows that a report may have."""


def most_rows(model: object) -> int:
    """Return the most rows that a report may have under a model.

    Examples
    --------
    >>> from troth.models import Bernoulli
    >>> most_rows(Bernoulli(1, 1))
    1000000000000
    """
    return model.most_rows if isinstance(model, LimitsRows) else MOST_ROWS
