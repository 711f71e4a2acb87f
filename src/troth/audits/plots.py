"""Plots of audits and backtests: readable in reports, and for colour-blind readers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from troth.core.errors import MissingCapabilityError
from troth.core.formats import true_minus

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from troth.audits.findings import Audit, Finding

_COLOURS = {"gains": "#d55e00", "loses": "#0072b2", "open": "#777777"}  # Okabe and Ito's vermilion and blue


def new_figure(width: float, height: float) -> Any:
    """Return an empty Matplotlib figure, or raise an error that says how to install Matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingCapabilityError("plots need matplotlib: pip install matplotlib") from None
    return Figure(figsize=(width, height), layout="constrained")


def saved(figure: Any, path: Any) -> Any:
    """Return the figure; write it to a file if a path is given."""
    if path is not None:
        figure.savefig(path, dpi=150)
    return figure


def plot_audit(audit: Audit, path: Any = None) -> Any:
    """Plot the gain of each lie with its interval: orange if it gains, blue if it loses."""
    findings = sorted(audit.findings, key=lambda f: f.gain)
    figure = new_figure(7.2, 1.3 + 0.36 * len(findings))
    axes = figure.subplots()
    axes.axvline(0, color="black", linewidth=1)
    for y, finding in enumerate(findings):
        colour = _COLOURS[finding.verdict]
        axes.plot([100 * finding.low, 100 * finding.high], [y, y], color=colour, linewidth=2.5, solid_capstyle="round")
        axes.plot(100 * finding.gain, y, "o", color=colour, markersize=6)
    axes.set_yticks(range(len(findings)), [true_minus(f.lie) for f in findings])
    certainty = f"each interval misses with probability at most {audit.false_alarm:g}"
    axes.set_xlabel("gain over the truth, percent of the cap\n" + certainty)
    axes.set_title(f"{type(audit.rule).__name__}: what lies earn", loc="left")
    axes.grid(axis="x", color="#dddddd", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    return saved(figure, path)


def heat_map(rows: Mapping[str, Sequence[Finding]], title: str, path: Any = None) -> Any:
    """Plot rows of findings on the same lies: orange gains, violet costs, bold gains significantly."""
    findings = list(rows.values())
    lies = [true_minus(f.lie) for f in findings[0]]
    figure = new_figure(max(7.5, 2.6 + 0.95 * len(lies)), max(3.4, 2.4 + 0.36 * len(rows)))
    import matplotlib as mpl

    percent = 100 * np.nan_to_num([[f.gain for f in row] for row in findings])
    axes = figure.subplots()
    limit = max(5.0, float(np.abs(percent).max()))
    norm = mpl.colors.SymLogNorm(linthresh=2.0, vmin=-limit, vmax=limit)
    colours = mpl.colormaps["PuOr_r"]
    image = axes.imshow(percent, cmap=colours, norm=norm, aspect="auto")
    for (i, j), gain in np.ndenumerate(percent):
        dark = np.dot(colours(norm(gain))[:3], (0.299, 0.587, 0.114)) < 0.5
        style = {"color": "white" if dark else "black", "ha": "center", "va": "center", "fontsize": 8.5}
        weight = "bold" if findings[i][j].verdict == "gains" else "normal"
        axes.text(j, i, f"{gain:+.1f}" if abs(gain) >= 0.05 else "0", fontweight=weight, **style)
    axes.set_xticks(range(len(lies)), lies, rotation=35, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(len(rows)), list(rows))
    axes.set_title(title + ",\npercent of the cap (bold: significantly)", loc="left", fontsize=10)
    ticks = [tick for tick in (-50, -10, -2, 0, 2, 10, 50) if abs(tick) <= limit]
    bar = figure.colorbar(image, ax=axes, shrink=0.8, ticks=ticks)
    bar.ax.set_yticklabels([f"{tick:+d}" if tick else "0" for tick in ticks])
    bar.set_label("lie costs  ←   →  lie pays")
    return saved(figure, path)
