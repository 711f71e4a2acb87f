"""Pictures of audits: readable at report size, and without red against green."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from troth.core.errors import MissingCapabilityError

if TYPE_CHECKING:
    from troth.audits.comparison import Comparison
    from troth.audits.findings import Audit

_GAINS, _LOSES, _UNSURE = "#d55e00", "#0072b2", "#777777"  # Okabe and Ito's vermilion and blue


def _pyplot() -> Any:
    try:
        import matplotlib as mpl
    except ImportError:
        raise MissingCapabilityError("plots need matplotlib: pip install 'troth[plots]'") from None
    from matplotlib.figure import Figure

    return mpl, Figure


def plot_audit(audit: Audit, path: Any = None) -> Any:
    """Draw the gain of each lie with its interval; orange gains, blue loses."""
    _, figure_class = _pyplot()
    findings = sorted(audit.findings, key=lambda f: f.gain)
    figure = figure_class(figsize=(7.2, 1.3 + 0.36 * len(findings)), layout="constrained")
    axes = figure.subplots()
    axes.axvline(0, color="black", linewidth=1)
    for y, finding in enumerate(findings):
        colour = _GAINS if finding.low > 0 else _LOSES if finding.high < 0 else _UNSURE
        axes.plot([100 * finding.low, 100 * finding.high], [y, y], color=colour, linewidth=2.5, solid_capstyle="round")
        axes.plot(100 * finding.gain, y, "o", color=colour, markersize=6)
    axes.set_yticks(range(len(findings)), [f.lie for f in findings])
    certainty = f"each interval misses with probability {audit.false_alarm:g} at most"
    axes.set_xlabel("gain over the truth, percent of the cap\n" + certainty)
    axes.set_title(f"{type(audit.rule).__name__}: what lies earn", loc="left")
    axes.grid(axis="x", color="#dddddd", linewidth=0.7)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    if path is not None:
        figure.savefig(path, dpi=150)
    return figure


def plot_comparison(comparison: Comparison, path: Any = None) -> Any:
    """Draw rules (rows) against lies (columns): orange where a lie gains, blue where it costs."""
    mpl, figure_class = _pyplot()
    rules, lies = list(comparison.audits), list(comparison.lies)
    gains = np.array([[100 * comparison.audits[rule][lie].gain for lie in lies] for rule in rules])
    significant = np.array([[comparison.audits[rule][lie].low > 0 for lie in lies] for rule in rules])
    figure = figure_class(
        figsize=(max(7.5, 2.6 + 0.95 * len(lies)), max(3.4, 2.0 + 0.42 * len(rules))), layout="constrained"
    )
    axes = figure.subplots()
    reach = max(5.0, float(np.abs(gains).max()))
    norm = mpl.colors.SymLogNorm(linthresh=2.0, vmin=-reach, vmax=reach)
    colours = mpl.colormaps["PuOr_r"]
    image = axes.imshow(gains, cmap=colours, norm=norm, aspect="auto")
    for i, j in np.ndindex(gains.shape):
        dark = np.dot(colours(norm(gains[i, j]))[:3], (0.299, 0.587, 0.114)) < 0.5
        text = f"{gains[i, j]:+.1f}" if abs(gains[i, j]) >= 0.05 else "0"
        axes.text(
            j,
            i,
            text,
            ha="center",
            va="center",
            color="white" if dark else "black",
            fontweight="bold" if significant[i, j] else "normal",
            fontsize=8.5,
        )
    axes.set_xticks(range(len(lies)), lies, rotation=35, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(len(rules)), rules)
    axes.set_title("What a lie gains over the truth, percent of the cap (bold: significantly)", loc="left", fontsize=10)
    bar = figure.colorbar(image, ax=axes, shrink=0.8, ticks=[-50, -10, -2, 0, 2, 10, 50])
    bar.ax.set_yticklabels([f"{x:+d}" if x else "0" for x in (-50, -10, -2, 0, 2, 10, 50)])
    bar.set_label("lie costs  ←   →  lie pays")
    if path is not None:
        figure.savefig(path, dpi=150)
    return figure
