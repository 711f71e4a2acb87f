"""Tables of any kind and size to reports: the one place that knows files, Arrow, data frames, Ibis and Spark.

A table is a plan of fragments; a fragment becomes summaries by provider and day; the parts are added **in plan
order**, so that the same data give the same bits every time, whatever executes the plan.
"""

from __future__ import annotations

from troth.data.read import read_reports as read_reports
from troth.data.request import Day as Day
from troth.data.request import Report as Report
from troth.data.request import Request as Request
from troth.data.request import day_order as day_order
