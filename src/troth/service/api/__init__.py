"""The JSON API: the routes are those of `troth.operations`, and each is answered by the function of the same name.

Money is decimal strings, times are UTC.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import APIRouter, Depends, Response

from troth.operations import GROUPS, OPERATIONS, PREFIX, Content, Operation
from troth.service import responses
from troth.service.access import KnownSender, identify
from troth.service.api import handlers
from troth.service.api.calls import endpoint_of
from troth.service.openapi import body_of

ENDPOINTS: dict[str, Callable[..., Any]] = {
    operation.name: endpoint_of(operation, getattr(handlers, operation.name)) for operation in OPERATIONS
}
"""What FastAPI calls, by the operation's name."""


def mounted() -> APIRouter:
    """Return the routes of the table of operations."""
    router = APIRouter(prefix=PREFIX, dependencies=[Depends(identify)], route_class=KnownSender)
    for tag, operations in GROUPS.items():
        for operation in operations:
            router.add_api_route(
                operation.path,
                ENDPOINTS[operation.name],
                methods=[operation.method],
                operation_id=operation.name,
                description=operation.summary,
                tags=[tag],
                status_code=operation.status,
                openapi_extra=body_of(operation.input) if isinstance(operation.input, Content) else None,
                **_response(operation),
            )
    return router


def _response(operation: Operation) -> dict[str, Any]:
    if isinstance(operation.output, Content):
        body = {"content": {operation.output.media_type: {"schema": {"type": "string"}}}}
        return {"response_class": Response, "responses": {operation.status: body}}
    model = None if operation.output is None else getattr(responses, operation.output)
    if isinstance(operation.input, Content):
        received = {
            "model": model,
            "description": "The file arrived in time and is stored, but not read yet: ask for the submission again.",
        }
        return {"response_model": model, "responses": {202: received}}
    return {"response_model": model}
