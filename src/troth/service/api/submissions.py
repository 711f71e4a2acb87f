"""What providers send: files or statistics, confirmed with a receipt."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection

from troth.service import incoming, rounds, upload_queue, views
from troth.service.api.calls import Call, reads, writes
from troth.service.idempotency import Reply
from troth.service.requests import Confirmation
from troth.service.responses import Submission

list_submissions = reads(views.list_submissions)
show_submission = reads(views.submission_view)


def submit_file(call: Call, campaign: str, number: int, name: str, body: Path) -> Reply | str:
    place, received = (call.user, campaign, number), incoming.arrival(body)
    key = None if call.keyed is None else call.keyed.key
    upload = incoming.read_statistics(call.store, *place, body, name, call.settings.limits)
    if upload is None or (key is not None and _waits(call, key)):
        with call.store.write() as tx:
            return upload_queue.enqueue(tx, *place, body, name, received, key)

    def add(tx: Connection) -> Submission:
        return views.submission_view(tx, *place, rounds.add_upload(tx, *place, upload, received))

    return call.once(add)


def _waits(call: Call, key: str) -> bool:
    """Return whether the same request was sent before, and waits to be read."""
    with call.store.read() as tx:
        return upload_queue.find(tx, upload_queue.place_of(call.user.account, key)) is not None


def submit_statistics(call: Call, campaign: str, number: int, body: Path) -> Reply | str:
    return submit_file(call, campaign, number, incoming.STATISTICS, body)


@writes
def confirm_submission(
    tx: Connection, call: Call, campaign: str, number: int, submission: str, body: Confirmation
) -> Submission:
    rounds.confirm(tx, call.user, campaign, number, submission, body.replaces, body.nonce)
    return views.submission_view(tx, call.user, campaign, number, submission)
