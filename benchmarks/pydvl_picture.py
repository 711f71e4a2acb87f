"""The picture of docs/comparison.md: methods against lies, orange where a lie gains, violet where it costs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from benchmarks.pydvl_rounds import LIES

if TYPE_CHECKING:
    from benchmarks.pydvl_pay import Outcome

LIMIT = 100.0  # of the colour scale, in percent
BOLD = 3.0  # a number is bold if it exceeds this many standard errors


def draw_picture(settings: dict[str, dict[str, Outcome]], path: Path) -> None:
    """Draw a panel for each setting."""
    figure = Figure(figsize=(12.5, 4.6), layout="constrained")
    panels = figure.subplots(1, len(settings), sharey=True)
    norm = mpl.colors.SymLogNorm(linthresh=2.0, vmin=-LIMIT, vmax=LIMIT)
    for axes, (title, outcomes) in zip(panels, settings.items(), strict=True):
        gain = -100 * np.array([outcome.mean() for outcome in outcomes.values()])
        error = 100 * np.array([outcome.error() for outcome in outcomes.values()])
        image = axes.imshow(gain, cmap=mpl.colormaps["PuOr_r"], norm=norm, aspect="auto")
        _write(axes, gain, error, norm)
        axes.set_xticks(range(len(LIES)), LIES, rotation=35, ha="right", rotation_mode="anchor")
        axes.set_yticks(range(len(outcomes)), list(outcomes))
        axes.set_title(title, loc="left", fontsize=10)
    figure.suptitle(
        "What a lie gains over the truth, percent of an equal share; 10 providers (bold: more than 3 standard errors)",
        fontsize=10,
    )
    bar = figure.colorbar(image, ax=panels, shrink=0.8, ticks=[-100, -10, -2, 0, 2, 10, 100])
    bar.ax.set_yticklabels(["−100", "−10", "−2", "0", "+2", "+10", "+100"])
    bar.set_label("lie costs  ←   →  lie pays")
    figure.savefig(path, dpi=130)


def _write(axes: Any, gain: Any, error: Any, norm: Any) -> None:
    for i, j in np.ndindex(gain.shape):
        dark = np.dot(mpl.colormaps["PuOr_r"](norm(gain[i, j]))[:3], (0.299, 0.587, 0.114)) < 0.5
        axes.text(
            j,
            i,
            f"{gain[i, j]:+.1f}",
            ha="center",
            va="center",
            color="white" if dark else "black",
            fontweight="bold" if abs(gain[i, j]) > BOLD * error[i, j] else "normal",
            fontsize=8.5,
        )
