"""Errors of the service, with their HTTP status."""

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
    """The object does not exist or belongs to somebody else: both look the same."""

    status = 404


class ConflictError(RefusedError):
    """The campaign or round is not in a state that allows this."""

    status = 409


class InvalidError(RefusedError):
    """The request is invalid; the message names the field and the remedy.

    ``section`` and ``key`` locate a mistake in a campaign's terms.
    """

    status = 422

    def __init__(self, message: str, *, section: str | None = None, key: str | None = None) -> None:
        self.section, self.key = section, key
        super().__init__(message)

    @classmethod
    def in_terms(cls, section: str, key: str, problem: str) -> Self:
        """Return the error for a key of a campaign's terms."""
        return cls(f"[{section}] {key}: {problem}", section=section, key=key)

    @classmethod
    def of(cls, error: TrothError) -> Self:
        """Convert an error of Troth into one of the service."""
        return cls(str(error), section=getattr(error, "section", None), key=getattr(error, "key", None))


class RateLimitError(RefusedError):
    """Too many attempts; wait."""

    status = 429


class UnavailableError(RefusedError):
    """The service cannot handle the request now."""

    status = 503


def status_of(error: TrothError) -> int:
    """Return the HTTP status of an error; by default the input is invalid."""
    return int(getattr(error, "status", InvalidError.status))
