"""The command line, a twin of the library: every command calls one function that Python has too.

Results go to standard output, as text or with ``--json``; progress and complaints go to standard error. Exit codes: 0
for done, 1 for a failure that was handled, 2 for a command that was not understood.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from troth.cli import client
from troth.cli.client import progress as _progress
from troth.cli.service import serve, service
from troth.core.errors import ParameterError, TrothError

app = typer.Typer(
    name="troth",
    help="Pays for data so that telling the truth pays best.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

CampaignFile = Annotated[Path, typer.Argument(metavar="CAMPAIGN.toml", help="The campaign file.", show_default=False)]
LedgerFile = Annotated[Path, typer.Argument(metavar="LEDGER", help="The ledger file.", show_default=False)]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
ReportFile = Annotated[
    Path | None, typer.Option("--report", help="Where the report goes.", show_default="report.html beside")
]
PlotFile = Annotated[
    Path | None,
    typer.Option("--plot", help="Draw a picture too (needs troth[plots]).", callback=lambda path: _picture(path)),
]


def main() -> None:
    """Run the command line; failures that are understood become one message and exit code 1."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    try:
        app()
    except TrothError as error:
        _complain(str(error))
    except (PermissionError, FileNotFoundError, FileExistsError, NotADirectoryError, IsADirectoryError) as error:
        _complain(f"{error.filename}: {(error.strerror or 'cannot be used').lower()}")
    except OSError as error:
        _complain(f"{error.filename or 'the system'}: {error.strerror or error}")
    except MemoryError:
        _complain("this does not fit into memory")
    except KeyboardInterrupt:
        _complain("interrupted; nothing was left half-done", code=130)


def _complain(message: str, code: int = 1) -> None:
    sys.stderr.write(f"error: {message}\n")
    raise SystemExit(code)


def _version(wanted: bool) -> None:
    if wanted:
        from troth import __version__

        typer.echo(f"troth {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    del version


@app.command()
def demo(
    directory: Annotated[Path, typer.Option("--directory", "-d", help="Where its files go.")] = Path("troth-demo"),
    as_json: AsJson = False,
) -> None:
    """Pay the bundled example: a dozen clinics, two of which lie."""
    from troth.campaigns.starter.examples import EMBELLISHES, INVENTS, write_demo
    from troth.results.pay import pay

    told, honest = write_demo(directory)
    with _progress() as watch:
        result = pay(told, ledger=told.parent / "ledger.jsonl", watch=watch)
        truth = pay(honest, ledger=honest.parent / "ledger.jsonl", watch=watch)
        report = result.write_report(told.parent / "report.html", watch=watch)
    lost = {name: truth.totals[name] - result.totals[name] for name in (INVENTS, EMBELLISHES)}
    if as_json:
        _print_json(
            {
                **result.to_dict(),
                "lost_by_lying": {who: result.campaign.text(x) for who, x in lost.items()},
                "report": str(report),
            }
        )
        return
    show = result.campaign.show
    typer.echo("Twelve clinics report which patients improved. Nobody knows the true rate, and there is no test set.\n")
    _print_result(result)
    typer.echo(
        f"\nTwo of them lied. {INVENTS} made its data up; {EMBELLISHES} turned most of its failures into successes."
    )
    for name in (INVENTS, EMBELLISHES):
        typer.echo(
            f"  {name:<10} was paid {show(result.totals[name]):>10}, and would have been paid "
            f"{show(truth.totals[name]):>10} for the truth: lying cost {show(lost[name])}"
        )
    nothing = result.rounds[0].payments[0].nothing
    typer.echo(
        f"\nAn empty report would have been paid {nothing:.0%} of the cap: the price of never paying less than nothing."
    )
    typer.echo("Proved: under the model no report has a higher expected payment than the truth.")
    typer.echo("Assumed: given the true rate, clinics are independent and patients alike; the prior is right.")
    typer.echo(f"\nreport   {report}\nledger   {told.parent / 'ledger.jsonl'}")


@app.command()
def init(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A new folder.", show_default=False)],
    family: Annotated[
        str | None,
        typer.Option(
            help="The model's family, such as Bernoulli or LinearRegression.",
            show_default="Bernoulli, or by the data",
        ),
    ] = None,
    rule: Annotated[
        str | None, typer.Option(help="SyntheticPeers, MultiDay, OneTime or Brier.", show_default="SyntheticPeers")
    ] = None,
    daily: Annotated[bool, typer.Option("--daily", help="An example of five days.")] = False,
    data: Annotated[
        Path | None, typer.Option("--data", help="Your own file or folder, instead of an example; it stays there.")
    ] = None,
    provider: Annotated[
        str | None, typer.Option(help="Its column of providers.", show_default="each file is a provider's")
    ] = None,
    column: Annotated[
        list[str] | None, typer.Option(help="Its column that is paid for.", show_default="the only other")
    ] = None,
    day: Annotated[str | None, typer.Option(help="Its column of days, for a daily campaign.")] = None,
    budget: Annotated[str, typer.Option(help="What may be spent.")] = "1000.00",
    as_json: AsJson = False,
) -> None:
    """Write a commented campaign file, with a small example dataset or for your own data."""
    from troth.campaigns.starter.examples import init as write

    if column is not None and len(column) > 1:
        raise ParameterError(
            "--column is the one column that is paid for; for a regression or several columns write an example with "
            "troth init DIR --family LinearRegression, without --data, and put your source and columns into it"
        )
    path = write(
        directory,
        family,
        rule,
        daily=daily,
        data=data,
        provider=provider,
        column=column[0] if column else None,
        day=day,
        budget=budget,
    )
    if as_json:
        _print_json({"campaign": str(path)})
        return
    if data is not None:
        text = path.read_text(encoding="utf-8")
        if "# Guessed from these very data." in text:
            _warn(f"the prior in {path} was guessed from the data: replace it by what you knew before anybody reported")
        model = next(line for line in text.splitlines() if line.startswith("family"))
        typer.echo(
            f"wrote {path} for {data}: {model}\n"
            f"next: read it, above all [model] and its prior, change what is not so, and run\n      troth pay {path}"
        )
        return
    typer.echo(
        f"wrote {path} and {path.parent / 'data'}, an example\n"
        f"next: replace the files in {path.parent / 'data'} by yours, say in {path.name} what they hold, and run\n"
        f"      troth pay {path}\n"
        "To try the example first, pay a copy: whoever is paid is in the ledger, and its seed is revealed."
    )


@app.command()
def commit(campaign: CampaignFile, as_json: AsJson = False) -> None:
    """Fix the secret seed and publish its hash in the campaign file, before anybody reports."""
    from troth.campaigns.commit import commit as fix
    from troth.campaigns.seed import secret_path

    commitment = fix(campaign)
    if as_json:
        _print_json({"commitment": commitment, "secret": str(secret_path(campaign))})
        return
    typer.echo(
        f"{campaign} now says {commitment}\n"
        f"keep {secret_path(campaign)} to yourself until the round is paid: the ledger reveals it"
    )


@app.command()
def pay(
    campaign: CampaignFile,
    ledger: Annotated[
        Path | None,
        typer.Option("--ledger", help="The ledger to begin or continue.", show_default="ledger.jsonl beside"),
    ] = None,
    report: ReportFile = None,
    csv: Annotated[Path | None, typer.Option("--csv", help="Write payments as CSV too.")] = None,
    final: Annotated[bool, typer.Option("--final", help="No day follows the last one: pay it too.")] = False,
    no_report: Annotated[bool, typer.Option("--no-report", help="Write no report.")] = False,
    as_json: AsJson = False,
) -> None:
    """Pay what has become payable: payments, ledger, report."""
    from troth.campaigns.terms import Campaign
    from troth.core.errors import DataError
    from troth.results.pay import pay_campaign

    terms = Campaign.load(campaign)
    book = ledger or campaign.parent / "ledger.jsonl"
    page = report or campaign.parent / "report.html"
    _refuse_same(campaign, book, *([] if no_report else [page]), *([] if csv is None else [csv]))
    with _progress() as watch:
        result = pay_campaign(terms, ledger=book, final=final, watch=watch)
        try:
            if result.rounds and not no_report:
                result.write_report(page, watch=watch)
            if csv is not None:
                result.write_csv(csv)
        except OSError as error:
            raise DataError(
                f"{error.filename}: {error.strerror}. The payments are made and recorded in {book}; later "
                f"write the report with troth report {book}"
            ) from None
    if as_json:
        _print_json(result.to_dict())
        return
    _print_result(result)
    if not result.paid_now:
        waiting = "nothing is payable yet: a day is paid once the next one is in, or with --final"
        typer.echo("\nnothing new to pay: all of it had been paid before" if result.rounds else f"\n{waiting}")
    if terms.draws and terms.commitment is None:
        _warn("no commitment was published: nobody can check that the seed was not chosen at will; see troth commit")
    if result.rounds:
        typer.echo(
            f"\nledger   {book}   (head {result.ledger.head[:16]}…)" + ("" if no_report else f"\nreport   {page}")
        )


@app.command()
def audit(
    campaign: CampaignFile,
    rounds: Annotated[int, typer.Option(help="Rounds to simulate.", min=2)] = 20_000,
    providers: Annotated[
        int | None, typer.Option(help="How many providers.", min=2, show_default="as in the data, up to 12")
    ] = None,
    rows: Annotated[
        int | None, typer.Option(help="How many rows each has.", min=1, show_default="as in the data, up to 200")
    ] = None,
    plot: PlotFile = None,
    as_json: AsJson = False,
) -> None:
    """Simulate what honest and dishonest providers would earn."""
    from troth.campaigns.check import audit_campaign, reduced, setting_of
    from troth.campaigns.terms import Campaign

    terms = Campaign.load(campaign)
    setting = setting_of(terms, _reports(terms, providers, rows), providers, rows)
    setting = setting if providers is not None or rows is not None else reduced(setting)
    found = audit_campaign(terms, setting, rounds=rounds)
    if plot is not None:
        found.plot(plot)
    if as_json:
        _print_json({**found.to_dict(), "providers": len(setting.names), "rows": list(setting.rows)})
        return
    typer.echo(f"{setting}; one of them lies, the others are honest\n{found}")
    if plot is not None:
        typer.echo(f"\npicture  {plot}")


@app.command()
def certify(
    campaign: CampaignFile,
    providers: Annotated[
        int | None, typer.Option(help="How many providers.", min=2, show_default="as in the data")
    ] = None,
    rows: Annotated[
        int | None, typer.Option(help="How many rows each has.", min=1, show_default="as in the data")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say what is proved about a campaign, and what is not."""
    from troth.campaigns.check import certify_campaign, setting_of
    from troth.campaigns.terms import Campaign
    from troth.results.page import ASSUMED

    terms = Campaign.load(campaign)
    setting = setting_of(terms, _reports(terms, providers, rows), providers, rows)
    found = certify_campaign(terms, setting)
    if as_json:
        _print_json({"claims": found.to_dict(), "assumed": list(ASSUMED)})
        return
    typer.echo(f"{setting}\n{found}\n\nassumed, not proved:")
    for line in ASSUMED:
        typer.echo(f"  – {line}")


HistoryFile = Annotated[
    Path, typer.Argument(metavar="HISTORY", help="Past days: a file, a folder or a pattern.", show_default=False)
]
ProviderColumn = Annotated[str | None, typer.Option("--provider", help="The history's column of providers.")]
DayColumn = Annotated[str | None, typer.Option("--day", help="The history's column of days.")]
Spread = Annotated[
    float | None,
    typer.Option(help="Standard deviation of values within a day.", show_default="from the history"),
]


@app.command()
def fit(
    campaign: CampaignFile,
    history: HistoryFile,
    family: Annotated[
        str | None,
        typer.Option(
            help="LatentClass, ProviderNormal, or a family whose prior is fitted.", show_default="LatentClass"
        ),
    ] = None,
    types: Annotated[
        int | None, typer.Option(help="How many day types.", min=1, show_default="by held-out days")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the starts: the same seed gives the same fit.", min=0)] = 0,
    spread: Spread = None,
    provider: ProviderColumn = None,
    day: DayColumn = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The new campaign file.", show_default="fitted.toml beside")
    ] = None,
    plot: PlotFile = None,
    as_json: AsJson = False,
) -> None:
    """Learn prior and provider laws from past days, as a campaign file."""
    import os

    from troth.campaigns.ledger import write_whole
    from troth.campaigns.past import fit_campaign, fitted_text, read_history
    from troth.campaigns.terms import Campaign

    terms = Campaign.load(campaign)
    target = output or campaign.with_name("fitted.toml")
    with _progress() as watch:
        past = read_history(terms, str(history), provider=provider, day=day, watch=watch)
        options: dict[str, Any] = {"seed": seed, "types": types, "spread": spread}
        if watch is not None:
            options["watch"] = lambda share, words: watch("fitting", round(100 * share), 100)  # noqa: ARG005
        learned = fit_campaign(terms, past, family, **options)
    source = os.path.relpath(history, target.parent)
    write_whole(target, fitted_text(terms, learned, past, source, provider=provider, day=day).encode())
    if plot is not None:
        from troth.history.fit_plots import plot_fit

        plot_fit(learned, past, plot)
    if as_json:
        _print_json({"campaign": str(target), "model": learned.model_table(), "days": len(past.days)})
        return
    if learned.uninformative:
        _warn(
            "one day type explains these days best: they say nothing about each other, and everybody will be paid alike"
        )
    typer.echo(f"{learned}\n\nwrote {target}: see what lies would have earned with troth backtest {campaign} {history}")


@app.command()
def backtest(
    campaign: CampaignFile,
    history: HistoryFile,
    types: Annotated[
        int | None, typer.Option(help="How many day types.", min=1, show_default="by held-out days")
    ] = None,
    folds: Annotated[int, typer.Option(help="Blocks of days.", min=2)] = 5,
    seed: Annotated[int, typer.Option(help="The same seed gives the same backtest.", min=0)] = 0,
    spread: Spread = None,
    provider: ProviderColumn = None,
    day: DayColumn = None,
    plot: PlotFile = None,
    as_json: AsJson = False,
) -> None:
    """Replay the known lies on past days, under models that never saw them."""
    from troth.campaigns.past import backtest_campaign, read_history
    from troth.campaigns.terms import Campaign

    terms = Campaign.load(campaign)
    with _progress() as watch:
        past = read_history(terms, str(history), provider=provider, day=day, watch=watch)
        told = None if watch is None else lambda done, total: watch("replaying", done, total)
        found = backtest_campaign(terms, past, types=types, spread=spread, folds=folds, seed=seed, watch=told)
    if plot is not None:
        found[found.recommended].plot(plot)
    if as_json:
        _print_json(found.to_dict())
        return
    typer.echo(f"{found}\n\nproviders under {found.recommended}:\n{found[found.recommended]}")
    if found.recommended != "as declared":
        kind = found.recommended.split()[-1]
        option = {"types": "", "offsets": " --family ProviderNormal"}.get(kind, f" --family {kind}")
        typer.echo(f"\nlearn that model with: troth fit {campaign} {history}{option}")


@app.command()
def statistics(
    campaign: CampaignFile,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The provider's own rows.", show_default=False)],
    provider: Annotated[str | None, typer.Option(help="The provider's name.", show_default="the file's")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Where they go.", show_default="beside FILE")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make the statistics that a provider submits instead of rows."""
    from troth.campaigns.ledger import write_whole
    from troth.campaigns.statistics_file import make_statistics
    from troth.campaigns.terms import Campaign
    from troth.data.files import stem

    made = make_statistics(Campaign.load(campaign), file, provider)
    text = json.dumps(made, indent=1, ensure_ascii=False) + "\n"
    target = output or file.with_name(f"{stem(file)}.statistics.json")
    _refuse_same(target, campaign, file)
    write_whole(target, text.encode())
    if as_json:
        typer.echo(text, nl=False)
        return
    typer.echo(f"wrote {target}: submit it instead of {file}, whose rows stay with you")


@app.command()
def verify(
    ledger: LedgerFile,
    head: Annotated[str | None, typer.Option(help="The hash of the last line, as noted earlier.")] = None,
    as_json: AsJson = False,
) -> None:
    """Check every byte of a ledger and recompute every payment in it."""
    from troth.results.pay import verify as check

    with _progress() as watch:
        result = check(ledger, head=head, watch=watch)
    payments = sum(len(paid.payments) for paid in result.rounds)
    if as_json:
        plain = {"valid": True, "head": result.ledger.head, "rounds": len(result.rounds), "payments": payments}
        _print_json({**plain, "paid": result.campaign.text(result.paid), "currency": result.campaign.currency})
        return
    committed = " and seeds" if result.campaign.commitment is not None else ""
    rounds = "1 round" if len(result.rounds) == 1 else f"{len(result.rounds)} rounds"
    typer.echo(
        f"{ledger}: whole and right. {rounds}, {payments:,} payments recomputed bit for bit, "
        f"{result.campaign.show(result.paid)} in all; chain of hashes{committed} checked\nhead {result.ledger.head}"
    )


@app.command()
def report(
    ledger: LedgerFile,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Where it goes.", show_default="report.html beside")
    ] = None,
    history: Annotated[Path | None, typer.Option("--history", help="Past days, to show a backtest beside.")] = None,
    provider: ProviderColumn = None,
    day: DayColumn = None,
    as_json: AsJson = False,
) -> None:
    """Write the report of a ledger anew."""
    from troth.results.pay import open_ledger

    page = output or ledger.parent / "report.html"
    _refuse_same(ledger, page)
    result = open_ledger(ledger)
    with _progress() as watch:
        past = None
        if history is not None:
            from troth.campaigns.past import read_history

            past = read_history(result.campaign, str(history), provider=provider, day=day, watch=watch)
        result.write_report(page, history=past, watch=watch)
    if as_json:
        _print_json({"report": str(page)})
        return
    typer.echo(f"wrote {page}")


@app.command()
def explain(
    ledger: LedgerFile,
    provider: Annotated[str, typer.Argument(metavar="PROVIDER", help="Whose payment.", show_default=False)],
    day: Annotated[str | None, typer.Option(help="Of which day, in a daily campaign.", show_default="all")] = None,
    as_json: AsJson = False,
) -> None:
    """Explain a payment with its own numbers."""
    from dataclasses import asdict

    from troth.core.errors import DataError
    from troth.results.explanation import explain as words
    from troth.results.pay import open_ledger

    result = open_ledger(ledger)
    found = [
        (paid.day, payment)
        for paid in result.rounds
        for payment in paid.payments
        if payment.provider == provider and (day is None or str(paid.day) == day)
    ]
    if not found:
        some = ", ".join(repr(name) for name in list(result.totals)[:12])
        raise DataError(
            f"{ledger}: nothing was paid to {provider!r}"
            + ("" if day is None else f" on day {day}")
            + f"; providers are {some}"
        )
    if as_json:
        _print_json([{"day": on, **asdict(payment)} for on, payment in found])
        return
    for on, payment in found:
        typer.echo(("" if on is None else f"day {on}  ") + words(result.campaign, payment))


def _refuse_same(*paths: Path) -> None:
    """Refuse to write one thing over another."""
    from troth.core.errors import DataError

    seen = [path.resolve() for path in paths]
    for path in paths:
        if seen.count(path.resolve()) > 1:
            raise DataError(f"{path}: is named for two things; one would be written over the other")


def _picture(path: Path | None) -> Path | None:
    if path is not None and path.suffix.lower() not in (".png", ".svg", ".pdf", ".jpg"):
        raise typer.BadParameter("a picture's name must end in .png, .svg, .pdf or .jpg")
    return path


def _reports(terms: Any, providers: int | None, rows: int | None) -> list[Any]:
    from troth.results.pay import read_campaign

    if (providers is not None and rows is not None) or (terms.source is None and terms.providers):
        return []
    with _progress() as watch:
        return read_campaign(terms, watch)


def _print_json(plain: Any) -> None:
    from troth.campaigns.canonical_json import as_json

    typer.echo(as_json(plain))


def _warn(message: str) -> None:
    typer.echo(f"warning: {message}", err=True)


def _print_result(result: Any) -> None:
    """Print payments: with colours and bars for people, plainly for pipes."""
    if sys.stdout is None or not sys.stdout.isatty():
        typer.echo(str(result))
        return
    from troth.results.terminal import print_result

    print_result(result)


app.command()(serve)
client.add_to(app)
app.add_typer(service, name="service")
