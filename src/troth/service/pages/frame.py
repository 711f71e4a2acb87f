"""The frame around every page: templates, what all of them know, and how times look."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from jinja2 import PackageLoader
from markupsafe import Markup
from starlette.responses import HTMLResponse, RedirectResponse, Response

from troth import __version__
from troth.results.templating import make_environment
from troth.service.pages import forms

if TYPE_CHECKING:
    from starlette.requests import Request

    from troth.service.accounts import Who
    from troth.service.store import Store

SAID = {
    "created": "The campaign was created. Invite its providers, then open the first round.",
    "changed": "The terms were changed.",
    "opened": "The round is open.",
    "closed": "The round is closed.",
    "reopened": "The round is open again.",
    "published": "The round is published: providers see their payments and why.",
    "finished": "The campaign has ended.",
    "revoked": "The provider was revoked.",
    "grouped": "The group was changed.",
    "confirmed": "Your report is confirmed. This is your receipt; keep it.",
    "joined": "Welcome. You are a provider of this campaign now.",
    "password": "Your password was changed. All other sessions and all tokens ended.",
    "ended": "The token was revoked.",
    "goodbye": "You are signed out.",
}
"""What a page says after a redirect: only these sentences, whatever an address says."""


def moment(text: str | None) -> Markup:
    """Return a time of the tables for people, in UTC; a script adds the local time as a title."""
    if text is None:
        return Markup("–")
    shown = datetime.fromisoformat(text).strftime("%Y-%m-%d %H:%M")
    return Markup('<time datetime="{}">{} UTC</time>').format(text, shown)


environment = make_environment(PackageLoader("troth.service"))
environment.filters["moment"] = moment
environment.globals["version"] = __version__


def store_of(request: Request) -> Store:
    """Return the service's database."""
    store: Store = request.app.state.store
    return store


def page(request: Request, who: Who | None, template: str, *, status: int = 200, **context: Any) -> Response:
    """Render a page for somebody."""
    token, visit = forms.token_for(request, who)
    said = SAID.get(request.query_params.get("said", "")) if request.method == "GET" else None
    known = {"problem": None, "said": said, "title": None, **context}
    html = environment.get_template(template).render(who=who, csrf=token, here=request.url.path, **known)
    response = HTMLResponse(html, status)
    if visit is not None:
        forms.set_cookie(request, response, forms.VISIT, visit)
    return response


def goto(path: str, said: str | None = None) -> Response:
    """Send a browser to another page after something was done."""
    return RedirectResponse(path + (f"?said={said}" if said else ""), 303)


def is_part(request: Request) -> bool:
    """Tell whether htmx asks, which wants a part of a page."""
    return request.headers.get("hx-request") == "true"


def safe_next(path: str) -> str:
    r"""Return where to go after signing in: a page of this service, nothing else.

    Examples
    --------
    >>> safe_next("/campaigns/x?y=1"), safe_next("//evil.example"), safe_next("/\\evil"), safe_next("https://x")
    ('/campaigns/x?y=1', '/', '/', '/')
    """
    parts = urlsplit(path) if path.isprintable() else None
    inside = parts is not None and not parts.scheme and not parts.netloc
    return path if inside and path.startswith("/") and not path.startswith(("//", "/\\")) else "/"


def error_page(request: Request, status: int, message: str) -> Response:
    """Return a page for something that went wrong; who is not signed in is asked to."""
    if status == 401:
        if is_part(request):
            return Response(status_code=401, headers={"HX-Redirect": "/sign-in"})
        after = request.url.path if request.method == "GET" else "/"
        return RedirectResponse("/sign-in" if after == "/" else f"/sign-in?next={quote(after)}", 303)
    words = {403: "This is not for you", 404: "Not found", 409: "That does not fit", 413: "Too large"}
    title = words.get(status, "That did not work" if status < 500 else "Something went wrong")
    if is_part(request):
        html = environment.get_template("part_problem.html").render(problem=message)
        return HTMLResponse(html, status)
    known = {"who": None, "csrf": "", "here": request.url.path, "said": None, "problem": None}  # no form, no cookie
    html = environment.get_template("error.html").render(title=title, message=message, code=status, **known)
    return HTMLResponse(html, status)
