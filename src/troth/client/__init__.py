"""A service seen from outside: what its API offers, as methods, using only the standard library."""

from troth.client.api import Client
from troth.client.http import RefusedError, UnreachableError

__all__ = ["Client", "RefusedError", "UnreachableError"]
