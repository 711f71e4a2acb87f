"""What was reported on past days: sums by day and provider, some of them missing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from troth.errors import DataError
from troth.sums import Moments, Sums, Tally

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from troth.model import Array


@runtime_checkable
class PastDays(Protocol):
    """All that fitting a prior and replaying days need to know of the past."""

    @property
    def declared(self) -> Sums:
        """Which sums over rows these are."""
        ...

    @property
    def sums(self) -> Array:
        """Sums by day and provider, ``(day, provider, sum)``, zero where nothing was reported."""
        ...

    @property
    def present(self) -> NDArray[np.bool_]:
        """Who reported on which day, ``(day, provider)``."""
        ...

    @property
    def providers(self) -> Sequence[Any]:
        """Names of the providers."""
        ...

    @property
    def days(self) -> Sequence[Any]:
        """Names of the days, in their order."""
        ...

    def select(self, days: Sequence[Any] | None = None, providers: Sequence[Any] | None = None) -> PastDays:
        """Return the history of some days and some providers, by their names."""
        ...


@dataclass(frozen=True, eq=False)
class Past:
    """Past reports as sums, ``(day, provider, sum)``.

    Attributes
    ----------
    declared
        What the sums are: `troth.sums.Tally` or `troth.sums.Moments`.
    sums
        One row of sums per day and provider; a report without rows counts as missing.
    providers, days
        Their names; numbers by default.

    Examples
    --------
    >>> past = Past(Tally(2), [[[3, 1], [2, 2]], [[0, 0], [1, 4]]], providers=["A", "B"])
    >>> past.present.tolist()
    [[True, True], [False, True]]
    """

    declared: Sums
    sums: Array
    providers: Sequence[Any] = ()
    days: Sequence[Any] = ()

    def __post_init__(self) -> None:
        sums = np.array(self.sums, dtype=np.float64)
        if sums.ndim != 3 or sums.shape[-1] != self.declared.width:
            raise DataError(
                f"sums must have shape (day, provider, {self.declared.width}) for {self.declared!r}, not {sums.shape}"
            )
        if not np.isfinite(sums).all():
            day, provider, _ = (int(i) for i in np.argwhere(~np.isfinite(sums))[0])
            raise DataError(f"day {day}, provider {provider}: sums must be finite; a missing report is all zeros")
        for name, size in (("days", sums.shape[0]), ("providers", sums.shape[1])):
            labels = tuple(getattr(self, name)) or tuple(range(size))
            if len(labels) != size:
                raise DataError(f"{len(labels)} names for {size} {name}")
            object.__setattr__(self, name, labels)
        sums.setflags(write=False)
        object.__setattr__(self, "sums", sums)

    @property
    def present(self) -> NDArray[np.bool_]:
        """Who reported on which day."""
        return np.asarray(self.declared.rows(self.sums) > 0)

    @property
    def rows(self) -> Array:
        """How many rows each provider reported on each day, ``(day, provider)``."""
        return self.declared.rows(self.sums)

    def select(self, days: Sequence[Any] | None = None, providers: Sequence[Any] | None = None) -> Past:
        """Return the history of some days and some providers, by their labels and in their order here."""
        rows, columns = _places("day", self.days, days), _places("provider", self.providers, providers)
        return Past(
            self.declared,
            self.sums[np.ix_(rows, columns)],
            tuple(self.providers[i] for i in columns),
            tuple(self.days[i] for i in rows),
        )

    @classmethod
    def of_rows(
        cls, provider: Any, day: Any, values: Any, declared: Sums | None = None, *, squares: bool = True
    ) -> Past:
        """Add up rows: one provider, one day and one value (or several columns) per row.

        Parameters
        ----------
        declared
            The sums to take; by default codes are counted if all values are small whole numbers, and moments are
            taken otherwise, around the mean.

        Examples
        --------
        >>> past = Past.of_rows(["A", "B", "A"], [1, 1, 2], [0, 1, 1])
        >>> past.sums.tolist()
        [[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 0.0]]]
        """
        table = np.asarray(values, dtype=np.float64)
        table = table[:, None] if table.ndim == 1 else table
        providers, who = np.unique(np.asarray(provider), return_inverse=True)
        days, when = np.unique(np.asarray(day), return_inverse=True)
        if not len(table) == len(who) == len(when):
            raise DataError(f"{len(who)} providers, {len(when)} days and {len(table)} values: one of each per row")
        if declared is None:
            whole = table.shape[1] == 1 and ((table >= 0) & (table < 32) & (table == np.floor(table))).all()
            declared = (
                Tally(max(2, int(table.max()) + 1)) if whole else Moments(tuple(table.mean(axis=0)), squares=squares)
            )
        sums = np.zeros((len(days), len(providers), declared.width))
        cell = when * len(providers) + who
        order = np.argsort(cell, kind="stable")
        edges = np.flatnonzero(np.diff(cell[order], prepend=-1))
        for part in np.split(order, edges[1:]):
            sums[when[part[0]], who[part[0]]] = declared.of_rows(table[part])
        return cls(declared, sums, tuple(providers.tolist()), tuple(days.tolist()))


def _places(what: str, labels: Sequence[Any], chosen: Sequence[Any] | None) -> list[int]:
    if chosen is None:
        return list(range(len(labels)))
    unknown = [label for label in chosen if label not in set(labels)]
    if unknown:
        raise DataError(f"{what} {unknown[0]!r} is not in the history")
    return [i for i, label in enumerate(labels) if label in set(chosen)]
