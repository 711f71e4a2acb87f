"""Arguments and options that several commands take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def _picture(path: Path | None) -> Path | None:
    if path is not None and path.suffix.lower() not in (".png", ".svg", ".pdf", ".jpg"):
        raise typer.BadParameter("a picture's name must end in .png, .svg, .pdf or .jpg")
    return path


CampaignFile = Annotated[Path, typer.Argument(metavar="CAMPAIGN.toml", help="The campaign file.", show_default=False)]
LedgerFile = Annotated[Path, typer.Argument(metavar="LEDGER", help="The ledger file.", show_default=False)]
HistoryFile = Annotated[
    Path, typer.Argument(metavar="HISTORY", help="Past days: a file, a folder or a pattern.", show_default=False)
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
PlotFile = Annotated[Path | None, typer.Option(help="Draw a picture too (needs matplotlib).", callback=_picture)]
ProviderColumn = Annotated[str | None, typer.Option(help="The history's column of providers.")]
DayColumn = Annotated[str | None, typer.Option(help="The history's column of days.")]
