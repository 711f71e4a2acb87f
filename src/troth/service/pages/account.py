"""Sign in and out, one-time links, and the settings of an account."""

from __future__ import annotations

from starlette.responses import Response

from troth.core.claims import limit_of
from troth.service import accounts, campaigns, views
from troth.service.access import COOKIE
from troth.service.errors import InvalidError, NotFoundError, SignInRequiredError
from troth.service.pages import forms
from troth.service.pages.frame import Visit, changes, goto, safe_next


def sign_in_page(visit: Visit, next: str = "/") -> Response:  # noqa: A002 (the name in the query)
    """Ask for name and password."""
    after = safe_next(visit.form.text("next", next))
    if visit.visitor is not None and visit.error is None:
        return goto(after)
    return visit.page("sign_in.html", next=after, name=visit.form.text("name"))


def sign_in(visit: Visit) -> Response:
    """Start a session."""
    form, device = visit.form, visit.request.cookies.get(forms.DEVICE, "")
    account = accounts.check_password(visit.store, form.text("name"), form.secret("password"), visit.source, device)
    with visit.store.write() as tx:
        session, device = accounts.start_session(tx, account), accounts.remember_device(tx, account, device)
    response = forms.sign_in(visit.request, goto(safe_next(form.text("next", "/"))), session)
    forms.set_cookie(visit.request, response, forms.DEVICE, device, accounts.DEVICE_DAYS)
    return response


def sign_out(visit: Visit) -> Response:
    """End the session."""
    with visit.store.write() as tx:
        accounts.end_session(tx, visit.request.cookies.get(COOKIE, ""))
    response = goto("/sign-in", "goodbye")
    response.delete_cookie(COOKIE, path="/")
    return response


def enter_page(visit: Visit, secret: str) -> Response:
    """Show a button that signs in; opening the link does not use it up."""
    with visit.store.read() as tx:
        link = accounts.find_link(tx, secret)
        if link.kind != "sign-in":
            raise NotFoundError("this link is an invitation: open it as it was sent to you")
        account = accounts.find_account(tx, link.account)
    return visit.page("enter.html", name=account.name, fresh=account.password is None)


def enter(visit: Visit, secret: str) -> Response:
    """Use up a link, and sign in."""
    password = _chosen_password(visit.form)
    with visit.store.write() as tx:
        account = accounts.use_sign_in_link(tx, secret, password)
        if accounts.find_account(tx, account).password is None:
            raise InvalidError("password: choose one")
        session = accounts.start_session(tx, account)
    return forms.sign_in(visit.request, goto("/"), session)


def _chosen_password(form: forms.Fields) -> str | None:
    password = form.secret("password")
    if password and password != form.secret("again"):
        raise InvalidError("password: the two do not match; type it again")
    return password or None


def join_page(visit: Visit, secret: str) -> Response:
    """Show the campaign of an invitation; opening the link does not use it up."""
    with visit.store.read() as tx:
        campaign, member = campaigns.invited_to(tx, secret)
        terms = campaigns.terms_of(campaign)
    promise = {
        "promised": views.promise(terms),
        "truthful": bool(terms.rule.truthful_by),
        "limit": limit_of([terms.model, *terms.provider_models.values()], draws=terms.draws),
    }
    return visit.page("join.html", provider=member.name, **promise)


def join(visit: Visit, secret: str) -> Response:
    """Accept an invitation with the account that is signed in, or with a new one."""
    user, name = visit.visitor, visit.form.text("name")
    own_account = None if user is None else user.account
    password = None if user is not None else _chosen_password(visit.form)
    with visit.store.write() as tx:
        campaign, _ = campaigns.invited_to(tx, secret)
        account = accounts.accept_invitation(tx, secret, account=own_account, name=name, password=password)
        session = None if user is not None else accounts.start_session(tx, account)
    response = goto(f"/campaigns/{campaign.id}", "joined")
    return response if session is None else forms.sign_in(visit.request, response, session)


def settings_page(visit: Visit, *, secret: str | None = None) -> Response:
    """Show an account and its tokens."""
    with visit.store.read() as tx:
        tokens = accounts.list_tokens(tx, visit.user.account)
    writing = ("manage", "run campaigns") if visit.user.role == "analyst" else ("submit", "send and confirm reports")
    scopes = [("read", "read everything you can see"), writing]
    return visit.page("settings.html", tokens=tokens, secret=secret, scopes=scopes)


def change_password(visit: Visit) -> Response:
    """Change the password: sign out all sessions, revoke all tokens and start a new session."""
    user, device = visit.user, visit.request.cookies.get(forms.DEVICE, "")
    try:
        accounts.check_password(visit.store, user.name, visit.form.secret("current"), visit.source, device)
    except SignInRequiredError:
        raise InvalidError("the current password is wrong") from None
    password = _chosen_password(visit.form)
    if password is None:
        raise InvalidError("password: choose one")
    with visit.store.write() as tx:
        accounts.set_password(tx, user.account, password)
        session = accounts.start_session(tx, user.account)
    return forms.sign_in(visit.request, goto("/settings", "password"), session)


def create_token(visit: Visit) -> Response:
    """Create a token, and show it this one time."""
    text, form = visit.form.text("days", "30"), visit.form
    days = int(text) if text.isascii() and text.isdigit() and len(text) < 6 else 0
    with visit.store.write() as tx:
        secret, _ = accounts.create_token(tx, visit.user.account, form.text("label"), form.all("scope"), days)
    return settings_page(visit, secret=secret)


revoke_token = changes(accounts.revoke_token, "/settings", "ended")
