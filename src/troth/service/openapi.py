"""What OpenAPI says of the API: routes need a token if the access table says so, and which refusals to expect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi.openapi.utils import get_openapi

from troth.service.access import API, Access

if TYPE_CHECKING:
    from fastapi import FastAPI
    from fastapi.routing import APIRoute

REFUSALS = {
    400: "The request cannot be read.",
    401: "No token was sent, or it is unknown, expired or revoked.",
    403: "The account's role or the token's scope does not allow this.",
    404: "There is no such thing, or it is somebody else's.",
    409: "What is asked does not fit the state that things are in.",
    413: "More was sent than is read.",
    415: "The format is unknown.",
    422: "What was sent cannot be used; the message names the field and the remedy.",
    429: "Too many attempts; wait.",
    503: "The service cannot do this now; try again in a moment.",
}
_REFUSED = {"$ref": "#/components/schemas/Refused"}
_SCHEME = {
    "type": "http",
    "scheme": "bearer",
    "description": "A token from POST /api/v1/tokens, or from the page of settings.",
}


def refuses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return what a route adds to the refusals that all of its kind share."""
    return {status: {} for status in statuses}


def readable_id(route: APIRoute) -> str:
    """Return an operation's name: that of the function."""
    return route.name


def describe(app: FastAPI) -> None:
    """Let the application describe its API from the routes and the access table."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _described(app)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def _described(app: FastAPI) -> dict[str, Any]:
    from troth.service.responses import Refused

    plain = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
    plain["paths"] = {path: item for path, item in plain["paths"].items() if path.startswith("/api/")}
    schemas = plain["components"]["schemas"]
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    refused = Refused.model_json_schema(ref_template="#/components/schemas/{model}")
    schemas.update(refused.pop("$defs"))
    schemas["Refused"] = refused
    plain["components"]["securitySchemes"] = {"token": _SCHEME}
    for path, item in plain["paths"].items():
        for method, operation in item.items():
            _complete(operation, path, API[f"{method.upper()} {path}"])
    return plain


def _complete(operation: dict[str, Any], path: str, access: Access) -> None:
    if access.roles:
        operation["security"] = [{"token": []}]
        operation["description"] += f"\n\nFor {' and '.join(f'{role}s' for role in access.roles)}; " + (
            f"the token needs the scope `{access.scope}`."
        )
    said: dict[str, Any] = operation["responses"]
    if not _checked(operation):
        said.pop("422", None)
    expected = {503}
    expected |= {401, 403} if access.roles else set()
    expected |= {404} if "{" in path else set()
    expected |= {422} if _checked(operation) else set()
    expected |= {400, 413} if "requestBody" in operation else set()
    expected |= {int(status) for status in said if int(status) in REFUSALS}
    for status in sorted(expected):
        said[str(status)] = {
            "description": REFUSALS[status],
            "content": {"application/json": {"schema": _REFUSED}},
        }


def _checked(operation: dict[str, Any]) -> bool:
    """Tell whether there is anything to get wrong."""
    return bool(operation.get("parameters") or "requestBody" in operation)
