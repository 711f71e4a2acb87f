"""About the service, for everybody: what is assumed, the documentation of its API, and its health."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from troth.results.page import ASSUMED
from troth.service import views
from troth.service.access import Visitor
from troth.service.pages.frame import page, store_of

_DOCS_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)


def assumed(request: Request, user: Visitor) -> Response:
    """Say what truth-telling rests on."""
    return page(request, user, "assumed.html", assumed=ASSUMED)


def docs(request: Request, user: Visitor) -> Response:
    """Show the API's documentation, which sets styles by script: this page alone allows that."""
    response = page(request, user, "docs.html")
    response.headers["content-security-policy"] = _DOCS_POLICY
    return response


def health(request: Request, user: Visitor) -> Response:
    """Report that the service and its database respond, and that the database takes changes."""
    view = views.health_view(store_of(request))
    if "text/html" not in request.headers.get("accept", ""):
        return JSONResponse(view.model_dump())
    return page(request, user, "health.html", health=view)
