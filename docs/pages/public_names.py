"""The Python reference: every public name on exactly one page, in the order in which its module lists it."""

from __future__ import annotations

import inspect
from importlib import import_module
from types import ModuleType
from typing import Any

PAGES: dict[str, tuple[str, ...]] = {
    "models": (
        "troth.models",
        "troth.models.parameters",
        "troth.models.first_guess",
        "troth.models.fitting.initial_parameters",
    ),
    "mechanisms": ("troth.mechanisms", "troth.mechanisms.options", "troth.mechanisms.divergences"),
    "certificates": ("troth.certificates",),
    "audits": ("troth.audits", "troth.audits.strategies", "troth.audits.baselines"),
    "history": ("troth.history", "troth.history.learn"),
    "information": (
        "troth.core.information",
        "troth.core.laws",
        "troth.core.contract",
        "troth.core.provider_models",
        "troth.core.posterior",
        "troth.core.reductions",
        "troth.core.effective_candidates",
        "troth.core.support",
    ),
    "errors": ("troth.core.errors",),
    "client": ("troth.client",),
    "campaigns": (
        "troth.results.pay",
        "troth.results.result",
        "troth.results.pictures",
        "troth.campaigns.terms",
        "troth.campaigns.starter.examples",
        "troth.campaigns.starter.demo",
        "troth.campaigns.commit",
        "troth.campaigns.seed",
        "troth.campaigns.statistics_file",
        "troth.campaigns.model_file",
        "troth.campaigns.check",
        "troth.campaigns.past",
        "troth.campaigns.records.ledger",
        "troth.core.settings",
    ),
}
# These modules also define internal names; these are the public ones.
PUBLIC_NAMES: dict[str, tuple[str, ...]] = {
    "troth.results.pay": ("pay", "verify", "open_ledger"),
    "troth.results.result": ("Result", "PaidRound"),
    "troth.campaigns.terms": ("Campaign",),
    "troth.campaigns.starter.examples": ("init", "start"),
    "troth.campaigns.starter.demo": ("write_demo",),
    "troth.campaigns.commit": ("commit",),
    "troth.campaigns.seed": ("Secret",),
    "troth.campaigns.statistics_file": ("make_statistics",),
    "troth.campaigns.model_file": ("load_model", "save_model"),
    "troth.campaigns.check": ("Setting", "setting_of", "audit_campaign", "certify_campaign"),
    "troth.campaigns.past": ("read_history", "fit_campaign", "fitted_text", "backtest_campaign"),
    "troth.campaigns.records.ledger": ("LedgerError", "read_ledger"),
    "troth.core.settings": ("CampaignError",),
    "troth.history.learn": ("fit",),
}


def names(module_name: str) -> tuple[str, ...]:
    """Return the public names of a module: its ``__all__``, or else the names it defines without underscore."""
    if module_name in PUBLIC_NAMES:
        return PUBLIC_NAMES[module_name]
    module = import_module(module_name)
    if hasattr(module, "__all__"):
        return tuple(name for name in module.__all__ if not name.startswith("__"))
    return tuple(
        name for name, value in vars(module).items() if not name.startswith("_") and _defined(value, module_name)
    )


def _defined(value: Any, module_name: str) -> bool:
    if inspect.isclass(value) or inspect.isfunction(value):
        return value.__module__ == module_name
    return type(value).__module__ == module_name


def section(page: str) -> str:
    """Return one page of the reference, as Markdown."""
    return "\n".join(_module(name) for name in PAGES[page])


def _module(module_name: str) -> str:
    module = import_module(module_name)
    lines = [f"## {module_name}", "", "```{eval-rst}", f".. automodule:: {module_name}", ""]
    for name in names(module_name):
        value = getattr(module, name)
        if isinstance(value, ModuleType):
            continue
        path = f"{module_name}.{name}"
        if inspect.isclass(value):
            bases = ["   :show-inheritance:"] if value.__bases__ != (object,) else []
            lines += [f".. autoclass:: {path}", "   :members:", *bases, ""]
        elif callable(value):
            lines += [f".. autofunction:: {path}", ""]
        else:
            lines += _datum(name, value)
    return "\n".join([*lines, "```", ""])


def _datum(name: str, value: Any) -> list[str]:
    if isinstance(value, dict):
        description = "By name: " + ", ".join(f"``{key}``" for key in value) + "."
    else:
        description = f"An instance of `{type(value).__name__}`."
    return [f".. py:data:: {name}", "", f"   {description}", ""]


def index() -> str:
    """Return a table of the names of ``troth``, each with a link to its description."""
    import troth

    lines = ["{.names}", "| name | |", "|---|---|"]
    for name in sorted((name for name in troth.__all__ if name != "__version__"), key=str.lower):
        value = getattr(troth, name)
        first = next(line for line in inspect.cleandoc(value.__doc__ or "").splitlines() if line)
        lines.append(f"| {_link(name, value)} | {_escaped(first)} |")
    return "\n".join(lines)


def home(value: Any) -> str | None:
    """Return the full name under which the reference describes an object, or None."""
    if isinstance(value, ModuleType):
        return value.__name__
    for modules in PAGES.values():
        for module_name in modules:
            for name in names(module_name):
                if getattr(import_module(module_name), name) is value:
                    return f"{module_name}.{name}"
    return None


def _link(name: str, value: Any) -> str:
    target = home(value)
    return f"`troth.{name}`" if target is None else f"{{py:obj}}`troth.{name} <{target}>`"


def _escaped(text: str) -> str:
    return text.replace("|", r"\|").replace("*", r"\*").replace("``", "`").replace("$", r"\$")
