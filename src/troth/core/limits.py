"""Default limits on the size of a report.

Beyond these limits sums overflow or log PMI loses all precision, and one report could block everybody's payment.
"""

from __future__ import annotations

MAX_ROWS = 10**12
"""The maximum number of rows of a report; up to it, log PMI is tested against 50-digit arithmetic."""

MAX_SUM = 1e100
"""The largest absolute value of an entry of a summary or of statistics: its cube does not overflow."""
