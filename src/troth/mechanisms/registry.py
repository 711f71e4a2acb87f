"""The registry of payment rules, and the default rule."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from troth.core.errors import ParameterError
from troth.core.registry import check_entry

if TYPE_CHECKING:
    from troth.mechanisms.rule import Rule

DEFAULT_RULE = "LineUp"

RESERVED_KEYS = ("rule", "commitment", "beacon", "bonded")
"""The keys of a ``[mechanism]`` table other than the options of a rule."""

RULES: dict[str, type[Rule]] = {}
"""All rules, in the order in which they are offered."""


def register(rule: type[Rule]) -> type[Rule]:
    """Register a rule under its class name, for campaigns, the service and the command line.

    Raises
    ------
    ParameterError
        If it is not a rule, another rule has its name, or its purpose or an option is not declared.
    """
    from troth.mechanisms.rule import Rule as AnyRule  # which imports this registry

    check_entry(RULES, rule, AnyRule)
    name = rule.__name__
    if rule.breakdown is AnyRule.breakdown:
        raise ParameterError(f"{name}: add a method breakdown: each provider's share of its cap")
    if not (rule.purpose or rule.not_offered):
        raise ParameterError(f"{name}: add a purpose, a few words on what it is for")
    fields: tuple[Any, ...] = dataclasses.fields(rule) if dataclasses.is_dataclass(rule) else ()
    for field in fields:
        if field.init and field.name not in rule.options():
            raise ParameterError(f"{name}: declare {field.name} with option(...)", parameter=field.name)
        if callable(getattr(AnyRule, field.name, None)):
            raise ParameterError(f"{name}: {field.name!r} is a method of rules; name the field differently")
    keys = [setting.key for option in rule.options().values() for setting in option.settings]
    for key in keys:
        if keys.count(key) > 1:
            raise ParameterError(f"{name}: two options have the key {key!r}; give one of them another", parameter=key)
        if key in RESERVED_KEYS:
            raise ParameterError(f"{name}: {key!r} is taken; give the option another key", parameter=key)
    try:
        rule()
    except (TypeError, ParameterError) as error:
        raise ParameterError(f"{name}: give every option a default with which the rule can be made: {error}") from None
    RULES[name] = rule
    return rule


def offered_rules() -> dict[str, type[Rule]]:
    """Return the rules that a campaign can use."""
    return {name: rule for name, rule in RULES.items() if not rule.not_offered}


def default_rule() -> Rule:
    """Return the default rule with default options."""
    return RULES[DEFAULT_RULE]()
