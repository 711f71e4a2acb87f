"""`python -m troth.cli` is `troth`."""

from troth.cli import main

main()
