"""What can go wrong, as types: each message names the place at fault and says what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_MOST_NAMED = 5


class TrothError(Exception):
    """Every error that Troth raises on purpose."""

    def in_campaign(self, names: Sequence[str], days: Sequence[object] = ()) -> str:
        """Return the message for a campaign: providers and days by name, and the remedy as its file says it.

        Errors of a rule, which knows providers and days by their indexes, override this.
        """
        del names, days
        return str(self)


class ParameterError(TrothError, ValueError):
    """A model or a rule was given a parameter that it cannot have.

    Attributes
    ----------
    parameter : str or None
        The parameter at fault.
    """

    def __init__(self, message: str, *, parameter: str | None = None) -> None:
        self.parameter = parameter
        super().__init__(message)


class DataError(TrothError, ValueError):
    """A dataset or a statistic that the model says cannot exist."""


class IncompatibleModelsError(TrothError, ValueError):
    """Providers' models that do not share a prior and a space of statistics."""


class MissingCapabilityError(TrothError, TypeError):
    """A model was asked for something that it does not offer."""


class UnboundedRangeError(TrothError, ValueError):
    """Log PMI has no bounds that can be stated before reports are seen."""

    def __init__(self, why: str) -> None:
        super().__init__(f"{why}; or use a rule that needs no range, such as the default one")


class ReportError(DataError):
    """A report that cannot be paid.

    Attributes
    ----------
    provider : int
        Whose report it is.
    problem : str
        What is wrong with it, and what to do.
    """

    def __init__(self, provider: int, problem: str) -> None:
        self.provider, self.problem = provider, problem
        super().__init__(f"provider {provider}: {problem}")

    def in_campaign(self, names: Sequence[str], days: Sequence[object] = ()) -> str:
        """Name the provider."""
        del days
        return f"provider {names[self.provider]!r}: {self.problem}"


class ScoreOutOfRangeError(ReportError):
    """A score outside the range that was fixed before reports were seen; it is never clipped silently.

    Attributes
    ----------
    score, low, high : float
        The score and the range.
    """

    def __init__(self, provider: int, score: float, low: float, high: float, what: str = "score") -> None:
        self.score, self.low, self.high = score, low, high
        super().__init__(
            provider,
            f"{what} {score:.9g} is outside [{low:.9g}, {high:.9g}]; this report or a peer's exceeds the declared rows "
            "or values, or the range was declared too narrow",
        )


class UnequalSizesError(TrothError, ValueError):
    """Peers have other designs, rows or features, on two days that are compared (erratum E10).

    Attributes
    ----------
    provider, day : int
        Whose design, or whose peers' design, changes from this day to the next.
    rows : tuple of float
        How many rows there are on both days.
    peers : bool
        Whether they are the peers' rows in all.
    changed : tuple of int
        Whose features change, where numbers of rows do not.
    """

    def __init__(
        self, provider: int, day: int, rows: tuple[float, float], *, peers: bool, changed: Sequence[int] = ()
    ) -> None:
        self.provider, self.day, self.rows, self.peers, self.changed = provider, day, rows, peers, tuple(changed)
        super().__init__(self._message(str, (day, day + 1), "declare exchangeable=True"))

    def in_campaign(self, names: Sequence[str], days: Sequence[object] = ()) -> str:
        """Name the providers and both days."""
        remedy = "set exchangeable = true under [mechanism] before the first payment"
        return self._message(lambda place: repr(names[place]), (days[self.day], days[self.day + 1]), remedy)

    def _message(self, name: Callable[[int], str], days: tuple[object, object], remedy: str) -> str:
        whose = f"{'peers of ' if self.peers else ''}provider {name(self.provider)}"
        if not self.changed:
            return (
                f"{whose}: {self.rows[0]:g} rows on day {days[0]} but {self.rows[1]:g} on day {days[1]}; unequal sizes "
                f"make faking pay, so take equally many rows, or {remedy} if providers cannot foresee the sizes"
            )
        some = ", ".join(name(place) for place in self.changed[:_MOST_NAMED])
        more = f" and {len(self.changed) - _MOST_NAMED} more" if len(self.changed) > _MOST_NAMED else ""
        return (
            f"{whose}: {self.rows[0]:g} rows on day {days[0]} and on day {days[1]}, but with other features: provider "
            f"{some}{more} changed them; other features make faking pay, so take the same features on both days, or "
            f"{remedy} if providers cannot foresee the features"
        )


class LawBrokenError(TrothError):
    """A model breaks a law that every model must obey.

    Attributes
    ----------
    failures : dict of str
        By law, the example on which it broke.
    """

    def __init__(self, model: object, failures: dict[str, str]) -> None:
        self.failures = failures
        listing = "\n".join(f"  - {law}: {example}" for law, example in failures.items())
        super().__init__(f"{model!r} breaks {len(failures)} law(s):\n{listing}")
