"""Sign in and out, one-time links, and the settings of one's account."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path
from starlette.requests import Request
from starlette.responses import Response

from troth.core.errors import TrothError
from troth.service import accounts, campaigns, views
from troth.service.access import COOKIE, identify
from troth.service.accounts import Who
from troth.service.errors import ConflictError, InvalidError, NotFoundError, SignInNeededError
from troth.service.pages import forms
from troth.service.pages.forms import Sent
from troth.service.pages.frame import goto, page, safe_next, store_of
from troth.service.requests import Identifier

router = APIRouter(dependencies=[Depends(identify)], include_in_schema=False)
Anybody = Annotated[Who | None, Depends(identify)]
Somebody = Annotated[Who, Depends(identify)]
Link = Annotated[str, Path(min_length=20, max_length=200, pattern="^[A-Za-z0-9_-]+$")]


@router.get("/sign-in")
def sign_in_page(request: Request, who: Anybody, next: str = "/") -> Response:  # noqa: A002 (as browsers see it)
    """Ask for name and password."""
    if who is not None:
        return goto(safe_next(next))
    return page(request, None, "sign_in.html", next=safe_next(next), name="")


@router.post("/sign-in")
def sign_in(request: Request, form: Sent) -> Response:
    """Start a session."""
    store, after = store_of(request), safe_next(form.text("next", "/"))
    source = request.client.host if request.client is not None else ""
    try:
        account = accounts.check_password(store, form.text("name"), form.secret("password"), source)
    except TrothError as error:
        known: dict[str, Any] = {"next": after, "name": form.text("name"), "problem": str(error)}
        return page(request, None, "sign_in.html", status=getattr(error, "status", 422), **known)
    with store.write() as tx:
        session = accounts.start_session(tx, account)
    return forms.sign_in(request, goto(after), session)


@router.post("/sign-out")
def sign_out(request: Request, form: Sent) -> Response:
    """End the session."""
    del form
    with store_of(request).write() as tx:
        accounts.end_session(tx, request.cookies.get(COOKIE, ""))
    return forms.sign_out(goto("/sign-in", "goodbye"))


@router.get("/enter/{secret}")
def enter_page(request: Request, secret: Link) -> Response:
    """Show a button that signs in: looking at a link does not use it up."""
    return _enter(request, secret)


def _enter(request: Request, secret: str, problem: str | None = None, status: int = 200) -> Response:
    with store_of(request).read() as tx:
        found = accounts.find_link(tx, secret)
        if found.kind != "sign-in":
            raise NotFoundError("this link is an invitation: open it as it was sent to you")
        known = accounts.find_account(tx, found.account)
    fresh = known.password is None
    return page(request, None, "enter.html", status=status, name=known.name, fresh=fresh, problem=problem)


@router.post("/enter/{secret}")
def enter(request: Request, secret: Link, form: Sent) -> Response:
    """Use a link up and sign in."""
    store = store_of(request)
    try:
        password = _chosen(form)
        with store.write() as tx:
            account = accounts.use_sign_in_link(tx, secret, password)
            if accounts.find_account(tx, account).password is None:
                raise InvalidError("password: choose one")
            session = accounts.start_session(tx, account)
    except InvalidError as error:
        return _enter(request, secret, str(error), error.status)
    return forms.sign_in(request, goto("/"), session)


def _chosen(form: forms.Fields) -> str | None:
    password = form.secret("password")
    if password and password != form.secret("again"):
        raise InvalidError("password: the two are not the same; type it again")
    return password or None


@router.get("/join/{secret}")
def join_page(request: Request, secret: Link, who: Anybody) -> Response:
    """Show what somebody is invited to: looking does not use the invitation up."""
    return _join(request, secret, who)


def _join(request: Request, secret: str, who: Who | None, problem: str | None = None, status: int = 200) -> Response:
    with store_of(request).read() as tx:
        campaign, member = campaigns.invited_to(tx, secret)
        promised = views.about(campaigns.terms_of(campaign))
    known = {"promised": promised, "provider": member.name, "problem": problem}
    return page(request, who, "join.html", status=status, **known)


@router.post("/join/{secret}")
def join(request: Request, secret: Link, form: Sent, who: Anybody) -> Response:
    """Accept an invitation, with the account that is signed in or a new one."""
    store = store_of(request)
    try:
        password = None if who is not None else _chosen(form)
        with store.write() as tx:
            campaign, _ = campaigns.invited_to(tx, secret)
            account = accounts.accept_invitation(
                tx, secret, account=None if who is None else who.account, name=form.text("name"), password=password
            )
            session = None if who is not None else accounts.start_session(tx, account)
    except (InvalidError, ConflictError) as error:
        return _join(request, secret, who, str(error), error.status)
    response = goto(f"/campaigns/{campaign.id}", "joined")
    return response if session is None else forms.sign_in(request, response, session)


@router.get("/settings")
def settings_page(request: Request, who: Somebody) -> Response:
    """Show one's account and tokens."""
    return _settings(request, who)


def _settings(request: Request, who: Who, status: int = 200, **known: Any) -> Response:
    with store_of(request).read() as tx:
        tokens = accounts.list_tokens(tx, who.account)
    context = {"tokens": tokens, "secret": None, "place": None, "problem": None, **known}
    return page(request, who, "settings.html", status=status, scopes=_scopes_of(who), **context)


def _scopes_of(who: Who) -> list[tuple[str, str]]:
    """Return what tokens of this account can be for."""
    acts = ("manage", "run campaigns") if who.role == "analyst" else ("submit", "send and confirm reports")
    return [("read", "look at things"), acts]


@router.post("/settings/password")
def change_password(request: Request, who: Somebody, form: Sent) -> Response:
    """Change the password; all sessions and tokens end, and a new session starts."""
    store = store_of(request)
    source = request.client.host if request.client is not None else ""
    try:
        accounts.check_password(store, who.name, form.secret("current"), source)
        password = _chosen(form)
        if password is None:
            raise InvalidError("password: choose one")
        with store.write() as tx:
            accounts.set_password(tx, who.account, password)
            session = accounts.start_session(tx, who.account)
    except SignInNeededError:
        return _settings(request, who, 422, place="password", problem="the current password is wrong")
    except TrothError as error:
        return _settings(request, who, getattr(error, "status", 422), place="password", problem=str(error))
    return forms.sign_in(request, goto("/settings", "password"), session)


@router.post("/settings/tokens")
def create_token(request: Request, who: Somebody, form: Sent) -> Response:
    """Make a token and show it this once."""
    days = form.text("days", "30")
    try:
        with store_of(request).write() as tx:
            whole = int(days) if days.isascii() and days.isdigit() and len(days) < 6 else 0
            secret, _ = accounts.create_token(tx, who.account, form.text("label"), form.all("scope"), whole)
    except InvalidError as error:
        return _settings(request, who, error.status, place="token", problem=str(error))
    return _settings(request, who, secret=secret)


@router.post("/settings/tokens/{token}/revoke")
def revoke_token(request: Request, who: Somebody, token: Identifier, form: Sent) -> Response:
    """End a token."""
    del form
    with store_of(request).write() as tx:
        accounts.revoke_token(tx, who.account, token)
    return goto("/settings", "ended")
