"""How commands reach a service: their options, the signed-in client, and campaigns and rounds by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from troth.cli.output import at_exit, warn
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
    """Return a client of a service that the user has signed in to."""
    from troth.campaigns.private_files import readable_by_others
    from troth.client.credentials import connect, credentials_path

    if readable_by_others(credentials_path()):
        warn(f"other users can read {credentials_path()}, which has your tokens: run chmod 600 {credentials_path()}")
    return connect(server)


def find_campaign(server: str | None, campaign: str) -> tuple[Client, dict[str, Any]]:
    """Return a client and the campaign with this identifier or name; its head is compared when the command ends."""
    client = open_client(server)
    campaign_view = client.find_campaign(campaign)
    compare_head(client, campaign_view)
    return client, campaign_view


def compare_head(client: Client, campaign: dict[str, Any]) -> None:
    """Warn, when the command ends, if a campaign's ledger does not continue the one that was seen here before.

    This runs for every command about a campaign, even if it fails. The warning undoes nothing.
    """

    def compare() -> None:
        from troth.client.heads import watch_head

        try:
            problem = watch_head(client, campaign)
        except TrothError as error:
            problem = f"the head of the ledger could not be compared with the one seen before: {error}"
        if problem is not None:
            warn(f"{problem}. Compare with what others have seen, and ask the analyst")

    at_exit.callback(compare)


def find_round(
    client: Client, campaign: dict[str, Any], number: int | None, states: Collection[str], problem: str
) -> int:
    """Return ``number``, or by default the number of the campaign's latest round in one of the states."""
    if number is not None:
        return number
    numbers: list[int] = [
        round_row["number"] for round_row in client.list_rounds(campaign["id"]) if round_row["state"] in states
    ]
    if not numbers:
        raise DataError(f"{printable(campaign['name'])}: {problem}")
    return numbers[-1]
