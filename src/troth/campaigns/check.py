"""Certificates and audits of a campaign: what is proved about it, and what lies would earn."""

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
    """The providers of an audit or a certificate, with their numbers of rows.

    Attributes
    ----------
    names, rows
        The providers' names, and each one's number of rows.
    reduced
        Whether it is smaller than the campaign.
    limits
        Whether there are no reports yet, so that ``rows`` are the maximum that the campaign allows.
    requested
        Whether the caller chose the numbers of rows, instead of taking them from reports.
    """

    names: tuple[str, ...]
    rows: tuple[int, ...]
    reduced: bool = False
    limits: bool = False
    requested: bool = False

    def __str__(self) -> str:
        smallest, largest = min(self.rows), max(self.rows)
        sizes = f"{smallest:,}" if smallest == largest else f"{smallest:,} to {largest:,}"
        smaller = " (smaller than the campaign, to save time)" if self.reduced else ""
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
    return Setting(tuple(names), counts, limits=limits, requested=rows is not None)


def reduced(setting: Setting) -> Setting:
    """Return a setting that is quick to simulate: evenly spaced providers, with limited numbers of rows."""
    step = max(1, len(setting.names) / MAX_PROVIDERS)
    chosen = [int(i * step) for i in range(min(len(setting.names), MAX_PROVIDERS))]
    names = tuple(setting.names[i] for i in chosen)
    rows = tuple(min(setting.rows[i], MAX_ROWS) for i in chosen)
    return replace(setting, names=names, rows=rows, reduced=(names, rows) != (setting.names, setting.rows))


def evidence_cost(models: Models) -> int:
    """Return the cost of the slowest model's log evidence, relative to a closed form."""
    return max(declared(model).evidence_cost for model in set(one_each(models)))


def audit_campaign(
    campaign: Campaign,
    setting: Setting,
    reports: Sequence[Report] = (),
    *,
    min_simulations: int = _MIN_SIMULATIONS,
    **options: Any,
) -> Audit:
    """Simulate what the known lies of one provider earn under the campaign's model and rule.

    The rule draws only a few sets of peers, which changes no expected payment. Slow models are simulated less often,
    but at least ``min_simulations`` times. Features that come with reports are used, and decoys are then drawn from
    the likelihood itself, as they are when the campaign pays.
    """
    models = _audited_models(campaign, setting, reports)
    if "simulations" in options:
        options["simulations"] = max(min_simulations, options["simulations"] // evidence_cost(models))
    rule = campaign.rule_for(models, len(setting.names)).drawing(_DRAWS)
    liar = sorted(range(len(setting.rows)), key=lambda i: setting.rows[i])[len(setting.rows) // 2]
    return audit(models, rule, rows=list(setting.rows), liar=liar, **options)


def audited_rows(campaign: Campaign, setting: Setting, reports: Sequence[Report] = ()) -> str:
    """Describe what an audit draws if that depends on features or on a limit; empty if reports are drawn exactly.

    Examples
    --------
    >>> from troth.campaigns.terms import Campaign
    >>> model = {"family": "Bernoulli", "columns": ["x"], "prior": {"alpha": 1, "beta": 1}}
    >>> terms = {"campaign": {"name": "x", "budget": "1"}, "model": model}
    >>> audited_rows(Campaign.from_dict(terms), Setting(("a", "b"), (9, 9)))
    ''
    """
    models = one_each(_audited_models(campaign, setting, reports), len(setting.names))
    with_own_features = sum(isinstance(model, HasFeatures) for model in models)
    limit = declared(models[0]).draws_limit
    if not with_own_features and not limit:
        return ""
    if not with_own_features and not isinstance(models[0], DrawsAnswers):
        return f"reports and decoys are drawn from the limit of {limit}"
    approximate = (
        "all features, including constants, are standard normal, answers come from the likelihood, decoys from its "
        "normal limit"
    )
    exact = "features come from the data, answers and decoys from the likelihood"
    if with_own_features in (0, len(models)):
        return exact if with_own_features else approximate
    return f"for {with_own_features} of {len(models)} providers {exact}; for the others {approximate}"


def _audited_models(campaign: Campaign, setting: Setting, reports: Sequence[Report]) -> Model | list[Model]:
    """Return the models that an audit draws from, with features where a report has enough of them."""
    sized_reports = zip(_reports_for_decoys(campaign, setting, reports), setting.rows, strict=True)
    return with_features(campaign.models_for(setting.names), [_first_rows(*sized) for sized in sized_reports])


def _first_rows(report: Report | None, rows: int) -> Report | None:
    """Return a report with the features of its first rows, or None if it has fewer."""
    if report is None or report.features is None or len(report.features) < rows or rows == 0:
        return None
    return replace(report, features=report.features[:rows], rows=rows)


def certify_campaign(campaign: Campaign, setting: Setting, reports: Sequence[Report] = ()) -> Certificate:
    """Return what is proved about the campaign, for reports of up to the declared or the actual numbers of rows.

    Unless the setting's rows are the campaign's limits, peers are assumed to report at least these. Reports of several
    days give each day its own numbers of rows; the weakest version of each claim is returned. Reports with features
    also determine whose decoys are drawn from the likelihood itself, which the model expands.
    """
    groups = campaign.group_numbers(setting.names) if campaign.groups else None
    max_rows = _max_rows(campaign, setting, reports)

    def certified(day: Campaign, rows: Sequence[int]) -> Certificate:
        models = day.models_for(setting.names)
        min_rows = None if setting.limits else [min(n, campaign.rows or n) for n in rows]
        drawn = with_features(models, _reports_for_decoys(campaign, setting, reports))
        return certify(models, max_rows, campaign.rule, campaign.values, groups=groups, min_rows=min_rows, drawn=drawn)

    days = _days(campaign, setting, reports)
    if len(days) > 1 and not campaign.public_by_day:
        of_all_days = certified(campaign, [min(rows) for rows in zip(*(rows for _, rows in days), strict=True)])
        if any(claim.name == "sensitive" and claim.verdict == "proved" for claim in of_all_days.claims):
            return of_all_days  # more rows never hide a lie
    return weakest([certified(*day) for day in days])


def truthful_claim(campaign: Campaign, setting: Setting, reports: Sequence[Report] = ()) -> Claim:
    """Return only what the certificate says about gains by lies."""
    certificates = []
    for day in {id(day): day for day, _ in _days(campaign, setting, reports)}.values():
        models, max_rows = day.models_for(setting.names), _max_rows(campaign, setting, reports)
        rule = campaign.rule.prepared(models, max_rows, campaign.values)
        claim = rule.truthful(models, max_rows, campaign.values)
        drawn = with_features(models, _reports_for_decoys(campaign, setting, reports))
        certificates.append(Certificate((claim.in_the_limit(drawn, draws=rule.needs_seed),)))
    return weakest(certificates).claims[0]


def _days(campaign: Campaign, setting: Setting, reports: Sequence[Report]) -> list[tuple[Campaign, tuple[int, ...]]]:
    """Return distinct pairs: the campaign with one day's public data, and each provider's number of rows as a peer.

    If a rule compares days, a provider whose number of rows differs between them does not count as a peer.
    """
    by_day = reports_by_day(reports)
    if setting.limits or setting.requested or len(by_day) < 2:
        days = list(campaign.public) if campaign.public_by_day else [None]
        return [(campaign.on(day), setting.rows) for day in (by_day if len(by_day) == 1 else days)]
    sizes = [{report.provider: report.rows for report in day} for day in by_day.values()]
    rows = np.array([[day.get(name, 0) for name in setting.names] for day in sizes])
    compared = max(1, min(campaign.rule.days, len(rows)))
    windows = np.lib.stride_tricks.sliding_window_view(rows, compared, axis=0)
    min_rows = windows.min(axis=-1)
    if not campaign.rule.exchangeable:
        min_rows = np.where(windows.max(axis=-1) == min_rows, min_rows, 0)
    min_rows_by_day = zip(map(campaign.on, by_day), map(tuple, min_rows.tolist()), strict=False)
    return list({(id(day), rows): (day, rows) for day, rows in min_rows_by_day}.values())


def _reports_for_decoys(campaign: Campaign, setting: Setting, reports: Sequence[Report]) -> list[Report | None]:
    """Return each provider's report, whose features decoys are drawn with, or None if the rule compares days."""
    by_name = {report.provider: report for report in reports if not campaign.waits}
    return [by_name.get(name) for name in setting.names]


def _max_rows(campaign: Campaign, setting: Setting, reports: Sequence[Report]) -> list[int]:
    """Return each provider's maximum number of rows: the campaign's limit, or the size of its largest report."""
    if campaign.rows is not None:
        return [campaign.rows] * len(setting.names)
    max_rows = dict(zip(setting.names, setting.rows, strict=True))
    for report in () if setting.requested or setting.reduced else reports:
        max_rows[report.provider] = max(report.rows, max_rows.get(report.provider, 0))
    return [max_rows[name] for name in setting.names]
