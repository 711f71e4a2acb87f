"""The JSON API: the routes are those of `troth.operations`, and each is answered by the function of the same name.

Money is decimal strings, times are UTC.
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
"""What FastAPI calls, by the operation's name."""


def mounted() -> APIRouter:
    """Return the routes of the table of operations."""
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
