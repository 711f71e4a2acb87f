"""The same sums as one Ibis expression, for data that can only be reached through an engine.

Counts of unusable values ride along in the same query; a second one fetches an example only if there are any. Beyond
about a hundred sums, fetching the columns and multiplying here is faster than asking for each product by name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from troth.core.errors import DataError, MissingCapabilityError, TrothError
from troth.data.files import batch_rows
from troth.data.kernel import INFINITE, MISSING, NOT_A_NUMBER, Adder
from troth.data.request import Day, Part, Problem, Request, parse_day

if TYPE_CHECKING:
    from troth.core.support import Array

_MOST_SUMS = 100
_PLACE = "the table"


def push_down(data: Any, request: Request) -> list[Part]:
    """Reduce an Ibis table or a Spark frame where it lives."""
    table = as_ibis(data)
    import ibis

    request.refuse_missing(table.columns, _PLACE)
    if request.provider is None:
        raise DataError("the table: say which column holds the providers' names: provider=")
    try:
        if _untyped(table):
            return [_fetch(_typed(table, request), request)]
        if request.reduction.width > _MOST_SUMS:
            return [_fetch(table, request)]
        try:
            return [_aggregate(table, request, finite=False)]
        except ibis.common.exceptions.OperationNotDefinedError:  # an engine without NaN and infinity
            return [_aggregate(table, request, finite=True)]
    except TrothError:
        raise
    except Exception as error:
        raise DataError(f"{_PLACE}: the engine failed: {str(error).strip().splitlines()[0]}") from error


def as_ibis(data: Any) -> Any:
    """Return an Ibis table; a Spark frame becomes a view of its own session."""
    try:
        import ibis
    except ImportError:
        raise MissingCapabilityError("tables in engines need Ibis: pip install 'troth[ibis]'") from None
    if not type(data).__module__.startswith("pyspark.sql"):
        return data
    name = f"troth_{id(data):x}"
    data.createOrReplaceTempView(name)
    return ibis.pyspark.connect(data.sparkSession).table(name)


def _untyped(table: Any) -> bool:
    """Tell whether an engine does not enforce the types of columns, so that values must be looked at here."""
    try:
        return bool(table.get_backend().name == "sqlite")
    except Exception:  # a table of no backend
        return False


def _typed(table: Any, request: Request) -> Any:
    """Refuse text among the numbers of an engine that lets it in, and fetch whole numbers as they are stored."""
    if request.categories is not None:
        return table
    changed = {}
    for name in {name for name in request.columns if name is not None}:
        text = table.filter(~table[name].typeof().isin(["integer", "real", "null"]))
        example = text.select(*request.named).limit(1).to_pyarrow().to_pylist()
        if example:
            raise DataError(
                f"{_PLACE}: column {name!r}: {text.count().execute():,} values are no numbers (first: {example[0]})"
            )
        if table.schema()[name].is_numeric():
            changed[name] = table[name].cast("float64")
    return table.mutate(**changed)


def _fetch(table: Any, request: Request) -> Part:
    adder = Adder(request, _PLACE)
    row = 0
    for batch in table.select(*request.named).to_pyarrow_batches(chunk_size=batch_rows(request)):
        adder.add(batch, row)
        row += batch.num_rows
    part = adder.part()
    order = sorted(range(len(part.keys)), key=lambda place: str(part.keys[place]))
    return Part([part.keys[i] for i in order], part.summaries[order], part.problems, [part.places[i] for i in order])


def _aggregate(table: Any, request: Request, *, finite: bool) -> Part:
    measures = {"troth_rows": table.count()}
    faults = _faults(table, request, finite)
    measures |= {f"fault_{k}": condition.sum() for k, (_, _, condition) in enumerate(faults)}
    measures |= request.reduction.expressions(
        [_column(table, request, name) for name in request.columns], request.categories
    )
    grouped = {"troth_provider": _text(table, str(request.provider))}
    if request.day is not None:
        grouped["troth_day"] = _day(table, request.day)
    found = table.group_by(**grouped).aggregate(**measures).to_pyarrow().to_pylist()
    problems = _problems(table, request, found, faults)
    if problems:
        return Part(problems=problems)
    keys, summaries = [], []
    for row in sorted(found, key=lambda row: (str(row["troth_provider"]), str(row.get("troth_day")))):
        keys.append((str(row["troth_provider"]), _parsed(row.get("troth_day"), request)))
        try:
            summaries.append(request.reduction.collect(float(row["troth_rows"]), row))
        except DataError as error:
            raise DataError(f"{_PLACE}, provider {row['troth_provider']!r}: {error}") from None
    merged: dict[tuple[str, Day], Array] = {}
    for key, total in zip(keys, summaries, strict=True):
        merged[key] = merged[key] + total if key in merged else total
    width = request.reduction.width
    return Part(list(merged), np.array(list(merged.values())).reshape(-1, width), places=[_PLACE] * len(merged))


def _text(table: Any, name: str) -> Any:
    kind = table.schema()[name]
    if kind.is_floating():
        return table[name].cast("int64").cast("string")
    if not (kind.is_string() or kind.is_integer()):
        raise DataError(f"{_PLACE}: column {name!r} has type {kind}; providers' names are text or whole numbers")
    return table[name].cast("string")


def _day(table: Any, name: str) -> Any:
    kind = table.schema()[name]
    if kind.is_timestamp():
        return table[name].date()
    if not (kind.is_date() or kind.is_string() or kind.is_integer()):
        raise DataError(f"{_PLACE}: column {name!r} has type {kind}; days are dates (YYYY-MM-DD) or whole numbers")
    return table[name]


def _parsed(value: Any, request: Request) -> Day:
    if request.day is None:
        return None
    try:
        return parse_day(value)
    except ValueError:
        raise DataError(
            f"{_PLACE}: column {request.day!r}: {value!r} is no date (YYYY-MM-DD) or whole number"
        ) from None


def _column(table: Any, request: Request, name: str | None) -> Any:
    if name is None:
        return table[str(request.provider)].isnull().ifelse(1.0, 1.0)
    kind = table.schema()[name]
    if request.categories is not None:
        plain = table[name].cast("int64") if kind.is_floating() else table[name]
        return plain.cast("string").strip()
    if kind.is_boolean():
        return table[name].cast("int8")
    if not kind.is_numeric():
        raise DataError(f"{_PLACE}: column {name!r} has type {kind}, not numbers; cast it in the query")
    return table[name]


def _faults(table: Any, request: Request, finite: bool) -> list[tuple[str, str, Any]]:
    """Return what may be wrong with which column, and a condition that says where."""
    support = request.reduction.support
    found: list[tuple[str, str, Any]] = []
    provider = table[str(request.provider)]
    blank = provider.isnull()
    if table.schema()[str(request.provider)].is_string():
        blank = blank | (provider.strip() == "")
    found.append(("without a provider's name", str(request.provider), blank))
    if table.schema()[str(request.provider)].is_floating():
        found.append(("fractions, which are no names", str(request.provider), (provider % 1) != 0))
    if request.day is not None:
        found.append((MISSING, request.day, table[request.day].isnull()))
    for name in request.columns:
        if name is None:
            continue
        x = _column(table, request, name)
        found.append((MISSING, name, table[name].isnull()))
        if request.categories is not None:
            if table.schema()[name].is_floating():
                found.append(("fractions, which are no labels", name, (table[name] % 1) != 0))
            among = ", ".join(repr(label) for label in request.categories[:8])
            found.append((f"not among the categories {among}", name, x.notin(list(request.categories))))
            continue
        usable = x.notnull()
        kind = table.schema()[name]
        if kind.is_floating() and not finite:
            found += [(NOT_A_NUMBER, name, x.isnan()), (INFINITE, name, x.isinf())]
            usable = usable & ~x.isnan() & ~x.isinf()
        outside = _outside(x.cast("float64"), support, not kind.is_integer() and not kind.is_boolean())
        if outside is not None:
            found.append((f"not {support}", name, usable & outside))
        if request.values is not None:
            low, high = request.values
            what = f"outside the declared values {low:g} to {high:g}"
            found.append((what, name, usable & ((x < low) | (x > high))))
    return found


def _outside(x: Any, support: Any, floating: bool) -> Any:
    conditions = []
    if np.isfinite(support.low):
        conditions.append(x <= support.low if support.open else x < support.low)
    if np.isfinite(support.high):
        conditions.append(x > support.high)
    if support.integer and floating:
        conditions.append((x % 1) != 0)
    joined = None
    for condition in conditions:
        joined = condition if joined is None else joined | condition
    return joined


def _problems(table: Any, request: Request, found: list[dict[str, Any]], faults: list[Any]) -> list[Problem]:
    problems = []
    for k, (what, column, condition) in enumerate(faults):
        for row in found:
            count = int(row[f"fault_{k}"] or 0)
            if not count:
                continue
            name = row["troth_provider"]
            theirs = _text(table, str(request.provider))
            mine = theirs.isnull() if name is None else theirs == name
            example = table.filter(condition & mine).select(*request.named).limit(1).to_pyarrow().to_pylist()
            value = example[0][column] if example else None
            provider = name if name is not None and str(name).strip() else None
            problems.append(
                Problem(what, provider, column, count, f"{_PLACE} ({example[0] if example else ''})", None, value)
            )
    return problems
