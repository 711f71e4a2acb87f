"""What a lie costs under each rule: the figure that a buyer feels.

Incentive strength is (expected payment of the truth − of the lie) / cap, by paired simulation: the same world, the
same peers, and one provider of ten who tells the truth or lies. ``python -m benchmarks incentives --write`` renews the
table in the documentation.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import troth
from troth import divergences

PROVIDERS, ROWS, SIMULATIONS = 10, 100, 4000
LIES = ("replicate", "withhold half", "corrupt 10%", "fabricate", "send nothing")
PAGE = Path(__file__).parents[1] / "docs" / "incentives.md"


@dataclass(frozen=True)
class Setting:
    """A model, how to corrupt a tenth of its rows, and the bounds that values are declared to have."""

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


def _eye(d: int) -> Any:
    return np.eye(d)


SETTINGS = (
    Setting("Bernoulli, uniform prior", troth.models.Bernoulli(1, 1), _flip),
    Setting("Normal mean, noise twice the prior's spread", troth.models.Normal(0, 1, 2), _mirror, (-10.0, 10.0)),
    Setting("Regression with 5 features", troth.models.LinearRegression(np.zeros(5), _eye(5), 2.0), _mirror_answers),
)


def rules(setting: Setting) -> dict[str, troth.Rule]:
    """Return every rule that serves a setting."""
    # what a line-up pays in expectation does not depend on its number of decoys
    limits = [2 * ROWS] * PROVIDERS  # so that replicating is admissible
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
    """Draw the truth and each lie of provider 0, ``(simulation, day, provider, statistic)``, with the same peers in all."""
    model = setting.model
    theta = model.draw_parameters(rng, (simulations, 2, 1))
    everyone = model.statistics(
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
    changed = {}
    for name, statistics in own.items():
        changed[name] = everyone.copy()
        changed[name][:, :, 0] = statistics
    return changed


def strengths(setting: Setting, rule: troth.Rule, drawn: dict[str, Any]) -> dict[str, tuple[float, float]]:
    """Mean loss of each lie as a share of the cap, with its standard error, and what the truth and nothing earn."""
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
            losses = strengths(setting, rule, drawn)
            cells = [f"{100 * losses[lie][0]:.1f}" for lie in LIES]
            out.append(f"| {name} | {' | '.join(cells)} | {100 * losses['truth'][0]:.1f} |")
        worst = max(
            strengths(setting, rule, drawn)[lie][1] for rule in [troth.MultiDay(exchangeable=True)] for lie in LIES
        )
        out += ["", f"Percent of the cap; standard errors at most {100 * worst:.1f} for the logistic MultiDay.", ""]
    return out


def main() -> None:
    print(
        f"What a lie costs, in percent of the cap ({PROVIDERS} providers with {ROWS} rows each, {SIMULATIONS} simulations)\n"
    )
    table = lines()
    print("\n".join(table))
    if "--write" in sys.argv:
        before, rest = PAGE.read_text().split("<!-- table -->\n", 1)
        after = rest.split("<!-- end of table -->", 1)[1]
        PAGE.write_text(before + "<!-- table -->\n" + "\n".join(table) + "<!-- end of table -->" + after)


if __name__ == "__main__":
    main()
