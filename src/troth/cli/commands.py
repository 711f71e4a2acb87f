"""The command line: every command calls one function that you can also call from Python.

Results go to standard output, as text or with ``--json``; progress and errors go to standard error. Exit codes: 0 for
success, 1 for an error that Troth reports, 2 for wrong usage, 3 for a model that does not fit.
"""

from __future__ import annotations

import sys
from functools import cache
from itertools import chain
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from troth.cli import campaign, checks, client, history, ledger
from troth.cli.output import at_exit
from troth.cli.service import serve, service
from troth.cli.service_rounds import rounds
from troth.core.errors import TrothError
from troth.core.formats import printable


class Sections(TyperGroup):
    """Help that groups commands by purpose and shows their full descriptions."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write a section for each group of commands."""
        for title, names in SECTIONS.items():
            with formatter.section(title):
                commands = [(name, self.get_command(ctx, name)) for name in names]
                formatter.write_dl(
                    [
                        (name, command.get_short_help_str(limit=1000))
                        for name, command in commands
                        if command is not None
                    ]
                )


app = typer.Typer(
    name="troth",
    cls=Sections,
    help="Pays for data so that telling the truth pays best.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@cache
def command() -> Any:
    """Return the command line, cached because building it takes longer than some commands run."""
    return typer.main.get_command(app)


def main() -> None:
    """Run the command line; expected failures become one message and exit code 1."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    try:
        command()()
    except TrothError as error:
        _fail(str(error))
    except (PermissionError, FileNotFoundError, FileExistsError, NotADirectoryError, IsADirectoryError) as error:
        _fail(f"{error.filename}: {(error.strerror or 'cannot be used').lower()}")
    except OSError as error:
        _fail(f"{error.filename or 'the system'}: {error.strerror or error}")
    except MemoryError:
        _fail("out of memory")
    except KeyboardInterrupt:
        _fail("interrupted; nothing was left half-done", code=130)
    finally:
        at_exit.close()


def _fail(message: str, code: int = 1) -> None:
    sys.stderr.write("error: " + "\n".join(map(printable, message.split("\n"))) + "\n")
    raise SystemExit(code)


def _version(requested: bool) -> None:
    if requested:
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


_USE_SERVICE, _RUN_SERVICE = "Use a service", "Run a service"
_COMMANDS = {
    "Your own files": (campaign.demo, campaign.init, campaign.commit, campaign.pay, campaign.statistics),
    "Before you pay": (checks.audit, checks.certify, history.fit, history.backtest),
    "What was paid": (ledger.verify, ledger.report, ledger.explain, ledger.verify_receipt),
    _USE_SERVICE: client.COMMANDS,
    _RUN_SERVICE: (serve,),
}
SECTIONS = {title: [command.__name__.replace("_", "-") for command in section] for title, section in _COMMANDS.items()}
for _command in chain.from_iterable(_COMMANDS.values()):
    app.command()(_command)
app.add_typer(rounds, name="round")
app.add_typer(service, name="service")
SECTIONS[_USE_SERVICE].append("round")
SECTIONS[_RUN_SERVICE].append("service")
