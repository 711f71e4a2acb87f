"""Who one is: tokens, invitations, passwords; and whether the service is well."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import Request, Response
from sqlalchemy import text

from troth import __version__
from troth.service import accounts, responses
from troth.service.api.answering import Anybody, Somebody, answered, router, store_of
from troth.service.errors import ForbiddenError
from troth.service.openapi import refuses
from troth.service.requests import Acceptance, Identifier, NewPassword, SignIn

if TYPE_CHECKING:
    from troth.service.store import Store


@router.get("/health", tags=["service"], response_model=responses.Health)
def health(request: Request) -> Response:
    """Tell that the service and its database answer."""
    return answered(check_health(store_of(request)))


def check_health(store: Store) -> dict[str, str]:
    """Ask the database something."""
    with store.read() as tx:
        tx.execute(text("SELECT 1"))
    return {"status": "ok", "version": __version__}


@router.get("/me", tags=["account"], response_model=responses.Me)
def me(who: Somebody) -> Response:
    """Tell who the token belongs to."""
    return answered({"name": who.name, "role": who.role, "scopes": sorted(who.scopes)})


@router.post(
    "/tokens", tags=["account"], status_code=201, response_model=responses.NewToken, responses=refuses(401, 429)
)
def create_token(request: Request, body: SignIn) -> Response:
    """Exchange a name and password for a token that expires; it is shown this once."""
    store = store_of(request)
    source = request.client.host if request.client is not None else ""
    account = accounts.check_password(store, body.name, body.password, source)
    with store.write() as tx:
        secret, kept = accounts.create_token(tx, account, body.label, body.scopes, body.days)
    return answered({"token": secret, **_token(kept)}, 201)


@router.get("/tokens", tags=["account"], response_model=list[responses.Token])
def list_tokens(request: Request, who: Somebody) -> Response:
    """List one's tokens, without their secrets."""
    with store_of(request).read() as tx:
        return answered([_token(row._asdict()) for row in accounts.list_tokens(tx, who.account)])


def _token(row: dict[str, Any]) -> dict[str, Any]:
    kept = {key: row.get(key) for key in ("id", "label", "created", "expires", "used", "revoked")}
    return {**kept, "scopes": row["scopes"].split()}


@router.delete("/tokens/{token}", tags=["account"], status_code=204)
def revoke_token(request: Request, who: Somebody, token: Identifier) -> None:
    """End one of one's tokens."""
    with store_of(request).write() as tx:
        accounts.revoke_token(tx, who.account, token)


@router.post(
    "/invitations", tags=["account"], status_code=201, response_model=responses.Joined, responses=refuses(403, 404, 409)
)
def accept_invitation(request: Request, who: Anybody, body: Acceptance) -> Response:
    """Accept an invitation: the account of the token that is sent, or else a new one, becomes the provider."""
    if who is not None and "manage" not in who.scopes:
        raise ForbiddenError("the token lacks the scope 'manage'; create one that has it")
    with store_of(request).write() as tx:
        known = None if who is None else who.account
        account = accounts.accept_invitation(tx, body.invitation, account=known, name=body.name, password=body.password)
        return answered({"account": account, "name": accounts.name_of(tx, account)}, 201)


@router.post("/passwords", tags=["account"], status_code=201, response_model=responses.Joined, responses=refuses(404))
def choose_password(request: Request, body: NewPassword) -> Response:
    """Choose a password with a one-time link to sign in; sessions and tokens that the account had end."""
    with store_of(request).write() as tx:
        account = accounts.use_sign_in_link(tx, body.link, body.password)
        return answered({"account": account, "name": accounts.name_of(tx, account)}, 201)
