"""How large a report may be if a campaign does not set its own limits.

Beyond them sums overflow or log PMI has no digits left, so one report could stop everybody's payment.
"""

from __future__ import annotations

MAX_ROWS = 10**12
"""The most rows of a report, up to which log PMI is compared with 50-digit arithmetic."""

MAX_SUM = 1e100
"""The largest number that a summary or a statistic may have: its square and its cube are still numbers."""
