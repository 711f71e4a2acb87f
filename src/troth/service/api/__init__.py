"""The JSON API: the routes of `troth.operations`, each answered by the handler of the same name.

Money is written as decimal strings, times are in UTC.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import APIRouter

from troth.operations import GROUPS, OPERATIONS, PREFIX
from troth.service.access import AuthenticatedRoute
from troth.service.api import handlers
from troth.service.api.calls import endpoint_of
from troth.service.openapi import route_options

ENDPOINTS: dict[str, Callable[..., Any]] = {
    operation.name: endpoint_of(operation, getattr(handlers, operation.name)) for operation in OPERATIONS
}
"""The endpoints by the names of their operations."""


def mounted() -> APIRouter:
    """Return a router with the routes of all operations."""
    router = APIRouter(prefix=PREFIX, route_class=AuthenticatedRoute)
    for tag, operations in GROUPS.items():
        for operation in operations:
            router.add_api_route(
                operation.path,
                ENDPOINTS[operation.name],
                methods=[operation.method],
                operation_id=operation.name,
                tags=[tag],
                status_code=operation.status,
                **route_options(operation),
            )
    return router
