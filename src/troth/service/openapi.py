"""Additions to the OpenAPI description: which operations need a token, and which errors they return."""

from __future__ import annotations

from typing import Any

from fastapi import Response, Security
from fastapi.security import HTTPBearer

from troth.operations import Content, Operation, names_in
from troth.service import responses

REFUSALS = {
    400: "The request cannot be read.",
    401: "No token was sent, or it is unknown, expired or revoked.",
    403: "The account's role or the token's scope does not allow this.",
    404: "Not found, or not yours.",
    408: "The request arrived too slowly.",
    409: "The campaign or round is not in a state that allows this.",
    413: "The request is too large.",
    415: "The format is unknown.",
    422: "The request is invalid; the message names the field and the remedy.",
    429: "Too many attempts; wait.",
    503: "The service cannot handle the request now; try again in a moment.",
}
_BEARER = HTTPBearer(
    scheme_name="token", description="A token from POST /api/v1/tokens, or from the settings page.", auto_error=False
)
_BODIES = {
    "application/octet-stream": {"type": "string", "format": "binary"},
    "application/json": {"type": "object", "description": "What `troth statistics` writes."},
}


def route_options(operation: Operation) -> dict[str, Any]:
    """Return the options of FastAPI that document an operation; `AuthenticatedRoute` checks the token itself."""
    options: dict[str, Any] = {"description": operation.summary, "responses": _refusals(operation)}
    roles, scope = operation.access
    if roles:
        options["dependencies"] = [Security(_BEARER)]
        audience = " and ".join(f"{role}s" for role in roles)
        options["description"] += f"\n\nFor {audience}; the token needs the scope `{scope}`."
    if isinstance(operation.output, Content):
        content = {operation.output.media_type: {"schema": {"type": "string"}}}
        options["responses"][operation.status] = {"content": content}
        options["response_class"] = Response
    model = getattr(responses, operation.output) if isinstance(operation.output, str) else None
    if isinstance(operation.input, Content):
        content = {operation.input.media_type: {"schema": _BODIES[operation.input.media_type]}}
        options["openapi_extra"] = {"requestBody": {"required": True, "content": content}}
        received = "Received in time and stored; it has not been read yet; ask again later."
        options["responses"][202] = {"model": model, "description": received}
    return {**options, "response_model": model}


def _refusals(operation: Operation) -> dict[int, dict[str, Any]]:
    statuses = {503, *operation.refusals}
    statuses |= {401, 403} if operation.access.roles else set()
    statuses |= {404, 422} if names_in(operation.path) else set()
    statuses |= {400, 408, 413, 422} if operation.input is not None else set()
    statuses |= {422} if operation.keyed else set()
    return {status: {"model": responses.Refused, "description": REFUSALS[status]} for status in sorted(statuses)}
