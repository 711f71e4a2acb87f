"""What OpenAPI says about the API: which operations need a token, and which refusals to expect."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from troth.operations import OPERATIONS, PREFIX, Content, Operation
from troth.service.responses import Refused

REFUSALS = {
    400: "The request cannot be read.",
    401: "No token was sent, or it is unknown, expired or revoked.",
    403: "The account's role or the token's scope does not allow this.",
    404: "Not found, or not yours.",
    408: "The request arrives too slowly.",
    409: "The campaign or round is not in a state that allows this.",
    413: "The request is too large.",
    415: "The format is unknown.",
    422: "What was sent cannot be used; the message names the field and the remedy.",
    429: "Too many attempts; wait.",
    503: "The service cannot do this now; try again in a moment.",
}
_REFUSED = {"application/json": {"schema": {"$ref": "#/components/schemas/Refused"}}}
_BEARER = "A token from POST /api/v1/tokens, or from the settings page."
_BODIES = {
    "application/octet-stream": {"type": "string", "format": "binary"},
    "application/json": {"type": "object", "description": "What `troth statistics` writes."},
}


def body_of(content: Content) -> dict[str, Any]:
    """Return what OpenAPI says of a request whose body is a file."""
    return {"requestBody": {"required": True, "content": {content.media_type: {"schema": _BODIES[content.media_type]}}}}


def document_of(app: FastAPI) -> dict[str, Any]:
    """Return what OpenAPI says of an application, by its routes and the table of operations."""
    document = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
    schemas = document["components"]["schemas"]
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    refused = Refused.model_json_schema(ref_template="#/components/schemas/{model}")
    schemas.update(refused.pop("$defs"))
    schemas["Refused"] = refused
    document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer", "description": _BEARER}}
    for operation in OPERATIONS:
        _complete(document["paths"][PREFIX + operation.path][operation.method.lower()], operation)
    return document


def _complete(described: dict[str, Any], operation: Operation) -> None:
    access = operation.access
    if access.roles:
        described["security"] = [{"token": []}]
        described["description"] += (
            f"\n\nFor {' and '.join(f'{role}s' for role in access.roles)}; the token needs the scope `{access.scope}`."
        )
    statuses = {503, *operation.refusals}
    statuses |= {401, 403} if access.roles else set()
    statuses |= {404, 422} if operation.path_parameters else set()
    statuses |= {400, 408, 413, 422} if operation.input is not None else set()
    statuses |= {422} if operation.keyed else set()
    described["responses"].pop("422", None)
    for status in sorted(statuses):
        described["responses"][str(status)] = {"description": REFUSALS[status], "content": _REFUSED}
