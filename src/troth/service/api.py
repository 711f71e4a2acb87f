"""The JSON API: what the command line and other programs speak. Money is decimal strings, times are UTC."""

from __future__ import annotations

import json
from datetime import datetime
from hashlib import file_digest, sha256
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Body, Depends, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from troth.campaigns.canonical import canonical
from troth.campaigns.pay import verify as verify_ledger
from troth.campaigns.toml import to_toml
from troth.errors import TrothError
from troth.service import accounts, answers, campaigns, incoming, ledgers, rounds, settlement, views
from troth.service.access import identify
from troth.service.accounts import Who
from troth.service.once import Reply, answer_once, replayed, request_of
from troth.service.once import Request as Once
from troth.service.openapi import readable_id, refuses
from troth.service.refusals import ForbiddenError, InvalidError, RefusedError
from troth.service.schemas import (
    Acceptance,
    Closing,
    Confirmation,
    Deadline,
    Group,
    Identifier,
    Key,
    NewCampaign,
    NewPassword,
    NewProvider,
    NewRound,
    Number,
    SignIn,
    Terms,
)
from troth.service.store import timestamp

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from troth.service.store import Store

router = APIRouter(prefix="/api/v1", dependencies=[Depends(identify)], generate_unique_id_function=readable_id)
Somebody = Annotated[Who, Depends(identify)]
Anybody = Annotated[Who | None, Depends(identify)]


def _file(kind: str, *refused: int) -> dict[str, Any]:
    """Return what is said of a route that answers with a file."""
    said = {200: {"content": {kind: {"schema": {"type": "string"}}}}, **refuses(*refused)}
    return {"response_class": Response, "responses": said}


def _store(request: Request) -> Store:
    store: Store = request.app.state.store
    return store


def _reply(plain: Any, status: int = 200) -> Reply:
    return Reply(status, canonical(plain))


def _sent(reply: Reply) -> Response:
    return Response(reply.body, reply.status, media_type="application/json")


def _answer(plain: Any, status: int = 200) -> Response:
    return _sent(_reply(plain, status))


@router.get("/health", tags=["service"], response_model=answers.Health)
def health(request: Request) -> Response:
    """Tell that the service and its database answer."""
    return _answer(check_health(_store(request)))


def check_health(store: Store) -> dict[str, str]:
    """Ask the database something."""
    from sqlalchemy import text

    from troth import __version__

    with store.read() as tx:
        tx.execute(text("SELECT 1"))
    return {"status": "ok", "version": __version__}


@router.get("/me", tags=["account"], response_model=answers.Me)
def me(who: Somebody) -> Response:
    """Tell who the token belongs to."""
    return _answer({"name": who.name, "role": who.role, "scopes": sorted(who.scopes)})


@router.post("/tokens", tags=["account"], status_code=201, response_model=answers.NewToken, responses=refuses(401, 429))
def create_token(request: Request, body: SignIn) -> Response:
    """Exchange a name and password for a token that expires; it is shown this once."""
    store = _store(request)
    source = request.client.host if request.client is not None else ""
    account = accounts.check_password(store, body.name, body.password, source)
    with store.write() as tx:
        secret, kept = accounts.create_token(tx, account, body.label, body.scopes, body.days)
    return _answer({"token": secret, **_token(kept)}, 201)


@router.get("/tokens", tags=["account"], response_model=list[answers.Token])
def list_tokens(request: Request, who: Somebody) -> Response:
    """List one's tokens, without their secrets."""
    with _store(request).read() as tx:
        return _answer([_token(row._asdict()) for row in accounts.list_tokens(tx, who.account)])


def _token(row: dict[str, Any]) -> dict[str, Any]:
    kept = {key: row.get(key) for key in ("id", "label", "created", "expires", "used", "revoked")}
    return {**kept, "scopes": row["scopes"].split()}


@router.delete("/tokens/{token}", tags=["account"], status_code=204)
def revoke_token(request: Request, who: Somebody, token: Identifier) -> None:
    """End one of one's tokens."""
    with _store(request).write() as tx:
        accounts.revoke_token(tx, who.account, token)


@router.post(
    "/invitations", tags=["account"], status_code=201, response_model=answers.Joined, responses=refuses(403, 404, 409)
)
def accept_invitation(request: Request, who: Anybody, body: Acceptance) -> Response:
    """Accept an invitation: the account of the token that is sent, or else a new one, becomes the provider."""
    if who is not None and "manage" not in who.scopes:
        raise ForbiddenError("the token lacks the scope 'manage'; create one that has it")
    with _store(request).write() as tx:
        known = None if who is None else who.account
        account = accounts.accept_invitation(tx, body.invitation, account=known, name=body.name, password=body.password)
        return _answer({"account": account, "name": accounts.name_of(tx, account)}, 201)


@router.post("/passwords", tags=["account"], status_code=201, response_model=answers.Joined, responses=refuses(404))
def choose_password(request: Request, body: NewPassword) -> Response:
    """Choose a password with a one-time link to sign in; sessions and tokens that the account had end."""
    with _store(request).write() as tx:
        account = accounts.use_sign_in_link(tx, body.link, body.password)
        return _answer({"account": account, "name": accounts.name_of(tx, account)}, 201)


@router.get("/campaigns", tags=["campaigns"], response_model=list[answers.Campaign])
def list_campaigns(request: Request, who: Somebody) -> Response:
    """List the campaigns that one owns or provides data to."""
    with _store(request).read() as tx:
        return _answer([views.campaign_view(tx, who, row.id) for row in campaigns.list_campaigns(tx, who)])


@router.post(
    "/campaigns", tags=["campaigns"], status_code=201, response_model=answers.OwnCampaign, responses=refuses(409)
)
def create_campaign(request: Request, body: NewCampaign, who: Somebody, key: Key = None) -> Response:
    """Create a campaign from the tables of a campaign file; the seed is drawn and committed to."""

    def work(tx: Connection) -> Reply:
        made = campaigns.create_campaign(
            tx, who, body.terms, publish_at_once=body.publish_at_once, share_ledger=body.share_ledger
        )
        return _reply(views.campaign_view(tx, who, made), 201)

    return _once(request, who, key, body, work)


@router.get("/campaigns/{campaign}", tags=["campaigns"], response_model=answers.Campaign)
def show_campaign(request: Request, campaign: Identifier, who: Somebody) -> Response:
    """Show a campaign."""
    with _store(request).read() as tx:
        return _answer(views.campaign_view(tx, who, campaign))


@router.put(
    "/campaigns/{campaign}/terms", tags=["campaigns"], response_model=answers.OwnCampaign, responses=refuses(409)
)
def change_terms(request: Request, campaign: Identifier, body: Terms, who: Somebody) -> Response:
    """Replace the terms, until the first round opens."""
    with _store(request).write() as tx:
        campaigns.change_terms(tx, who, campaign, body.terms)
        return _answer(views.campaign_view(tx, who, campaign))


@router.get("/campaigns/{campaign}/campaign.toml", tags=["campaigns"], **_file("application/toml"))
def campaign_file(request: Request, campaign: Identifier, who: Somebody) -> Response:
    """Return the terms as a campaign file, for the command line; providers get it without others' names."""
    with _store(request).read() as tx:
        text = to_toml(views.campaign_view(tx, who, campaign)["terms"])
    return download(text.encode(), "application/toml", "campaign.toml")


@router.get("/campaigns/{campaign}/providers", tags=["providers"], response_model=list[answers.Provider])
def list_providers(request: Request, campaign: Identifier, who: Somebody) -> Response:
    """List the providers."""
    with _store(request).read() as tx:
        campaigns.owned(tx, who, campaign)
        return _answer([_provider(member._asdict()) for member in campaigns.list_members(tx, campaign)])


@router.post(
    "/campaigns/{campaign}/providers",
    tags=["providers"],
    status_code=201,
    response_model=answers.Invited,
    responses=refuses(409),
)
def add_provider(request: Request, campaign: Identifier, body: NewProvider, who: Somebody) -> Response:
    """Add a provider whose identity was verified, and return a one-time invitation for it.

    There is no key to send it again with, because answers under keys are kept, and invitations are not: the name is
    taken then, and a new invitation can be asked for.
    """
    with _store(request).write() as tx:
        member = campaigns.add_member(tx, who, campaign, body.name, body.identity, body.group)
        reply = _reply(_invited(request, tx, who, campaign, member), 201)
    return _sent(reply)


@router.put(
    "/campaigns/{campaign}/providers/{member}/group",
    tags=["providers"],
    response_model=answers.Provider,
    responses=refuses(409),
)
def relate(request: Request, campaign: Identifier, member: Identifier, body: Group, who: Somebody) -> Response:
    """Put a provider into a group of related ones, or take it out, until the first round opens."""
    with _store(request).write() as tx:
        campaigns.relate(tx, who, campaign, member, body.group)
        return _answer(_provider(campaigns.find_member(tx, campaign, member)._asdict()))


@router.post(
    "/campaigns/{campaign}/providers/{member}/invitation",
    tags=["providers"],
    status_code=201,
    response_model=answers.Invited,
    responses=refuses(409),
)
def invite(request: Request, campaign: Identifier, member: Identifier, who: Somebody) -> Response:
    """Return a new one-time invitation; an earlier one ends."""
    with _store(request).write() as tx:
        return _answer(_invited(request, tx, who, campaign, member), 201)


@router.delete("/campaigns/{campaign}/providers/{member}", tags=["providers"], status_code=204)
def revoke(request: Request, campaign: Identifier, member: Identifier, who: Somebody) -> None:
    """Let a provider send no more data; what stands in closed rounds stands."""
    with _store(request).write() as tx:
        campaigns.revoke(tx, who, campaign, member)


def _invited(request: Request, tx: Connection, who: Who, campaign: str, member: str) -> dict[str, Any]:
    secret = campaigns.invite(tx, who, campaign, member)
    link = f"{request.app.state.settings.url}/join/{secret}"
    return {**_provider(campaigns.find_member(tx, campaign, member)._asdict()), "invitation": secret, "link": link}


def _provider(row: dict[str, Any]) -> dict[str, Any]:
    kept = {key: row[key] for key in ("id", "name", "identity", "joined", "revoked")}
    return {**kept, "group": row["related"]}


@router.get("/campaigns/{campaign}/rounds", tags=["rounds"], response_model=list[answers.Round])
def list_rounds(request: Request, campaign: Identifier, who: Somebody) -> Response:
    """List the rounds."""
    with _store(request).read() as tx:
        return _answer(views.list_rounds(tx, who, campaign))


@router.post(
    "/campaigns/{campaign}/rounds",
    tags=["rounds"],
    status_code=201,
    response_model=answers.OwnRound,
    responses=refuses(409),
)
def open_round(request: Request, campaign: Identifier, body: NewRound, who: Somebody, key: Key = None) -> Response:
    """Open the next round; with the first one, providers and terms are fixed."""

    def work(tx: Connection) -> Reply:
        number = rounds.open_round(tx, who, campaign, body.day, parse_moment(body.deadline))
        return _reply(views.round_view(tx, who, campaign, number), 201)

    campaigns.prepare(_store(request), who, campaign)
    return _once(request, who, key, body, work)


@router.get("/campaigns/{campaign}/rounds/{number}", tags=["rounds"], response_model=answers.Round)
def show_round(request: Request, campaign: Identifier, number: Number, who: Somebody) -> Response:
    """Show a round."""
    with _store(request).read() as tx:
        return _answer(views.round_view(tx, who, campaign, number))


@router.post(
    "/campaigns/{campaign}/rounds/{number}/close",
    tags=["rounds"],
    response_model=answers.OwnRound,
    responses=refuses(409),
)
def close_round(
    request: Request, campaign: Identifier, number: Number, body: Closing, who: Somebody, key: Key = None
) -> Response:
    """Close a round and pay what has become payable; closing a closed round changes nothing."""
    return _after(
        request,
        who,
        key,
        body,
        lambda: settlement.close_round(_store(request), who, campaign, number, final=body.final),
        lambda tx: views.round_view(tx, who, campaign, number),
    )


@router.post(
    "/campaigns/{campaign}/finish", tags=["rounds"], response_model=answers.OwnCampaign, responses=refuses(409)
)
def finish(request: Request, campaign: Identifier, who: Somebody, key: Key = None) -> Response:
    """End a daily campaign: its last day is paid by its rule."""
    return _after(
        request,
        who,
        key,
        None,
        lambda: settlement.finish(_store(request), who, campaign),
        lambda tx: views.campaign_view(tx, who, campaign),
    )


@router.post(
    "/campaigns/{campaign}/rounds/{number}/reopen",
    tags=["rounds"],
    response_model=answers.OwnRound,
    responses=refuses(409),
)
def reopen(request: Request, campaign: Identifier, number: Number, body: Deadline, who: Somebody) -> Response:
    """Open a round again that was closed and could not be paid."""
    store = _store(request)
    settlement.reopen(store, who, campaign, number, parse_moment(body.deadline))
    with store.read() as tx:
        return _answer(views.round_view(tx, who, campaign, number))


@router.post(
    "/campaigns/{campaign}/rounds/{number}/publish",
    tags=["rounds"],
    response_model=answers.OwnRound,
    responses=refuses(409),
)
def publish(request: Request, campaign: Identifier, number: Number, who: Somebody) -> Response:
    """Show providers what they were paid, and why."""
    with _store(request).write() as tx:
        rounds.publish(tx, who, campaign, number)
        return _answer(views.round_view(tx, who, campaign, number))


@router.get("/campaigns/{campaign}/rounds/{number}/reports", tags=["rounds"], response_model=list[answers.Reporter])
def list_reports(request: Request, campaign: Identifier, number: Number, who: Somebody) -> Response:
    """List who has reported."""
    with _store(request).read() as tx:
        campaigns.owned(tx, who, campaign)
        there = rounds.reporters(tx, rounds.find_round(tx, campaign, number).id)
        reported = [
            {"member": member.id, "provider": member.name, "confirmed": report.confirmed, "rows": report.rows}
            for member in campaigns.list_members(tx, campaign)
            if (report := there.get(member.id)) is not None
        ]
    return _answer(reported)


@router.get(
    "/campaigns/{campaign}/rounds/{number}/submissions", tags=["submissions"], response_model=list[answers.Submission]
)
def list_submissions(request: Request, campaign: Identifier, number: Number, who: Somebody) -> Response:
    """List one's own submissions to a round, the latest first."""
    with _store(request).read() as tx:
        row, member = campaigns.joined(tx, who, campaign)
        held = rounds.find_round(tx, campaign, number)
        spec, sent = campaigns.terms_of(row), rounds.my_uploads(tx, member.id, held.id)
    return _answer([views.submission_view(spec, member, held, mine) for mine in sent])


@router.get(
    "/campaigns/{campaign}/rounds/{number}/submissions/{submission}",
    tags=["submissions"],
    response_model=answers.Submission,
)
def show_submission(
    request: Request, campaign: Identifier, number: Number, submission: Identifier, who: Somebody
) -> Response:
    """Show one of one's submissions: the receipt, once it is confirmed."""
    with _store(request).read() as tx:
        return _answer(_submission(tx, who, campaign, number, submission))


def _submission(tx: Connection, who: Who, campaign: str, number: int, submission: str) -> dict[str, Any]:
    row, member = campaigns.joined(tx, who, campaign)
    held = rounds.find_round(tx, campaign, number)
    mine = rounds.my_upload(tx, member.id, held.id, submission)
    return views.submission_view(campaigns.terms_of(row), member, held, mine)


@router.post(
    "/campaigns/{campaign}/rounds/{number}/submissions/file",
    tags=["submissions"],
    status_code=201,
    response_model=answers.Submission,
    responses=refuses(409, 415),
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
        }
    },
)
async def submit_file(
    request: Request,
    campaign: Identifier,
    number: Number,
    who: Somebody,
    name: Annotated[
        str, Query(min_length=1, max_length=200, description="The file's name; its ending tells the format.")
    ],
    key: Key = None,
) -> Response:
    """Send a file of rows or statistics; it counts once it is confirmed."""
    limits = request.app.state.settings.limits
    async with incoming.kept(request.stream(), limits) as path:
        return await run_in_threadpool(_submit, request, who, campaign, number, path, name, key)


@router.post(
    "/campaigns/{campaign}/rounds/{number}/submissions/statistics",
    tags=["submissions"],
    status_code=201,
    response_model=answers.Submission,
    responses=refuses(409, 415),
)
def submit_statistics(
    request: Request,
    campaign: Identifier,
    number: Number,
    who: Somebody,
    body: Annotated[dict[str, Any], Body(description="What `troth statistics` writes.")],
    key: Key = None,
) -> Response:
    """Send statistics instead of rows; they count once they are confirmed."""
    limits, store = request.app.state.settings.limits, _store(request)
    asked = _request_of(request, who, key, sha256(json.dumps(body).encode()).hexdigest())
    return _added(
        store,
        asked,
        who,
        campaign,
        number,
        lambda: incoming.read_statistics(store, who, campaign, number, body, limits),
    )


def _submit(request: Request, who: Who, campaign: str, number: int, path: Any, name: str, key: str | None) -> Response:
    limits, store = request.app.state.settings.limits, _store(request)
    with path.open("rb") as file:
        asked = _request_of(request, who, key, file_digest(file, "sha256").hexdigest())
    return _added(
        store,
        asked,
        who,
        campaign,
        number,
        lambda: incoming.read_submission(store, who, campaign, number, path, name, limits),
    )


def _request_of(request: Request, who: Who, key: str | None, digest: str) -> Once | None:
    return request_of(who.account, key, request.method, request.url.path, request.url.query, digest)


def _added(store: Store, asked: Once | None, who: Who, campaign: str, number: int, read: Any) -> Response:
    """Read an upload and keep it; one that was answered before is answered alike, even if the round has closed."""
    with store.read() as tx:
        found = replayed(tx, asked)
    if found is not None:
        return _sent(found)
    upload = read()

    def work(tx: Connection) -> Reply:
        made = rounds.add_upload(tx, who, campaign, number, upload)
        return _reply(_submission(tx, who, campaign, number, made), 201)

    return _sent(answer_once(store, asked, work))


@router.post(
    "/campaigns/{campaign}/rounds/{number}/submissions/{submission}/confirm",
    tags=["submissions"],
    response_model=answers.Submission,
    responses=refuses(409),
)
def confirm(
    request: Request,
    campaign: Identifier,
    number: Number,
    submission: Identifier,
    body: Confirmation,
    who: Somebody,
    key: Key = None,
) -> Response:
    """Make a submission one's report, and return the receipt."""

    def work(tx: Connection) -> Reply:
        rounds.confirm(tx, who, campaign, number, submission, body.replaces)
        return _reply(_submission(tx, who, campaign, number, submission))

    return _once(request, who, key, body, work)


@router.get(
    "/campaigns/{campaign}/rounds/{number}/payments",
    tags=["payments"],
    response_model=answers.Payments,
    responses=refuses(409),
)
def payments(request: Request, campaign: Identifier, number: Number, who: Somebody) -> Response:
    """Show payments and the reasons for them: all, or one's own once the round is published."""
    with _store(request).read() as tx:
        return _answer(views.payments_view(tx, who, campaign, number))


@router.get(
    "/campaigns/{campaign}/rounds/{number}/payments/{member}",
    tags=["payments"],
    response_model=answers.Payments,
    responses=refuses(409),
)
def payment(request: Request, campaign: Identifier, number: Number, member: Identifier, who: Somebody) -> Response:
    """Show one provider's payment and the reasons for it."""
    with _store(request).read() as tx:
        return _answer(views.payment_of(tx, who, campaign, number, member))


@router.get("/campaigns/{campaign}/ledger", tags=["ledger"], **_file("application/jsonl", 409))
def ledger(request: Request, campaign: Identifier, who: Somebody) -> Response:
    """Return the ledger as a file that `troth verify` reads."""
    with _store(request).read() as tx:
        raw = views.shared_result(tx, who, campaign).ledger.to_bytes()
    return download(raw, "application/jsonl", "ledger.jsonl")


@router.get("/campaigns/{campaign}/payments.csv", tags=["ledger"], **_file("text/csv", 409))
def payments_csv(request: Request, campaign: Identifier, who: Somebody) -> Response:
    """Return all payments as CSV."""
    with _store(request).read() as tx:
        text = views.shared_result(tx, who, campaign).to_csv()
    return download(text.encode(), "text/csv", "payments.csv")


@router.get("/campaigns/{campaign}/report", tags=["ledger"], **_file("text/html", 409))
def report(request: Request, campaign: Identifier, who: Somebody) -> Response:
    """Return the report: one HTML file that needs no network."""
    from troth.campaigns.report import render

    with _store(request).read() as tx:
        result = views.shared_result(tx, who, campaign)
    return download(render(result).encode(), "text/html", "report.html")


@router.post("/campaigns/{campaign}/verify", tags=["ledger"], response_model=answers.Verified, responses=refuses(409))
def verify(request: Request, campaign: Identifier, who: Somebody) -> Response:
    """Check every byte of the ledger and recompute every payment."""
    return _answer(verified(_store(request), who, campaign))


def verified(store: Store, who: Who, campaign: str) -> dict[str, Any]:
    """Check a ledger as the database has it, its head against what was noted when its last round was paid."""
    try:
        with store.read() as tx:
            views.shared_result(tx, who, campaign)
            book = ledgers.load_ledger(tx, campaign)
            noted = [row.head for row in rounds.list_rounds(tx, campaign) if row.head is not None]
        result = verify_ledger(book, head=noted[-1] if noted else None)
    except RefusedError:
        raise
    except TrothError as error:
        nothing = dict.fromkeys(("head", "lines", "rounds", "paid"))
        return {"right": False, "problem": str(error), **nothing}
    return {
        "right": True,
        "problem": None,
        "head": result.ledger.head,
        "lines": len(result.ledger.lines),
        "rounds": len(result.rounds),
        "paid": result.campaign.text(result.paid),
    }


def download(raw: bytes, kind: str, name: str) -> Response:
    """Return bytes as a file to keep."""
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(raw, media_type=f"{kind}; charset=utf-8", headers=headers)


def parse_moment(text: str | None) -> str | None:
    """Return a time with a zone as the tables have it."""
    if text is None or not text.strip():
        return None
    try:
        moment = datetime.fromisoformat(text.strip())
        if moment.tzinfo is None:
            raise ValueError(text)
        return timestamp(moment)
    except (ValueError, OverflowError):
        raise InvalidError(f"deadline: {text!r} is no time with a zone, such as 2026-05-04T12:00:00Z") from None


def _fingerprint(request: Request, body: Any) -> tuple[str, str, str]:
    said = "" if body is None else json.dumps(body.model_dump(), sort_keys=True)
    return request.method, request.url.path, said


def _once(request: Request, who: Who, key: str | None, body: Any, work: Any) -> Response:
    asked = request_of(who.account, key, *_fingerprint(request, body))
    return _sent(answer_once(_store(request), asked, work))


def _after(request: Request, who: Who, key: str | None, body: Any, deed: Any, view: Any) -> Response:
    """Do something that takes transactions of its own and may be done twice without harm, then answer once."""
    store = _store(request)
    asked = request_of(who.account, key, *_fingerprint(request, body))
    with store.read() as tx:
        found = replayed(tx, asked)
    if found is not None:
        return _sent(found)
    deed()
    return _sent(answer_once(store, asked, lambda tx: _reply(view(tx))))
