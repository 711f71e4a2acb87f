"""What providers send: files or statistics, confirmed with a receipt."""

from __future__ import annotations

from typing import TYPE_CHECKING

from troth.service import incoming, rounds, views
from troth.service.api.calls import reads, writes

if TYPE_CHECKING:
    from pathlib import Path

    from sqlalchemy import Connection

    from troth.service.api.calls import Call
    from troth.service.idempotency import Reply
    from troth.service.requests import Confirmation
    from troth.service.responses import Submission


list_submissions = reads(views.list_submissions)
show_submission = reads(views.submission_view)


def submit_file(call: Call, campaign: str, number: int, name: str, body: Path) -> Reply:
    upload = incoming.read_submission(call.store, call.user, campaign, number, body, name, call.settings.limits)

    def add(tx: Connection) -> Submission:
        submission = rounds.add_upload(tx, call.user, campaign, number, upload)
        return views.submission_view(tx, call.user, campaign, number, submission)

    return call.once(add)


def submit_statistics(call: Call, campaign: str, number: int, body: Path) -> Reply:
    return submit_file(call, campaign, number, incoming.STATISTICS, body)


@writes
def confirm_submission(
    tx: Connection, call: Call, campaign: str, number: int, submission: str, body: Confirmation
) -> Submission:
    rounds.confirm(tx, call.user, campaign, number, submission, body.replaces, body.nonce)
    return views.submission_view(tx, call.user, campaign, number, submission)
