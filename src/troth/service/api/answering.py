"""How the API answers: with the same bytes for the same thing, once under a key, as JSON or as a file."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Depends, Request, Response

from troth.campaigns.canonical_json import canonical
from troth.service.access import identify
from troth.service.accounts import Who
from troth.service.errors import InvalidError
from troth.service.idempotency import Reply, answer_once, replayed, request_of
from troth.service.openapi import readable_id, refuses
from troth.service.store import timestamp

if TYPE_CHECKING:
    from troth.service.store import Store

router = APIRouter(prefix="/api/v1", dependencies=[Depends(identify)], generate_unique_id_function=readable_id)
Somebody = Annotated[Who, Depends(identify)]
Anybody = Annotated[Who | None, Depends(identify)]


def a_file(kind: str, *refused: int) -> dict[str, Any]:
    """Return what is said of a route that answers with a file."""
    said = {200: {"content": {kind: {"schema": {"type": "string"}}}}, **refuses(*refused)}
    return {"response_class": Response, "responses": said}


def store_of(request: Request) -> Store:
    """Return the database."""
    store: Store = request.app.state.store
    return store


def reply_of(plain: Any, status: int = 200) -> Reply:
    """Spell an answer out."""
    return Reply(status, canonical(plain))


def sent(reply: Reply) -> Response:
    """Send an answer that was spelled out."""
    return Response(reply.body, reply.status, media_type="application/json")


def answered(plain: Any, status: int = 200) -> Response:
    """Answer with plain data."""
    return sent(reply_of(plain, status))


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


def once(request: Request, who: Who, key: str | None, body: Any, work: Any) -> Response:
    """Do something in one transaction and answer, once under a key."""
    asked = request_of(who.account, key, *_fingerprint(request, body))
    return sent(answer_once(store_of(request), asked, work))


def after(request: Request, who: Who, key: str | None, body: Any, deed: Any, view: Any) -> Response:
    """Do something that takes transactions of its own and may be done twice without harm, then answer once."""
    store = store_of(request)
    asked = request_of(who.account, key, *_fingerprint(request, body))
    with store.read() as tx:
        found = replayed(tx, asked)
    if found is not None:
        return sent(found)
    deed()
    return sent(answer_once(store, asked, lambda tx: reply_of(view(tx))))
