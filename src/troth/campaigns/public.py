"""What everybody knows already, as terms have it: the summary of public rows, where they were and their digest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from troth.core.contract import HasReduction
from troth.core.errors import DataError
from troth.core.limits import LARGEST_SUM
from troth.core.settings import numbers
from troth.data.public import PUBLIC
from troth.data.request import Report

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from troth.core.contract import Model
    from troth.core.settings import Section
    from troth.data.request import Day

_KEYS = ("source", "digest", "rows", "summary")


def take_public(section: Section) -> dict[Day, Report] | None:
    """Take the table [public]: data that everybody knows on every day, summarised."""
    if not section.left:
        return None
    for key in ("rows", "summary"):
        if key not in section.left:
            raise section.fail(key, "is missing; name a file of rows instead, as [data] public")
    rows, values = section.whole("rows", least=1), section.take("summary")
    try:
        summary = np.array(numbers(values), dtype=np.float64)
        if summary.ndim != 1 or not (np.abs(summary) <= LARGEST_SUM).all():
            raise ValueError(values)
    except (TypeError, ValueError, OverflowError):
        raise section.fail("summary", "must be a list of numbers, the sums over the public rows") from None
    report = Report(PUBLIC, None, rows, summary, section.text("source", ""), section.digest("digest", "pay"))
    section.done(_KEYS)
    return {None: report}


def describe_public(report: Report) -> dict[str, Any]:
    """Write public data as the table [public]."""
    origin = {"source": report.source or None, "digest": report.data_digest}
    sums = {"rows": report.rows, "summary": report.summary.tolist()}
    return {key: value for key, value in (origin | sums).items() if value is not None}


def check_public(known: Mapping[Day, Report], model: Model, columns: Sequence[str | None]) -> None:
    """Refuse public data that no rows can make."""
    if not isinstance(model, HasReduction):
        return
    reduction, constants = model.reduction, [place for place, column in enumerate(columns) if column is None]
    for report in known.values():
        if len(report.summary) != reduction.width:
            raise DataError(
                f"the summary of {PUBLIC} has {len(report.summary)} numbers, but that of {type(model).__name__} has "
                f"{reduction.width}"
            )
        reduction.check(report.summary, None, constants)
        rows = float(reduction.rows(report.summary))
        if rows != report.rows:
            raise DataError(f"rows is {report.rows}, but the summary of {PUBLIC} is of {rows:g} rows")
