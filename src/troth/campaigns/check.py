"""What is proved about a campaign, and what lies would earn in it: certificates and audits of a campaign file."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from troth.audits import Audit, audit
from troth.campaigns.settle import with_features
from troth.certificates import Certificate, certify
from troth.certificates.claims import weakest
from troth.core.contract import DrawsAnswers, HasFeatures
from troth.core.declarations import declared
from troth.core.errors import DataError
from troth.core.provider_models import one_each
from troth.data.read import reports_by_day

if TYPE_CHECKING:
    from collections.abc import Sequence

    from troth.campaigns.terms import Campaign
    from troth.core.claims import Claim
    from troth.core.contract import Model, Models
    from troth.data import Report

MAX_PROVIDERS, MAX_ROWS = 12, 200
_DRAWS, _MIN_SIMULATIONS = 8, 200


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
    asked
        Whether the rows are what somebody asked for, not those of reports.
    """

    names: tuple[str, ...]
    rows: tuple[int, ...]
    reduced: bool = False
    limits: bool = False
    asked: bool = False

    def __str__(self) -> str:
        least, most = min(self.rows), max(self.rows)
        sizes = f"{least:,}" if least == most else f"{least:,} to {most:,}"
        smaller = " (a smaller setting than the campaign's, to be quick)" if self.reduced else ""
        return f"{len(self.names)} providers with {sizes} rows{smaller}"


def setting_of(
    campaign: Campaign, reports: Sequence[Report], providers: int | None = None, rows: int | None = None
) -> Setting:
    """Return the sizes of a campaign's reports, or the requested ones."""
    sizes = {report.provider: report.rows for report in reversed(reports)}
    names = list(dict.fromkeys(report.provider for report in reports))
    limits = not names and rows is None
    if not names and (providers is None or rows is None):
        if campaign.rows is None or not campaign.providers:
            raise DataError("there are no reports to take sizes from: give the numbers of providers and rows")
        names, sizes = list(campaign.providers), dict.fromkeys(campaign.providers, campaign.rows)
    if providers is not None:
        names = [*names, *(f"provider {i + 1}" for i in range(providers))][:providers]
    if len(names) < 2:
        raise DataError("there must be at least two providers")
    counts = tuple(sizes.get(name, 1) if rows is None else rows for name in names)
    return Setting(tuple(names), counts, limits=limits, asked=rows is not None)


def reduced(setting: Setting) -> Setting:
    """Return a setting that is quick to simulate: some of the providers, evenly chosen, with some of their rows."""
    step = max(1, len(setting.names) / MAX_PROVIDERS)
    places = [int(i * step) for i in range(min(len(setting.names), MAX_PROVIDERS))]
    names = tuple(setting.names[i] for i in places)
    rows = tuple(min(setting.rows[i], MAX_ROWS) for i in places)
    return replace(setting, names=names, rows=rows, reduced=(names, rows) != (setting.names, setting.rows))


def evidence_cost(models: Models) -> int:
    """Return the cost of the slowest log evidence, in closed forms."""
    return max(declared(model).evidence_cost for model in set(one_each(models)))


def audit_campaign(
    campaign: Campaign,
    setting: Setting,
    reports: Sequence[Report] = (),
    *,
    fewest: int = _MIN_SIMULATIONS,
    **options: Any,
) -> Audit:
    """Simulate what the known lies of one provider earn under the campaign's model and rule.

    Peers are drawn a few times only, which changes no expected payment. Models that take long are simulated less, but
    ``fewest`` times at least. Providers whose reports come with features have these, and their decoys are drawn as they
    are when they are paid.
    """
    models = _audited(campaign, setting, reports)
    if "simulations" in options:
        options["simulations"] = max(fewest, options["simulations"] // evidence_cost(models))
    rule = campaign.rule_for(models, len(setting.names)).drawing(_DRAWS)
    liar = sorted(range(len(setting.rows)), key=lambda i: setting.rows[i])[len(setting.rows) // 2]
    return audit(models, rule, rows=list(setting.rows), liar=liar, **options)


def audited_rows(campaign: Campaign, setting: Setting, reports: Sequence[Report] = ()) -> str:
    """Return what an audit draws, if features or a limit matter; empty if the model draws reports exactly.

    Examples
    --------
    >>> from troth.campaigns.terms import Campaign
    >>> model = {"family": "Bernoulli", "columns": ["x"], "prior": {"alpha": 1, "beta": 1}}
    >>> terms = {"campaign": {"name": "x", "budget": "1"}, "model": model}
    >>> audited_rows(Campaign.from_dict(terms), Setting(("a", "b"), (9, 9)))
    ''
    """
    models = one_each(_audited(campaign, setting, reports), len(setting.names))
    at_hand = sum(isinstance(model, HasFeatures) for model in models)
    of_draws = declared(models[0]).draws_limit
    if not at_hand and not of_draws:
        return ""
    if not at_hand and not isinstance(models[0], DrawsAnswers):
        return f"reports and decoys are drawn from the limit of {of_draws}"
    limit = (
        "features, also a constant, are standard normal, answers come from the likelihood, decoys from its normal limit"
    )
    own = "features come from the data, answers and decoys from the likelihood"
    if at_hand in (0, len(models)):
        return own if at_hand else limit
    return f"for {at_hand} of {len(models)} providers {own}; for the others {limit}"


def _audited(campaign: Campaign, setting: Setting, reports: Sequence[Report]) -> Model | list[Model]:
    """Return the models that an audit draws from: with features, where reports have as many."""
    reported = zip(_with_features(campaign, setting, reports), setting.rows, strict=True)
    return with_features(campaign.models_for(setting.names), [_first_rows(*report) for report in reported])


def _first_rows(report: Report | None, rows: int) -> Report | None:
    """Return a report with the features of its first rows, if there are as many."""
    if report is None or report.features is None or len(report.features) < rows or rows == 0:
        return None
    return replace(report, features=report.features[:rows], rows=rows)


def certify_campaign(campaign: Campaign, setting: Setting, reports: Sequence[Report] = ()) -> Certificate:
    """Return what is proved about the campaign, for reports of up to the declared or the actual rows.

    Peers report at least the rows of the setting, if these are not the campaign's limits; reports of several days say
    how many rows on each, and of every claim the weakest is returned. They say too whose decoys are drawn from a
    likelihood that the model itself expands.
    """
    groups = campaign.group_numbers(setting.names) if campaign.groups else None
    most = _max_rows(campaign, setting, reports)

    def certified(day: Campaign, rows: Sequence[int]) -> Certificate:
        models = day.models_for(setting.names)
        least = None if setting.limits else [min(n, campaign.rows or n) for n in rows]
        drawn = with_features(models, _with_features(campaign, setting, reports))
        return certify(models, most, campaign.rule, campaign.values, groups=groups, min_rows=least, drawn=drawn)

    days = _days(campaign, setting, reports)
    if len(days) > 1 and not campaign.public_by_day:
        of_all = certified(campaign, [min(rows) for rows in zip(*(rows for _, rows in days), strict=True)])
        if any(claim.name == "sensitive" and claim.verdict == "proved" for claim in of_all.claims):
            return of_all  # more rows never hide a lie
    return weakest([certified(*day) for day in days])


def truthful_claim(campaign: Campaign, setting: Setting, reports: Sequence[Report] = ()) -> Claim:
    """Return only what the certificate says about gains by lies."""
    certificates = []
    for day in {id(day): day for day, _ in _days(campaign, setting, reports)}.values():
        models, most = day.models_for(setting.names), _max_rows(campaign, setting, reports)
        rule = campaign.rule.prepared(models, most, campaign.values)
        claim = rule.truthful(models, most, campaign.values)
        drawn = with_features(models, _with_features(campaign, setting, reports))
        certificates.append(Certificate((claim.in_the_limit(drawn, draws=rule.needs_seed),)))
    return weakest(certificates).claims[0]


def _days(campaign: Campaign, setting: Setting, reports: Sequence[Report]) -> list[tuple[Campaign, tuple[int, ...]]]:
    """Return the campaign with each day's public data, and the rows of everybody as a peer, where days differ.

    Where a rule compares days, whoever has other rows on one of them is no peer.
    """
    by_day = reports_by_day(reports)
    if setting.limits or setting.asked or len(by_day) < 2:
        days = list(campaign.public) if campaign.public_by_day else [None]
        return [(campaign.on(day), setting.rows) for day in (by_day if len(by_day) == 1 else days)]
    sizes = [{report.provider: report.rows for report in day} for day in by_day.values()]
    rows = np.array([[day.get(name, 0) for name in setting.names] for day in sizes])
    compared = max(1, min(campaign.rule.days, len(rows)))
    windows = np.lib.stride_tricks.sliding_window_view(rows, compared, axis=0)
    fewest = windows.min(axis=-1)
    if not campaign.rule.exchangeable:
        fewest = np.where(windows.max(axis=-1) == fewest, fewest, 0)
    min_on = zip(map(campaign.on, by_day), map(tuple, fewest.tolist()), strict=False)
    return list({(id(day), rows): (day, rows) for day, rows in min_on}.values())


def _with_features(campaign: Campaign, setting: Setting, reports: Sequence[Report]) -> list[Report | None]:
    """Return everybody's report, with whose features decoys are drawn unless the rule compares days."""
    by_name = {report.provider: report for report in reports if not campaign.waits}
    return [by_name.get(name) for name in setting.names]


def _max_rows(campaign: Campaign, setting: Setting, reports: Sequence[Report]) -> list[int]:
    """Return the most rows that everybody may report: the limit, or those of the largest of its reports."""
    if campaign.rows is not None:
        return [campaign.rows] * len(setting.names)
    most = dict(zip(setting.names, setting.rows, strict=True))
    for report in () if setting.asked or setting.reduced else reports:
        most[report.provider] = max(report.rows, most.get(report.provider, 0))
    return [most[name] for name in setting.names]
