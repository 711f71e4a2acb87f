"""A verdict as lines of text, from its plain data: for terminals, and for clients of a service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from troth.core.formats import printable, probability, share

if TYPE_CHECKING:
    from collections.abc import Mapping

_SHOWN = 6
CHANCE = "one round alone: such gains are often due to chance, even under the right model"


def lines_of(plain: Mapping[str, Any], providers: int | None = None, checked: str = "", untried: str = "") -> list[str]:
    """Return the lines of a verdict, given the data of `Verdict.to_dict` and its ``meaning``.

    ``providers`` is the number of providers, if known, ``checked`` describes the reports that were checked, and
    ``untried`` is the reason why sending less was not tried.
    """
    lines = [model_line(plain)]
    if checked and plain["days"]:
        lines.append(f"checked on                 {checked}")
    if plain["odd_reports"]:
        lines.append(f"it fits without            {', '.join(map(printable, plain['odd_reports']))}")
    if plain["warning"]:
        lines.append(f"warning                    {plain['warning']}")
    if plain["below_empty_report"] is None:
        return [*lines, "nor is it known who would have earned more with an empty or a smaller report"]
    over_days, on_day = "", ""
    if plain["days"] > 1:
        over_days, on_day = f", on average over {plain['days']:,} days", f", on day {plain['last_day']} alone"
    lines.append(f"better off with nothing    {listed(plain['below_empty_report'], providers)}{over_days}")
    gains, better = plain["gain_of_less"], plain["better_with_less"]
    if not gains:
        return [*lines, f"better off with less       {untried}"] if untried else lines
    means = ", ".join(
        f"{lie}: {share(gain, 1, sign=True)} of the cap{_of_providers(plain['tried_with_less'].get(lie), providers)}"
        for lie, gain in gains.items()
    )
    less = f"better off with less       {listed(better, providers)}{on_day}"
    mean = f"on average over providers  {means}{on_day}"
    chance = f"                           {CHANCE}"
    if max(gains.values()) > 0:
        return [*lines, less, mean, chance]
    return [*lines, less, *([chance] if better else []), mean]


def model_line(plain: Mapping[str, Any]) -> str:
    """Return the line about the fit of the model."""
    p = "" if plain["p_value"] is None else f" (p = {probability(plain['p_value'])})"
    return f"model                      {plain['model']}{p}: {plain['meaning']}"


def listed(names: Mapping[str, float], providers: int | None = None) -> str:
    """Return the number of names, and the names with the largest gaps."""
    if not names:
        return "nobody"
    largest = sorted(names.items(), key=lambda item: -item[1])[:_SHOWN]
    names_text = ", ".join(f"{printable(name)} (by {share(gap, 1)} of the cap)" for name, gap in largest)
    and_more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{len(names)}{'' if providers is None else f' of {providers}'}: {names_text}{and_more}"


def _of_providers(tried: int | None, providers: int | None) -> str:
    if tried is None or providers is None or tried >= providers:
        return ""
    return f" ({tried} of {providers} have enough rows)"
