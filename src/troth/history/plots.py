"""Pictures of backtests: who would have gained by which lie, readable at report size and without red against green."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from troth.core.errors import MissingCapabilityError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from troth.core.contract import Array
    from troth.history.comparison import ModelComparison
    from troth.history.findings import Backtest


def plot_backtest(found: Backtest, path: Any = None) -> Any:
    """Draw providers (rows, the average first) against lies: orange where a lie gains, violet where it costs."""
    rows = ["all providers", *(str(p) for p in found.providers)]
    by_lie = [[found[lie], *(found.of(p, lie) for p in found.providers)] for lie in found.lies]
    gains = np.array([[f.gain for f in column] for column in by_lie]).T
    significant = np.array([[f.verdict == "GAINS" for f in column] for column in by_lie]).T
    title = f"{found.name}, {type(found.rule).__name__}: what a lie would have gained on {found.days} past days"
    return _heat_map(rows, found.lies, gains, significant, title, path)


def plot_models(comparison: ModelComparison, path: Any = None) -> Any:
    """Draw models (rows) against lies (columns), averaged over providers."""
    names = list(comparison.backtests)
    lies = comparison.backtests[names[0]].lies
    gains = np.array([[comparison[name][lie].gain for lie in lies] for name in names])
    significant = np.array([[any(f.lie == lie for f in comparison[name].gaining()) for lie in lies] for name in names])
    return _heat_map(names, lies, gains, significant, "What a lie would have gained on past days", path)


def _heat_map(
    rows: Sequence[str], columns: Sequence[str], gains: Array, significant: NDArray[np.bool_], title: str, path: Any
) -> Any:
    try:
        import matplotlib as mpl
    except ImportError:
        raise MissingCapabilityError("plots need matplotlib: pip install 'troth[plots]'") from None
    from matplotlib.figure import Figure

    percent = 100 * np.nan_to_num(gains)
    size = (max(7.5, 2.6 + 0.95 * len(columns)), max(3.4, 2.4 + 0.36 * len(rows)))
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots()
    reach = max(5.0, float(np.abs(percent).max()))
    norm = mpl.colors.SymLogNorm(linthresh=2.0, vmin=-reach, vmax=reach)
    colours = mpl.colormaps["PuOr_r"]
    image = axes.imshow(percent, cmap=colours, norm=norm, aspect="auto")
    for i, j in np.ndindex(percent.shape):
        dark = np.dot(colours(norm(percent[i, j]))[:3], (0.299, 0.587, 0.114)) < 0.5
        axes.text(
            j,
            i,
            f"{percent[i, j]:+.1f}" if abs(percent[i, j]) >= 0.05 else "0",
            ha="center",
            va="center",
            color="white" if dark else "black",
            fontweight="bold" if significant[i, j] else "normal",
            fontsize=8.5,
        )
    axes.set_xticks(range(len(columns)), list(columns), rotation=35, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(len(rows)), list(rows))
    axes.set_title(title + ",\npercent of the cap (bold: significantly)", loc="left", fontsize=10)
    ticks = [t for t in (-50, -10, -2, 0, 2, 10, 50) if abs(t) <= reach]
    bar = figure.colorbar(image, ax=axes, shrink=0.8, ticks=ticks)
    bar.ax.set_yticklabels([f"{x:+d}" if x else "0" for x in ticks])
    bar.set_label("lie costs  ←   →  lie pays")
    if path is not None:
        figure.savefig(path, dpi=150)
    return figure
