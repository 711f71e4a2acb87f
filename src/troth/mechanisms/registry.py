"""The payment rules by name: one line for each, and which of them is the default."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from troth.mechanisms.rule import Rule

DEFAULT_RULE = "LineUp"

RULES: dict[str, type[Rule]] = {}
"""All rules, in the order in which they are offered."""


def register(rule: type[Rule]) -> type[Rule]:
    """Add a rule under the name of its class, so that campaigns, the service and the command line know it."""
    RULES[rule.__name__] = rule
    return rule


def offered_rules() -> dict[str, type[Rule]]:
    """Return the rules that a campaign can use."""
    return {name: rule for name, rule in RULES.items() if not rule.not_offered}


def default_rule() -> Rule:
    """Return the default rule with its default options."""
    return RULES[DEFAULT_RULE]()
