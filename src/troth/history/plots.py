"""Plots of fits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from troth.audits.plots import new_figure, saved
from troth.models.fitting.fitted import BLUE, GREY

if TYPE_CHECKING:
    from troth.core.contract import Array
    from troth.core.past import History
    from troth.models.fitting.fitted import Fitted


def plot_fit(learned: Fitted, history: History, path: Any = None) -> Any:
    """Plot a fit; needs matplotlib (the extra ``plots``)."""
    figure = new_figure(10.5, 7.4)
    axes = figure.subplots(2, 2).ravel()
    learned.draw(axes[:3], history)
    _draw_calibration(axes[3], learned.predicted_means(history), history)
    for panel in axes:
        panel.spines[["top", "right"]].set_visible(False)
    return saved(figure, path)


def _draw_calibration(axes: Any, predicted_means: Array | None, history: History) -> None:
    """Plot the means that peers predict against the means that providers reported."""
    reports = history.present & (history.rows > 0)
    if predicted_means is None or not reports.any():
        axes.set_axis_off()
        return
    reduction: Any = history.reduction
    entry = 0 if reduction.labels is None else -1  # the share of the last label
    means = reduction.means(history.summaries)[..., entry]
    predicted, reported, rows = predicted_means[reports], means[reports], history.rows[reports]
    bins = np.array_split(np.argsort(predicted), min(15, max(1, len(predicted) // 8)))
    x = [np.average(predicted[part], weights=rows[part]) for part in bins]
    y = [np.average(reported[part], weights=rows[part]) for part in bins]
    axes.plot(predicted, reported, ".", color=GREY, markersize=2, alpha=0.4)
    ends = [min(x), max(x)]
    axes.plot(ends, ends, color="black", linewidth=0.8)
    axes.plot(x, y, "o-", color=BLUE)
    axes.set_xlabel("mean that peers of the day predict")
    axes.set_ylabel("mean reported")
    axes.set_title("calibration (on the days of the fit)", loc="left")
