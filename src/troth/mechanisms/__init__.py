"""The payment rules: from log PMI to shares of a budget. They know no family, and no currency."""

from troth.mechanisms import divergences
from troth.mechanisms.bonded import Bonded
from troth.mechanisms.brier import Brier
from troth.mechanisms.log_pmi_rule import LogPmiRule
from troth.mechanisms.multi_day import MultiDay
from troth.mechanisms.one_time import OneTime
from troth.mechanisms.rule import Breakdown, Round, Rule, group_weights
from troth.mechanisms.score_range import ScoreRange, clipped_range, exact_range, paper_range
from troth.mechanisms.synthetic_peers import SyntheticPeers

__all__ = [
    "Bonded",
    "Breakdown",
    "Brier",
    "LogPmiRule",
    "MultiDay",
    "OneTime",
    "Round",
    "Rule",
    "ScoreRange",
    "SyntheticPeers",
    "clipped_range",
    "divergences",
    "exact_range",
    "group_weights",
    "paper_range",
]
