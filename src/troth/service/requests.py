"""Bodies of requests, validated strictly: no unknown fields, no numbers for text, only finite numbers."""

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
        description="Any text you choose: a request repeated with its key is done once and gets the same answer.",
    ),
]
PARAMETERS: dict[str, Any] = {
    **dict.fromkeys(("campaign", "member", "payout", "submission", "token"), Identifier),
    "number": Number,
    "secret": str,
    "since": Annotated[int, Query(ge=0, le=10**9, description="The lines of the head that you have seen; or 0.")],
    "name": Annotated[
        str, Query(min_length=1, max_length=200, description="The file's name; its ending says the format.")
    ],
}
"""What the parts of an address, and of a query to the API, look like."""
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
    """A request's body."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _limit_unknown_fields(cls, plain: Any) -> Any:
        """Refuse many unknown fields at once: to name each of a hundred thousand takes a minute."""
        if isinstance(plain, dict) and len(plain) > _MAX_FIELDS:
            raise ValueError(f"has {len(plain):,} fields, but at most {len(cls.model_fields)} are known")
        return plain


class SignIn(Strict):
    """Name and password for a token."""

    name: Line
    password: Password
    label: Line = "command line"
    scopes: list[Scope] = Field(default=list(SCOPES), min_length=1, max_length=3, fail_fast=True)
    days: int = Field(default=30, ge=1, le=366)


class Acceptance(Strict):
    """An invitation's secret, and the name and password of the new account: neither, if a token is sent."""

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
    """The tables of a campaign file, and how its rounds are shown."""

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
    """Whether no day follows."""

    final: bool = False


class Closing(DryClosing):
    """Whether no day follows, the value of the terms' beacon, and whether to pay even if the model does not fit."""

    beacon: Line | None = None
    anyway: bool = False


class Confirmation(Strict):
    """Which submission this one replaces, if one was confirmed before, and your part of the nonce."""

    replaces: Line | None = None
    nonce: Line | None = Field(default=None, description="Any text that the service cannot predict.")


class Voiding(Strict):
    """Why a payout is void."""

    reason: Line
