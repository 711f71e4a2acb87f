"""Response bodies: built by `troth.service.views` and similar modules, written as JSON by the API, shown on pages.

Money stays in integer minor units until it is written: as a decimal string for programs, formatted for people.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import (
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    FiniteFloat,
    PlainSerializer,
    SerializerFunctionWrapHandler,
    WithJsonSchema,
    model_serializer,
)

from troth.campaigns.money import to_decimal, to_text
from troth.core.formats import money
from troth.mechanisms import DEFAULT_RULE
from troth.models import FAMILIES
from troth.operations import Scope


@dataclass(frozen=True)
class Amount:
    """Money in integer minor units.

    Examples
    --------
    >>> amount = Amount(1264_49, 2)
    >>> str(amount), amount.plain
    ('1,264.49', '1264.49')
    """

    minor: int
    decimals: int

    def __str__(self) -> str:
        return money(to_decimal(self.minor, self.decimals))

    @property
    def plain(self) -> str:
        """The amount as a decimal string, for programs."""
        return to_text(self.minor, self.decimals)


Id = Annotated[str, Field(pattern="^[0-9a-f]{16}$", examples=["f807dc2bef88f3ea"])]
Time = Annotated[str, Field(examples=["2026-05-04T12:00:00.000000Z"], json_schema_extra={"format": "date-time"})]
Money = Annotated[
    Amount,
    PlainSerializer(lambda amount: amount.plain, return_type=str),
    WithJsonSchema({"type": "string", "pattern": "^-?[0-9]+([.][0-9]+)?$", "examples": ["264.49"]}),
]
Hash = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
Commitment = Annotated[str, Field(pattern="^sha256:[0-9a-f]{64}$", description="The hash of the secret seed.")]
Digest = Annotated[str, Field(pattern="^sha256:[0-9a-f]{64}$")]
Extended = Annotated[
    float,
    PlainSerializer(lambda x: x if isfinite(x) else str(x), return_type=float | Literal["inf", "-inf", "nan"]),
]
"""A number, written as text in JSON if it is not finite."""
Day: TypeAlias = str | int | None
PayoutState: TypeAlias = Literal["pending", "posted", "void"]


class ResponseBody(BaseModel):
    """The body of a response."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @classmethod
    def of(cls, source: Any, **given: Any) -> Self:
        """Return a body with the given fields, and the others from attributes of ``source``."""
        return cls(**{name: getattr(source, name) for name in cls.model_fields if name not in given}, **given)


class Health(ResponseBody):
    """The service and its database respond."""

    status: Literal["ok"]
    version: str


class Me(ResponseBody):
    """Who a token belongs to, and what it allows."""

    name: str
    role: Literal["analyst", "provider"]
    scopes: list[Scope]


class Token(ResponseBody):
    """A token, without its secret."""

    id: Id
    label: str
    scopes: list[Scope]
    created: Time
    expires: Time
    used: Time | None
    revoked: Time | None


class NewToken(Token):
    """A token with its secret, which is shown only once."""

    token: str = Field(examples=["troth_…"])


class JoinedAccount(ResponseBody):
    """An account that can sign in now."""

    account: Id
    name: str


class Provider(ResponseBody):
    """A provider of a campaign."""

    id: Id
    name: str = Field(examples=["Ash"])
    identity: str = Field(examples=["Dr. Ash, contract 12"])
    group: str | None
    joined: Time | None
    revoked: Time | None


class Invited(Provider):
    """A provider and its one-time invitation, which is shown only once."""

    invitation: str
    link: str = Field(examples=["https://troth.example.org/join/…"])


class PublicData(ResponseBody):
    """Public data: a report is paid for what it says beyond them."""

    source: str = Field(examples=["register.csv"])
    rows: int
    digest: str | None = Field(pattern="^sha256:[0-9a-f]{64}$", description="SHA-256 of the file.")


class Promise(ResponseBody):
    """What a campaign announces to everybody."""

    name: str = Field(examples=["clinics"])
    about: str = Field(description="What a row is, and what to send.", examples=["One row for each patient of May."])
    budget: Money
    currency: str = Field(examples=["EUR"])
    budget_per: Literal["campaign", "day"]
    daily: bool
    days: int | None
    rule: str = Field(examples=[DEFAULT_RULE])
    family: str = Field(examples=[next(iter(FAMILIES))])
    columns: list[str]
    categories: list[str] | None
    max_rows: int | None
    task: str | None = Field(description="The column of tasks; null if there are none.")
    price: str | None = Field(description="The most that one report on one task can earn.", examples=["0.05"])
    max_tasks: int | None = Field(description="The maximum number of tasks that one provider may report on.")
    values: list[float] | None
    public: PublicData | None
    commitment: Commitment | None


class _Campaign(Promise):
    id: Id
    state: Literal["draft", "running", "ended"]
    created: Time
    share_ledger: bool
    terms: dict[str, Any] = Field(description="The tables of the campaign file.")


class OwnCampaign(_Campaign):
    """A campaign as its analyst sees it."""

    publish_at_once: bool
    providers: int
    joined: int
    paid: Money
    head: Hash | None


class JoinedCampaign(_Campaign):
    """A campaign as one of its providers sees it."""

    provider: str
    revoked: bool


class _Round(ResponseBody):
    number: int
    day: Day
    opened: Time
    deadline: Time | None
    closed: Time | None
    published: Time | None


class Verdict(ResponseBody):
    """Whether the model fits the reports, and who would have been better off sending nothing or less.

    Gains and differences are in shares of the cap.
    """

    model: Literal["fits", "doubtful", "does not fit", "not checked"]
    stops: bool = Field(default=False, description="Whether payment stops until the analyst decides.")
    meaning: str
    unchecked: str | None = Field(default=None, description="Why the model was not checked.")
    p_value: float | None
    below_empty_report: dict[str, float] | None = Field(
        description="Who is paid less than an empty report, on average over days. Null if this could not be computed."
    )
    better_with_less: dict[str, float] | None = Field(description="Null if this could not be computed.")
    gain_of_less: dict[str, float] = Field(
        description="For each way of sending less, the mean gain over providers, on the last day that was scored."
    )
    tried_with_less: dict[str, int] = Field(
        default={}, description="For each way of sending less, how many providers have enough rows to try it."
    )
    days: int = Field(
        default=0, description="The number of days over which the comparison with an empty report is averaged."
    )
    last_day: Day = Field(default=None, description="The day on which sending less was tried.")
    odd_reports: list[str] = Field(description="The providers without whose reports the model fits.")
    most_gained: float | None = Field(
        default=None,
        description="The maximum expected gain of a lie, under the model. Null if nothing is proved.",
    )
    limit: str | None = Field(
        default=None, description="The limit in which the truth is proved to pay best, if it is proved only there."
    )
    warning: str | None = Field(
        default=None, description="Why the model is poor for these reports, whether they fit it or not."
    )
    remedy: str = Field(description="What to do if the model does not fit.")
    notes: list[str] = Field(default=[], description="What to check in the data, such as rows that were left out.")


class WouldBePaid(ResponseBody):
    """A payment of a dry run."""

    day: Day
    provider: str
    rows: int
    share: float
    empty_share: float
    payment: Money


class DryRun(ResponseBody):
    """What closing a round would pay, with a separate seed."""

    payments: list[WouldBePaid]
    total: Money
    draws: bool = Field(
        description="Whether the rule draws at random. Then the amounts paid differ a little from these, because the "
        "round's seed is known only once the round is closed."
    )
    verdict: Verdict | None


class OwnRound(_Round):
    """A round as the analyst sees it."""

    state: Literal["open", "closed", "paid", "published"]
    final: bool
    paid: Time | None
    amount: Money | None = Field(description="The total amount paid.")
    reports: int
    problem: str | None
    verdict: Verdict | None
    unchecked: str | None = Field(
        description="Why the model is not checked: predicted until the round is closed, then taken from the verdict. A "
        "round that cannot be checked is paid nevertheless."
    )
    head: Hash | None


class JoinedRound(_Round):
    """A round as a provider sees it."""

    state: Literal["open", "closed", "published"]
    submission: Id | None = Field(description="The submission that is your report, if you confirmed one.")


class Report(ResponseBody):
    """Who has reported, and when."""

    member: Id
    provider: str
    confirmed: Time
    rows: int
    dropped: int = Field(description="Rows without a value, which are left out.")
    unnamed: int = Field(description="Rows without a provider, which are left out.")


class ColumnSummary(ResponseBody):
    """A column of a file: minimum, maximum and mean of its numbers, or counts of its most common labels."""

    name: str
    # uploads that were stored by an earlier version have "least" and "greatest"
    minimum: FiniteFloat | None = Field(default=None, validation_alias=AliasChoices("minimum", "least"))
    maximum: FiniteFloat | None = Field(default=None, validation_alias=AliasChoices("maximum", "greatest"))
    mean: FiniteFloat | None = None
    labels: list[tuple[str, int]] = []


class Receipt(ResponseBody):
    """What a provider confirmed, signed by the service: `troth verify-receipt` checks it."""

    kind: Literal["troth receipt"]
    campaign: Id
    round: int
    day: Day
    provider: str
    rows: int
    summary: list[float]
    sha256: Hash
    data_digest: Commitment | None
    nonce: Hash = Field(description="The service's part of the nonce, drawn when the file arrived.")
    own_nonce: str = Field(description="The provider's part of the nonce, sent when it confirmed.")
    received: Time = Field(description="When the last bytes arrived, which counts for the deadline.")
    confirmed: Time
    commitment: Commitment | None
    terms: Digest = Field(description="The digest of the terms as the provider sees them.")
    key: Hash
    signature: str = Field(pattern="^[0-9a-f]{128}$")
    tasks: Commitment | None = Field(
        default=None,
        description="For campaigns of tasks, the digest of the reports on them: then rows counts tasks, and the "
        "summary covers all.",
    )

    @model_serializer(mode="wrap")
    def _as_signed(self, write: SerializerFunctionWrapHandler):  # type: ignore[no-untyped-def]
        return {name: value for name, value in write(self).items() if name != "tasks" or value is not None}


class Submission(ResponseBody):
    """A submission as the service read it, with its receipt once it is confirmed."""

    id: Id
    campaign: Id
    round: int
    day: Day
    provider: str
    file: str = Field(examples=["may.csv"])
    state: Literal["waiting", "read", "refused"] = Field(
        default="read", description="A file is read soon after it is received. Only what was read can be confirmed."
    )
    problem: str | None = Field(default=None, description="Why the file was refused.")
    sha256: Hash
    data_digest: Commitment | None = Field(description="The digest of the rows, even if only statistics were sent.")
    rows: int | None = Field(description="Null until the file is read. The number of tasks, if there are any.")
    dropped: int | None = Field(description="Rows without a value, which are left out. Null until the file is read.")
    unnamed: int | None = Field(description="Rows without a provider, which are left out.")
    summary: list[float] | None = Field(description="Null until the file is read.")
    tasks: Commitment | None = Field(description="The digest of the reports on tasks, if there are any.")
    received: Time
    confirmed: Time | None
    replaced: Time | None = Field(description="When another submission replaced it, if it was your report before.")
    commitment: Commitment | None
    nonce: Hash = Field(description="The service's part of the nonce.")
    receipt: Receipt | None = Field(description="The receipt; null until you confirm the submission.")
    preview: list[list[str]]
    columns: list[ColumnSummary]


class Step(ResponseBody):
    """A step from data to money."""

    what: str
    value: str
    meaning: str


class Payment(ResponseBody):
    """A payment and the numbers behind it, which providers see rounded."""

    id: Id = Field(description="The identifier of this payment, which never changes.")
    state: PayoutState
    member: Id
    provider: str
    rows: int
    log_pmi: Extended | None
    score: Extended | None
    low: Extended | None
    high: Extended | None
    terms: dict[str, Extended]
    share: float
    empty_share: float
    cap: Money
    exact_cap: str | None = Field(
        pattern="^[0-9]+(/[0-9]+)?$",
        description="The cap before rounding down, in minor units; null for campaigns of tasks.",
        examples=["100000/3"],
    )
    payment: Money
    deposit: Money
    note: str
    steps: list[Step]


class TaskShare(ResponseBody):
    """One of your own tasks: what you answered, its share of the price, and why."""

    task: str = Field(examples=["item 17"])
    answer: str = Field(examples=["cat"])
    share: float = Field(description="Rounded to a hundredth.")
    earned: str = Field(description="The share times the price.", examples=["0.0245"])
    reason: str


class TaskPay(ResponseBody):
    """What reports on tasks earned, with the reasons for a sample, which never changes."""

    campaign: Id
    round: int
    provider: str
    tasks: int
    price: str | None = Field(description="The most that one report can earn; null if reports share the budget evenly.")
    payment: Money
    pay_per_task: str = Field(examples=["0.013750"])
    empty_share: float = Field(description="The share of an uninformative answer.")
    without_peers: int = Field(description="Tasks on which nobody else worked.")
    paid_without_peers: Money = Field(description="The part of the payment for these tasks.")
    meaning: str = Field(description="What a share means under the rule.")
    sample: list[TaskShare] = Field(description="The best, the worst and some others, the best first.")


class Inclusion(ResponseBody):
    """The proof that a report is a leaf of its round's Merkle tree."""

    place: int
    size: int
    hashes: list[Hash]


class SignedHead(ResponseBody):
    """The head of a ledger, signed."""

    kind: Literal["troth head"]
    campaign: Id
    epoch: int
    lines: int
    root: Hash
    head: Hash
    time: Time
    key: Hash
    signature: str = Field(pattern="^[0-9a-f]{128}$")


class LedgerLine(ResponseBody):
    """A line of the ledger, and the proof that a signed head covers it."""

    text: str = Field(description="The line, without its line break.")
    place: int = Field(description="Counted from 0.")
    hashes: list[Hash]
    head: SignedHead


class Payments(ResponseBody):
    """Payments of a round, and what its seed was derived from."""

    campaign: Id
    round: int
    day: Day
    paid_as: int | None = Field(description="The number of the round in the ledger.")
    root: Hash | None = Field(description="The root over the reports of the round.")
    next_roots: list[Hash] = Field(description="The roots over the reports of the days that it was compared with.")
    link: Commitment | None = Field(description="The link of the secret that this round reveals.")
    beacon: str | None
    seed: str | None
    commitment: Commitment | None
    head: Hash | None
    proof: Inclusion | None = Field(description="Proof that the round was paid for your report, among others.")
    payment_hashes: list[Hash] | None = Field(description="Proof that your payment is among those of the round.")
    line: LedgerLine | None = Field(description="The round in the ledger, once all rounds before it are published.")
    payments: list[Payment]


class Head(SignedHead):
    """The head of a ledger, signed, and the proof that it continues the ledger of an earlier head."""

    proof: list[Hash]


class Payout(ResponseBody):
    """A payment, and whether it was paid out."""

    id: Id
    round: int
    day: Day
    provider: str
    amount: Money
    head: Hash | None
    state: PayoutState
    batch: int | None
    reason: str | None


class Payouts(ResponseBody):
    """All payouts of a campaign."""

    campaign: Id
    name: str
    currency: str
    payouts: list[Payout]


class BatchLine(ResponseBody):
    """A payment in a batch; no payment is in two batches."""

    id: Id
    campaign: Id
    round: int
    day: Day
    provider: str
    amount: Money
    currency: str
    head: Hash | None


class Batch(ResponseBody):
    """Payments that were exported together, to be paid out."""

    campaign: Id
    name: str
    batch: int
    payments: list[BatchLine]


class Verified(ResponseBody):
    """Whether a ledger is valid."""

    valid: bool
    problem: str | None
    head: Hash | None
    lines: int | None
    rounds: int | None
    paid: Money | None


class Problem(ResponseBody):
    """What is wrong with a field."""

    field: str
    message: str


class Refused(ResponseBody):
    """Why a request was refused."""

    error: str = Field(examples=["there is no such campaign"])
    problems: list[Problem] = []


Campaign: TypeAlias = OwnCampaign | JoinedCampaign
Round: TypeAlias = OwnRound | JoinedRound
Campaigns: TypeAlias = list[Campaign]
Providers: TypeAlias = list[Provider]
Reports: TypeAlias = list[Report]
Rounds: TypeAlias = list[Round]
Submissions: TypeAlias = list[Submission]
Tokens: TypeAlias = list[Token]
