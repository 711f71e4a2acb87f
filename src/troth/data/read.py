"""From any table to one report per provider and day."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from troth.core.errors import DataError, ParameterError
from troth.data.engines import ENGINES, in_order
from troth.data.features import FeatureSampler
from troth.data.fragments import plan
from troth.data.frames import is_frame, plan_frame
from troth.data.kernel import Totals
from troth.data.request import Day, Key, Part, Problem, Report, Request, day_order, file_name, refuse

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from troth.core.contract import Array


_INTEGER = re.compile(r"([+-]?)([0-9]+)(?:\.0*)?")


def read_reports(
    data: Any,
    request: Request,
    *,
    engine: str = "threads",
    format: str | None = None,  # noqa: A002
    skip: Collection[Path] = (),
    progress: Callable[[int, int], None] | None = None,
    provider: str | None = None,
) -> tuple[list[Report], list[Path]]:
    """Reduce a table to reports sorted by day and name; also return the files of statistics in it.

    Parameters
    ----------
    data
        A path, pattern or folder, or several; a pandas, Polars or Arrow frame; an Ibis table or a Spark frame.
    engine
        ``"threads"`` or ``"spark"``, for files.
    skip
        Files that are not data, such as the ledger in the same folder.
    progress
        Called with the number of fragments that are done, and the total.
    provider
        Who owns the rows of data without a column of providers; by default, each file is named after its provider.
    """
    if engine not in ENGINES:
        raise ParameterError(f"there is no engine {engine!r}; there are {', '.join(ENGINES)}")
    statistics: list[Path] = []
    spellings: dict[str, str] = {}
    if is_paths(data):
        fragments, statistics = plan(data, request, format, skip)
        if provider is not None:
            fragments = [replace(fragment, provider=provider) for fragment in fragments]
        if request.provider is None:
            if provider is None:
                _reject_shared_names(fragments)
            spellings = {fragment.provider: fragment.path for fragment in fragments}
        run = ENGINES[engine] if request.on_batch is None else in_order
        parts = _with_progress(run(fragments, request), len(fragments), progress)
    elif is_pushed_down(data):
        from troth.data.pushdown import push_down

        request.reject_missing_provider(provider)
        parts = iter(push_down(data, request, provider))
    elif is_frame(data):
        request.reject_missing_provider(provider)
        slices = plan_frame(data, request, provider)
        parts = _with_progress(ENGINES["threads"](slices, request), len(slices), progress)
    else:
        raise DataError(
            f"data of type {type(data).__name__} cannot be read; give a path, a pandas, Polars or Arrow frame, an Ibis "
            "table or a Spark frame"
        )
    reports = _merge(parts, request)
    reporting = {report.provider for report in reports}
    for name, path in spellings.items():
        if canonical_name(name) not in reporting:
            raise DataError.at(file_name(path), "has no rows; send some, or remove the file")
    return reports, statistics


def is_pushed_down(data: Any) -> bool:
    """Return whether the data are in an engine: an Ibis table or a Spark frame."""
    module = type(data).__module__
    return module.startswith("pyspark.sql") or (module.startswith("ibis.") and hasattr(data, "aggregate"))


def is_paths(data: Any) -> bool:
    """Return whether data are given as a path, or as several."""
    paths = data if isinstance(data, list | tuple) else [data]
    return len(paths) > 0 and all(isinstance(path, str | Path) for path in paths)


def _with_progress(parts: Iterable[Part], total: int, progress: Callable[[int, int], None] | None) -> Iterator[Part]:
    for done, part in enumerate(parts, 1):
        if progress is not None:
            progress(done, total)
        yield part


def _reject_shared_names(fragments: Sequence[Any]) -> None:
    owners: dict[str, str] = {}
    for fragment in fragments:
        other = owners.setdefault(fragment.provider, fragment.path)
        if other != fragment.path:
            raise DataError(
                f"two files are named after provider {fragment.provider!r}: {Path(other).name} and "
                f"{Path(fragment.path).name}; rename one, or name a provider column"
            )


def _merge(parts: Iterable[Part], request: Request) -> list[Report]:
    totals = Totals(request.reduction.width)
    sources: list[str] = []
    problems: list[Problem] = []
    dropped: Counter[Key] = Counter()
    sampler = FeatureSampler(request.kept_columns)
    for part in parts:
        problems += part.problems
        dropped.update(part.dropped)
        if problems or not part.keys:
            continue
        indices = np.array([totals.index(key, len(part.keys)) for key in part.keys])
        totals.add(indices, part.summaries)
        if part.features is not None:
            sampler.join(part.features, indices)
        sources += [part.place] * (len(totals.indices) - len(sources))
    refuse(problems)
    rows = [int(count) for count in request.reduction.rows(totals.array[: len(totals.indices)])]
    features = sampler.features(rows) if request.features else [None] * len(rows)
    return as_reports(totals, rows, request, dropped, sources, features)


def as_reports(
    totals: Totals,
    rows: Sequence[int],
    request: Request,
    dropped: Mapping[Key, int],
    sources: Sequence[str],
    features: Sequence[Array | None],
) -> list[Report]:
    """Return totals as reports, with the numbers of rows that were read and dropped."""
    indices, left_out = totals.indices, Counter(dropped)
    for (name, day), count in dropped.items():
        if name and request.day is None and (name, day) not in indices:
            raise DataError(f"provider {name!r}: all of its {count:,} rows lack a value; remove them")
    names = {raw: canonical_name(raw) for raw, _ in indices}
    if "" in names.values():
        raise DataError("there are rows without a provider's name")
    reject_similar_names(names)
    if len({type(day) for _, day in indices}) > 1:
        number, date = (next(day for _, day in indices if isinstance(day, kind)) for kind in (int, str))
        raise DataError(f"days are whole numbers in some rows ({number}) and dates in others ({date}); use one kind")
    ordered = sorted(indices.items(), key=lambda item: (day_order(item[0][1]), names[item[0][0]]))
    first = {day: raw for (raw, day), _ in reversed(ordered)}
    return [
        Report(
            names[raw],
            day,
            rows[index],
            totals.array[index].copy(),
            sources[index],
            dropped=left_out[raw, day],
            features=features[index],
            unnamed=left_out["", day] if first[day] == raw else 0,
        )
        for (raw, day), index in ordered
    ]


def canonical_name(raw: str) -> str:
    """Return a provider's name without surrounding spaces, in normal form NFC."""
    return unicodedata.normalize("NFC", raw.strip())


def task_name(raw: str) -> str:
    """Return the canonical spelling of a task's name: whole numbers without zeros around them, other names unchanged.

    Tools write the same column as 7, 7.0 or 07, so these are one task. Versions such as 1.10, and capitals, are kept.

    Examples
    --------
    >>> [task_name(raw) for raw in ("7", " 7.0", "007", "-0", "1.10", "1e3", "Item 7")]
    ['7', '7', '7', '0', '1.10', '1e3', 'Item 7']
    """
    name = canonical_name(raw)
    number = _INTEGER.fullmatch(name)
    if number is None:
        return name
    digits = number[2].lstrip("0") or "0"
    return f"-{digits}" if number[1] == "-" and digits != "0" else digits


def similar_names(names: Iterable[str]) -> list[tuple[str, str]]:
    """Return pairs of names that look the same: they differ only in case, spaces or compatible characters.

    Examples
    --------
    >>> similar_names(["Item 7", "item  7", "item 8"])
    [('Item 7', 'item  7')]
    """
    first: dict[str, str] = {}
    pairs = []
    for name in names:
        plain = name if name.isascii() else unicodedata.normalize("NFKC", name)
        other = first.setdefault("".join(plain.casefold().split()), name)
        if other != name:
            pairs.append((other, name))
    return pairs


def reject_similar_names(names: dict[str, str]) -> None:
    """Raise if two spellings have the same canonical name: money must not reach the wrong payee."""
    seen: dict[str, str] = {}
    for raw, name in names.items():
        other = seen.setdefault(name, raw)
        if other != raw:
            raise DataError(
                f"providers {other!r} and {raw!r} differ only in spaces or in how accents are stored; give each "
                "provider one spelling"
            )


def reports_by_day(reports: Iterable[Report]) -> dict[Day, list[Report]]:
    """Group reports by day, in the order of days."""
    by_day: dict[Day, list[Report]] = {}
    for report in reports:
        by_day.setdefault(report.day, []).append(report)
    return dict(sorted(by_day.items(), key=lambda item: day_order(item[0])))
