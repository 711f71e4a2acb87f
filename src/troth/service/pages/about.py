"""Pages about the service: what it assumes, the documentation of its API, and its health."""

from __future__ import annotations

from starlette.responses import JSONResponse, Response

from troth.results.page import ASSUMED
from troth.service import views
from troth.service.pages.frame import Visit

_DOCS_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)


def assumed(visit: Visit) -> Response:
    """Show the assumptions behind truthfulness."""
    return visit.page("assumed.html", assumed=ASSUMED)


def docs(visit: Visit) -> Response:
    """Show the API's documentation. It sets styles by script, which only this page allows."""
    response = visit.page("docs.html")
    response.headers["content-security-policy"] = _DOCS_POLICY
    return response


def health(visit: Visit) -> Response:
    """Report that the service and its database respond, and that the database can be written."""
    view = views.health_view(visit.store)
    if "text/html" not in visit.request.headers.get("accept", ""):
        return JSONResponse(view.model_dump())
    return visit.page("health.html", health=view)
