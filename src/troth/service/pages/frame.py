"""The frame around every page: the visit, the templates and their shared variables, and the format of times."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import quote, urlsplit

from jinja2 import PackageLoader
from markupsafe import Markup
from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from troth import __version__
from troth.core.errors import TrothError
from troth.results.templating import make_environment
from troth.service.access import AuthenticatedRequest
from troth.service.accounts import User
from troth.service.errors import status_of
from troth.service.pages import forms
from troth.service.store import Store

NOTICES = {
    "created": "The campaign was created. Invite its providers, then open the first round.",
    "changed": "The terms were changed.",
    "opened": "The round is open.",
    "closed": "The round is closed.",
    "reopened": "The round is open again.",
    "aside": "The round was set aside: nobody is paid for it.",
    "published": "The round is published: providers can see their payments, and why.",
    "finished": "The campaign has ended.",
    "revoked": "The provider was revoked.",
    "grouped": "The group was changed.",
    "confirmed": "Your report is confirmed. This is your receipt; keep it.",
    "joined": "Welcome. You are now a provider of this campaign.",
    "password": "Your password was changed. Other sessions were ended, and all tokens revoked.",
    "ended": "The token was revoked.",
    "goodbye": "You are signed out.",
}
"""The messages that a page may show after a redirect; the address can only select one of them."""


def moment(text: str | None) -> Markup:
    """Format a stored time for people, in UTC; a script adds the local time as a title."""
    if text is None:
        return Markup("–")
    minute = datetime.fromisoformat(text).strftime("%Y-%m-%d %H:%M")
    return Markup('<time datetime="{}">{} UTC</time>').format(text, minute)


environment = make_environment(PackageLoader("troth.service"))
environment.filters["moment"] = moment
environment.globals["version"] = __version__


@dataclass(frozen=True)
class Visit(AuthenticatedRequest):
    """A request for a page, with the fields of its form and, if the action failed, the error."""

    form: forms.Fields = field(default_factory=lambda: forms.Fields(FormData()))
    error: TrothError | None = None

    def page(self, template: str, **context: Any) -> Response:
        """Render a page for the visitor, with the error if there was one."""
        token, new_secret = forms.token_for(self.request, self.visitor)
        notice = self.request.query_params.get("notice", "") if self.request.method == "GET" else ""
        frame = {
            "user": self.visitor,
            "csrf": token,
            "here": self.request.url.path,
            "notice": NOTICES.get(notice),
            "problem": None if self.error is None else str(self.error),
            "title": None,
        }
        html = environment.get_template(template).render(**frame | context)
        response = HTMLResponse(html, 200 if self.error is None else status_of(self.error))
        if new_secret is not None:
            forms.set_cookie(self.request, response, forms.VISIT, new_secret)
        return response


def goto(path: str, notice: str | None = None) -> Response:
    """Redirect the browser to another page after an action."""
    return RedirectResponse(path + (f"?notice={notice}" if notice else ""), 303)


def changes(
    change: Callable[..., Any], to: str, notice: str, **fields: Callable[[forms.Fields], Any]
) -> Callable[..., Response]:
    """Return the action of a form that calls `change` in one transaction, and then redirects to a page.

    The function gets the user, the parameters of the path, and ``fields``, read from the form.
    """

    def in_transaction(store: Store, user: User, **values: Any) -> None:
        with store.write() as tx:
            change(tx, user, **values)

    return settles(in_transaction, to, notice, **fields)


def settles(
    work: Callable[..., Any], to: str, notice: str, **fields: Callable[[forms.Fields], Any]
) -> Callable[..., Response]:
    """Like `changes`, for a function that runs its own transactions on the store."""

    def answer(visit: Visit, **values: Any) -> Response:
        work(visit.store, visit.user, **values, **{name: read(visit.form) for name, read in fields.items()})
        return goto(to.format(**values), notice)

    return answer


def is_part(request: Request) -> bool:
    """Return whether the request is from htmx, which needs only a part of the page."""
    return request.headers.get("hx-request") == "true"


def safe_next(path: str) -> str:
    r"""Return the page to show after signing in, which can only be one of this service.

    Examples
    --------
    >>> safe_next("/campaigns/x?y=1"), safe_next("//evil.example"), safe_next("/\\evil"), safe_next("https://x")
    ('/campaigns/x?y=1', '/', '/', '/')
    """
    parts = urlsplit(path) if path.isprintable() else None
    inside = parts is not None and not parts.scheme and not parts.netloc
    return path if inside and path.startswith("/") and not path.startswith(("//", "/\\")) else "/"


def error_page(request: Request, status: int, message: str) -> Response:
    """Return a page for an error, or a redirect for visitors who must sign in."""
    if status == 401:
        if is_part(request):
            return Response(status_code=401, headers={"HX-Redirect": "/sign-in"})
        after = request.url.path if request.method == "GET" else "/"
        return RedirectResponse("/sign-in" if after == "/" else f"/sign-in?next={quote(after)}", 303)
    link = request.url.path.startswith(("/join/", "/enter/"))
    titles = {403: "Not permitted", 404: "Not found", 409: "Not possible now", 413: "Too large"}
    title = titles.get(status, "That did not work" if status < 500 else "Something went wrong")
    if link and status == 404:
        title = "This link does not work"
    if is_part(request):
        return HTMLResponse(environment.get_template("part_problem.html").render(problem=message), status)
    frame = {"user": None, "csrf": "", "here": request.url.path, "notice": None, "problem": None}  # no form, no cookie
    html = environment.get_template("error.html").render(title=title, message=message, code=status, link=link, **frame)
    return HTMLResponse(html, status)
