"""The payment rules: from log PMI to shares of a budget, independent of families and currencies."""

from troth.mechanisms import divergences
from troth.mechanisms.bonded import Bonded
from troth.mechanisms.breakdown import Breakdown, Figures, Line, Scale, Step
from troth.mechanisms.brier import Brier
from troth.mechanisms.compared_days import UnequalSizesError
from troth.mechanisms.disclosure import Span, disclosed
from troth.mechanisms.line_up import LineUp
from troth.mechanisms.log_pmi_rule import LogPmiRule
from troth.mechanisms.multi_day import MultiDay
from troth.mechanisms.one_time import NamedRange, OneTime
from troth.mechanisms.registry import DEFAULT_RULE, RULES, default_rule, offered_rules, register
from troth.mechanisms.round import Round
from troth.mechanisms.rule import Rule, group_weights
from troth.mechanisms.score_range import ScoreRange, clipped_range, exact_range, paper_range
from troth.mechanisms.settings import read_rule
from troth.mechanisms.synthetic_peers import SyntheticPeers

register(LineUp)
register(SyntheticPeers)
register(MultiDay)
register(OneTime)
register(Brier)
register(LogPmiRule)

__all__ = [
    "DEFAULT_RULE",
    "RULES",
    "Bonded",
    "Breakdown",
    "Brier",
    "Figures",
    "Line",
    "LineUp",
    "LogPmiRule",
    "MultiDay",
    "NamedRange",
    "OneTime",
    "Round",
    "Rule",
    "Scale",
    "ScoreRange",
    "Span",
    "Step",
    "SyntheticPeers",
    "UnequalSizesError",
    "clipped_range",
    "default_rule",
    "disclosed",
    "divergences",
    "exact_range",
    "group_weights",
    "offered_rules",
    "paper_range",
    "read_rule",
    "register",
]
