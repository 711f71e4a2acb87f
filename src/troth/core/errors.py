"""What can go wrong, as types: each message names the place at fault and says what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


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
    """Nobody reports as many rows on a day as on the next, which it is compared with (erratum E10).

    Attributes
    ----------
    provider, day : int
        One of those whose rows change from this day to the next.
    rows : tuple of float
        How many there are on both days.
    """

    def __init__(self, provider: int, day: int, rows: tuple[float, float]) -> None:
        self.provider, self.day, self.rows = provider, day, rows
        super().__init__(self._message(str(provider), day, day + 1, "declare exchangeable=True"))

    def in_campaign(self, names: Sequence[str], days: Sequence[object] = ()) -> str:
        """Name the provider and both days."""
        remedy = "set exchangeable = true under [mechanism] before the first payment"
        return self._message(repr(names[self.provider]), days[self.day], days[self.day + 1], remedy)

    def _message(self, provider: str, day: object, following: object, remedy: str) -> str:
        before, after = self.rows
        return (
            f"provider {provider}: {before:g} rows on day {day} but {after:g} on day {following}, and nobody has "
            f"equally many on both; unequal sizes make faking pay, so take equally many rows, or {remedy} if providers "
            "cannot foresee the sizes"
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
