"""Commands on past days: learn the model from them, and replay the known lies on them."""

from __future__ import annotations

import os
import shlex
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from troth.cli.options import AsJson, CampaignFile, DayColumn, HistoryFile, PlotFile, ProviderColumn
from troth.cli.output import progress_bar, show, warn
from troth.core.errors import ParameterError

if TYPE_CHECKING:
    from troth.campaigns.terms import Campaign
    from troth.core.past import History
    from troth.models.fitting.fitted import Fitted

Types = Annotated[
    int | None, typer.Option(help="The number of day types.", min=1, show_default="chosen on held-out days")
]
Spread = Annotated[
    float | None, typer.Option(help="Standard deviation of values within a day.", show_default="from the history")
]

Recent = Annotated[int | None, typer.Option(help="Fit only the last N days.", min=1, show_default="all days")]

DaysAhead = Annotated[
    int | None, typer.Option(help="Let offsets drift; fit for the next N days.", min=1, show_default="no drift")
]


def fit(
    campaign: CampaignFile,
    history: Annotated[
        Path | None,
        typer.Argument(metavar="HISTORY", help="Past days: a file, a folder or a pattern.", show_default=False),
    ] = None,
    family: Annotated[
        str | None,
        typer.Option(
            help="Any family that can be fitted.",
            show_default="the first that learns each provider from these data; for tasks, the campaign's",
        ),
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="An option of the family's fit, such as starts=8, or a fixed parameter, such as noise=2.",
        ),
    ] = None,
    types: Types = None,
    seed: Annotated[int, typer.Option(help="Seed for the random starting points.", min=0)] = 0,
    spread: Spread = None,
    recent: Recent = None,
    ahead: DaysAhead = None,
    provider: ProviderColumn = None,
    day: DayColumn = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The new campaign file.", show_default="fitted.toml in the same folder"),
    ] = None,
    gold: Annotated[Path | None, typer.Option(help="True labels of some past tasks.", show_default="none")] = None,
    pilot: Annotated[
        Path | None,
        typer.Option(help="Published rows that fix the point of expansion, instead of HISTORY.", show_default="none"),
    ] = None,
    plot: PlotFile = None,
    as_json: AsJson = False,
) -> None:
    """Learn the prior and each provider's model from past days, or tasks, as a campaign file."""
    from troth.campaigns.past import read_fit_options, reject_paid
    from troth.campaigns.terms import Campaign

    terms = Campaign.load(campaign)
    target = output or campaign.with_name("fitted.toml")
    reject_paid(target)
    if (pilot is None) == (history is None):
        raise typer.BadParameter("give either HISTORY or --pilot", param_hint="HISTORY")
    if pilot is not None:
        _recentre(terms, pilot, target, as_json)
        return
    assert history is not None  # noqa: S101 (one of them is given)
    if terms.task is not None:
        day_options = {"--types": types, "--spread": spread, "--ahead": ahead, "--recent": recent, "--plot": plot}
        for name, value in {**day_options, "--provider": provider, "--day": day, "--option": option or None}.items():
            if value is not None:
                raise ParameterError(f"{name} is for past days, but {campaign} pays for tasks")
        _fit_tasks(terms, history, gold, family, target, as_json)
        return
    if gold is not None:
        raise ParameterError(f"--gold is for tasks, but {campaign} pays for days")
    options: dict[str, Any] = {"seed": seed, "types": types, "spread": spread, "ahead": ahead}
    options |= read_fit_options(terms, family, option or ())
    learned, used = _fit_days(terms, history, family, target, options, provider=provider, day=day, recent=recent)
    if plot is not None:
        from troth.history.plots import plot_fit

        plot_fit(learned, used, plot)
    plain = {"campaign": str(target), "model": learned.model_table(), "days": len(used.days)}
    command = _arguments(campaign, history, provider, day)
    advice = f"wrote {target}: see what lies would have earned with troth backtest {command}"
    show(plain, as_json, f"{learned}\n", advice, warnings=learned.caveats(terms.categories or ()))


def _fit_days(
    terms: Campaign,
    history: Path,
    family: str | None,
    target: Path,
    options: dict[str, Any],
    *,
    recent: int | None,
    **columns: str | None,
) -> tuple[Fitted, History]:
    """Learn the model from past days, write the campaign file, and return the fitted model and the days it used."""
    from troth.campaigns.past import fit_campaign, fitted_text, read_history

    with progress_bar() as progress:
        past = read_history(terms, str(history), **columns, progress=progress, notice=warn)
        used = past if recent is None else past.select(days=past.days[-recent:])
        options["progress"] = lambda share, step: progress("fitting", round(100 * share), 100)  # noqa: ARG005
        learned = fit_campaign(terms, used, family, **options)
    source = os.path.relpath(history, target.parent)
    _write_campaign(terms, target, fitted_text(terms, learned, past, source, **columns, recent=recent))
    return learned, used


def _write_campaign(terms: Campaign, target: Path, text: str) -> None:
    """Write the campaign file with the learnt model, and commit to a new seed if the rule draws."""
    from troth.campaigns.commit import commit
    from troth.campaigns.records.ledger import write_atomic

    write_atomic(target, text.encode())
    if terms.draws:
        commit(target, new_file=True)


def _arguments(campaign: Path, history: Path, provider: str | None, day: str | None) -> str:
    """Return the arguments of another command on the same history."""
    columns = (("provider", provider), ("day", day))
    arguments = [
        str(campaign),
        str(history),
        *(word for name, value in columns if value for word in (f"--{name}", value)),
    ]
    return shlex.join(arguments)


def _recentre(terms: Campaign, pilot: Path, target: Path, as_json: bool) -> None:
    """Expand the campaign's likelihood around a published pilot."""
    from troth.campaigns.past import recentred_text
    from troth.campaigns.terms import Campaign

    _write_campaign(terms, target, recentred_text(terms, pilot))
    table = Campaign.load(target).plain["model"]
    plain = {"campaign": str(target), "point": table["point"], "pilot": table["pilot"]}
    point = ", ".join(f"{number:.4g}" for number in table["point"])
    show(plain, as_json, f"point = [{point}], from {pilot.name}", f"wrote {target}: publish {pilot.name} with it")


def _fit_tasks(
    terms: Campaign, history: Path, gold: Path | None, family: str | None, target: Path, as_json: bool
) -> None:
    """Learn the model from past tasks."""
    from troth.campaigns.past import fit_tasks, fitted_text

    learned = fit_tasks(terms, str(history), None if gold is None else str(gold), family)
    source = os.path.relpath(history, target.parent)
    _write_campaign(terms, target, fitted_text(terms, learned.fitted, learned.reports, source))
    plain: dict[str, Any] = {"campaign": str(target), "tasks": len(learned.reports.tasks)}
    plain |= {"workers": len(learned.reports.providers), "gold": learned.gold, "notes": list(learned.notes)}
    advice = f"wrote {target}: pay other tasks under it with troth pay {target}"
    show(plain, as_json, f"{learned.fitted}\n", advice, warnings=learned.notes)


def backtest(
    campaign: CampaignFile,
    history: HistoryFile,
    types: Types = None,
    split: Annotated[
        Literal["rolling", "blocks"],
        typer.Option(
            help="rolling: fit to the past and pay the next stretch, as a campaign does. blocks: fit to the days "
            "before and after each block, which interpolates and says nothing about drift."
        ),
    ] = "rolling",
    folds: Annotated[
        int | None, typer.Option(help="Stretches of days, or blocks.", min=1, show_default="5, or fewer")
    ] = None,
    first: Annotated[
        int | None,
        typer.Option(help="Days before the first stretch.", min=1, show_default="a quarter, but at least 30"),
    ] = None,
    recent: Recent = None,
    ahead: DaysAhead = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same backtest.", min=0)] = 0,
    spread: Spread = None,
    provider: ProviderColumn = None,
    day: DayColumn = None,
    plot: PlotFile = None,
    as_json: AsJson = False,
) -> None:
    """Replay the known lies on past days, under models that never saw them."""
    from troth.campaigns.past import AS_DECLARED, backtest_campaign, read_history
    from troth.campaigns.terms import Campaign

    terms = Campaign.load(campaign)
    with progress_bar() as progress:
        past = read_history(terms, str(history), provider=provider, day=day, progress=progress, notice=warn)
        comparison = backtest_campaign(
            terms,
            past,
            types=types,
            spread=spread,
            split=split,
            folds=folds,
            first=first,
            recent=recent,
            ahead=ahead,
            seed=seed,
            progress=partial(progress, "replaying"),
        )
    recommended = comparison[comparison.recommended]
    if plot is not None:
        recommended.plot(plot)
    options = {"family": recommended.family, "recent": recommended.recent, "ahead": recommended.ahead}
    options_text = "".join(f" --{option} {value}" for option, value in options.items() if value is not None)
    advice = f"\nlearn that model with: troth fit {_arguments(campaign, history, provider, day)}{options_text}"
    text = f"{comparison}\n\nproviders under {recommended.name}:\n"
    text += "\n".join([recommended.details, *recommended.omissions, recommended.outcome])
    next_step = [advice] if comparison.advisable and recommended.name != AS_DECLARED else []
    show({**comparison.to_dict(), "left_out": list(recommended.left_out)}, as_json, text, *next_step)
