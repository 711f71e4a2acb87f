"""Check the certificates of every family on drawn rounds, including families whose data cannot be listed.

Claims about truthfulness and the empty share are compared with means over drawn rounds, at five standard errors.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

import troth
from certificates.checker import random_rule
from certificates.day_checker import FAMILIES, FEATURES
from registry import generator
from troth.mechanisms import RULES

MAX_ROWS, ERRORS, ROUNDING = 4, 5.0, 1e-7


@dataclass(frozen=True)
class Drawn:
    """A campaign of one family: rows of each provider, groups, a rule, and the number of drawn rounds."""

    name: str
    rows: tuple[int, ...]
    groups: tuple[int, ...] | None
    rule: troth.Rule
    rounds: int

    @property
    def model(self) -> Any:
        return FAMILIES[self.name]

    def certify(self) -> troth.Certificate:
        return troth.certify(self.model, [2 * n for n in self.rows], self.rule, groups=self.groups)

    @cached_property
    def features(self) -> Any:
        return [generator(7, i).normal(size=(n, FEATURES)) for i, n in enumerate(self.rows)]

    @property
    def adds_rows(self) -> bool:
        """Whether reports are drawn as summaries, in one batch; otherwise as statistics, round by round."""
        return not self.name.startswith("candidates")

    def report(self, rng: Any, theta: Any, provider: int) -> Any:
        """Draw a provider's reports, ``(round, entry)``."""
        model = self.model
        pairs = getattr(getattr(model, "model", model), "explains_target", False)
        rows = self.features[provider] if pairs else self.rows[provider]
        if not self.adds_rows:
            return np.stack([model.statistics(model.draw_data(rng, parameters, rows)) for parameters in theta])
        data = model.draw_data(rng, theta, rows)
        return model.summary((np.broadcast_to(data[0], (*data[1].shape, FEATURES)), data[1]) if pairs else data)


def gains(world: Drawn) -> dict[str, Any]:
    """Return the gains of lies of the first provider in each round, and the pay of a made-up report."""
    rng, model, rule = generator(9), world.model, world.rule.prepared(world.model, [2 * n for n in world.rows])
    days = [model.draw_parameters(rng, (world.rounds,)) for _ in range(rule.days)]
    reports = np.stack([[world.report(rng, day, i) for i in range(len(world.rows))] for day in days])
    reports = np.moveaxis(reports, 2, 0)  # round, day, provider, entry
    own = reports[:, 0, 0].copy()
    other = world.report(rng, model.draw_parameters(rng, (world.rounds,)), 0)

    def earned(report: Any, times: int) -> Any:
        reports[:, 0, 0] = times * report
        t = model.from_summary(reports) if world.adds_rows else reports
        rows = np.broadcast_to(np.array(world.rows, dtype=np.float64), t.shape[:-1]).copy()
        rows[:, 0, 0] *= times
        t, rows = (t, rows) if rule.days > 1 else (t[:, 0], rows[:, 0])
        this_round = troth.Round(model, t, world.groups, rows, np.random.default_rng(3), lenient=True)
        share = rule.evaluate(this_round).share
        return share[:, 0, 0] if rule.days > 1 else share[:, 0]

    truth, made_up = earned(own, 1), earned(other, 1)
    lies = {"nothing": earned(own, 0), "every row twice": earned(own, 2), "made up": made_up}
    return {"made up, alone": made_up, **{name: share - truth for name, share in lies.items()}}


def contradicted(world: Drawn, certificate: troth.Certificate) -> list[str]:
    """Return the names of claims that the drawn rounds contradict."""
    claims = {claim.name: claim for claim in certificate.claims}
    if not _proved(certificate):
        return []
    drawn = gains(world)
    made_up = drawn.pop("made up, alone")
    wrong = []
    truthful = claims["truthful"]
    if truthful.verdict == "proved" and any(_above(gain, truthful.margin or 0.0) for gain in drawn.values()):
        wrong.append("truthful")
    bonded = isinstance(world.rule, troth.Bonded)
    inner: Any = world.rule.rule if isinstance(world.rule, troth.Bonded) else world.rule
    for much in ("exactly", "at most"):
        claim = claims.get(f"uninformed reports earn {much} the empty share")
        empty = 0.0 if bonded else getattr(inner, "line_empty_share", 0.0)
        if claim is None or claim.verdict != "proved":
            continue
        if _above(made_up, empty) or (much == "exactly" and _above(-made_up, -empty)):
            wrong.append(claim.name)
    return wrong


def _proved(certificate: troth.Certificate) -> bool:
    return any(claim.verdict == "proved" for claim in certificate.claims if claim.name[:8] in ("truthful", "uninform"))


def _above(sample: Any, bound: float) -> bool:
    error = sample.std() / np.sqrt(len(sample))
    return not sample.mean() <= bound + ERRORS * error + ROUNDING


def random_drawn(seed: int, name: str, rounds: int) -> Drawn:
    """Return a random campaign of a family, if possible one with a proved claim."""
    rng = generator(seed, *name.encode())
    for _ in range(12):
        rows = tuple(int(n) for n in rng.integers(1, MAX_ROWS + 1, int(rng.integers(2, 5))))
        groups = tuple(int(label) for label in rng.integers(0, 2, len(rows))) if rng.random() < 0.3 else None
        rule = random_rule(rng, str(rng.choice(list(RULES))))
        world = Drawn(name, rows, groups, troth.Bonded(rule) if rng.random() < 0.3 else rule, rounds)
        if _proved(world.certify()):
            break
    return world
