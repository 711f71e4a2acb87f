"""What the service refuses, as types that know their HTTP status."""

from __future__ import annotations

from typing import Self

from troth.core.errors import TrothError


class RefusedError(TrothError):
    """A request that is understood and refused."""

    status = 400


class SignInRequiredError(RefusedError):
    """Nobody is signed in, or the token is unknown, expired or revoked."""

    status = 401


class ForbiddenError(RefusedError):
    """The account's role or the token's scope does not allow this."""

    status = 403


class NotFoundError(RefusedError):
    """There is no such thing, or it is somebody else's: both look the same."""

    status = 404


class ConflictError(RefusedError):
    """The campaign or round is not in a state that allows this."""

    status = 409


class InvalidError(RefusedError):
    """What was sent cannot be used; the message names the field and the remedy.

    ``section`` and ``key`` say where the mistake is, if it is in a campaign's terms.
    """

    status = 422

    def __init__(self, message: str, *, section: str | None = None, key: str | None = None) -> None:
        self.section, self.key = section, key
        super().__init__(message)

    @classmethod
    def in_terms(cls, section: str, key: str, problem: str) -> Self:
        """Return a mistake under a key of a campaign's terms."""
        return cls(f"[{section}] {key}: {problem}", section=section, key=key)

    @classmethod
    def of(cls, error: TrothError) -> Self:
        """Return the same mistake as a refusal of the service."""
        return cls(str(error), section=getattr(error, "section", None), key=getattr(error, "key", None))


class RateLimitError(RefusedError):
    """Too many attempts; wait."""

    status = 429


class UnavailableError(RefusedError):
    """The service cannot do its work now."""

    status = 503


def status_of(error: TrothError) -> int:
    """Return the HTTP status of an error; what Troth itself refuses is invalid."""
    return int(getattr(error, "status", InvalidError.status))
