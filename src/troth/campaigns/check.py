"""What is proved about a campaign, and what lies would earn in it: certificates and audits of a campaign file."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from troth.audits import Audit, audit
from troth.campaigns.settle import with_features
from troth.certificates import Certificate, certify
from troth.certificates.in_the_limit import in_the_limit
from troth.core.contract import HasEvidenceCost, one_each
from troth.core.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from troth.campaigns.terms import Campaign
    from troth.core.claims import Claim
    from troth.core.contract import Models
    from troth.data import Report

MOST_PROVIDERS, MOST_ROWS = 12, 200
_DRAWS, _FEWEST_SIMULATIONS = 8, 50


@dataclass(frozen=True)
class Setting:
    """Providers and their rows, as an audit or a certificate takes them.

    Attributes
    ----------
    names, rows
        Who they are, and how many rows each has.
    reduced
        Whether it is smaller than the campaign.
    limits
        Whether nobody has reported yet, so that the rows are the most that the campaign allows.
    """

    names: tuple[str, ...]
    rows: tuple[int, ...]
    reduced: bool = False
    limits: bool = False

    def __str__(self) -> str:
        least, most = min(self.rows), max(self.rows)
        sizes = f"{least:,}" if least == most else f"{least:,} to {most:,}"
        smaller = " (a smaller setting than the campaign's, to be quick)" if self.reduced else ""
        return f"{len(self.names)} providers with {sizes} rows{smaller}"


def setting_of(
    campaign: Campaign, reports: Sequence[Report], providers: int | None = None, rows: int | None = None
) -> Setting:
    """Return the sizes of a campaign: those of its reports, or those that are asked for."""
    sizes = {report.provider: report.rows for report in reversed(reports)}
    names = list(dict.fromkeys(report.provider for report in reports))
    limits = not names and rows is None
    if not names and (providers is None or rows is None):
        if campaign.rows is None or not campaign.providers:
            raise DataError("there are no reports to take sizes from: say how many providers and rows")
        names, sizes = list(campaign.providers), dict.fromkeys(campaign.providers, campaign.rows)
    if providers is not None:
        names = [*names, *(f"provider {i + 1}" for i in range(providers))][:providers]
    if len(names) < 2:
        raise DataError("there must be at least two providers")
    counts = tuple(sizes.get(name, 1) if rows is None else rows for name in names)
    return Setting(tuple(names), counts, limits=limits)


def reduced(setting: Setting) -> Setting:
    """Return a setting that is quick to simulate: some of the providers, evenly chosen, with some of their rows."""
    step = max(1, len(setting.names) / MOST_PROVIDERS)
    places = [int(i * step) for i in range(min(len(setting.names), MOST_PROVIDERS))]
    names = tuple(setting.names[i] for i in places)
    rows = tuple(min(setting.rows[i], MOST_ROWS) for i in places)
    return replace(setting, names=names, rows=rows, reduced=(names, rows) != (setting.names, setting.rows))


def evidence_cost(models: Models) -> int:
    """Return how many closed forms the slowest log evidence takes as long as."""
    each = set(one_each(models))
    return max(model.evidence_cost if isinstance(model, HasEvidenceCost) else 1 for model in each)


def audit_campaign(campaign: Campaign, setting: Setting, reports: Sequence[Report] = (), **options: Any) -> Audit:
    """Simulate what the known lies of one provider earn under the campaign's model and rule.

    Peers are drawn a few times only, which changes no expected payment. Models that take long are simulated less.
    Providers whose reports come with features have these, and their decoys are drawn as they are when they are paid.
    """
    by_name = {report.provider: report for report in reports if not campaign.waits}
    fewer = [_first_rows(by_name.get(name), rows) for name, rows in zip(setting.names, setting.rows, strict=True)]
    models = with_features(campaign.models_for(setting.names), fewer)
    if "simulations" in options:
        options["simulations"] = max(_FEWEST_SIMULATIONS, options["simulations"] // evidence_cost(models))
    rule = campaign.rule_for(models, len(setting.names)).drawing(_DRAWS)
    liar = sorted(range(len(setting.rows)), key=lambda i: setting.rows[i])[len(setting.rows) // 2]
    return audit(models, rule, rows=list(setting.rows), liar=liar, **options)


def _first_rows(report: Report | None, rows: int) -> Report | None:
    """Return a report with the features of its first rows, if there are as many."""
    if report is None or report.features is None or len(report.features) < rows or rows == 0:
        return None
    return replace(report, features=report.features[:rows], rows=rows)


def certify_campaign(campaign: Campaign, setting: Setting, reports: Sequence[Report] = ()) -> Certificate:
    """Say what is proved about the campaign, for reports of up to the declared or the actual rows.

    Peers report at least the rows of the setting, if these are not the campaign's limits. Reports, where there are any,
    say whose decoys are drawn from a likelihood that the model itself expands.
    """
    models, most = campaign.models_for(setting.names), _most_rows(campaign, setting)
    drawn = _drawn(campaign, setting, models, reports)
    groups = [campaign.group_of(name) for name in setting.names] if campaign.groups else None
    least = None if setting.limits else [min(n, campaign.rows or n) for n in setting.rows]
    return certify(models, most, campaign.rule, campaign.values, groups=groups, least=least, drawn=drawn)


def truthful_claim(campaign: Campaign, setting: Setting, reports: Sequence[Report] = ()) -> Claim:
    """Return what the certificate says about gains by lies alone, without the rest of it."""
    models, most = campaign.models_for(setting.names), _most_rows(campaign, setting)
    rule = campaign.rule.prepared(models, most, campaign.values)
    claim = rule.truthful(models, most, campaign.values)
    return in_the_limit(claim, _drawn(campaign, setting, models, reports), draws=rule.needs_seed)


def _drawn(campaign: Campaign, setting: Setting, models: Models, reports: Sequence[Report]) -> Models:
    """Return the models that peers are drawn from: with features, where reports come with them."""
    by_name = {report.provider: report for report in reports if not campaign.waits}
    return with_features(models, [by_name.get(name) for name in setting.names])


def _most_rows(campaign: Campaign, setting: Setting) -> list[int]:
    return list(setting.rows) if campaign.rows is None else [campaign.rows] * len(setting.names)
