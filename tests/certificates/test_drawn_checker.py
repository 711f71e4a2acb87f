"""Certificates of every family agree with drawn rounds, which detect planted false claims."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import troth
from certificates.day_checker import FAMILIES
from certificates.drawn_checker import Drawn, contradicted, random_drawn
from registry import SOAK
from troth.mechanisms import decoys

EARNED = "uninformed reports earn exactly the empty share"


@pytest.mark.parametrize("name", FAMILIES)
def test_what_is_proved_about_a_family_is_what_draws_show(name: str) -> None:
    """Random rules, options, groups, rows and bonds; at five standard errors false alarms are very unlikely."""
    for seed in range(30) if SOAK else (2,):
        world = random_drawn(seed, name, 400 if SOAK else 60)
        certificate = world.certify()
        assert contradicted(world, certificate) == [], (seed, world, str(certificate))


class Contrary(troth.Rule):
    """A rule that pays for disagreement, and claims to be truthful."""

    truthful_by = "faith"

    def breakdown(self, this_round: troth.Round) -> troth.Breakdown:
        return troth.Breakdown(1 / (1 + np.exp(this_round.log_pmi())))


class Size(Contrary):
    """A rule that pays for rows."""

    def breakdown(self, this_round: troth.Round) -> troth.Breakdown:
        return troth.Breakdown(1 - 1 / (1 + this_round.count_rows()))


class Believed(troth.OneTime):
    """A rule that claims that no lie gains under a clipped range."""

    def truthful(self, *campaign: Any) -> troth.Claim:
        return replace(super().truthful(*campaign), verdict="proved", margin=0.0)


def wrong_law(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw decoys with larger values than peers."""
    part = decoys.draw_part  # type: ignore[attr-defined]

    def elsewhere(model: Any, answers: Any) -> Any:
        draw = part(model, answers)
        return lambda *arguments: (drawn := draw(*arguments)) + np.array([0.0, 20.0])[-drawn.shape[-1] :]

    monkeypatch.setattr(decoys, "draw_part", elsewhere)


def nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    del monkeypatch


PLANTED: dict[str, tuple[str, Drawn, Any]] = {
    **{
        f"{rule.name} of {name}": ("truthful", Drawn(name, (4, 4), None, rule, 100), nothing)
        for name in ("normal", "multivariate normal", "regression", "varying normal", "linear candidates")
        for rule in (Contrary(), Size())
    },
    "a scale that is believed": (
        "truthful",
        Drawn("day types, real", (1, 4), None, Believed(troth.ScoreRange(-0.02, 6, source="clipped")), 1000),
        nothing,
    ),
    "decoys of another law": (
        EARNED,
        Drawn("normal", (4, 4), None, troth.LineUp(rivals=1, decoys=2), 400),
        wrong_law,
    ),
}


@pytest.mark.parametrize("kind", PLANTED)
def test_a_planted_false_claim_goes_red(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, world, plant = PLANTED[kind]
    plant(monkeypatch)
    assert name in contradicted(world, world.certify())


def test_without_the_plant_the_same_campaign_is_green() -> None:
    _, world, _ = PLANTED["decoys of another law"]
    assert contradicted(world, world.certify()) == []
