"""A service seen from outside: what its API offers, as methods, with the standard library alone."""

from troth.client.api import Client
from troth.client.http import RefusedError, UnreachableError

__all__ = ["Client", "RefusedError", "UnreachableError"]
