"""What providers send: files or statistics, confirmed with a receipt."""

from __future__ import annotations

import json
from hashlib import file_digest, sha256
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Body, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from troth.service import campaigns, incoming, responses, rounds, views
from troth.service.api.answering import Somebody, answered, once, reply_of, router, sent, store_of
from troth.service.idempotency import Reply, answer_once, replayed, request_of
from troth.service.idempotency import Request as Once
from troth.service.openapi import refuses
from troth.service.requests import Confirmation, Identifier, Key, Number

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from troth.service.accounts import Who
    from troth.service.store import Store


@router.get(
    "/campaigns/{campaign}/rounds/{number}/submissions", tags=["submissions"], response_model=list[responses.Submission]
)
def list_submissions(request: Request, campaign: Identifier, number: Number, who: Somebody) -> Response:
    """List one's own submissions to a round, the latest first."""
    with store_of(request).read() as tx:
        row, member = campaigns.joined(tx, who, campaign)
        held = rounds.find_round(tx, campaign, number)
        spec, sent = campaigns.terms_of(row), rounds.my_uploads(tx, member.id, held.id)
    return answered([views.submission_view(spec, member, held, mine) for mine in sent])


@router.get(
    "/campaigns/{campaign}/rounds/{number}/submissions/{submission}",
    tags=["submissions"],
    response_model=responses.Submission,
)
def show_submission(
    request: Request, campaign: Identifier, number: Number, submission: Identifier, who: Somebody
) -> Response:
    """Show one of one's submissions: the receipt, once it is confirmed."""
    with store_of(request).read() as tx:
        return answered(_submission(tx, who, campaign, number, submission))


def _submission(tx: Connection, who: Who, campaign: str, number: int, submission: str) -> dict[str, Any]:
    row, member = campaigns.joined(tx, who, campaign)
    held = rounds.find_round(tx, campaign, number)
    mine = rounds.my_upload(tx, member.id, held.id, submission)
    return views.submission_view(campaigns.terms_of(row), member, held, mine)


@router.post(
    "/campaigns/{campaign}/rounds/{number}/submissions/file",
    tags=["submissions"],
    status_code=201,
    response_model=responses.Submission,
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
    response_model=responses.Submission,
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
    limits, store = request.app.state.settings.limits, store_of(request)
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
    limits, store = request.app.state.settings.limits, store_of(request)
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
        return sent(found)
    upload = read()

    def work(tx: Connection) -> Reply:
        made = rounds.add_upload(tx, who, campaign, number, upload)
        return reply_of(_submission(tx, who, campaign, number, made), 201)

    return sent(answer_once(store, asked, work))


@router.post(
    "/campaigns/{campaign}/rounds/{number}/submissions/{submission}/confirm",
    tags=["submissions"],
    response_model=responses.Submission,
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
        return reply_of(_submission(tx, who, campaign, number, submission))

    return once(request, who, key, body, work)
