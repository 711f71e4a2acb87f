"""How a command reaches a service: its options, the client that is signed in, a campaign and a round by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from troth.cli.service_lines import printable
from troth.core.errors import DataError

if TYPE_CHECKING:
    from troth.client import Client


Server = Annotated[
    str | None,
    typer.Option("--server", envvar="TROTH_SERVER", help="Which service.", show_default="the last one signed in to"),
]


TheCampaign = Annotated[
    str, typer.Argument(metavar="CAMPAIGN", help="The campaign's identifier or name.", show_default=False)
]


TheRound = Annotated[
    int | None, typer.Argument(metavar="[ROUND]", help="The round's number.", min=1, show_default="the latest")
]


def open_client(server: str | None) -> Client:
    """Return a client of a service that somebody signed in to."""
    from troth.client.credentials import connect

    return connect(server)


def find_campaign(server: str | None, campaign: str) -> tuple[Client, dict[str, Any]]:
    """Return a client, and a campaign by its identifier or name."""
    client = open_client(server)
    return client, client.find_campaign(campaign)


def find_round(
    server: str | None, campaign: str, number: int | None, state: str, none: str
) -> tuple[Client, dict[str, Any], dict[str, Any]]:
    """Return the client, the campaign, and its round with a number or the latest in a state."""
    client, chosen = find_campaign(server, campaign)
    if number is not None:
        return client, chosen, client.show_round(chosen["id"], number)
    rounds_in_state = [each for each in client.list_rounds(chosen["id"]) if each["state"] == state]
    if not rounds_in_state:
        raise DataError(f"{printable(chosen['name'])}: {none}")
    return client, chosen, rounds_in_state[-1]
