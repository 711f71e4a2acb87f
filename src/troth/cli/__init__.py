"""The command line: local commands, the commands of a service, and the commands that speak to one."""

from troth.cli.commands import app as app
from troth.cli.commands import main as main
