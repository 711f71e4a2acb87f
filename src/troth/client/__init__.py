"""A client of the service: the operations of its API as methods, using only the standard library."""

from troth.client.api import Client
from troth.client.http import RefusedError, UnreachableError

__all__ = ["Client", "RefusedError", "UnreachableError"]
