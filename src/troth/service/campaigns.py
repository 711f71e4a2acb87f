"""Campaigns in the database: their terms, owners and providers.

Terms may change until the first round opens. Then the list of providers and the groups of related ones become part of
the terms, because caps depend on them, and the terms are final.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, Row, bindparam, delete, insert, select, update

from troth.campaigns.commit import DAILY_ROUNDS
from troth.campaigns.records.canonical_json import digest
from troth.campaigns.seed import Secret, draw_secret
from troth.campaigns.settle import rehearse
from troth.campaigns.tables import TABLES
from troth.campaigns.tasks import check_worst_case, rehearse_tasks
from troth.campaigns.terms import Campaign
from troth.core.contract import HasReduction
from troth.core.errors import TrothError
from troth.core.settings import plain_copy
from troth.data.public import PUBLIC
from troth.mechanisms import DEFAULT_RULE
from troth.service import accounts
from troth.service.accounts import User, clean_name, new_name
from troth.service.errors import ConflictError, InvalidError, NotFoundError
from troth.service.keys import Keys, keys_of
from troth.service.names import skeletons
from troth.service.schema import campaigns, members, new_id, reports, rounds
from troth.service.store import Store, now

_FILE_KEYS = ("source", "format", "engine")  # where files are; the service receives uploads instead
_PROVIDER_TABLES = ("data", "model", "history")  # tables that may describe providers one by one
_MAX_TERMS_BYTES = 1 << 20
_MAX_NUMBERS = 50_000_000  # about a minute of computation
_MAX_TASKS, _MAX_SUMS = 100_000, 2_000_000  # in one worker's file
_LATEST = select(campaigns).order_by(campaigns.c.created.desc(), campaigns.c.id)
_CAMPAIGN = select(campaigns).where(campaigns.c.id == bindparam("called"))
_MEMBER = select(members).where(
    members.c.campaign == bindparam("of_campaign"), members.c.account == bindparam("of_account")
)


def create_campaign(
    tx: Connection, user: User, terms: Any, *, publish_at_once: bool = False, share_ledger: bool = False
) -> str:
    """Create a campaign from the tables of a campaign file, commit to its seed, and return its identifier.

    Providers see their payments when the analyst publishes a round, or, with ``publish_at_once``, when it is paid.
    They may read the ledger, which has everybody's statistics, only with ``share_ledger`` and once every closed round
    is published.
    """
    tables, names, groups = _split_terms(terms)
    key = new_id()
    options = {"publish_at_once": publish_at_once, "share_ledger": share_ledger}
    values = {"id": key, "owner": user.account, "state": "draft", "created": now(), **options}
    tx.execute(insert(campaigns).values(**values, plain=_committed(tx, tables)))
    _add_members(tx, key, names, groups)
    return key


def _committed(tx: Connection, terms: dict[str, Any]) -> str:
    """Return terms as JSON; if the rule draws, they commit to a new secret, which is kept outside the database."""
    text = json.dumps(terms)
    campaign = _checked(text)
    if not campaign.draws:
        return text
    secret = draw_secret(max(DAILY_ROUNDS, campaign.days or 0) if campaign.daily else 1)
    mechanism = {"rule": DEFAULT_RULE, **terms.get("mechanism", {}), "commitment": secret.commitment}
    committed = json.dumps({**terms, "mechanism": mechanism})
    _checked(committed)
    keys_of(tx).keep(secret)
    return committed


def checked_terms(plain: Any) -> Campaign:
    """Return terms as a new campaign would have them, or raise an error that says what is wrong with them."""
    return _checked(json.dumps(_split_terms(plain)[0]))


def change_terms(tx: Connection, user: User, campaign: str, terms: Any) -> None:
    """Replace the terms of a campaign without rounds, and commit to a new seed."""
    row = owned(tx, user, campaign, lock=True)
    if row.state != "draft":
        raise ConflictError("terms cannot change once a round has been opened; create a new campaign")
    tables, names, groups = _split_terms(terms)
    tx.execute(update(campaigns).where(campaigns.c.id == campaign).values(plain=_committed(tx, tables)))
    members_by_name = {member.name: member.id for member in list_members(tx, campaign)}
    _add_members(tx, campaign, [name for name in names if clean_name(name) not in members_by_name], groups)
    for name, label in groups.items():
        if clean_name(name) in members_by_name:
            change_group(tx, user, campaign, members_by_name[clean_name(name)], label)


def _add_members(tx: Connection, campaign: str, names: Sequence[str], groups: Mapping[str, str]) -> None:
    """Add the providers that the terms name, in one statement."""
    rows: dict[str, dict[str, Any]] = {}
    for name in names:
        clean = new_name(name)
        if clean in rows:
            raise ConflictError(f"name: there is already a provider {clean!r} in this campaign")
        rows[clean] = {"id": new_id(), "name": clean, "group": _group_label(groups.get(name))}
    if rows:
        reject_similar_names([*rows, *(member.name for member in list_members(tx, campaign) if member.revoked is None)])
        shared = {"campaign": campaign, "identity": "named in the campaign file", "created": now()}
        tx.execute(insert(members), [row | shared for row in rows.values()])


def change_public(tx: Connection, user: User, campaign: str, public: dict[str, Any]) -> None:
    """Set the public data, the table [public], in the terms of a campaign without rounds."""
    plain = json.loads(owned(tx, user, campaign, lock=True).plain)
    plain.get("mechanism", {}).pop("commitment", None)
    change_terms(tx, user, campaign, {**plain, "public": public})


def owned(tx: Connection, user: User, campaign: str, *, lock: bool = False) -> Row[Any]:
    """Return a campaign that the user owns; those of others are not found."""
    query = select(campaigns).where(campaigns.c.id == campaign, campaigns.c.owner == user.account)
    row = tx.execute(query.with_for_update(key_share=True) if lock else query).first()
    if row is None or user.role != "analyst":
        raise NotFoundError("there is no such campaign")
    return row


def find_campaign(tx: Connection, campaign: str) -> Row[Any]:
    """Return a campaign without checking access, for the service itself."""
    return tx.execute(_CAMPAIGN, {"called": campaign}).one()


def joined(tx: Connection, user: User, campaign: str) -> tuple[Row[Any], Row[Any]]:
    """Return a campaign that the user provides data to, and the membership; revoked providers may still read."""
    member = tx.execute(_MEMBER, {"of_campaign": campaign, "of_account": user.account}).first()
    if member is None or user.role != "provider":
        raise NotFoundError("there is no such campaign")
    return find_campaign(tx, campaign), member


def visible(tx: Connection, user: User, campaign: str) -> tuple[Row[Any], Row[Any] | None]:
    """Return a campaign that the user owns, with None, or provides data to, with the membership."""
    return (owned(tx, user, campaign), None) if user.role == "analyst" else joined(tx, user, campaign)


def all_joined(tx: Connection, user: User) -> list[tuple[Row[Any], Row[Any]]]:
    """Return the campaigns that the user provides data to, latest first, with the memberships."""
    memberships = tx.execute(select(members).where(members.c.account == user.account))
    by_campaign = {member.campaign: member for member in memberships}
    rows = tx.execute(_LATEST.where(campaigns.c.id.in_(by_campaign)))
    return [(row, by_campaign[row.id]) for row in rows]


def list_campaigns(tx: Connection, user: User) -> Sequence[Row[Any]]:
    """Return the campaigns that the user owns, latest first."""
    return tx.execute(_LATEST.where(campaigns.c.owner == user.account)).all()


def terms_of(row: Row[Any]) -> Campaign:
    """Return a campaign's terms."""
    return _parsed(row.plain)


def terms_for(terms: Campaign, provider: str) -> dict[str, Any]:
    """Return the terms that a provider sees, without descriptions of other providers."""
    plain = {
        part: {key: value for key, value in table.items() if key != "providers" or part not in _PROVIDER_TABLES}
        for part, table in terms.plain.items()
        if part not in ("groups", "weights")
    }
    if own := {name: table for name, table in _models_of(terms).items() if name in (provider, PUBLIC)}:
        plain["model"]["providers"] = own
    return plain_copy(plain)  # type: ignore[no-any-return]


def digest_of_terms(terms: Campaign, provider: str) -> str:
    """Return the digest of the terms as a provider sees them; it is cached, since most providers see the same."""
    return _digest_of_terms(terms, provider if provider in _models_of(terms) else "")


@lru_cache(maxsize=256)
def _digest_of_terms(terms: Campaign, provider: str) -> str:
    return digest(terms_for(terms, provider))


def _models_of(terms: Campaign) -> Mapping[str, Any]:
    return terms.plain.get("model", {}).get("providers", {})  # type: ignore[no-any-return]


def secret_of(keys: Keys, row: Row[Any]) -> Secret | None:
    """Return the secret that a campaign's terms commit to, or None."""
    commitment = terms_of(row).commitment
    return None if commitment is None else keys.secret(commitment)


def add_member(tx: Connection, user: User, campaign: str, name: str, identity: str, group: str | None = None) -> str:
    """Add a provider and return the membership's identifier.

    ``identity`` records how the analyst verified who this is: an address, a contract, a registration. Related
    providers have the same ``group``: they are not compared with each other and share one cap.
    """
    row = owned(tx, user, campaign, lock=True)
    if row.state != "draft":
        raise ConflictError(
            "providers cannot be added once a round was opened, because each provider's cap depends on their number"
        )
    name = new_name(name)
    for other in list_members(tx, campaign):
        if "".join(other.name.split()).casefold() == "".join(name.split()).casefold():
            differs = "" if other.name == name else ", and names must differ by more than capitals and spaces"
            raise ConflictError(f"name: there is already a provider {other.name!r} in this campaign{differs}")
        if other.revoked is None and not skeletons(name).isdisjoint(skeletons(other.name)):
            raise ConflictError(f"name: {name!r} looks like {other.name!r}, a provider of this campaign; change it")
    key = new_id()
    values = {"identity": clean_name(identity, "identity", 200), "group": _group_label(group), "created": now()}
    tx.execute(insert(members).values(id=key, campaign=campaign, name=name, **values))
    return key


def change_group(tx: Connection, user: User, campaign: str, member: str, group: str | None) -> None:
    """Put a provider into a group of related ones, or remove it from its group."""
    row = owned(tx, user, campaign, lock=True)
    find_member(tx, campaign, member)
    if row.state != "draft":
        raise ConflictError("groups cannot change once a round was opened, because caps depend on them")
    tx.execute(update(members).where(members.c.id == member).values(group=_group_label(group)))


def list_members(tx: Connection, campaign: str) -> Sequence[Row[Any]]:
    """Return a campaign's providers, sorted by name."""
    return tx.execute(select(members).where(members.c.campaign == campaign).order_by(members.c.name)).all()


def find_member(tx: Connection, campaign: str, member: str) -> Row[Any]:
    """Return a provider of a campaign."""
    row = tx.execute(select(members).where(members.c.id == member, members.c.campaign == campaign)).first()
    if row is None:
        raise NotFoundError("there is no such provider")
    return row


def invite(tx: Connection, user: User, campaign: str, member: str) -> str:
    """Return the secret of a new one-time link for a provider that has not joined yet."""
    owned(tx, user, campaign)
    row = find_member(tx, campaign, member)
    if row.revoked is not None:
        raise ConflictError(f"{row.name} was revoked")
    if row.account is not None:
        raise ConflictError(f"{row.name} has already joined")
    return accounts.invitation(tx, member)


def invited_to(tx: Connection, secret: str) -> tuple[Row[Any], Row[Any]]:
    """Return the campaign and the membership of an invitation, without using it up."""
    link = accounts.find_link(tx, secret)
    if link.kind != "invitation":
        raise NotFoundError("this link signs in: open it as it was sent to you")
    member = tx.execute(select(members).where(members.c.id == link.member)).one()
    return find_campaign(tx, member.campaign), member


def revoke(tx: Connection, user: User, campaign: str, member: str) -> None:
    """Revoke a provider: it can send no more data, and its report to an open round is withdrawn.

    Its reports to closed rounds stay, and no cap changes.
    """
    owned(tx, user, campaign, lock=True)
    if find_member(tx, campaign, member).revoked is None:
        tx.execute(update(members).where(members.c.id == member).values(revoked=now()))
        accounts.end_invitations(tx, member)
        query = select(rounds.c.id).where(rounds.c.campaign == campaign, rounds.c.state == "open")
        open_rounds = tx.scalars(query.with_for_update()).all()
        tx.execute(delete(reports).where(reports.c.member == member, reports.c.round.in_(open_rounds)))


def prepare(store: Store, user: User, campaign: str) -> None:
    """Rehearse the payments of a draft outside any transaction, so that opening its first round is fast."""
    with store.read() as tx:
        row = owned(tx, user, campaign)
        plain = _with_members(tx, row) if row.state == "draft" else None
    if plain is not None:
        _payable_terms(json.dumps(plain))


def freeze(tx: Connection, row: Row[Any]) -> Campaign:
    """Add the providers and their groups to the terms, which are final from now on."""
    text = json.dumps(_with_members(tx, row))
    campaign = _payable_terms(text)
    tx.execute(update(campaigns).where(campaigns.c.id == row.id).values(plain=text, state="running"))
    return campaign


def reject_similar_names(names: Iterable[str]) -> None:
    """Raise if two different names look alike."""
    by_skeleton: dict[str, str] = {}
    for name in names:
        for skeleton in skeletons(name):
            other = by_skeleton.setdefault(skeleton, name)
            if other != name:
                raise ConflictError(
                    f"the names {other!r} and {name!r} look alike; revoke one, and add it under another name"
                )


def _with_members(tx: Connection, row: Row[Any]) -> dict[str, Any]:
    plain: dict[str, Any] = json.loads(row.plain)
    active = [member for member in list_members(tx, row.id) if member.revoked is None]
    if len(active) < 2:
        raise ConflictError("a campaign needs at least two providers; invite them first")
    reject_similar_names(member.name for member in active)
    plain.setdefault("data", {})["providers"] = [member.name for member in active]
    groups: dict[str, list[str]] = {}
    for member in active:
        if member.group is not None:
            groups.setdefault(member.group, []).append(member.name)
    if groups:
        plain["groups"] = groups
    return plain


@lru_cache(maxsize=64)
def _payable_terms(text: str) -> Campaign:
    """Parse terms and check that reports can be paid under them."""
    campaign = _checked(text)
    try:
        _reject_long_computation(campaign)
        campaign.check_providers(campaign.providers)
        if campaign.task is None:
            rehearse(campaign, campaign.providers)
        else:
            check_worst_case(campaign)
            rehearse_tasks(campaign, campaign.providers)
    except TrothError as error:
        raise InvalidError.of(error) from None
    return campaign


def _reject_long_computation(campaign: Campaign) -> None:
    """Reject terms whose payments would take too long to compute."""
    draws, width = campaign.rule.peer_draws, campaign.request.reduction.width
    numbers = draws * len(campaign.providers) * width
    if numbers > _MAX_NUMBERS:
        raise InvalidError(
            f"[mechanism]: this needs {numbers:,} numbers ({draws:,} draws × {len(campaign.providers):,} providers × "
            f"{width:,} of a summary), but the service allows {_MAX_NUMBERS:,}; lower the number of draws, or pay "
            "with troth pay",
            section="mechanism",
        )


def _split_terms(plain: Any) -> tuple[dict[str, Any], list[str], dict[str, str]]:
    """Validate terms; return them without what the service decides, the providers that they name, and their groups."""
    if not isinstance(plain, dict) or not all(isinstance(plain.get(part, {}), dict) for part in TABLES):
        raise InvalidError("terms: must be the tables of a campaign file, such as campaign, model, mechanism, data")
    try:
        size = len(json.dumps(plain, allow_nan=False, ensure_ascii=False).encode())
        terms = plain_copy(plain)
    except (ValueError, TypeError, RecursionError):
        raise InvalidError("terms: have a value that is neither a number nor text") from None
    if size > _MAX_TERMS_BYTES:
        raise InvalidError(f"terms: have {size:,} bytes, but at most {_MAX_TERMS_BYTES:,} are allowed")
    if "public" in terms.get("data", {}):
        problem = "the service cannot read your files: `troth create` sends their sums, or upload them to a draft"
        raise InvalidError.in_terms("data", "public", problem)
    if "commitment" in terms.get("mechanism", {}):
        problem = "the service draws the seed and publishes its hash; remove it"
        raise InvalidError.in_terms("mechanism", "commitment", problem)
    for part in ("data", "history"):
        for key in _FILE_KEYS:
            terms.get(part, {}).pop(key, None)
    terms.setdefault("data", {}).setdefault("provider", "provider")
    campaign = _checked(json.dumps(terms))
    clean_name(campaign.name, "[campaign] name")
    terms["data"].pop("providers", None)
    terms.pop("groups", None)
    return terms, list(dict.fromkeys([*campaign.providers, *campaign.groups])), dict(campaign.groups)


def _checked(text: str) -> Campaign:
    """Parse terms in JSON, and check that the service can settle them."""
    try:
        campaign = _parsed(text)
    except TrothError as error:
        raise InvalidError.of(error) from None
    except (ValueError, TypeError, RecursionError, OverflowError) as error:
        raise InvalidError(f"terms: cannot be used: {error}") from None
    if not isinstance(campaign.model, HasReduction):
        raise InvalidError("[model]: this family declares no reduction")
    if campaign.task is not None:
        _check_tasks(campaign)
    return campaign


def _check_tasks(campaign: Campaign) -> None:
    """Reject tasks of unlimited cost or number: workers upload their own files, with items that they choose."""
    if not campaign.budget:
        problem = "is missing; workers see it: give at least price × [limits] tasks × number of workers"
        raise InvalidError.in_terms("campaign", "budget", problem)
    if campaign.price is None:
        problem = "is missing; name the most that one answer can earn: otherwise made-up items share the budget"
        raise InvalidError.in_terms("campaign", "price", problem)
    limit = min(_MAX_TASKS, _MAX_SUMS // campaign.request.reduction.width)
    if campaign.max_tasks is None or campaign.max_tasks > limit:
        current = "is missing" if campaign.max_tasks is None else f"is {campaign.max_tasks:,}"
        problem = f"{current}; set how many tasks one worker may report on, at most {limit:,}"
        raise InvalidError.in_terms("limits", "tasks", problem)


@lru_cache(maxsize=64)
def _parsed(plain: str) -> Campaign:
    return Campaign.from_dict(json.loads(plain))


def _group_label(group: str | None) -> str | None:
    return None if group is None or not group.strip() else clean_name(group, "group")
