"""Sign in and out, one-time links, and the settings of an account."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path
from starlette.requests import Request
from starlette.responses import Response

from troth.certificates.in_the_limit import limit_of
from troth.core.errors import TrothError
from troth.service import accounts, campaigns, views
from troth.service.access import COOKIE, SignedIn, Visitor
from troth.service.errors import InvalidError, NotFoundError, SignInNeededError
from troth.service.pages import forms
from troth.service.pages.forms import Sent
from troth.service.pages.frame import goto, page, safe_next, store_of
from troth.service.requests import Identifier

Link = Annotated[str, Path(min_length=20, max_length=200, pattern="^[A-Za-z0-9_-]+$")]


def sign_in_page(request: Request, user: Visitor, next: str = "/") -> Response:  # noqa: A002 (as browsers see it)
    """Ask for name and password."""
    if user is not None:
        return goto(safe_next(next))
    return page(request, None, "sign_in.html", next=safe_next(next), name="")


def sign_in(request: Request, form: Sent) -> Response:
    """Start a session."""
    store, after = store_of(request), safe_next(form.text("next", "/"))
    try:
        name, password, device = form.text("name"), form.secret("password"), request.cookies.get(forms.DEVICE, "")
        account = accounts.check_password(store, name, password, _source(request), device)
    except TrothError as error:
        return page(request, None, "sign_in.html", error=error, next=after, name=form.text("name"))
    with store.write() as tx:
        session, device = accounts.start_session(tx, account), accounts.remember_device(tx, account, device)
    response = forms.sign_in(request, goto(after), session)
    forms.set_cookie(request, response, forms.DEVICE, device, accounts.DEVICE_DAYS)
    return response


def _source(request: Request) -> str:
    return request.client.host if request.client is not None else ""


def sign_out(request: Request) -> Response:
    """End the session."""
    with store_of(request).write() as tx:
        accounts.end_session(tx, request.cookies.get(COOKIE, ""))
    return forms.sign_out(goto("/sign-in", "goodbye"))


def enter_page(request: Request, secret: Link, *, error: TrothError | None = None) -> Response:
    """Show a button that signs in: looking at a link does not use it up."""
    with store_of(request).read() as tx:
        link = accounts.find_link(tx, secret)
        if link.kind != "sign-in":
            raise NotFoundError("this link is an invitation: open it as it was sent to you")
        account = accounts.find_account(tx, link.account)
    return page(request, None, "enter.html", error=error, name=account.name, fresh=account.password is None)


def enter(request: Request, secret: Link, form: Sent) -> Response:
    """Use a link up and sign in."""
    password = _chosen_password(form)
    with store_of(request).write() as tx:
        account = accounts.use_sign_in_link(tx, secret, password)
        if accounts.find_account(tx, account).password is None:
            raise InvalidError("password: choose one")
        session = accounts.start_session(tx, account)
    return forms.sign_in(request, goto("/"), session)


def _chosen_password(form: forms.Fields) -> str | None:
    password = form.secret("password")
    if password and password != form.secret("again"):
        raise InvalidError("password: the two do not match; type it again")
    return password or None


def join_page(request: Request, secret: Link, user: Visitor, *, error: TrothError | None = None) -> Response:
    """Show what somebody is invited to: looking does not use the invitation up."""
    with store_of(request).read() as tx:
        campaign, member = campaigns.invited_to(tx, secret)
        terms = campaigns.terms_of(campaign)
    promise = {
        "promised": views.promise(terms),
        "truthful": bool(terms.rule.truthful_by),
        "limit": limit_of([terms.model, *terms.provider_models.values()], draws=terms.draws),
    }
    return page(request, user, "join.html", error=error, provider=member.name, **promise)


def join(request: Request, secret: Link, form: Sent, user: Visitor) -> Response:
    """Accept an invitation, with the account that is signed in or a new one."""
    own = None if user is None else user.account
    password = None if user is not None else _chosen_password(form)
    with store_of(request).write() as tx:
        campaign, _ = campaigns.invited_to(tx, secret)
        account = accounts.accept_invitation(tx, secret, account=own, name=form.text("name"), password=password)
        session = None if user is not None else accounts.start_session(tx, account)
    response = goto(f"/campaigns/{campaign.id}", "joined")
    return response if session is None else forms.sign_in(request, response, session)


def settings_page(
    request: Request, user: SignedIn, *, error: TrothError | None = None, secret: str | None = None
) -> Response:
    """Show an account and its tokens."""
    with store_of(request).read() as tx:
        tokens = accounts.list_tokens(tx, user.account)
    acts = ("manage", "run campaigns") if user.role == "analyst" else ("submit", "send and confirm reports")
    scopes = [("read", "read everything you can see"), acts]
    return page(request, user, "settings.html", error=error, tokens=tokens, secret=secret, scopes=scopes)


def change_password(request: Request, user: SignedIn, form: Sent) -> Response:
    """Change the password: sign out all sessions, revoke all tokens and start a new session."""
    store, device = store_of(request), request.cookies.get(forms.DEVICE, "")
    try:
        accounts.check_password(store, user.name, form.secret("current"), _source(request), device)
    except SignInNeededError:
        raise InvalidError("the current password is wrong") from None
    password = _chosen_password(form)
    if password is None:
        raise InvalidError("password: choose one")
    with store.write() as tx:
        accounts.set_password(tx, user.account, password)
        session = accounts.start_session(tx, user.account)
    return forms.sign_in(request, goto("/settings", "password"), session)


def create_token(request: Request, user: SignedIn, form: Sent) -> Response:
    """Make a token and show it this once."""
    text = form.text("days", "30")
    days = int(text) if text.isascii() and text.isdigit() and len(text) < 6 else 0
    with store_of(request).write() as tx:
        secret, _ = accounts.create_token(tx, user.account, form.text("label"), form.all("scope"), days)
    return settings_page(request, user, secret=secret)


def revoke_token(request: Request, user: SignedIn, token: Identifier) -> Response:
    """Revoke a token."""
    with store_of(request).write() as tx:
        accounts.revoke_token(tx, user.account, token)
    return goto("/settings", "ended")
