"""The handlers of `troth.operations`, under the same names: most show a view, or make a change and then show it."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection

from troth.campaigns.toml import to_toml
from troth.results.tasks import TaskResult
from troth.service import (
    accounts,
    campaigns,
    incoming,
    payment_views,
    payouts,
    requests,
    responses,
    rounds,
    settlement,
    task_pay,
    upload_queue,
    views,
)
from troth.service.accounts import User
from troth.service.api.calls import Call, changes, reads, settles, writes
from troth.service.errors import ConflictError, ForbiddenError
from troth.service.idempotency import Reply


def health(call: Call) -> responses.Health:
    return views.health_view(call.store)


def me(call: Call) -> responses.Me:
    return responses.Me(name=call.user.name, role=call.user.role, scopes=sorted(call.user.scopes))


def create_token(call: Call, body: requests.SignIn) -> responses.NewToken:
    account = accounts.check_password(call.store, body.name, body.password, call.source)
    with call.store.write() as tx:
        secret, token = accounts.create_token(tx, account, body.label, body.scopes, body.days)
    return responses.NewToken(token=secret, **dict(views.token_view(token)))


@reads
def list_tokens(tx: Connection, user: User) -> list[responses.Token]:
    return [views.token_view(token) for token in accounts.list_tokens(tx, user.account)]


def accept_invitation(call: Call, body: requests.Acceptance) -> responses.JoinedAccount:
    if call.visitor is not None and "manage" not in call.visitor.scopes:
        raise ForbiddenError("the token lacks the scope 'manage'; create one that has it")
    own_account = None if call.visitor is None else call.visitor.account
    with call.store.write() as tx:
        account = accounts.accept_invitation(
            tx, body.invitation, account=own_account, name=body.name, password=body.password
        )
        return responses.JoinedAccount(account=account, name=accounts.find_account(tx, account).name)


def choose_password(call: Call, body: requests.NewPassword) -> responses.JoinedAccount:
    with call.store.write() as tx:
        account = accounts.use_sign_in_link(tx, body.link, body.password)
        return responses.JoinedAccount(account=account, name=accounts.find_account(tx, account).name)


revoke_token = changes(accounts.revoke_token)
list_campaigns = reads(views.list_campaigns)
show_campaign = reads(views.campaign_view)
change_terms = changes(campaigns.change_terms, views.campaign_view)
list_providers = reads(views.list_providers)
change_group = changes(campaigns.change_group, views.provider_view)
revoke_provider = changes(campaigns.revoke)


@reads
def campaign_file(tx: Connection, user: User, campaign: str) -> bytes:
    return to_toml(views.campaign_view(tx, user, campaign).terms).encode()


@writes
def create_campaign(tx: Connection, call: Call, body: requests.NewCampaign) -> responses.Campaign:
    return views.campaign_view(tx, call.user, campaigns.create_campaign(tx, call.user, **dict(body)))


@writes
def add_provider(tx: Connection, call: Call, campaign: str, body: requests.NewProvider) -> responses.Invited:
    return _invited(tx, call, campaign, campaigns.add_member(tx, call.user, campaign, **dict(body)))


def _invited(tx: Connection, call: Call, campaign: str, member: str) -> responses.Invited:
    secret = campaigns.invite(tx, call.user, campaign, member)
    provider = views.provider_view(tx, call.user, campaign, member)
    return responses.Invited(**dict(provider), invitation=secret, link=f"{call.settings.url}/join/{secret}")


invite_again = writes(_invited)
list_rounds = reads(views.list_rounds)
show_round = reads(views.round_view)
list_reports = reads(views.list_reports)
publish_round = changes(rounds.publish, views.round_view)
reopen_round = changes(settlement.reopen, views.round_view)
close_round = settles(settlement.close_round, views.round_view)
set_round_aside = settles(settlement.set_aside, views.round_view)
finish_campaign = settles(settlement.finish, views.campaign_view)


def open_round(call: Call, campaign: str, body: requests.NewRound) -> Reply:
    def open_next(tx: Connection) -> responses.Round:
        number = rounds.open_round(tx, call.user, campaign, **dict(body))
        return views.round_view(tx, call.user, campaign, number)

    campaigns.prepare(call.store, call.user, campaign)
    return call.once(open_next)


def dry_run(call: Call, campaign: str, number: int, body: requests.DryClosing) -> responses.DryRun:
    return views.dry_run_view(*settlement.dry_run(call.store, call.user, campaign, number, final=body.final))


list_submissions = reads(views.list_submissions)
show_submission = reads(views.submission_view)
confirm_submission = changes(rounds.confirm, views.submission_view)


def submit_file(call: Call, campaign: str, number: int, name: str, body: Path) -> Reply | str:
    round_key, received = (call.user, campaign, number), incoming.arrival(body)
    key = None if call.keyed is None else call.keyed.key
    upload = incoming.read_statistics(call.store, *round_key, body, name, call.settings.limits)
    if upload is None or (key is not None and _waits(call, key)):
        with call.store.write() as tx:
            return upload_queue.enqueue(tx, *round_key, body, name, received, key)

    def add(tx: Connection) -> responses.Submission:
        return views.submission_view(tx, *round_key, rounds.add_upload(tx, *round_key, upload, received))

    return call.once(add)


def _waits(call: Call, key: str) -> bool:
    """Return whether an upload with the same key was queued before."""
    with call.store.read() as tx:
        return upload_queue.find(tx, upload_queue.identifier_of(call.user.account, key)) is not None


def submit_statistics(call: Call, campaign: str, number: int, body: Path) -> Reply | str:
    return submit_file(call, campaign, number, incoming.STATISTICS, body)


list_payments = reads(payment_views.payments_view)
show_payment = reads(payment_views.payment_of)
show_tasks = reads(task_pay.own_tasks)
show_head = reads(payment_views.head_view)
list_payouts = reads(payouts.list_payouts)
show_payouts = reads(payouts.batch_view)
payouts_file = reads(payouts.batch_file)
export_payouts = changes(payouts.export)
void_payout = changes(payouts.void, payouts.list_payouts)


@reads
def ledger_file(tx: Connection, user: User, campaign: str) -> bytes:
    return payment_views.shared_result(tx, user, campaign).ledger.to_bytes()


@reads
def shares_file(tx: Connection, user: User, campaign: str) -> bytes:
    result = payment_views.shared_result(tx, user, campaign)
    if not isinstance(result, TaskResult):
        raise ConflictError("this campaign has no tasks")
    return result.file


@reads
def payments_file(tx: Connection, user: User, campaign: str) -> bytes:
    return payment_views.shared_result(tx, user, campaign).to_csv().encode()


def page_file(call: Call, campaign: str) -> bytes:
    with call.store.read() as tx:
        result = payment_views.shared_result(tx, call.user, campaign)
    return result.to_html().encode()


def verify_ledger(call: Call, campaign: str) -> responses.Verified:
    return payment_views.verified(call.store, call.user, campaign)
