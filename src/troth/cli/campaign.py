"""Commands on campaign files: run the demo, start a campaign, commit to its seed, pay, and make statistics."""

from __future__ import annotations

import json
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from troth.cli.options import AsJson, CampaignFile
from troth.cli.output import STOPPED, print_result, progress_bar, report_poor_fit, rows_left_out, show, warn
from troth.core.errors import DataError, ParameterError

if TYPE_CHECKING:
    from troth.cli.output import ProgressCallback
    from troth.results.result import Result


def demo(
    directory: Annotated[Path, typer.Option("--directory", "-d", help="Where to write files.")] = Path("troth-demo"),
    as_json: AsJson = False,
) -> None:
    """Pay the bundled example: a dozen clinics, two of which lie."""
    from troth.campaigns.starter.demo import EMBELLISHES, INVENTS, write_demo
    from troth.results.pay import pay

    reported, honest = write_demo(directory)
    ledger = reported.parent / "ledger.jsonl"
    with progress_bar() as progress:
        result = pay(reported, ledger=ledger, progress=progress, anyway=True)
        truth = pay(honest, ledger=honest.parent / "ledger.jsonl", progress=progress, anyway=True)
        page = result.write_page(reported.parent / "report.html", progress=progress)
    lost = {name: truth.totals[name] - result.totals[name] for name in (INVENTS, EMBELLISHES)}
    if as_json:
        losses = {name: result.campaign.text(amount) for name, amount in lost.items()}
        show({**result.to_dict(), "lost_by_lying": losses, "report": str(page)}, as_json)
        return
    typer.echo("Twelve clinics report which patients improved. Nobody knows the true rate, and there is no test set.\n")
    print_result(result)
    typer.echo(
        f"\nTwo of them lied. {INVENTS} made its data up; {EMBELLISHES} turned most of its failures into successes."
    )
    money = result.campaign.show
    for name, loss in lost.items():
        typer.echo(
            f"  {name:<10} was paid {money(result.totals[name]):>10}, and would have been paid "
            f"{money(truth.totals[name]):>10} for the truth: lying cost {money(loss)}"
        )
    empty_share = result.rounds[0].payments[0].empty_share
    typer.echo(
        f"\nAn empty report would have been paid {empty_share:.0%} of the cap, because payments are never negative.\n"
        "Proved: under the model no report has a higher expected payment than the truth.\n"
        "Assumed: given the true rate, clinics are independent and all patients have this rate; the prior is right.\n\n"
        f"report   {page}\nledger   {ledger}"
    )


def init(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The folder to create.", show_default=False)],
    family: Annotated[
        str | None,
        typer.Option(help="The name of the model's family.", show_default="the first, or guessed from --data"),
    ] = None,
    rule: Annotated[
        str | None, typer.Option(help="The name of the payment rule.", show_default="the default rule")
    ] = None,
    daily: Annotated[bool, typer.Option("--daily", help="Write an example of five days.")] = False,
    data: Annotated[Path | None, typer.Option(help="Your own file or folder, instead of an example.")] = None,
    provider: Annotated[
        str | None, typer.Option(help="The column that names the provider.", show_default="one file each")
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option(
            help="The column that you pay for (several if a row is several numbers); with --target, "
            "the columns that predict it.",
            show_default="the others",
        ),
    ] = None,
    target: Annotated[str | None, typer.Option(help="The column that a regression predicts.")] = None,
    day: Annotated[str | None, typer.Option(help="The column of days, for a daily campaign.")] = None,
    task: Annotated[str | None, typer.Option(help="The column of tasks, which are settled together.")] = None,
    price: Annotated[
        str | None,
        typer.Option(help="With --task: the most that a report can earn.", show_default="0.05, or by --budget"),
    ] = None,
    budget: Annotated[
        str | None, typer.Option(help="The most that you spend.", show_default="1000.00; no limit with --task")
    ] = None,
    budget_per: Annotated[
        Literal["day", "campaign"],
        typer.Option(help="With --day: whether the budget is for each day, or for all of them together."),
    ] = "day",
    currency: Annotated[str, typer.Option(help="An ISO 4217 code, which fixes the decimals.")] = "EUR",
    as_json: AsJson = False,
) -> None:
    """Write a commented campaign file, with a small example dataset or for your own data."""
    if task is not None:
        other_options = {"--rule": rule, "--target": target, "--day": day, "--daily": daily or None}
        unused = [option for option, value in other_options.items() if value is not None]
        if unused:
            raise ParameterError(f"{unused[0]} cannot be combined with --task: edit the campaign file afterwards")
        table_options = {"provider": provider, "task": task, "columns": column, "family": family}
        _init_tasks(directory, data, as_json, **table_options, price=price, currency=currency, budget=budget)
        return
    if price is not None:
        raise ParameterError("--price is for reports on tasks: name their column with --task")
    money: dict[str, Any] = {"budget": budget or "1000.00", "currency": currency}
    columns = {"provider": provider, "column": column or None, "target": target, "day": day}
    if data is not None:
        _init_for_data(directory, data, as_json, family, rule, {**money, "budget_per": budget_per}, columns)
    elif any(value is not None for value in columns.values()):
        raise ParameterError("--provider, --column, --target and --day need --data")
    else:
        _init_example(directory, as_json, family=family, rule=rule, daily=daily, **money)


def _init_example(directory: Path, as_json: bool, **settings: Any) -> None:
    """Write a campaign with example data, if the family can draw some."""
    from troth.campaigns.starter.examples import init as write_example
    from troth.campaigns.terms import Campaign

    path = write_example(directory, **settings)
    data = path.parent / "data"
    if not any(data.iterdir()):
        text = (
            f"wrote {path} and {data}, which is empty: the family cannot draw an example\n"
            f"next: put a file for each provider into {data}, describe them in {path.name}, and run\n"
            f"      troth pay {quote(str(path))}"
        )
        show({"campaign": str(path)}, as_json, text)
        return
    reveals = " and reveals the seed" if Campaign.load(path).draws else ""
    text = (
        f"wrote {path} and {data}, an example\n"
        f"next: replace the files in {data} with yours, describe them in {path.name}, and run\n"
        f"      troth pay {quote(str(path))}\n"
        f"To try the example first, pay a copy: paying writes the ledger{reveals}."
    )
    show({"campaign": str(path)}, as_json, text)


def _init_for_data(
    directory: Path,
    data: Path,
    as_json: bool,
    family: str | None,
    rule: str | None,
    money: dict[str, Any],
    columns: dict[str, Any],
) -> None:
    """Write a campaign for existing data, and report what was guessed from them."""
    from troth.campaigns.starter.examples import Terms, start

    path, guessed = start(directory, data, family, rule, **money, **columns)
    terms = Terms(**money)
    text = (
        f'wrote {path} for {data}: family = "{guessed.family}"\n'
        "next: read it, above all [model] and its prior, correct what does not match your data, and run\n"
        f"      troth pay {quote(str(path))} --dry-run\n"
        "This pays nothing and shows whether the model fits. To pay, leave out --dry-run."
    )
    notes = list(guessed.notes)
    if guessed.from_data:
        notes.append(
            f"the prior in {path} was guessed from the data: replace it with what you knew before anybody reported"
        )
    if guessed.day is not None:
        period = "for each of" if terms.budget_per == "day" else "for all"
        notes.append(
            f"the budget of {terms.amount} {terms.currency} is {period} {guessed.days:,} days; see --budget-per"
        )
    plain = {"campaign": str(path), "family": guessed.family, "missing": guessed.missing, "notes": notes}
    show(plain, as_json, text, warnings=notes)


def _init_tasks(directory: Path, data: Path | None, as_json: bool, **settings: Any) -> None:
    """Write a campaign of tasks for each column."""
    from troth.campaigns.starter.columns import label_count
    from troth.campaigns.starter.task_campaign import start_tasks
    from troth.models import FAMILIES

    if data is None or settings["provider"] is None or not settings["columns"]:
        raise ParameterError("--task needs --data, --provider and --column: the file, its workers and what is paid for")
    started = start_tasks(directory, data, **settings)
    lines = [
        f'wrote {path} for {", ".join(guess.columns)} of {data}: family = "{guess.family}"' for path, guess in started
    ]
    families = {guess.family: FAMILIES[guess.family] for _, guess in started}
    if len(started) > 1:
        lines.append("each of these columns has its own campaign, with its own price or budget: pay them one by one")
    gold = ", with gold answers if you have any" if any(family.uses_gold for family in families.values()) else ""
    lines.append("next: read it, above all [model], a guess: replace it with what you knew before anybody answered,")
    lines.append(f"or learn it from past tasks{gold}:")
    for path, guess in started:
        gold_option = " --gold GOLD.csv" if families[guess.family].uses_gold else ""
        lines.append(f"      troth fit {quote(str(path))} PAST.csv{gold_option}")
    contradict = ", and whether labels contradict it" if any(map(label_count, families.values())) else ""
    lines.append(f"Then see what would be paid{contradict}; afterwards pay without --dry-run:")
    lines += [f"      troth pay {quote(str(path))} --dry-run" for path, _ in started]
    files = [{"campaign": str(path), "family": proposal.family, "notes": proposal.notes} for path, proposal in started]
    plain = {**files[0], "campaigns": files} if len(files) > 1 else files[0]
    show(plain, as_json, *lines, warnings=[note for _, proposal in started for note in proposal.notes])


def commit(campaign: CampaignFile, as_json: AsJson = False) -> None:
    """Fix the secret seed and publish its hash in the campaign file, before anybody reports."""
    from troth.campaigns.commit import commit as commit_to_seed
    from troth.campaigns.seed import secret_path

    commitment = commit_to_seed(campaign)
    secret = secret_path(campaign)
    text = f"{campaign} now says {commitment}\nkeep {secret} to yourself until the round is paid: the ledger reveals it"
    show({"commitment": commitment, "secret": str(secret)}, as_json, text)


def pay(
    campaign: CampaignFile,
    ledger: Annotated[
        Path | None,
        typer.Option(help="The ledger to create or continue.", show_default="ledger.jsonl in the same folder"),
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="Where to write the page.", show_default="report.html next to the ledger")
    ] = None,
    csv: Annotated[Path | None, typer.Option(help="Write payments as CSV too.")] = None,
    final: Annotated[bool, typer.Option("--final", help="Pay the last day too, because no other follows.")] = False,
    no_report: Annotated[bool, typer.Option("--no-report", help="Write no page.")] = False,
    beacon: Annotated[str | None, typer.Option(help="The value of the public beacon that the terms name.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show everything, but write, reveal and pay nothing.")
    ] = False,
    anyway: Annotated[bool, typer.Option("--anyway", help="Pay even if the model does not fit.")] = False,
    as_json: AsJson = False,
) -> None:
    """Pay what has become payable. If the model does not fit, exit with code 3 instead, also in a dry run."""
    from troth.campaigns.terms import Campaign
    from troth.results.pay import pay_campaign

    terms = Campaign.load(campaign)
    ledger_path = ledger or campaign.parent / "ledger.jsonl"
    page = report or page_beside(ledger_path)
    reject_same_file(campaign, ledger_path, *([] if no_report else [page]), *([] if csv is None else [csv]))
    with progress_bar() as progress:

        def approve(result: Result) -> bool:
            progress("checking", 0, 1)
            return not dry_run and (anyway or not result.verdict.stops)

        result = pay_campaign(terms, ledger=ledger_path, final=final, beacon=beacon, progress=progress, approve=approve)
        is_written = not result.is_dry_run and not dry_run
        if is_written:
            _write_beside(
                ledger_path, result, page=None if no_report or not result.rounds else page, csv=csv, progress=progress
            )
    if as_json:
        verdict = {"verdict": result.verdict.to_dict()} if result.rounds else {}
        show({**result.to_dict(), **verdict, "written": is_written}, as_json)
    else:
        print_result(result)
        if result.rounds:
            typer.echo(f"\n{result.verdict}")
    if result.is_dry_run:
        _print_unpaid(result, campaign, stopped=not dry_run)
        raise typer.Exit(STOPPED if result.verdict.stops and not anyway else 0)
    if not as_json:
        _print_paid(result, campaign, ledger_path, page if is_written and not no_report else None)


def _write_beside(
    ledger_path: Path, result: Result, *, page: Path | None, csv: Path | None, progress: ProgressCallback
) -> None:
    """Write the page and the payments as CSV, after the ledger."""
    try:
        if page is not None:
            result.write_page(page, progress=progress)
        if csv is not None:
            result.write_csv(csv)
    except OSError as error:
        raise DataError(
            f"{error.filename}: {error.strerror}. The payments are made and recorded in {ledger_path}; write the page "
            f"later with troth report {ledger_path}"
        ) from None


def _print_paid(result: Result, campaign: Path, ledger_path: Path, page: Path | None) -> None:
    """Print what was written, and warn about anything that weakens its guarantees."""
    from troth.campaigns.private_files import readable_by_others
    from troth.campaigns.seed import secret_path

    terms = result.campaign
    if not result.paid_now:
        waiting = "nothing is payable yet: a day is paid once the next one is in, or with --final"
        typer.echo("\nnothing to pay: everything has already been paid" if result.rounds else f"\n{waiting}")
    if terms.history is not None and terms.source is not None and terms.source == terms.history_source:
        warn("[history] and [data] name the same file: pay no days that the model was learnt from")
    if terms.draws and terms.commitment is None:
        warn("no commitment was published: nobody can check that the seed was not chosen at will; see troth commit")
    for path in (ledger_path, secret_path(campaign)):
        if readable_by_others(path):
            warn(f"other users can read {path}: run chmod 600 {path}")
    if result.rounds:
        report_line = "" if page is None else f"\nreport   {page}"
        typer.echo(f"\nledger   {ledger_path}   (head {result.ledger.head[:16]}…){report_line}")


def _print_unpaid(result: Result, campaign: Path, *, stopped: bool) -> None:
    """Print that nothing was paid and, if the model does not fit, what to do."""
    typer.echo("nothing was paid, written or revealed" + ("" if stopped else ": this was a dry run"), err=True)
    if result.verdict.stops:
        report_poor_fit(result.verdict.remedy, f"troth pay {campaign} --anyway", stopped=stopped)


def statistics(
    campaign: CampaignFile,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The provider's own rows.", show_default=False)],
    provider: Annotated[str | None, typer.Option(help="The provider's name.", show_default="the file's")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Where to write them.", show_default="next to FILE")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make the statistics that a provider submits instead of rows."""
    from troth.campaigns.records.ledger import write_atomic
    from troth.campaigns.statistics_file import make_statistics
    from troth.campaigns.terms import Campaign
    from troth.data.files import stem

    plain = make_statistics(Campaign.load(campaign), file, provider)
    text = json.dumps(plain, indent=1, ensure_ascii=False) + "\n"
    target = output or file.with_name(f"{stem(file)}.statistics.json")
    reject_same_file(target, campaign, file)
    write_atomic(target, text.encode())
    for line in rows_left_out(*plain.get("days", [plain])):
        typer.echo(f"note: {line}", err=True)
    typer.echo(
        text if as_json else f"wrote {target}: submit it instead of {file}, whose rows stay with you\n", nl=False
    )


def page_beside(ledger: Path) -> Path:
    """Return the path of a ledger's page: report.html, or named after the ledger unless that is ledger.jsonl."""
    return ledger.with_name("report.html" if ledger.name == "ledger.jsonl" else f"{ledger.stem}.report.html")


def reject_same_file(*paths: Path) -> None:
    """Raise if two paths are the same, so that no file overwrites another."""
    resolved = [path.resolve() for path in paths]
    for path in paths:
        if resolved.count(path.resolve()) > 1:
            raise DataError(f"{path}: two files have the same path")
