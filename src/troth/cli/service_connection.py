"""How a command reaches a service: its options, the client that is signed in, a campaign and a round by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from troth.cli.output import afterwards, warn
from troth.core.errors import DataError, TrothError
from troth.core.formats import printable

if TYPE_CHECKING:
    from collections.abc import Collection

    from troth.client import Client


Server = Annotated[
    str | None, typer.Option(envvar="TROTH_SERVER", help="Which service.", show_default="the last one signed in to")
]
CampaignArgument = Annotated[
    str, typer.Argument(metavar="CAMPAIGN", help="The campaign's identifier or name.", show_default=False)
]
RoundArgument = Annotated[
    int | None, typer.Argument(metavar="[ROUND]", help="The round's number.", min=1, show_default="the latest")
]


def open_client(server: str | None) -> Client:
    """Return a client of a service that somebody signed in to."""
    from troth.campaigns.private_files import readable_by_others
    from troth.client.credentials import connect, credentials_path

    if readable_by_others(credentials_path()):
        warn(f"other users can read {credentials_path()}, which has your tokens: run chmod 600 {credentials_path()}")
    return connect(server)


def find_campaign(server: str | None, campaign: str) -> tuple[Client, dict[str, Any]]:
    """Return a client, and a campaign by its identifier or name, whose head is compared when the command is done."""
    client = open_client(server)
    campaign_view = client.find_campaign(campaign)
    compare_head(client, campaign_view)
    return client, campaign_view


def compare_head(client: Client, campaign: dict[str, Any]) -> None:
    """Once the command is done, warn if a campaign's ledger does not continue the one that was seen here before.

    Every command about a campaign comes through here, also those that fail; nothing that was done is undone by a
    warning.
    """

    def compare() -> None:
        from troth.client.heads import watch_head

        try:
            wrong = watch_head(client, campaign)
        except TrothError as error:
            wrong = f"the head of the ledger could not be compared with the one seen before: {error}"
        if wrong is not None:
            warn(f"{wrong}. Compare with what others have seen, and ask the analyst")

    afterwards.callback(compare)


def find_round(client: Client, campaign: dict[str, Any], number: int | None, states: Collection[str], none: str) -> int:
    """Return the number of a campaign's round: the one that is named, or else the latest in one of some states."""
    if number is not None:
        return number
    numbers: list[int] = [
        round_row["number"] for round_row in client.list_rounds(campaign["id"]) if round_row["state"] in states
    ]
    if not numbers:
        raise DataError(f"{printable(campaign['name'])}: {none}")
    return numbers[-1]
