"""A published pilot: rows that say where a likelihood is expanded, and that are not part of the evidence."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from troth.campaigns.past import paid_files
from troth.campaigns.tables import TABLES
from troth.campaigns.terms import Campaign
from troth.campaigns.toml import to_toml
from troth.core.contract import HasPublicPoint
from troth.core.errors import DataError, ParameterError
from troth.core.settings import plain_copy
from troth.data.public import read_public

if TYPE_CHECKING:
    from pathlib import Path

    from troth.core.contract import Array


def point_of_pilot(campaign: Campaign, pilot: str | Path) -> tuple[Array, str]:
    """Return the most probable coefficients given the rows of a pilot and the prior, and the digest of its file."""
    model: Any = campaign.model
    if not isinstance(model, HasPublicPoint):
        raise ParameterError(f"{type(model).__name__} is not expanded at a public point: a pilot changes nothing")
    if both := paid_files(campaign, str(pilot)):
        raise DataError(
            f"{both[0]}: the campaign pays for these rows ([data] source), and reports must not move the point that "
            "they are expanded at: take other rows"
        )
    request = replace(campaign.request, day=None, features=True, answers=True)
    (report,) = read_public(str(pilot), request, model, engine=campaign.engine)
    if report.features is None or report.data_digest is None:
        raise DataError(f"{pilot}: a pilot is a file of rows")
    recentred = model.expanded_at_mode((report.features[:, :-1], report.features[:, -1]))
    return recentred.public_coefficients, report.data_digest


def recentred_text(campaign: Campaign, pilot: str | Path) -> str:
    """Return the campaign file with the point of a pilot, whose digest stands beside it; the prior stays."""
    point, digest = point_of_pilot(campaign, pilot)
    plain = plain_copy(campaign.plain)
    if isinstance(prior := plain["model"].get("prior"), dict):
        prior.pop("point", None)
    plain["model"] |= {"point": point.tolist(), "pilot": digest}
    plain.get("mechanism", {}).pop("commitment", None)  # another campaign's
    Campaign.from_dict(plain, path=campaign.path)
    head = "# The point is that of a published pilot, by `troth fit --pilot`; the rest is the campaign it is for.\n\n"
    return head + to_toml({name: plain[name] for name in TABLES if name in plain})
