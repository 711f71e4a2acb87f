"""The JSON API: what the command line and other programs speak. Money is decimal strings, times are UTC."""

from troth.service.api import accounts, campaigns, ledgers, rounds, submissions
from troth.service.api.answering import router

__all__ = ["accounts", "campaigns", "ledgers", "rounds", "router", "submissions"]
