"""What answers say: the shapes that the API promises, every field of them."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from troth.service.requests import Scope

Id = Annotated[str, Field(pattern="^[0-9a-f]{16}$", examples=["f807dc2bef88f3ea"])]
Time = Annotated[str, Field(examples=["2026-05-04T12:00:00.000000Z"], json_schema_extra={"format": "date-time"})]
Money = Annotated[str, Field(pattern="^-?[0-9]+([.][0-9]+)?$", examples=["264.49"])]
Hash = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
Commitment = Annotated[str, Field(pattern="^sha256:[0-9a-f]{64}$", description="The hash of the secret seed.")]
Extended: TypeAlias = float | Literal["inf", "-inf", "nan"]
Day: TypeAlias = str | int | None


class Answer(BaseModel):
    """An answer's body."""

    model_config = ConfigDict(extra="forbid")


class Health(Answer):
    """That the service and its database answer."""

    status: Literal["ok"]
    version: str


class Me(Answer):
    """Who a token belongs to, and what it allows."""

    name: str
    role: Literal["analyst", "provider"]
    scopes: list[Scope]


class Token(Answer):
    """A token, without its secret."""

    id: Id
    label: str
    scopes: list[Scope]
    created: Time
    expires: Time
    used: Time | None
    revoked: Time | None


class NewToken(Token):
    """A token with its secret, which is shown this once."""

    token: str = Field(examples=["troth_…"])


class Joined(Answer):
    """An account that can sign in now."""

    account: Id
    name: str


class Provider(Answer):
    """A provider of a campaign."""

    id: Id
    name: str = Field(examples=["Ash"])
    identity: str = Field(examples=["Dr. Ash, contract 12"])
    group: str | None
    joined: Time | None
    revoked: Time | None


class Invited(Provider):
    """A provider and its one-time invitation, which is shown this once."""

    invitation: str
    link: str = Field(examples=["https://troth.example.org/join/…"])


class _Campaign(Answer):
    id: Id
    name: str = Field(examples=["clinics"])
    state: Literal["draft", "running", "ended"]
    created: Time
    budget: Money
    currency: str = Field(examples=["EUR"])
    budget_per: Literal["campaign", "day"]
    daily: bool
    days: int | None
    rule: str = Field(examples=["SyntheticPeers"])
    family: str = Field(examples=["Bernoulli"])
    columns: list[str]
    categories: list[str] | None
    most_rows: int | None
    values: list[float] | None
    commitment: Commitment | None
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


class _Round(Answer):
    number: int
    day: Day
    opened: Time
    deadline: Time | None
    closed: Time | None
    published: Time | None


class OwnRound(_Round):
    """A round as the analyst sees it."""

    state: Literal["open", "closed", "paid", "published"]
    final: bool
    paid: Time | None
    amount: Money | None = Field(description="What was paid in all.")
    reports: int
    problem: str | None
    head: Hash | None


class JoinedRound(_Round):
    """A round as a provider sees it."""

    state: Literal["open", "closed", "published"]
    submission: Id | None = Field(description="The submission that is one's report, if one was confirmed.")


class Reporter(Answer):
    """Somebody who has reported."""

    member: Id
    provider: str
    confirmed: Time
    rows: int


class ColumnSummary(Answer):
    """What a column of a file holds."""

    name: str
    least: float | None
    greatest: float | None
    mean: float | None
    labels: list[tuple[str, int]]


class Submission(Answer):
    """What was sent, as it was understood: the receipt, once it is confirmed."""

    id: Id
    campaign: Id
    round: int
    day: Day
    provider: str
    file: str = Field(examples=["may.csv"])
    sha256: Hash
    data_digest: Commitment | None = Field(description="The digest of the rows, also where only statistics were sent.")
    rows: int
    summary: list[float]
    received: Time
    confirmed: Time | None
    commitment: Commitment | None
    preview: list[list[str]]
    columns: list[ColumnSummary]


class Step(Answer):
    """A step from data to money."""

    what: str
    value: str
    meaning: str


class Payment(Answer):
    """A payment and all numbers that it came from."""

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
    payment: Money
    deposit: Money
    note: str
    steps: list[Step]


class Payments(Answer):
    """Payments of a round."""

    round: int
    day: Day
    seed: str | None
    commitment: Commitment | None
    head: Hash | None
    payments: list[Payment]


class Verified(Answer):
    """Whether a ledger is whole and right."""

    right: bool
    problem: str | None
    head: Hash | None
    lines: int | None
    rounds: int | None
    paid: Money | None


class Problem(Answer):
    """What is wrong with a field."""

    field: str
    message: str


class Refused(Answer):
    """Why a request was not granted."""

    error: str = Field(examples=["there is no such campaign"])
    problems: list[Problem] = []


Campaign: TypeAlias = OwnCampaign | JoinedCampaign
Round: TypeAlias = OwnRound | JoinedRound
