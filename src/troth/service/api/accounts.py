"""Accounts: tokens, invitations, passwords; and whether the service responds."""

from __future__ import annotations

from troth.service import accounts, views
from troth.service.api.calls import Call
from troth.service.errors import ForbiddenError
from troth.service.requests import Acceptance, NewPassword, SignIn
from troth.service.responses import Health, Joined, Me, NewToken, Token


def health(call: Call) -> Health:
    return views.health_view(call.store)


def me(call: Call) -> Me:
    return Me(name=call.user.name, role=call.user.role, scopes=sorted(call.user.scopes))


def create_token(call: Call, body: SignIn) -> NewToken:
    source = call.request.client.host if call.request.client is not None else ""
    account = accounts.check_password(call.store, body.name, body.password, source)
    with call.store.write() as tx:
        secret, token = accounts.create_token(tx, account, body.label, body.scopes, body.days)
    return NewToken(token=secret, **dict(views.token_view(token)))


def list_tokens(call: Call) -> list[Token]:
    with call.store.read() as tx:
        return [views.token_view(token) for token in accounts.list_tokens(tx, call.user.account)]


def revoke_token(call: Call, token: str) -> None:
    with call.store.write() as tx:
        accounts.revoke_token(tx, call.user.account, token)


def accept_invitation(call: Call, body: Acceptance) -> Joined:
    if call.visitor is not None and "manage" not in call.visitor.scopes:
        raise ForbiddenError("the token lacks the scope 'manage'; create one that has it")
    own_account = None if call.visitor is None else call.visitor.account
    with call.store.write() as tx:
        account = accounts.accept_invitation(
            tx, body.invitation, account=own_account, name=body.name, password=body.password
        )
        return Joined(account=account, name=accounts.find_account(tx, account).name)


def choose_password(call: Call, body: NewPassword) -> Joined:
    with call.store.write() as tx:
        account = accounts.use_sign_in_link(tx, body.link, body.password)
        return Joined(account=account, name=accounts.find_account(tx, account).name)
