"""Commands that check a campaign before it pays: what is proved about it, and what lies would earn."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from troth.cli.options import AsJson, CampaignFile, PlotFile
from troth.cli.output import progress_bar, show

if TYPE_CHECKING:
    from troth.campaigns.terms import Campaign
    from troth.cli.output import ProgressCallback
    from troth.data import Report


def audit(
    campaign: CampaignFile,
    simulations: Annotated[
        int | None,
        typer.Option(
            help="The number of simulations.", min=2, show_default="20,000, or as few as 2,000 for a slow model"
        ),
    ] = None,
    providers: Annotated[
        int | None, typer.Option(help="The number of providers.", min=2, show_default="as in the data, up to 12")
    ] = None,
    rows: Annotated[
        int | None,
        typer.Option(help="The number of rows of each provider.", min=1, show_default="as in the data, up to 200"),
    ] = None,
    plot: PlotFile = None,
    as_json: AsJson = False,
) -> None:
    """Simulate what honest and dishonest providers would earn."""
    from troth.campaigns.check import audit_campaign, audited_rows, reduced, setting_of
    from troth.campaigns.terms import Campaign, beside

    terms = Campaign.load(campaign)
    if terms.task is not None:
        from troth.campaigns.task_checks import audit_task_campaign
        from troth.core.reductions.reduction import counted_labels

        audited = audit_task_campaign(terms, beside(terms, terms.source or ()), simulations=simulations or 20_000)
        labels = counted_labels(terms.request.reduction) is not None
        subject = "its tasks" if labels else "a task with the most common number of workers"
        prior = ", ".join(f"{name} {share:.0%}" for name, share in audited.prior.items())
        under = f"; classes and labels are drawn from [model]: {prior}" if prior else ""
        plain = {**audited.lies.to_dict(), "prior": audited.prior, "contradiction": audited.contradiction}
        warnings = []
        if reason := audited.contradiction:
            warnings.append(f"the campaign's labels contradict this model, so lies may earn more or less: {reason}")
        text = f"one worker lies on {subject}, its peers are honest{under}\n{audited.lies}"
        show(plain, as_json, text, warnings=warnings)
        return
    with progress_bar() as progress:
        reports = _reports(terms, providers, rows, progress)
        setting = setting_of(terms, reports, providers, rows)
        setting = setting if providers is not None or rows is not None else reduced(setting)
        options = {"simulations": simulations or 20_000, "min_simulations": simulations or 2_000}
        earnings = audit_campaign(terms, setting, reports, progress=partial(progress, "auditing"), **options)
        drawn = audited_rows(terms, setting, reports)
    if plot is not None:
        earnings.plot(plot)
    plain = {**earnings.to_dict(), "providers": len(setting.names), "rows": list(setting.rows), "drawn": drawn}
    picture = [] if plot is None else [f"\npicture  {plot}"]
    head = f"{setting}; one of them lies, the others are honest\n" + (f"{drawn}\n" if drawn else "")
    show(plain, as_json, f"{head}{earnings}", *picture)


def certify(
    campaign: CampaignFile,
    providers: Annotated[
        int | None, typer.Option(help="The number of providers.", min=2, show_default="as in the data")
    ] = None,
    rows: Annotated[
        int | None, typer.Option(help="The number of rows of each provider.", min=1, show_default="as in the data")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what is proved about a campaign, and what is not."""
    from troth.campaigns.check import certify_campaign, setting_of
    from troth.campaigns.terms import Campaign, beside
    from troth.results.page import ASSUMED

    terms = Campaign.load(campaign)
    if terms.task is not None:
        from troth.campaigns.task_checks import certify_task_campaign
        from troth.results.task_page import assumed_of

        setting_lines, assumed = [], assumed_of(terms)
        certificate = certify_task_campaign(terms, beside(terms, terms.source or ()))
    else:
        with progress_bar() as progress:
            reports = _reports(terms, providers, rows, progress)
        setting, assumed = setting_of(terms, reports, providers, rows), ASSUMED
        certificate = certify_campaign(terms, setting, reports)
        days = len({report.day for report in reports})
        on_days = f" on the first of {days} days; claims hold on all of them" if days > 1 and rows is None else ""
        setting_lines = [f"{setting}{on_days}"]
    lines = [*setting_lines, f"{certificate}\n", "assumed, not proved:", *(f"  – {line}" for line in assumed)]
    show({"claims": certificate.to_dict(), "assumed": list(assumed)}, as_json, *lines)


def _reports(terms: Campaign, providers: int | None, rows: int | None, progress: ProgressCallback) -> list[Report]:
    """Read the reports that give the numbers of providers and rows, if they are needed."""
    from troth.results.pay import read_campaign

    if (providers is not None and rows is not None) or (terms.source is None and terms.providers):
        return []
    return read_campaign(terms, progress)
