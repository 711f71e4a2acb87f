"""Pictures of what was learnt: day types, each provider's law, dispersion, calibration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from troth.core.contract import combine
from troth.core.errors import MissingCapabilityError
from troth.core.information import leave_one_out
from troth.core.reductions import Counts, Moments
from troth.history.convert import statistics_of
from troth.history.fit import LatentFit
from troth.history.offsets import NormalFit

if TYPE_CHECKING:
    from troth.core.contract import Array
    from troth.history.learn import Learned
    from troth.history.record import History

_BLUE, _ORANGE, _GREY = "#0072b2", "#d55e00", "#9aa3ad"
_MOST = 30


def plot_fit(learned: Learned, history: History, path: Any = None) -> Any:
    """Draw a fit; needs matplotlib (``pip install troth[plots]``)."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingCapabilityError("plots need matplotlib: pip install 'troth[plots]'") from None
    figure = Figure(figsize=(10.5, 7.4), layout="constrained")
    (first, second), (third, fourth) = figure.subplots(2, 2)
    if isinstance(learned, LatentFit):
        _day_types(first, learned)
        _laws(second, learned)
        _dispersions(third, learned)
    elif isinstance(learned, NormalFit):
        _offsets(second, learned)
        _dispersions(third, learned)
        first.plot(np.arange(len(history.days)), _day_means(history), color=_GREY, linewidth=0.8)
        first.axhline(learned.population.mean, color=_BLUE)
        first.set_title("mean of each day, and the prior's mean", loc="left")
    else:
        for axes in (first, second, third):
            axes.set_axis_off()
        first.text(0, 0.5, str(learned), family="monospace", fontsize=8, va="center")
    _calibration(fourth, learned, history)
    for axes in (first, second, third, fourth):
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    if path is not None:
        figure.savefig(path, dpi=150)
    return figure


def _day_types(axes: Any, fit: LatentFit) -> None:
    places = np.arange(fit.types)
    axes.bar(places, fit.population.prior, color=_BLUE, width=0.6)
    axes.errorbar(
        places, fit.population.prior, yerr=np.asarray(fit.errors.of_prior), fmt="none", ecolor="black", capsize=3
    )
    axes.set_xticks(places, [f"type {k + 1}" for k in places])
    axes.set_ylabel("share of days")
    axes.set_title(f"{fit.types} day types", loc="left")


def _laws(axes: Any, fit: LatentFit) -> None:
    """Draw each provider's means by type; of labels, the chance of the last one."""
    names = list(fit.models)[:_MOST]
    for k in range(fit.types):
        values = [_single(fit.models[name].means[k]) for name in names]
        axes.plot(values, range(len(names)), "o", markersize=5, label=f"type {k + 1}", alpha=0.85)
    axes.set_yticks(range(len(names)), [_short(name) for name in names])
    axes.set_xlabel("chance of the last label" if fit.law == "categorical" else "mean")
    axes.set_title("each provider's law", loc="left")
    axes.legend(fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5))


def _offsets(axes: Any, fit: NormalFit) -> None:
    names = list(fit.models)[:_MOST]
    errors = [fit.errors["providers"].get(name, {}).get("offset", 0.0) for name in names]
    axes.errorbar(
        [fit.models[n].offset for n in names], range(len(names)), xerr=errors, fmt="o", color=_BLUE, capsize=2
    )
    axes.axvline(0, color="black", linewidth=0.8)
    axes.set_yticks(range(len(names)), [_short(name) for name in names])
    axes.set_title("each provider's offset", loc="left")


def _dispersions(axes: Any, fit: LatentFit | NormalFit) -> None:
    names = list(fit.models)[:_MOST]
    axes.barh(range(len(names)), [fit.models[name].dispersion for name in names], color=_BLUE, height=0.6)
    axes.axvline(fit.population.dispersion, color=_ORANGE, linestyle="--", label="unknown providers")
    axes.set_yticks(range(len(names)), [_short(name) for name in names])
    axes.set_title("dispersion: how much a provider's rows of a day move together", loc="left", fontsize=10)
    axes.legend(fontsize=7)


def _calibration(axes: Any, learned: Learned, history: History) -> None:
    """Draw what peers foretell of a provider's mean against what it reported."""
    foretold, reported, rows = foretell(learned, history)
    if not len(foretold):
        axes.set_axis_off()
        return
    order = np.argsort(foretold)
    bins = [part for part in np.array_split(order, min(15, max(1, len(order) // 8))) if len(part)]
    x = [np.average(foretold[part], weights=rows[part]) for part in bins]
    y = [np.average(reported[part], weights=rows[part]) for part in bins]
    axes.plot(foretold, reported, ".", color=_GREY, markersize=2, alpha=0.4)
    ends = [min(x), max(x)]
    axes.plot(ends, ends, color="black", linewidth=0.8)
    axes.plot(x, y, "o-", color=_BLUE)
    axes.set_xlabel("mean that peers of the day foretell")
    axes.set_ylabel("mean reported")
    axes.set_title("calibration (on the days of the fit)", loc="left")


def foretell(learned: Learned, history: History) -> tuple[Array, Array, Array]:
    """Return, for each report, the mean that its peers' reports foretell, the mean reported, and its rows.

    For day types only: Σ_k p(type k | peers) · mean of the provider on type k.
    """
    nothing = np.zeros(0)
    if not isinstance(learned, LatentFit):
        return nothing, nothing, nothing
    models = combine([learned.model_of(name) for name in history.providers])
    parts = [statistics_of(model, history.summaries[:, i], history.reduction) for i, model in enumerate(models)]  # type: ignore[arg-type]
    t = np.where(history.present[..., None], np.stack(parts, axis=1), 0.0)
    log = np.log(np.array(learned.population.prior)) + leave_one_out(t)
    posterior = np.exp(log - log.max(axis=-1, keepdims=True))
    posterior /= posterior.sum(axis=-1, keepdims=True)
    means = np.array([[_single(mean) for mean in learned.model_of(name).means] for name in history.providers])
    foretold = (posterior * means).sum(axis=-1)
    reported = _means(history)
    here = history.present & (history.rows > 0)
    return foretold[here], reported[here], history.rows[here]


def _means(history: History) -> Array:
    """Return each report's mean; of labels, the share of the last one."""
    rows = np.maximum(history.rows, 1)
    if isinstance(history.reduction, Counts):
        return np.asarray(history.summaries[..., -1] / rows)
    assert isinstance(history.reduction, Moments)  # noqa: S101 (the other kind)
    return np.asarray(history.summaries[..., 1] / rows + history.reduction.centre[0])


def _day_means(history: History) -> Array:
    rows = history.rows
    return np.asarray((_means(history) * rows).sum(axis=1) / np.maximum(rows.sum(axis=1), 1))


def _single(mean: Any) -> float:
    return float(mean[-1]) if isinstance(mean, tuple) else float(mean)


def _short(name: str) -> str:
    return name if len(name) <= 20 else name[:19] + "…"
