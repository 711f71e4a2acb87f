"""Past days as sums over rows, by day and provider: all that a model is learnt from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from troth.core.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from troth.core.contract import Array
    from troth.core.reductions import Sums


@dataclass(frozen=True, eq=False)
class History:
    """What providers reported on past days, reduced to declared sums.

    Attributes
    ----------
    days
        Labels of the days, in order.
    providers
        Names.
    sums
        Sums over rows, ``(day, provider, sum)``; zeros where a provider did not report.
    present
        Who reported on which day, ``(day, provider)``.
    declared
        Which sums these are.

    Examples
    --------
    >>> from troth.core.reductions import Tally
    >>> past = History.from_reports([("mon", "a", [3, 1]), ("mon", "b", [2, 2]), ("tue", "a", [4, 0])], Tally(2))
    >>> past.days, past.providers, past.rows.tolist()
    (('mon', 'tue'), ('a', 'b'), [[4.0, 4.0], [4.0, 0.0]])
    """

    days: tuple[Any, ...]
    providers: tuple[str, ...]
    sums: Array
    present: NDArray[np.bool_]
    declared: Sums

    def __post_init__(self) -> None:
        sums, present = np.asarray(self.sums, dtype=np.float64), np.asarray(self.present, dtype=bool)
        shape = (len(self.days), len(self.providers))
        if sums.shape != (*shape, self.declared.width) or present.shape != shape:
            raise DataError(
                f"sums of {shape[0]} days and {shape[1]} providers must have shape {(*shape, self.declared.width)}, "
                f"not {sums.shape}, and present {shape}, not {present.shape}"
            )
        for name, labels in (("day", self.days), ("provider", self.providers)):
            if len(set(labels)) < len(labels):
                twice = next(label for i, label in enumerate(labels) if label in labels[:i])
                raise DataError(f"{name} {twice!r} occurs twice in the history")
        if not np.isfinite(sums).all():
            day, provider, _ = (int(i) for i in np.argwhere(~np.isfinite(sums))[0])
            raise DataError(f"day {self.days[day]!r}, provider {self.providers[provider]!r}: a sum is not finite")
        object.__setattr__(self, "sums", np.where(present[..., None], sums, 0.0))
        object.__setattr__(self, "present", present)
        object.__setattr__(self, "days", tuple(self.days))
        object.__setattr__(self, "providers", tuple(self.providers))

    @classmethod
    def from_reports(cls, reports: Iterable[tuple[Any, str, Any]], declared: Sums) -> History:
        """Arrange reports (day, provider, sums); days and providers are sorted, reports of one day and provider add."""
        entries = [(day, name, np.asarray(sums, dtype=np.float64)) for day, name, sums in reports]
        days = sorted({day for day, _, _ in entries})
        providers = sorted({name for _, name, _ in entries})
        day_of, place_of = ({label: i for i, label in enumerate(labels)} for labels in (days, providers))
        sums = np.zeros((len(days), len(providers), declared.width))
        present = np.zeros(sums.shape[:2], dtype=bool)
        for day, name, values in entries:
            if values.shape != (declared.width,):
                raise DataError(
                    f"day {day!r}, provider {name!r}: there must be {declared.width} sums, not of shape {values.shape}"
                )
            sums[day_of[day], place_of[name]] += values
            present[day_of[day], place_of[name]] = True
        return cls(tuple(days), tuple(providers), sums, present, declared)

    @property
    def rows(self) -> Array:
        """How many rows each provider reported on each day, ``(day, provider)``."""
        return self.declared.rows(self.sums)

    def select(self, days: Sequence[Any] | None = None, providers: Sequence[str] | None = None) -> History:
        """Return the history of some days and some providers, by their labels and in their order here."""
        rows = _places("day", self.days, days)
        columns = _places("provider", self.providers, providers)
        return History(
            tuple(self.days[i] for i in rows),
            tuple(self.providers[i] for i in columns),
            self.sums[np.ix_(rows, columns)],
            self.present[np.ix_(rows, columns)],
            self.declared,
        )


def _places(what: str, labels: tuple[Any, ...], chosen: Sequence[Any] | None) -> list[int]:
    if chosen is None:
        return list(range(len(labels)))
    wanted = set(chosen)
    unknown = sorted(wanted - set(labels), key=repr)
    if unknown:
        raise DataError(f"{what} {unknown[0]!r} is not in the history")
    return [i for i, label in enumerate(labels) if label in wanted]
