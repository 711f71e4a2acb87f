"""What a lie costs under each rule.

The cost is (expected payment of the truth − of the lie) / cap, from paired simulations: one of ten providers tells the
truth or lies, in the same world and with the same peers. ``python -m benchmarks incentives --write`` updates the
tables in the documentation.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import troth
from benchmarks.tables import replace_table
from troth import divergences

PROVIDERS, ROWS, SIMULATIONS = 10, 100, 4000
LIES = ("replicate", "withhold half", "corrupt 10%", "fabricate", "send nothing")
PAGE = Path(__file__).parents[1] / "docs" / "incentives.md"


@dataclass(frozen=True)
class Setting:
    """A model, a function that corrupts a tenth of a provider's rows, and the declared bounds of values."""

    name: str
    model: Any
    corrupt: Callable[[Any], Any]
    values: tuple[float, float] | None = None


def _flip(x: Any) -> Any:
    return np.concatenate([1 - x[..., :10], x[..., 10:]], axis=-1)


def _mirror(x: Any) -> Any:
    return np.concatenate([-x[..., :10], x[..., 10:]], axis=-1)


def _mirror_answers(data: Any) -> Any:
    return data[0], _mirror(data[1])


SETTINGS = (
    Setting("Bernoulli, uniform prior", troth.models.Bernoulli(1, 1), _flip),
    Setting("Normal mean, noise twice the prior's spread", troth.models.Normal(0, 1, 2), _mirror, (-10.0, 10.0)),
    Setting("Regression with 5 features", troth.models.LinearRegression(np.zeros(5), np.eye(5), 2.0), _mirror_answers),
)


def rules(setting: Setting) -> dict[str, troth.Rule]:
    """Return every rule that can pay a setting."""
    limits = [2 * ROWS] * PROVIDERS  # admits replicated rows
    # The expected payment of a line-up does not depend on its number of decoys.
    candidates: dict[str, troth.Rule] = {"LineUp": troth.LineUp(decoys=29)}
    try:
        candidates["OneTime, exact range"] = troth.OneTime(troth.exact_range(setting.model, limits, setting.values))
        for low in (-8.0, -3.0):
            scale = troth.clipped_range(setting.model, limits, setting.values, low=low)
            candidates[f"OneTime, clipped at {low:g}"] = troth.OneTime(scale)
    except troth.UnboundedRangeError:
        pass
    if isinstance(setting.model, troth.models.Bernoulli):
        candidates["Brier, unordered"] = troth.Brier()
        candidates["Brier, paper"] = troth.Brier("paper")
    for divergence in divergences.ALL.values():
        candidates[f"MultiDay, {divergence.name.replace('_', ' ')}"] = troth.MultiDay(
            divergence=divergence, exchangeable=True
        )
    candidates["SyntheticPeers, logistic"] = troth.SyntheticPeers()
    candidates["SyntheticPeers, le cam"] = troth.SyntheticPeers(divergence=divergences.le_cam)
    return candidates


def reports(setting: Setting, rng: Any, simulations: int) -> dict[str, Any]:
    """Draw statistics ``(simulation, day, provider, statistic)`` for the truth and each lie of provider 0."""
    model = setting.model
    theta = model.draw_parameters(rng, (simulations, 2, 1))
    honest = model.statistics(
        model.draw_data(rng, np.broadcast_to(theta, (simulations, 2, PROVIDERS, theta.shape[-1])), ROWS)
    )
    data = model.draw_data(rng, theta[:, :, 0], ROWS)
    truth = model.statistics(data)
    half = (
        (data[0][..., : ROWS // 2, :], data[1][..., : ROWS // 2]) if isinstance(data, tuple) else data[..., : ROWS // 2]
    )
    other = model.draw_parameters(rng, (simulations, 2))
    own = {
        "truth": truth,
        "replicate": 2 * truth,
        "withhold half": model.statistics(half),
        "corrupt 10%": model.statistics(setting.corrupt(data)),
        "fabricate": model.statistics(model.draw_data(rng, other, ROWS)),
        "send nothing": np.zeros_like(truth),
    }
    drawn = {}
    for name, statistics in own.items():
        drawn[name] = honest.copy()
        drawn[name][:, :, 0] = statistics
    return drawn


def mean_losses(setting: Setting, rule: troth.Rule, drawn: dict[str, Any]) -> dict[str, tuple[float, float]]:
    """Return each lie's mean loss in shares of the cap with its standard error, and under "truth" the honest share."""
    shares = {}
    for name, t in drawn.items():
        daily = isinstance(rule, troth.MultiDay)
        counts = np.full(t.shape[1:3] if daily else t.shape[2], float(ROWS))
        rng = np.random.default_rng(5)  # common random numbers for the truth and every lie
        share = rule.explain(setting.model, t if daily else t[:, 0], rows=counts, rng=rng).share
        shares[name] = share[:, 0, 0] if daily else share[:, 0]
    losses = {"truth": (float(shares["truth"].mean()), 0.0)}
    for lie in LIES:
        loss = shares["truth"] - shares[lie]
        losses[lie] = (float(loss.mean()), float(loss.std() / np.sqrt(len(loss))))
    return losses


def lines(simulations: int = SIMULATIONS) -> list[str]:
    """Return the tables, in Markdown."""
    out = []
    for setting in SETTINGS:
        drawn = reports(setting, np.random.default_rng(11), simulations)
        out += [f"## {setting.name}", ""]
        out += [f"| rule | {' | '.join(LIES)} | honest pay |", "|---" * (len(LIES) + 2) + "|"]
        for name, rule in rules(setting).items():
            losses = mean_losses(setting, rule, drawn)
            cells = [f"{100 * losses[lie][0]:.1f}" for lie in LIES]
            out.append(f"| {name} | {' | '.join(cells)} | {100 * losses['truth'][0]:.1f} |")
        losses = mean_losses(setting, troth.MultiDay(exchangeable=True), drawn)
        error = max(losses[lie][1] for lie in LIES)
        out += ["", f"Percent of the cap; standard errors at most {100 * error:.1f} for the logistic MultiDay.", ""]
    return out


def main() -> None:
    print(
        f"What a lie costs, in percent of the cap ({PROVIDERS} providers with {ROWS} rows each, {SIMULATIONS} simulations)\n"
    )
    table = lines()
    print("\n".join(table))
    if "--write" in sys.argv:
        replace_table(PAGE, "table", table)


if __name__ == "__main__":
    main()
