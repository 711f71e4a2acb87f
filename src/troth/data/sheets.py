"""Spreadsheets: the first sheet of an .xlsx, .xls or .ods file as an Arrow table."""

from __future__ import annotations

from datetime import date, datetime, time
from typing import Any

import pyarrow as pa

from troth.core.errors import DataError, MissingCapabilityError
from troth.data.request import file_name


def read_sheet(path: str) -> Any:
    """Read the first sheet of a spreadsheet, whose first row names the columns."""
    try:
        from python_calamine import CalamineError, CalamineWorkbook
    except ImportError:
        raise MissingCapabilityError(
            f"{file_name(path)}: spreadsheets need the package python-calamine (pip install python-calamine); or save "
            "the sheet as CSV UTF-8"
        ) from None
    try:
        rows = CalamineWorkbook.from_path(path).get_sheet_by_index(0).to_python()
    except (CalamineError, OSError, IndexError, ValueError) as error:
        raise DataError.at(file_name(path), f"cannot be read as a spreadsheet: {error}") from None
    if not rows:
        raise DataError.at(file_name(path), "the first sheet is empty; it needs a row of column names and rows")
    names = [str(name) for name in rows[0]]
    columns = zip(*rows[1:], strict=True) if len(rows) > 1 else ([] for _ in names)
    return pa.Table.from_arrays([_column(column) for column in columns], names)


def _column(cells: Any) -> Any:
    """Return cells of one type unchanged, dates among times as times, and cells of several types as text."""
    values = [None if cell == "" else cell for cell in cells]
    if any(isinstance(value, datetime) for value in values):  # if a date came first, Arrow would truncate all to dates
        values = [datetime.combine(value, time()) if type(value) is date else value for value in values]
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return pa.array([None if value is None else _text(value) for value in values])


def _text(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return value.isoformat() if isinstance(value, date) else str(value)
