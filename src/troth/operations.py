"""The operations of the API: each entry defines a route, its access, a client method and its OpenAPI description.

This is plain data. `troth.service.api` serves it and `troth.client.Client` calls it; neither imports the other.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from string import Formatter
from typing import Literal, NamedTuple

PREFIX = "/api/v1"
Scope = Literal["read", "submit", "manage"]
SCOPES: tuple[Scope, ...] = ("read", "submit", "manage")
Pool = Literal["health", "reads", "writes", "passwords", "work", "parsing"]
"""Kinds of work. Each has a thread pool of its own, so that no kind waits for another."""
Size = Literal["small", "large", "upload"]
"""Limits on the size of request bodies; the size of an upload is checked while it is stored."""


def names_in(path: str) -> tuple[str, ...]:
    """Return the names of a path's parameters, in order."""
    return tuple(name for _, name, _, _ in Formatter().parse(path) if name is not None)


class Access(NamedTuple):
    """Who may use a route: the roles, empty for everybody, and the scope that a token needs."""

    roles: tuple[str, ...] = ()
    scope: Scope | None = None


class Content(NamedTuple):
    """A body that is a file: its media type, and the name to save it under."""

    media_type: str
    file_name: str = ""


@dataclass(frozen=True)
class Operation:
    """One operation of the API.

    ``input`` and ``output`` describe the bodies of request and response: the name of a model in
    `troth.service.requests` or `responses`, a file, or None. A ``keyed`` operation accepts an idempotency key: requests
    that repeat a key are executed once and get the same reply. Operations that return secrets accept no key, because
    replies to keyed requests are stored.
    """

    name: str  # also of the handler in `troth.service.api`, the client's method and the operation in OpenAPI
    method: str
    path: str  # below `PREFIX`
    access: Access
    summary: str
    input: str | Content | None = None
    output: str | Content | None = None
    query: tuple[str, ...] = ()
    status: int = 200  # of a successful response
    refusals: tuple[int, ...] = ()  # error statuses besides those that path, input and access imply
    keyed: bool = False
    slow: Pool | None = None  # the pool, if it takes longer than to read or write the database
    size: Size = "small"  # of the request's body

    @property
    def route(self) -> str:
        """The method and the full path."""
        return f"{self.method} {PREFIX}{self.path}"

    @property
    def pool(self) -> Pool:
        """The thread pool that runs it."""
        return self.slow or ("reads" if self.method == "GET" else "writes")

    @property
    def repeatable(self) -> bool:
        """Whether it is safe to send it twice."""
        return self.keyed or self.method != "POST"


ANYONE = Access()
_ANALYST, _PROVIDER, _BOTH = ("analyst",), ("provider",), ("analyst", "provider")
_READ, _ANALYST_READS, _PROVIDER_READS = Access(_BOTH, "read"), Access(_ANALYST, "read"), Access(_PROVIDER, "read")
_SUBMIT, _MANAGE = Access(_PROVIDER, "submit"), Access(_ANALYST, "manage")

CAMPAIGN = "/campaigns/{campaign}"
MEMBER = CAMPAIGN + "/providers/{member}"
ROUND = CAMPAIGN + "/rounds/{number}"
SUBMISSION = ROUND + "/submissions/{submission}"
"""The paths of resources: of the API below `PREFIX`, and of the pages."""

_ACCOUNTS = (
    Operation("health", "GET", "/health", ANYONE, "Report that the service and its database respond.", output="Health",
        refusals=(503,), slow="health"),
    Operation("me", "GET", "/me", _READ, "Show who the token belongs to.", output="Me"),
    Operation("create_token", "POST", "/tokens", ANYONE,
        "Exchange a name and password for a token, which expires and is shown only once.",
        input="SignIn", output="NewToken", status=201, refusals=(401, 429), slow="passwords"),
    Operation("list_tokens", "GET", "/tokens", _READ, "List your tokens, without their secrets.", output="Tokens"),
    Operation("revoke_token", "DELETE", "/tokens/{token}", Access(_BOTH, "manage"), "Revoke one of your tokens.",
        status=204),
    Operation("accept_invitation", "POST", "/invitations", ANYONE,
        "Accept an invitation with the account of the token or, without a token, with a new account.",
        input="Acceptance", output="JoinedAccount", status=201, refusals=(403, 404, 409), slow="passwords"),
    Operation("choose_password", "POST", "/passwords", ANYONE,
        "Choose a password with a one-time sign-in link; this signs out all sessions and revokes all tokens.",
        input="NewPassword", output="JoinedAccount", status=201, refusals=(404,), slow="passwords"),
)  # fmt: skip
_CAMPAIGNS = (
    Operation("list_campaigns", "GET", "/campaigns", _READ, "List the campaigns that you own or provide data to.",
        output="Campaigns"),
    Operation("create_campaign", "POST", "/campaigns", _MANAGE,
        "Create a campaign from the tables of a campaign file; the service commits to a seed.",
        input="NewCampaign", output="OwnCampaign", status=201, refusals=(409,), keyed=True, size="large"),
    Operation("show_campaign", "GET", CAMPAIGN, _READ, "Show a campaign.", output="Campaign"),
    Operation("change_terms", "PUT", f"{CAMPAIGN}/terms", _MANAGE, "Replace the terms, until the first round opens.",
        input="Terms", output="OwnCampaign", refusals=(409,), size="large"),
    Operation("campaign_file", "GET", f"{CAMPAIGN}/campaign.toml", _READ,
        "Return the terms as a campaign file; providers get it without the names of others.",
        output=Content("application/toml", "campaign.toml")),
    Operation("list_providers", "GET", f"{CAMPAIGN}/providers", _ANALYST_READS, "List the providers.",
        output="Providers"),
    Operation("add_provider", "POST", f"{CAMPAIGN}/providers", _MANAGE,
        "Add a provider whose identity you verified, and return a one-time invitation for it.",
        input="NewProvider", output="Invited", status=201, refusals=(409,)),
    Operation("change_group", "PUT", f"{MEMBER}/group", _MANAGE,
        "Put a provider into a group of related ones, or take it out, until the first round opens.",
        input="Group", output="Provider", refusals=(409,)),
    Operation("invite_again", "POST", f"{MEMBER}/invitation", _MANAGE,
        "Return a new one-time invitation for a provider who has not joined; any earlier link stops working.",
        output="Invited", status=201, refusals=(409,)),
    Operation("revoke_provider", "DELETE", MEMBER, _MANAGE,
        "Revoke a provider: it can send no more data; its reports to closed rounds stay.", status=204),
)  # fmt: skip
_ROUNDS = (
    Operation("list_rounds", "GET", f"{CAMPAIGN}/rounds", _READ, "List the rounds.", output="Rounds"),
    Operation("open_round", "POST", f"{CAMPAIGN}/rounds", _MANAGE,
        "Open the next round; the first one fixes providers and terms.",
        input="NewRound", output="OwnRound", status=201, refusals=(409,), keyed=True, slow="work"),
    Operation("show_round", "GET", ROUND, _READ, "Show a round.", output="Round"),
    Operation("close_round", "POST", f"{ROUND}/close", _MANAGE,
        "Close a round and pay what has become payable; closing a closed round changes nothing.",
        input="Closing", output="OwnRound", refusals=(409,), keyed=True, slow="work"),
    Operation("dry_run", "POST", f"{ROUND}/dry-run", _MANAGE,
        "Return what closing a round now would pay, and whether the model fits; nothing is closed, paid or revealed.",
        input="DryClosing", output="DryRun", refusals=(409,), slow="work"),
    Operation("reopen_round", "POST", f"{ROUND}/reopen", _MANAGE,
        "Reopen a round that was closed and could not be paid.",
        input="Deadline", output="OwnRound", refusals=(409,), keyed=True),
    Operation("set_round_aside", "POST", f"{ROUND}/set-aside", _MANAGE,
        "End a round that was closed and could not be paid: nobody is paid, and later days continue.",
        output="OwnRound", refusals=(409,), keyed=True, slow="work"),
    Operation("publish_round", "POST", f"{ROUND}/publish", _MANAGE, "Show providers their payments, and why.",
        output="OwnRound", refusals=(409,), keyed=True),
    Operation("finish_campaign", "POST", f"{CAMPAIGN}/finish", _MANAGE,
        "End a daily campaign: its last day is paid by its rule.",
        output="OwnCampaign", refusals=(409,), keyed=True, slow="work"),
    Operation("list_reports", "GET", f"{ROUND}/reports", _ANALYST_READS, "List who has reported.", output="Reports"),
)  # fmt: skip
_SUBMISSIONS = (
    Operation("list_submissions", "GET", f"{ROUND}/submissions", _PROVIDER_READS,
        "List your submissions to a round, the latest first.", output="Submissions"),
    Operation("show_submission", "GET", SUBMISSION, _PROVIDER_READS,
        "Show one of your submissions: the receipt, once it is confirmed.", output="Submission"),
    Operation("submit_file", "POST", f"{ROUND}/submissions/file", _SUBMIT,
        "Send a file of rows or statistics; it counts once you confirm it.",
        input=Content("application/octet-stream"), output="Submission", query=("name",), status=201,
        refusals=(409, 415, 429), keyed=True, size="upload"),
    Operation("submit_statistics", "POST", f"{ROUND}/submissions/statistics", _SUBMIT,
        "Send statistics instead of rows, as `troth statistics` writes them; they count once you confirm them.",
        input=Content("application/json"), output="Submission", status=201, refusals=(409, 429), keyed=True,
        size="large"),
    Operation("confirm_submission", "POST", f"{SUBMISSION}/confirm", _SUBMIT,
        "Make a submission your report, and return the receipt.",
        input="Confirmation", output="Submission", refusals=(409,), keyed=True),
)  # fmt: skip
_LEDGERS = (
    Operation("list_payments", "GET", f"{ROUND}/payments", _READ,
        "Show payments and the reasons for them: all, or your own once the round is published.",
        output="Payments", refusals=(409,)),
    Operation("show_tasks", "GET", f"{ROUND}/tasks", _PROVIDER_READS,
        "Show what your reports on tasks earned, with the reasons for a sample, once the round is published.",
        output="TaskPay", refusals=(409,)),
    Operation("show_payment", "GET", ROUND + "/payments/{member}", _ANALYST_READS,
        "Show one provider's payment and the reasons for it.", output="Payments", refusals=(409,)),
    Operation("ledger_file", "GET", f"{CAMPAIGN}/ledger", _READ,
        "Return the ledger as a file that `troth verify` reads.",
        output=Content("application/jsonl", "ledger.jsonl"), refusals=(409,)),
    Operation("shares_file", "GET", f"{CAMPAIGN}/ledger.tasks.parquet", _READ,
        "Return the file of shares of tasks; `troth verify` needs it with the ledger.",
        output=Content("application/vnd.apache.parquet", "ledger.tasks.parquet"), refusals=(409,)),
    Operation("payments_file", "GET", f"{CAMPAIGN}/payments.csv", _ANALYST_READS, "Return all payments as CSV.",
        output=Content("text/csv", "payments.csv"), refusals=(409,)),
    Operation("page_file", "GET", f"{CAMPAIGN}/report", _ANALYST_READS,
        "Return all payments with their explanations as one HTML page that needs no network.",
        output=Content("text/html", "report.html"), refusals=(409,), slow="work"),
    Operation("show_head", "GET", f"{CAMPAIGN}/head", _READ,
        "Show the signed head of the ledger, with the proof that it continues the ledger's first lines.",
        output="Head", query=("since",), refusals=(409,)),
    Operation("list_payouts", "GET", f"{CAMPAIGN}/payouts", _ANALYST_READS,
        "List payments, and whether they were paid out.", output="Payouts", refusals=(409,)),
    Operation("export_payouts", "POST", f"{CAMPAIGN}/payouts", _MANAGE,
        "Create a batch of all payments that are in no batch yet; pay out each batch once, and everybody is paid once.",
        output="Batch", status=201, refusals=(409,), keyed=True),
    Operation("show_payouts", "GET", f"{CAMPAIGN}/payouts/{{number}}", _ANALYST_READS,
        "Show a batch of payouts; it never changes.", output="Batch"),
    Operation("payouts_file", "GET", f"{CAMPAIGN}/payouts/{{number}}/payouts.csv", _ANALYST_READS,
        "Return a batch of payouts as CSV; it never changes.", output=Content("text/csv", "payouts.csv")),
    Operation("void_payout", "POST", f"{CAMPAIGN}/payouts/{{payout}}/void", _MANAGE,
        "Record that a payment is not paid out, and why.",
        input="Voiding", output="Payouts", refusals=(409,), keyed=True),
    Operation("verify_ledger", "POST", f"{CAMPAIGN}/verify", _ANALYST_READS,
        "Check every byte of the ledger and recompute every payment.", output="Verified", refusals=(409,), slow="work"),
)  # fmt: skip
GROUPS = {
    "accounts": _ACCOUNTS,
    "campaigns": _CAMPAIGNS,
    "rounds": _ROUNDS,
    "submissions": _SUBMISSIONS,
    "ledgers": _LEDGERS,
}
"""The operations, as the documentation of the API groups them."""
OPERATIONS: tuple[Operation, ...] = tuple(operation for group in GROUPS.values() for operation in group)


def operation_at(method: str, path: str) -> Operation | None:
    """Return the operation for a request's method and path, or None if there is none.

    Examples
    --------
    >>> operation_at("PUT", "/api/v1/campaigns/3f/terms").name
    'change_terms'
    >>> operation_at("PUT", "/api/v1/nowhere") is None
    True
    """
    by_route = {operation.route: operation for operation in OPERATIONS}
    return by_route.get(matching(f"{method} {path}", [*by_route]) or "")


def matching(text: str, patterns: list[str]) -> str | None:
    """Return the path pattern that a text matches; of several, the one with the fewest parameters."""
    matches = [pattern for pattern in patterns if _compiled(pattern).fullmatch(text)]
    return min(matches, key=lambda pattern: pattern.count("{"), default=None)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"\\{[^}]*\\}", "[^/]+", re.escape(pattern)))
