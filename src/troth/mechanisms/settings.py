"""Payment rules from the ``[mechanism]`` table of a campaign file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from troth.core.registry import IF_CUSTOM
from troth.mechanisms.bonded import Bonded
from troth.mechanisms.options import Flag, Option
from troth.mechanisms.registry import DEFAULT_RULE, RESERVED_KEYS, RULES, offered_rules

if TYPE_CHECKING:
    from troth.core.contract import Model
    from troth.core.settings import Section
    from troth.mechanisms.rule import Rule

BONDED = Flag("bonded", False, label="Bonded: hold back the empty share; payments can be negative")
"""A setting that all rules have besides their own options."""


def settings_of(rule: str) -> dict[str, Option]:
    """Return all settings of a rule in a ``[mechanism]`` table: its own options, and those that all rules have.

    Examples
    --------
    >>> list(settings_of("SyntheticPeers"))
    ['draws', 'divergence', 'power', 'bonded']
    """
    return {**RULES[rule].settings(), BONDED.key: BONDED}


def read_rule(section: Section, task_model: Model | None = None) -> Rule:
    """Make a rule from its settings; campaigns of tasks, with the model ``task_model``, have other defaults.

    Examples
    --------
    >>> from troth.core.settings import Section
    >>> read_rule(Section("mechanism", {"rule": "synthetic peers", "draws": 16}))
    SyntheticPeers(draws=16, divergence=Logistic(...))
    """
    name: str = section.text("rule", DEFAULT_RULE, among=tuple(RULES), custom=IF_CUSTOM)
    rule_class = RULES[name]
    if rule_class.not_offered:
        raise section.error_at("rule", f"{name} {rule_class.not_offered}; use {' or '.join(offered_rules())}")
    if task_model is not None:
        section.remaining.update({**rule_class.task_defaults(task_model), **section.remaining})
    bonded = BONDED.read(section)
    rule = rule_class.from_settings(section)
    section.reject_unknown((*RESERVED_KEYS, *rule_class.settings()))
    return Bonded(rule) if bonded else rule
