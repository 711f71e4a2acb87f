"""Request bodies, validated strictly: no unknown fields, no conversions between types, only finite numbers."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Header, Path, Query
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from troth.models import FAMILIES
from troth.operations import SCOPES, Scope

Identifier = Annotated[str, Path(pattern="^[0-9a-f]{16}$", description="A random identifier.")]
Number = Annotated[int, Path(ge=1, le=1_000_000, description="The round's number, from 1.")]
Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        pattern="^[!-~]{1,200}$",
        description="Any text you choose. Requests that repeat a key are executed once and get the same reply.",
    ),
]
PARAMETERS: dict[str, Any] = {
    **dict.fromkeys(("campaign", "member", "payout", "submission", "token"), Identifier),
    "number": Number,
    "secret": str,
    "since": Annotated[int, Query(ge=0, le=10**9, description="The number of lines of the head you last saw, or 0.")],
    "name": Annotated[
        str, Query(min_length=1, max_length=200, description="The file's name, which determines the format.")
    ],
}
"""The types of path and query parameters."""
Line = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern="^[^\\x00]*$")]
Password = Annotated[str, StringConstraints(min_length=1, max_length=1000)]
Secret = Annotated[str, StringConstraints(min_length=20, max_length=200, pattern="^[A-Za-z0-9_-]+$")]
Moment = Annotated[str, StringConstraints(max_length=40)]
_MAX_FIELDS = 50
_FAMILY = next(iter(FAMILIES.values()))
_EXAMPLE = {
    "campaign": {"name": "study", "budget": "1000.00", "currency": "EUR"},
    "model": {
        "family": _FAMILY.__name__,
        "columns": list(_FAMILY.example.columns),
        "prior": _FAMILY.example_parameters(),
    },
}


class Strict(BaseModel):
    """A request body."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _limit_unknown_fields(cls, plain: Any) -> Any:
        """Reject too many fields with one error: naming each of a hundred thousand takes a minute."""
        if isinstance(plain, dict) and len(plain) > _MAX_FIELDS:
            raise ValueError(f"has {len(plain):,} fields, but at most {len(cls.model_fields)} are known")
        return plain


class SignIn(Strict):
    """A name and password, to be exchanged for a token."""

    name: Line
    password: Password
    label: Line = "command line"
    scopes: list[Scope] = Field(default=list(SCOPES), min_length=1, max_length=3, fail_fast=True)
    days: int = Field(default=30, ge=1, le=366)


class Acceptance(Strict):
    """An invitation's secret and, without a token, the name and password of the new account."""

    invitation: Secret
    name: Line | None = None
    password: Password | None = None


class NewPassword(Strict):
    """The secret of a sign-in link, and the account's new password."""

    link: Secret
    password: Password


class Terms(Strict):
    """The tables of a campaign file."""

    terms: dict[str, Any] = Field(examples=[_EXAMPLE])


class NewCampaign(Terms):
    """The tables of a campaign file, and what its providers can see."""

    publish_at_once: bool = False
    share_ledger: bool = False


class NewProvider(Strict):
    """A provider, and how the analyst verified who it is."""

    name: Line
    identity: Line
    group: Line | None = None


class Group(Strict):
    """A label that related providers share, or null for none."""

    group: Line | None


class Deadline(Strict):
    """A new deadline, if any."""

    deadline: Moment | None = Field(default=None, description="ISO 8601 with a zone, such as 2026-05-04T12:00:00Z.")


class NewRound(Deadline):
    """A day, in a daily campaign, and a deadline, if the round closes automatically."""

    day: Line | int | None = None


class DryClosing(Strict):
    """Whether this is the last day."""

    final: bool = False


class Closing(DryClosing):
    """Whether this is the last day, the beacon's value, and whether to pay even if the model does not fit."""

    beacon: Line | None = None
    anyway: bool = False


class Confirmation(Strict):
    """The confirmed submission that this one replaces, if there is one, and your part of the nonce."""

    replaces: Line | None = None
    nonce: Line | None = Field(default=None, description="Any text that the service cannot predict.")


class Voiding(Strict):
    """Why a payout is void."""

    reason: Line
