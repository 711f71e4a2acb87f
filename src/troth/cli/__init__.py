"""The command line: local commands, the commands of a service, and the commands that talk to one."""

from troth.cli.commands import app as app
from troth.cli.commands import main as main
