"""From tables of any kind and size to reports: the only place that knows files, Arrow, data frames, Ibis and Spark.

A plan cuts a table into fragments, and each fragment becomes summaries by provider and day. They are added **in plan
order**, so the same data always give the same bits, whatever executes the plan.
"""

from __future__ import annotations

from troth.data.read import read_reports as read_reports
from troth.data.request import Day as Day
from troth.data.request import Report as Report
from troth.data.request import Request as Request
from troth.data.request import day_order as day_order
