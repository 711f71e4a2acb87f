"""What a worker's reports on tasks earned: totals, and the reasons for a sample of its own tasks."""

from __future__ import annotations

from sqlalchemy import Connection

from troth.campaigns.money import portion
from troth.campaigns.tasks import price_of
from troth.results.tasks import TaskResult
from troth.service import ledgers, payment_views, responses, views
from troth.service.accounts import User
from troth.service.errors import ConflictError
from troth.service.responses import Amount

SAMPLE_SIZE = 20
"""The number of its own tasks whose shares a provider sees."""


def own_tasks(tx: Connection, user: User, campaign: str, number: int) -> responses.TaskPay:
    """Return what a provider's reports on tasks earned, once the round is published."""
    (payment,) = payment_views.payment_of(tx, user, campaign, number).payments
    return task_pay(tx, campaign, number, payment.provider)


def task_pay(tx: Connection, campaign: str, number: int, provider: str) -> responses.TaskPay:
    """Return what a provider's reports on tasks earned. The reports of others affect nothing but the shares.

    Shares are rounded to a hundredth, and the number of peers is shown only if it is zero.
    """
    result = ledgers.load_result(tx, campaign)
    if not isinstance(result, TaskResult):
        raise ConflictError("this campaign has no tasks")
    terms, payment = result.campaign, result.payment(provider)
    price = price_of(terms, result.ledger.of("tasks")[0]["reports"])
    alone = portion(result.shares_without_peers(provider), price)
    pay_per_task = payment.payment / payment.rows / 10**terms.decimals
    return responses.TaskPay(
        campaign=campaign,
        round=number,
        provider=provider,
        tasks=payment.rows,
        price=views.promise(terms).price,
        payment=Amount(payment.payment, terms.decimals),
        pay_per_task=f"{pay_per_task:.{terms.decimals + 4}f}",
        empty_share=round(payment.empty_share, 4),
        without_peers=int(payment.terms["without_peers"]),
        paid_without_peers=Amount(alone, terms.decimals),
        meaning=terms.rule.task_meaning,
        sample=[
            responses.TaskShare.of(
                own,
                share=round(own.share, 2),
                earned=f"{float(price) * round(own.share, 2) / 10**terms.decimals:.{terms.decimals + 2}f}",
            )
            for own in result.sample(provider, SAMPLE_SIZE)
        ],
    )
