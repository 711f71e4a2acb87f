"""Typed errors: each message says where the mistake is and how to fix it."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan

from troth.core.formats import counted


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, for places with little room."""
    return str(error).strip().split("\n")[0]


class TrothError(Exception):
    """The base class of all errors that Troth raises on purpose."""

    def in_campaign(self, names: Sequence[str], days: Sequence[object] = ()) -> str:
        """Return the message for a campaign: with names of providers and days, and the remedy in terms of its file.

        Errors of rules, which know only the indexes of providers and days, override this.
        """
        return str(self)


class ParameterError(TrothError, ValueError):
    """A model or a rule was given an invalid parameter.

    Attributes
    ----------
    parameter : str or None
        The parameter at fault.
    problem : str
        What is wrong with it, without its name; may be empty.
    """

    def __init__(self, message: str, *, parameter: str | None = None, problem: str = "") -> None:
        self.parameter, self.problem = parameter, problem
        super().__init__(message)


class DataError(TrothError, ValueError):
    """Data or statistics that are impossible under the model, or cannot be read.

    Attributes
    ----------
    names : tuple of str
        The names of the providers at fault, if known.
    place : str
        The file or table at fault, if the message names it.
    """

    names: tuple[str, ...] = ()
    place: str = ""

    @staticmethod
    def at(place: str, problem: str) -> DataError:
        """Return the error for a file or table, whose name, if any, starts the message."""
        error = DataError(f"{place}: {problem}" if place else problem)
        error.place = place
        return error


class IncompatibleModelsError(TrothError, ValueError):
    """The models of different providers do not share a prior and a space of statistics."""


class MissingCapabilityError(TrothError, TypeError):
    """A model lacks a capability that is needed."""


class UnboundedRangeError(TrothError, ValueError):
    """Log PMI has no bounds that can be stated before reports are seen; ``remedy`` would give it some."""

    def __init__(self, why: str, remedy: str = "") -> None:
        first = f"{remedy}, or " if remedy else ""
        super().__init__(f"{why}: {first}choose a rule that needs no range, such as the default one")


class ReportError(DataError):
    """A report that cannot be paid.

    Attributes
    ----------
    provider : int
        The index of the provider.
    problem : str
        What is wrong with the report, and what to do.
    """

    def __init__(self, provider: int, problem: str) -> None:
        self.provider, self.problem = provider, problem
        super().__init__(f"provider {provider}: {problem}")

    def in_campaign(self, names: Sequence[str], days: Sequence[object] = ()) -> str:
        """Return the message with the provider's name."""
        return f"provider {names[self.provider]!r}: {self.problem}"


class ScoreOutOfRangeError(ReportError):
    """A score is outside the range that was fixed before reports were seen; scores are never clipped silently.

    Attributes
    ----------
    score, low, high : float
        The score and the range.
    """

    def __init__(self, provider: int, score: float, low: float, high: float, what: str = "score") -> None:
        self.score, self.low, self.high = score, low, high
        problem = (
            f"{what} {score:.9g} is outside [{low:.9g}, {high:.9g}]; this report or a peer's exceeds the declared rows "
            "or values, or the range was declared too narrow"
        )
        if isnan(score):
            problem = f"its {what} is undefined: no data have the statistics of this report, or of a peer's"
        super().__init__(provider, problem)


class UnpayableRoundError(ReportError):
    """A round that cannot be paid, and the reports that cause it.

    Attributes
    ----------
    provider : int
        The first provider at fault.
    providers : tuple of int
        The providers without whose reports all others can be paid.
    together : bool
        Whether all of these reports must be left out, or any one of them.
    """

    def __init__(self, providers: Sequence[int], cause: str, *, together: bool) -> None:
        self.providers, self.cause, self.together = tuple(providers), cause, together
        super().__init__(self.providers[0], self._problem([str(provider) for provider in self.providers]))

    def in_campaign(self, names: Sequence[str], days: Sequence[object] = ()) -> str:
        """Return the message with the providers' names."""
        quoted = [repr(names[provider]) for provider in self.providers]
        return f"provider {quoted[0]}: {self._problem(quoted)}"

    def _problem(self, names: Sequence[str]) -> str:
        joint = " and " if self.together else ", or without "
        others = "".join(f"{joint}that of {name}" for name in names[1:])
        return (
            f"the round can be paid without this report{others}, but not with all of them ({self.cause}); check with "
            "the provider, and leave out what is wrong"
        )


class LawBrokenError(TrothError):
    """A model breaks laws that every model must obey.

    Attributes
    ----------
    failures : dict of str
        A counterexample for each broken law.
    """

    def __init__(self, model: object, failures: dict[str, str]) -> None:
        self.failures = failures
        listing = "\n".join(f"  - {law}: {example}" for law, example in failures.items())
        super().__init__(f"{model!r} breaks {counted(len(failures), 'law')}:\n{listing}")
