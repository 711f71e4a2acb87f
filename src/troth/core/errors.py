"""What can go wrong, as types: each message names the place at fault and says what to do."""


class TrothError(Exception):
    """Every error that Troth raises on purpose."""


class ParameterError(TrothError, ValueError):
    """A model or a rule was built with numbers that no model or rule can have.

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
        super().__init__(f"{why}; MultiDay and SyntheticPeers need no range")


class ScoreOutOfRangeError(TrothError, ValueError):
    """A score outside the range that was fixed before reports were seen; it is never clipped silently.

    Attributes
    ----------
    provider : int
        Whose score it is.
    """

    def __init__(self, provider: int, score: float, low: float, high: float, what: str = "score") -> None:
        self.provider = provider
        super().__init__(
            f"provider {provider}: {what} {score:.9g} is outside [{low:.9g}, {high:.9g}]; this report or a "
            "peer's exceeds the declared rows or values, or the range was declared too narrow"
        )


class UnequalSizesError(TrothError, ValueError):
    """Peers report different numbers of rows on two days that are compared (erratum E10)."""


class LawBrokenError(TrothError):
    """A model breaks a law that every model must obey.

    Attributes
    ----------
    failures : tuple of str
        One sentence per broken law, with the example on which it broke.
    """

    def __init__(self, model: object, failures: tuple[str, ...]) -> None:
        self.failures = failures
        listing = "\n".join(f"  - {failure}" for failure in failures)
        super().__init__(f"{model!r} breaks {len(failures)} law(s):\n{listing}")
