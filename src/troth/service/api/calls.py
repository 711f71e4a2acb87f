"""Endpoints of operations: call the handler, write the fields of the output model, answer each key only once."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Any

from fastapi import Request, Response
from pydantic import BaseModel, TypeAdapter
from sqlalchemy import Connection, Row

from troth.data.files import sha256_of
from troth.operations import Content, Operation, names_in
from troth.service import incoming, requests, responses, threads, views
from troth.service.access import AuthenticatedRequest
from troth.service.accounts import User
from troth.service.errors import InvalidError
from troth.service.idempotency import KeyedRequest, Reply, answer_once, earlier_reply


@dataclass(frozen=True)
class Call(AuthenticatedRequest):
    """A request to an operation."""

    operation: Operation
    keyed: KeyedRequest | None

    def reply(self, content: Any) -> Reply:
        """Return a view as JSON with the fields of the operation's output model."""
        if self.operation.output is None:
            return Reply(self.operation.status, b"")
        adapter = _adapter(str(self.operation.output))
        return Reply(self.operation.status, adapter.dump_json(adapter.validate_python(content)))

    def once(self, work: Callable[[Connection], Any]) -> Reply:
        """Call `work` in one transaction and reply with its view; if the key was used before, repeat the reply."""
        return answer_once(self.store, self.keyed, lambda tx: self.reply(work(tx)))


def reads(view: Callable[..., Any]) -> Callable[..., Any]:
    """Return the handler of an operation that only reads."""

    def read(call: Call, **values: Any) -> Any:
        with call.store.read() as tx:
            return view(tx, call.user, **values)

    return read


def writes(work: Callable[..., Any]) -> Callable[..., Reply]:
    """Return the handler of an operation that writes in one transaction, once per key."""
    return lambda call, **values: call.once(lambda tx: work(tx, call, **values))


def changes(change: Callable[..., Any], view: Callable[..., Any] | None = None) -> Callable[..., Reply]:
    """Return the handler of an operation that calls `change` with the fields of the body, and then shows `view`."""

    def work(tx: Connection, call: Call, body: BaseModel | None = None, **values: Any) -> Any:
        answer = change(tx, call.user, **values, **dict(body or ()))
        if view is None:
            return answer
        return view(tx, call.user, **{name: values[name] for name in signature(view).parameters if name in values})

    return writes(work)


def settles(work: Callable[..., Any], view: Callable[..., Any]) -> Callable[..., Reply]:
    """Return the handler of an operation that pays, in transactions of its own, and then shows `view`."""

    def settle(call: Call, body: BaseModel | None = None, **values: Any) -> Reply:
        work(call.store, call.user, **values, **dict(body or ()))
        return call.once(lambda tx: view(tx, call.user, **values))

    return settle


@cache
def _adapter(name: str) -> TypeAdapter[Any]:
    return TypeAdapter(getattr(responses, name))


def endpoint_of(operation: Operation, handler: Callable[..., Any]) -> Callable[..., Any]:
    """Return the FastAPI endpoint of an operation, with the parameters that the operation declares."""

    def call_handler(request: Request, key: str | None = None, body: Any = None, **values: Any) -> tuple[Call, Any]:
        if request.url.path.startswith("/api/") and (unknown := set(request.query_params) - {*operation.query}):
            raise InvalidError(f"{min(unknown)!r} is not a parameter of this operation")
        call = Call(request, operation, None if key is None else _keyed(request, key, body))
        reply = earlier_reply(call.store, call.keyed)
        return call, reply or handler(call, **values, **({} if body is None else {"body": body}))

    def response(call: Call, answer: Any) -> Response:
        if isinstance(operation.output, Content):
            media_type, file_name = operation.output
            charset = "" if media_type.endswith("parquet") else "; charset=utf-8"
            headers = {"Content-Disposition": f'attachment; filename="{file_name}"'}
            return Response(answer, media_type=media_type + charset, headers=headers)
        reply = answer if isinstance(answer, Reply) else call.reply(answer)
        return Response(reply.body, reply.status, media_type="application/json" if reply.body else None)

    async def answer(request: Request, **values: Any) -> Response:
        return await threads.run(operation.pool, lambda: response(*call_handler(request, **values)))

    async def receive(request: Request, key: str | None = None, **values: Any) -> Response:
        store, limits = request.app.state.store, request.app.state.settings.limits
        round_key = request.state.visitor, values["campaign"], values["number"]
        await threads.run("reads", incoming.check_upload_allowed, store, *round_key, key)
        async with incoming.stored(request.stream(), limits, store.spool) as path:
            call, reply = await threads.run("writes", call_handler, request, key=key, body=path, **values)
        if isinstance(reply, str):  # the identifier of an upload that waits to be read
            row = await incoming.read_soon(store, limits, reply)
            reply = await threads.run("writes", _receipt, call, row, *round_key)
        return response(call, reply)

    endpoint: Any = receive if isinstance(operation.input, Content) else answer
    endpoint.__signature__ = _signature(operation)
    return endpoint  # type: ignore[no-any-return]


def _receipt(call: Call, row: Row[Any], user: User, campaign: str, number: int) -> Reply:
    """Reply with an upload that was read; for one that was not, reply with 202, which no key repeats."""
    if row.state == "read":
        return call.once(lambda tx: views.submission_view(tx, user, campaign, number, row.id))
    with call.store.read() as tx:
        return call.reply(views.submission_view(tx, user, campaign, number, row.id))._replace(status=202)


def _signature(operation: Operation) -> Signature:
    parameters: dict[str, Any] = {"request": Request}
    parameters |= {name: requests.PARAMETERS[name] for name in (*names_in(operation.path), *operation.query)}
    if isinstance(operation.input, str):
        parameters["body"] = getattr(requests, operation.input)
    required = [Parameter(name, Parameter.KEYWORD_ONLY, annotation=kind) for name, kind in parameters.items()]
    key = Parameter("key", Parameter.KEYWORD_ONLY, default=None, annotation=requests.Key)
    return Signature([*required, key] if operation.keyed else required)


def _keyed(request: Request, key: str, body: BaseModel | Path | None) -> KeyedRequest:
    """Return a request's key with a fingerprint of its contents."""
    if isinstance(body, Path):
        content = sha256_of(body)
    else:
        content = "" if body is None else json.dumps(body.model_dump(), sort_keys=True)
    fingerprint = sha256()
    for part in (request.method, request.url.path, request.url.query, content):
        fingerprint.update(len(part.encode()).to_bytes(8) + part.encode())
    return KeyedRequest(request.state.visitor.account, key, fingerprint.hexdigest())
