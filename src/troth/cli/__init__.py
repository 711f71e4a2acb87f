"""The command line: local commands, commands that run a service, and commands that talk to one."""

from troth.cli.commands import app as app
from troth.cli.commands import main as main
