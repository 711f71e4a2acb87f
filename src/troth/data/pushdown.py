"""The same sums as one Ibis expression, for data that can only be reached through an engine.

The query also counts unusable values; if there are any, a second one fetches an example. Beyond about a hundred sums,
fetching the columns and multiplying them here is faster than a query for every product.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any

import numpy as np

from troth.core.errors import DataError, MissingCapabilityError, TrothError, first_line
from troth.data.features import MAX_VALUES
from troth.data.kernel import INFINITE, MISSING, NOT_A_NUMBER, Adder
from troth.data.readers import batch_rows
from troth.data.request import NO_VALUE, Day, Key, Part, Problem, Request, listed, parse_day

if TYPE_CHECKING:
    from troth.core.support import Array

_MAX_SUMS = 100
_TABLE = "the table"
_OWNER = "troth_owner"


def push_down(data: Any, request: Request, provider: str | None) -> list[Part]:
    """Reduce an Ibis table or a Spark frame inside its engine; ``provider`` owns all rows if no column names owners."""
    table = as_ibis(data)
    request.reject_missing(table.columns, _TABLE)
    if request.provider is None:
        import ibis

        table, request = table.mutate(**{_OWNER: ibis.literal(provider)}), replace(request, provider=_OWNER)
    try:
        if _lacks_types(table):
            return [_fetch(_check_types(table, request), request)]
        if request.missing == "drop":
            return [_drop_missing(table, request)]
        return [_reduce(table, request)]
    except TrothError:
        raise
    except Exception as error:
        raise DataError(f"{_TABLE}: the engine failed: {first_line(error)}") from error


def _drop_missing(table: Any, request: Request) -> Part:
    """Reduce the rows with values, and count the others."""
    conditions = []
    for name in request.columns:
        if name is not None:
            column, kind = table[name], table.schema()[name]
            conditions.append(column.isnull())
            if kind.is_floating():
                conditions.append(column.isnan())
            if kind.is_string():
                conditions.append(column.strip().lower().isin(sorted(NO_VALUE - request.codes(name).keys())))
    absent = reduce(or_, conditions).fill_null(True) | _unnamed(table, request)
    without = table.filter(absent)
    counts = without.group_by(**_keys(table, request)).aggregate(troth_rows=without.count()).to_pyarrow().to_pylist()
    part = _reduce(table.filter(~absent), replace(request, missing="refuse"))
    for row in counts:
        name = str(row["troth_provider"] or "")
        key = "" if name.strip() in request.no_name else name, _parse_day(row.get("troth_day"), request)
        part.dropped[key] = part.dropped.get(key, 0) + row["troth_rows"]
    return part


def _unnamed(table: Any, request: Request) -> Any:
    """Return the condition for rows without a provider's name."""
    provider = table[str(request.provider)]
    if not provider.type().is_string():
        return provider.isnull()
    return provider.isnull() | provider.strip().isin(sorted(request.no_name)).fill_null(True)


def _reduce(table: Any, request: Request) -> Part:
    import ibis

    if request.reduction.width > _MAX_SUMS:
        return _fetch(table, request)
    if request.features and table.count().execute() * len(request.columns) <= MAX_VALUES:
        return _fetch(table, request)  # features can be kept only if rows are fetched
    try:
        return _aggregate(table, request, finite=False)
    except ibis.common.exceptions.OperationNotDefinedError:  # an engine without NaN and infinity
        return _aggregate(table, request, finite=True)


def as_ibis(data: Any) -> Any:
    """Return data as an Ibis table; a Spark frame becomes a view in its own session."""
    try:
        import ibis
    except ImportError:
        raise MissingCapabilityError("tables in engines need Ibis: pip install 'ibis-framework[duckdb]'") from None
    if not type(data).__module__.startswith("pyspark.sql"):
        return data
    name = f"troth_{id(data):x}"
    data.createOrReplaceTempView(name)
    return ibis.pyspark.connect(data.sparkSession).table(name)


def _lacks_types(table: Any) -> bool:
    """Return whether the engine does not enforce the types of columns, so that values must be checked here."""
    try:
        return bool(table.get_backend().name == "sqlite")
    except Exception:  # a table without a backend
        return False


def _check_types(table: Any, request: Request) -> Any:
    """Reject text among numbers, which such an engine admits, and read numbers as floats."""
    changed = {}
    for name in {name for name in request.columns if name is not None and name not in request.labels}:
        text = table.filter(~table[name].typeof().isin(["integer", "real", "null"]))
        example = text.select(*request.named).limit(1).to_pyarrow().to_pylist()
        if example:
            raise DataError(
                f"{_TABLE}: column {name!r}: {text.count().execute():,} values are not numbers (first: {example[0]})"
            )
        if table.schema()[name].is_numeric():
            changed[name] = table[name].cast("float64")
    return table.mutate(**changed) if changed else table


def _fetch(table: Any, request: Request) -> Part:
    batches = table.select(*request.named).to_pyarrow_batches(chunk_size=batch_rows(request))
    return Adder(request, _TABLE).add_all(batches)


def _aggregate(table: Any, request: Request, *, finite: bool) -> Part:
    measures = {"troth_rows": table.count()}
    faults = _faults(table, request, finite)
    measures |= {f"fault_{k}": condition.sum() for k, (_, _, condition) in enumerate(faults)}
    measures |= request.reduction.expressions(
        [entry for index, name in enumerate(request.columns) for entry in _entries(table, request, index, name)],
        request.categories,
    )
    rows = table.group_by(**_keys(table, request)).aggregate(**measures).to_pyarrow().to_pylist()
    problems = _problems(table, request, rows, faults)
    if problems:
        return Part(problems=problems)
    totals: dict[Key, Array] = {}
    for row in sorted(rows, key=lambda row: (str(row["troth_provider"]), str(row.get("troth_day")))):
        key = str(row["troth_provider"]), _parse_day(row.get("troth_day"), request)
        try:
            summary = request.reduction.collect(float(row["troth_rows"]), row)
        except DataError as error:
            raise DataError(f"{_TABLE}, provider {row['troth_provider']!r}: {error}") from None
        totals[key] = totals[key] + summary if key in totals else summary
    summaries = np.array(list(totals.values())).reshape(-1, request.reduction.width)
    return Part(list(totals), summaries, place=_TABLE)


def _keys(table: Any, request: Request) -> dict[str, Any]:
    days = {} if request.day is None else {"troth_day": _day(table, request.day)}
    return {"troth_provider": _text(table, str(request.provider)), **days}


def _text(table: Any, name: str) -> Any:
    kind = table.schema()[name]
    if kind.is_floating():
        return table[name].cast("int64").cast("string")
    if not (kind.is_string() or kind.is_integer()):
        raise DataError(f"{_TABLE}: column {name!r} has type {kind}; providers' names are text or whole numbers")
    return table[name].cast("string")


def _day(table: Any, name: str) -> Any:
    kind = table.schema()[name]
    if kind.is_timestamp():
        return table[name].date()
    if not (kind.is_date() or kind.is_string() or kind.is_integer()):
        raise DataError(f"{_TABLE}: column {name!r} has type {kind}; days are dates (YYYY-MM-DD) or whole numbers")
    return table[name]


def _parse_day(value: Any, request: Request) -> Day:
    if request.day is None:
        return None
    try:
        return parse_day(value)
    except ValueError:
        raise DataError(
            f"{_TABLE}: column {request.day!r}: {value!r} is not a date (YYYY-MM-DD) or whole number"
        ) from None


def _entries(table: Any, request: Request, index: int, name: str | None) -> list[Any]:
    """Return the inputs of the reduction from a column: its scaled values, or an indicator per level."""
    column = _column(table, request, name)
    if name in request.levels:
        return [(column == level).ifelse(1.0, 0.0) for level in request.levels[str(name)][1:]]
    return [request.scaled(index, column)]


def _column(table: Any, request: Request, name: str | None) -> Any:
    if name is None:
        return table[str(request.provider)].isnull().ifelse(1.0, 1.0)
    kind, labels = table.schema()[name], request.labels_of(name)
    if labels is not None:
        plain = table[name].cast("int64") if kind.is_floating() else table[name]
        text = plain.cast("string").strip()
        spellings = [(spelling, labels[code]) for spelling, code in request.codes(name).items()]
        return text.isin(list(labels)).ifelse(text, text.lower().cases(*spellings, else_=text))
    if kind.is_boolean():
        return table[name].cast("int8")
    if not kind.is_numeric():
        raise DataError(f"{_TABLE}: column {name!r} has type {kind}, not numbers; cast it in the query")
    return table[name]


def _faults(table: Any, request: Request, finite: bool) -> list[tuple[str, str, Any]]:
    """Return possible faults as triples: a description, the column, and the condition for the rows at fault."""
    column = str(request.provider)
    provider, kind = table[column], table.schema()[column]
    faults: list[tuple[str, str, Any]] = [("without a provider's name", column, _unnamed(table, request))]
    if kind.is_floating():
        faults.append(("fractions, which are not names", column, (provider % 1) != 0))
    if request.day is not None:
        faults.append((MISSING, request.day, table[request.day].isnull()))
    for name in request.columns:
        if name is not None:
            faults.append((MISSING, name, table[name].isnull()))
            faults += [(fault, name, condition) for fault, condition in _faults_of_values(table, request, name, finite)]
    return faults


def _faults_of_values(table: Any, request: Request, name: str, finite: bool) -> list[tuple[str, Any]]:
    x, kind, support = _column(table, request, name), table.schema()[name], request.support_of(name)
    faults: list[tuple[str, Any]] = []
    if (labels := request.labels_of(name)) is not None:
        if kind.is_floating():
            faults.append(("fractions, which are not labels", (table[name] % 1) != 0))
        return [*faults, (f"not among the categories {listed(labels, 8)}", x.notin(list(labels)))]
    usable = x.notnull()
    if kind.is_floating() and not finite:
        faults += [(NOT_A_NUMBER, x.isnan()), (INFINITE, x.isinf())]
        usable = usable & ~x.isnan() & ~x.isinf()
    outside = _outside(x.cast("float64"), support, not kind.is_integer() and not kind.is_boolean())
    if outside is not None:
        faults.append((f"not {support}", usable & outside))
    if (limits := request.values_of(name)) is not None:
        low, high = limits
        faults.append((f"outside the declared values {low:g} to {high:g}", usable & ((x < low) | (x > high))))
    return faults


def _outside(x: Any, support: Any, floating: bool) -> Any:
    conditions = []
    if np.isfinite(support.low):
        conditions.append(x <= support.low if support.open else x < support.low)
    if np.isfinite(support.high):
        conditions.append(x > support.high)
    if support.integer and floating:
        conditions.append((x % 1) != 0)
    return reduce(or_, conditions) if conditions else None


def _problems(table: Any, request: Request, rows: list[dict[str, Any]], faults: list[Any]) -> list[Problem]:
    problems = []
    names = _text(table, str(request.provider))
    for k, (fault, column, condition) in enumerate(faults):
        for row in rows:
            count = int(row[f"fault_{k}"] or 0)
            if not count:
                continue
            name = row["troth_provider"]
            is_provider = names.isnull() if name is None else names == name
            examples = table.filter(condition & is_provider).select(*request.named).limit(1).to_pyarrow().to_pylist()
            example = examples[0] if examples else {}
            provider = name if name is not None and str(name).strip() else None
            place = f"{_TABLE} ({example or ''})"
            problems.append(Problem(fault, provider, column, count, place, None, example.get(column)))
    return problems
