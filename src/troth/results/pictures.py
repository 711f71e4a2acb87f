"""A picture of payments, for notebooks and papers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from troth.core.errors import MissingCapabilityError

if TYPE_CHECKING:
    from troth.results.result import Result

_BLUE, _ORANGE, _GREY = "#0072b2", "#d55e00", "#dfe3e8"
_MOST_BARS = 60


def plot_payments(result: Result, path: Any = None) -> Any:
    """Draw what each provider was paid in all, against what it could have been paid."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingCapabilityError("plots need matplotlib: pip install 'troth[plots]'") from None
    unit = 10**result.campaign.decimals
    caps: dict[str, int] = {}
    empty: dict[str, float] = {}
    for paid in result.rounds:
        for p in paid.payments:
            caps[p.provider] = caps.get(p.provider, 0) + p.cap
            empty[p.provider] = empty.get(p.provider, 0.0) + p.cap * p.empty_share
    names = sorted(result.totals, key=lambda name: result.totals[name])
    names = names if len(names) <= _MOST_BARS else names[: _MOST_BARS // 2] + names[-_MOST_BARS // 2 :]
    figure = Figure(figsize=(7.2, 1.2 + 0.28 * len(names)), layout="constrained")
    axes = figure.subplots()
    places = range(len(names))
    axes.barh(places, [caps[name] / unit for name in names], color=_GREY, label="cap")
    axes.barh(places, [result.totals[name] / unit for name in names], height=0.6, color=_BLUE, label="paid")
    axes.plot(
        [empty[name] / unit for name in names],
        places,
        "|",
        color=_ORANGE,
        markersize=10,
        markeredgewidth=2,
        label="for an empty report",
    )
    axes.set_yticks(list(places), [name if len(name) <= 28 else name[:27] + "…" for name in names])
    axes.set_xlabel(f"payment, {result.campaign.currency}".rstrip(", "))
    axes.set_title(result.campaign.name, loc="left")
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=8)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    if path is not None:
        figure.savefig(path, dpi=150)
    return figure
