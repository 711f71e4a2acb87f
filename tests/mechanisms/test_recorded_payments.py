"""The demonstration and the gallery pay the cents that an early version paid, from the same seeds."""

from __future__ import annotations

import json
import sys
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import troth
from troth.campaigns.money import portion, to_minor, to_text
from troth.core.contract import Model

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))
RECORDED = json.loads(Path(__file__).with_name("recorded_payments.json").read_text())


def model_of(recorded: dict[str, Any]) -> Model:
    """Return the model of a campaign: the gallery's custom one, if it is not of a bundled family."""
    if recorded["family"] is None:
        return import_module("examples.gallery.survival").MODEL  # type: ignore[no-any-return]
    return troth.models.from_dict({"family": recorded["family"], **recorded["parameters"]})


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda recorded: recorded["campaign"])
def test_the_same_reports_and_seed_earn_the_same_cents(recorded: dict[str, Any]) -> None:
    model = model_of(recorded)
    statistics = np.array(recorded["statistics"], dtype=np.float64)
    rng = np.random.default_rng(int(recorded["seed"], 16))
    share = troth.SyntheticPeers(draws=recorded["draws"]).explain(model, statistics, rng=rng).share
    cap = Fraction(to_minor(recorded["budget"], 2), len(statistics))
    assert [to_text(portion(float(value), cap), 2) for value in share] == recorded["payments"]
