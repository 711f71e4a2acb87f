"""Accounts, passwords, sessions, one-time links and tokens.

Every issued secret has 256 random bits, and only its hash is stored. Links work once and expire.
"""

from __future__ import annotations

import hmac
import secrets
import unicodedata
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Literal

from argon2 import PasswordHasher
from argon2.exceptions import VerificationError
from sqlalchemy import ColumnElement, Connection, Row, Select, bindparam, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from troth.operations import SCOPES, Scope
from troth.service.errors import (
    ConflictError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    RateLimitError,
    SignInRequiredError,
)
from troth.service.names import has_invisible, mixed_alphabets, skeleton, skeletons
from troth.service.schema import accounts, attempts, links, members, new_id, sessions, tokens
from troth.service.store import Store, after, now, queue

Role = Literal["analyst", "provider"]
SESSION_DAYS, LINK_DAYS, MAX_TOKEN_DAYS = 14, 14, 366
MAX_FAILURES, FAILURE_MINUTES = 10, 15
FIRST_WAIT, MAX_WAIT = 15.0, 300.0  # seconds
DEVICE_DAYS = 400
MIN_PASSWORD_LENGTH = 12
_PREFIX = "troth_"
_SESSION = (
    select(accounts, sessions.c.hash)
    .join(sessions, sessions.c.account == accounts.c.id)
    .where(sessions.c.hash == bindparam("hash_of"), sessions.c.expires > bindparam("time"))
    .where(accounts.c.revoked.is_(None))
)
_TOKEN = (
    select(accounts, tokens.c.hash, tokens.c.scopes, tokens.c.id.label("token"), tokens.c.used)
    .join(tokens, tokens.c.account == accounts.c.id)
    .where(tokens.c.hash == bindparam("hash_of"), tokens.c.expires > bindparam("time"), tokens.c.revoked.is_(None))
    .where(accounts.c.revoked.is_(None))
)
_hasher = PasswordHasher(time_cost=2, memory_cost=19_456, parallelism=1)  # OWASP's argon2id floor
_dummy_hash = _hasher.hash(secrets.token_hex(16))  # checked for unknown names, which then take as long as known ones
_DEAD_LINK = "this link is incomplete or unknown, has already been used or has expired; ask for a new one"


@dataclass(frozen=True)
class User:
    """A signed-in user, with the scopes of the session or token."""

    account: str
    name: str
    role: Role
    scopes: frozenset[Scope] = frozenset(SCOPES)


def digest(secret: str) -> str:
    """Return the stored hash of a secret with 256 random bits."""
    return sha256(secret.encode()).hexdigest()


def clean_name(text: str, what: str = "name", max_length: int = 120) -> str:
    """Normalise a name for storage, or reject one that cannot be displayed."""
    name = " ".join(unicodedata.normalize("NFC", text).split())
    if not name or len(name) > max_length:
        raise InvalidError(f"{what}: must have 1 to {max_length} characters")
    if has_invisible(name):
        raise InvalidError(f"{what}: has characters that cannot be shown; remove them")
    return name


def new_name(text: str) -> str:
    """Like `clean_name`, for a new account or provider: no word may mix alphabets."""
    name = clean_name(text)
    if mixed := mixed_alphabets(name):
        raise InvalidError(f"name: mixes {' and '.join(mixed)} letters in one word; write it in one alphabet")
    return name


def has_name(name: str) -> ColumnElement[bool]:
    """Return the condition that an account has this name, or one that looks the same."""
    return (accounts.c.name == name) | (accounts.c.handle == skeleton(name))


def create_account(tx: Connection, name: str, role: Role, password: str | None = None) -> str:
    """Create an account and return its identifier."""
    name, key = new_name(name), new_id()
    conflict = ConflictError(f"name: an account {name!r} already exists; choose another name, or sign in")
    if tx.execute(select(accounts.c.id).where(has_name(name) | accounts.c.handle.in_(skeletons(name)))).first():
        raise conflict
    hashed = None if password is None else hash_password(password)
    values = {"id": key, "name": name, "handle": skeleton(name), "role": role, "password": hashed}
    try:
        tx.execute(insert(accounts).values(created=now(), **values))
    except IntegrityError:  # a concurrent request took the name
        raise conflict from None
    return key


def find_account(tx: Connection, account: str) -> Row[Any]:
    """Return an account."""
    row = tx.execute(select(accounts).where(accounts.c.id == account)).first()
    if row is None:
        raise NotFoundError("there is no such account")
    return row


def hash_password(password: str) -> str:
    """Hash a password with argon2id; reject short passwords."""
    if not MIN_PASSWORD_LENGTH <= len(password) <= 1000:
        raise InvalidError(f"password: must have at least {MIN_PASSWORD_LENGTH} characters; use a few words")
    return _hasher.hash(password.encode(errors="surrogatepass"))


def set_password(tx: Connection, account: str, password: str) -> None:
    """Change a password and end all sessions, tokens and unused links of the account."""
    tx.execute(update(accounts).where(accounts.c.id == account).values(password=hash_password(password)))
    end_all_sessions(tx, account)


def check_password(store: Store, name: str, password: str, source: str, device: str = "") -> str:
    """Return the account that a name and password belong to.

    After `MAX_FAILURES` the next attempt must wait, longer each time, up to `MAX_WAIT`. The wait applies to this
    name from this source; after five times as many failures, to every name from this source. So nobody can lock out
    somebody else from elsewhere. The source is an address, or a browser in which the account has signed in
    before, which holds the secret ``device``.
    """
    name = " ".join(unicodedata.normalize("NFC", name).split())[:200].replace("\0", "")
    with store.read() as tx:
        account = tx.execute(select(accounts).where(has_name(name))).first()
        known_device = account is not None and _is_device_of(tx, account.id, device)
    source = f"device {digest(device)}" if known_device else source
    allowed = {f"name:{skeleton(name)} from:{source}": MAX_FAILURES, f"from:{source}": 5 * MAX_FAILURES}
    with store.write() as tx:
        for subject in sorted(allowed):
            queue(tx, subject)
        tx.execute(delete(attempts).where(attempts.c.at < after(minutes=-FAILURE_MINUTES)))
        for subject, max_failures in allowed.items():
            _check_cooldown(tx, subject, max_failures)
        # counted before the password is checked, so that concurrent attempts cannot all slip through
        counted = [{"id": new_id(), "subject": subject, "at": now()} for subject in allowed]
        tx.execute(insert(attempts), counted)
    refusal = SignInRequiredError("the name or the password is wrong")
    hashed = None if account is None else account.password
    try:
        _hasher.verify(hashed or _dummy_hash, password.encode(errors="surrogatepass"))
    except VerificationError:
        raise refusal from None
    if account is None or hashed is None or account.revoked is not None:
        raise refusal
    with store.write() as tx:
        tx.execute(delete(attempts).where(attempts.c.subject == counted[0]["subject"]))
        tx.execute(delete(attempts).where(attempts.c.id.in_([attempt["id"] for attempt in counted])))
    return str(account.id)


def _check_cooldown(tx: Connection, subject: str, max_failures: int) -> None:
    """Reject an attempt that comes too soon after too many failures; the attempt itself is not counted."""
    query = select(func.count(), func.max(attempts.c.at)).where(attempts.c.subject == subject)
    count, last = tx.execute(query).one()
    if count >= max_failures:
        wait = min(FIRST_WAIT * 2.0 ** min(count - max_failures, 10), MAX_WAIT)
        if last > after(seconds=-wait):
            raise RateLimitError(f"too many failed attempts to sign in from here; wait {wait:g} s and try again")


def remember_device(tx: Connection, account: str, device: str = "") -> str:
    """Return the secret that identifies a browser of an account: ``device`` if it is valid, or a new one."""
    return device if _is_device_of(tx, account, device) else _new_link(tx, DEVICE_DAYS, kind="device", account=account)


def _is_device_of(tx: Connection, account: str, secret: str) -> bool:
    return _unused_link(tx, secret, links.c.kind == "device", links.c.account == account) is not None


def start_session(tx: Connection, account: str) -> str:
    """Start a session and return its secret, for a cookie."""
    secret = secrets.token_urlsafe(32)
    tx.execute(delete(sessions).where(sessions.c.expires < now()))
    tx.execute(
        insert(sessions).values(hash=digest(secret), account=account, created=now(), expires=after(days=SESSION_DAYS))
    )
    return secret


def end_session(tx: Connection, secret: str) -> None:
    """End a session."""
    tx.execute(delete(sessions).where(sessions.c.hash == digest(secret)))


def end_all_sessions(tx: Connection, account: str | None = None) -> None:
    """End all sessions and revoke all tokens and unused links, of one account or of all."""
    for statement, table in (
        (delete(sessions), sessions),
        (update(tokens).where(tokens.c.revoked.is_(None)).values(revoked=now()), tokens),
        (update(links).where(links.c.used.is_(None)).values(used=now()), links),
    ):
        tx.execute(statement if account is None else statement.where(table.c.account == account))


def user_of_session(tx: Connection, secret: str) -> User | None:
    """Return the user of a session, by the secret in its cookie."""
    row = _with_hash(tx, _SESSION, secret, hash_of=digest(secret), time=now())
    return None if row is None else User(row.id, row.name, row.role)


def _with_hash(tx: Connection, query: Select[Any], secret: str, **values: str) -> Row[Any] | None:
    """Run a query by the hash of a secret, and compare the hash in constant time."""
    row = tx.execute(query, values).first()
    return row if row is not None and hmac.compare_digest(row.hash, digest(secret)) else None


def create_token(tx: Connection, account: str, label: str, scopes: Collection[str], days: int) -> tuple[str, Row[Any]]:
    """Create a token; return its secret, which is shown only once, and its row."""
    if not scopes or not set(scopes) <= set(SCOPES):
        raise InvalidError(f"scopes: must be one or more of {', '.join(SCOPES)}")
    if not 1 <= days <= MAX_TOKEN_DAYS:
        raise InvalidError(f"days: must be from 1 to {MAX_TOKEN_DAYS}")
    secret, key = _PREFIX + secrets.token_urlsafe(32), new_id()
    values = {"label": clean_name(label, "label"), "scopes": " ".join(scope for scope in SCOPES if scope in scopes)}
    times = {"created": now(), "expires": after(days=days)}
    tx.execute(insert(tokens).values(id=key, hash=digest(secret), account=account, **values, **times))
    return secret, tx.execute(select(tokens).where(tokens.c.id == key)).one()


def list_tokens(tx: Connection, account: str) -> Sequence[Row[Any]]:
    """Return an account's tokens, latest first."""
    return tx.execute(select(tokens).where(tokens.c.account == account).order_by(tokens.c.created.desc())).all()


def revoke_token(tx: Connection, user: User, token: str) -> None:
    """Revoke one of a user's tokens."""
    own_token = (tokens.c.id == token) & (tokens.c.account == user.account)
    if tx.execute(select(tokens.c.id).where(own_token)).first() is None:
        raise NotFoundError("there is no such token")
    tx.execute(update(tokens).where(own_token, tokens.c.revoked.is_(None)).values(revoked=now()))


def user_of_token(store: Store, secret: str) -> User | None:
    """Return the user of a token, with its scopes."""
    with store.read() as tx:
        row = _with_hash(tx, _TOKEN, secret, hash_of=digest(secret), time=now())
    if row is None:
        return None
    if row.used is None or row.used < after(hours=-1):  # precise to an hour, so that most requests write nothing
        store.uses[row.token] = now()
    return User(row.id, row.name, row.role, frozenset(row.scopes.split()))


def write_uses(store: Store) -> None:
    """Store when tokens were last used, outside the requests that used them."""
    while store.uses:
        token, used = store.uses.popitem()
        with store.write() as tx:
            tx.execute(update(tokens).where(tokens.c.id == token).values(used=used))


def sign_in_link(tx: Connection, account: str) -> str:
    """Create a one-time sign-in link and return its secret; earlier links of the account become invalid."""
    pending_link = (links.c.account == account) & (links.c.kind == "sign-in") & links.c.used.is_(None)
    tx.execute(update(links).where(pending_link).values(used=now()))
    return _new_link(tx, kind="sign-in", account=account)


def invitation(tx: Connection, member: str) -> str:
    """Create a one-time invitation to become this provider and return its secret; earlier ones end."""
    end_invitations(tx, member)
    return _new_link(tx, kind="invitation", member=member)


def end_invitations(tx: Connection, member: str) -> None:
    """Invalidate all invitations of a provider."""
    tx.execute(update(links).where(links.c.member == member, links.c.used.is_(None)).values(used=now()))


def find_link(tx: Connection, secret: str) -> Row[Any]:
    """Return an unused link, or raise."""
    link = _unused_link(tx, secret, links.c.kind != "device")
    if link is None:
        raise NotFoundError(_DEAD_LINK)
    return link


def _unused_link(tx: Connection, secret: str, *conditions: ColumnElement[bool]) -> Row[Any] | None:
    query = select(links).where(links.c.hash == digest(secret), links.c.used.is_(None), links.c.expires > now())
    return _with_hash(tx, query.where(*conditions), secret)


def use_sign_in_link(tx: Connection, secret: str, password: str | None = None) -> str:
    """Use up a link, set the password if one is given, and return the account to sign in."""
    link = _use_link(tx, secret, "sign-in")
    if password:
        set_password(tx, link.account, password)
    return str(link.account)


def accept_invitation(
    tx: Connection, secret: str, *, account: str | None = None, name: str | None = None, password: str | None = None
) -> str:
    """Use up an invitation and return the account that is now this provider: the given one, or else a new one."""
    link = _use_link(tx, secret, "invitation")
    member = tx.execute(select(members).where(members.c.id == link.member).with_for_update()).one()
    if member.revoked is not None:
        raise NotFoundError("this invitation has been revoked")
    if member.account is not None:
        raise NotFoundError("this invitation has already been accepted")
    if account is None:
        if not password:
            raise InvalidError("password: choose one")
        account = create_account(tx, name or member.name, "provider", password)
    elif find_account(tx, account).role != "provider":
        raise ForbiddenError("you are signed in as an analyst; sign out to accept an invitation as a provider")
    try:
        tx.execute(update(members).where(members.c.id == member.id).values(account=account, joined=now()))
    except IntegrityError:
        raise ConflictError("your account is already a provider of this campaign, under another name") from None
    end_invitations(tx, member.id)
    return account


def _new_link(tx: Connection, days: int = LINK_DAYS, **values: Any) -> str:
    secret = secrets.token_urlsafe(32)
    tx.execute(insert(links).values(hash=digest(secret), created=now(), expires=after(days=days), **values))
    return secret


def _use_link(tx: Connection, secret: str, kind: str) -> Row[Any]:
    """Use up a link; of concurrent attempts, one succeeds."""
    link = find_link(tx, secret)
    unused = (links.c.hash == link.hash) & links.c.used.is_(None) & (links.c.kind == kind)
    if tx.execute(update(links).where(unused).values(used=now())).rowcount != 1:
        raise NotFoundError(_DEAD_LINK)
    return link
