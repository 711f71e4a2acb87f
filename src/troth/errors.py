"""What can go wrong, as types: each message names the place at fault and says what to do."""


class TrothError(Exception):
    """Every error that Troth raises on purpose."""


class ParameterError(TrothError, ValueError):
    """A model or a rule was built with numbers that no model or rule can have."""


class DataError(TrothError, ValueError):
    """A dataset or a statistic that the model says cannot exist."""


class IncompatibleModelsError(TrothError, ValueError):
    """Providers' models that do not share a prior and a space of statistics."""


class MissingCapabilityError(TrothError, TypeError):
    """A model was asked for something that it does not offer."""


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
