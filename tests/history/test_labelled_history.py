"""Past days of labelled rows: the prior is learnt from the rows themselves, and lies about rows are replayed."""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import troth
from campaigns.shop import run
from registry import SOAK
from troth.audits.strategies import (
    KNOWN_LIES,
    FabricateFromPrior,
    Flip,
    RowLie,
    ShuffleLabels,
    lies_for_reduction,
    lies_left_out,
)
from troth.campaigns.past import history_digest, read_history
from troth.campaigns.terms import Campaign
from troth.core.errors import DataError, ParameterError
from troth.core.past import History
from troth.models import LogisticRegression, PoissonRegression
from troth.models.fitting.modes import _recentred

DAYS = 200 if SOAK else 24
SPREAD = 0.5
MEANS = {"labels": [-0.5, 0.8, -0.6], "counts": [2.0, 0.8, -0.6]}
MODELS: dict[str, Any] = {
    "labels": LogisticRegression(mean=[0, 0, 0], precision=1),
    "counts": PoissonRegression(mean=[0, 0, 0], precision=1),
}
TEXT = """
[campaign]
name = "Wards"
budget = 100

[model]
family = "LogisticRegression"
columns = ["a", "b"]
target = "y"
categories = ["no", "yes"]
intercept = true
prior = {mean = [0, 0, 0], precision = 1}

[data]
source = "now.csv"
provider = "ward"
"""


def tables(kind: str, days: int = DAYS, rows: int = 60, seed: int = 1) -> dict[tuple[Any, str], Any]:
    """Draw days whose coefficients scatter around MEANS by SPREAD."""
    rng, model = np.random.default_rng(seed), MODELS[kind]
    drawn = {}
    for day in range(days):
        theta = np.array(MEANS[kind]) + SPREAD * rng.standard_normal(3)
        for name in "ABC":
            features = np.column_stack([np.ones(rows), rng.standard_normal((rows, 2))])
            drawn[day, name] = np.column_stack(model.draw_data(rng, theta, features))
    return drawn


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A campaign, past days and new rows."""
    place = tmp_path_factory.mktemp("wards")
    parts = [
        pd.DataFrame({"day": day, "ward": name, "a": t[:, 1], "b": t[:, 2], "y": np.where(t[:, 3] > 0, "yes", "no")})
        for (day, name), t in tables("labels", days=10, rows=30).items()
    ]
    past = pd.concat(parts)
    past.to_csv(place / "past.csv", index=False)
    past[past.day == 9].drop(columns="day").to_csv(place / "now.csv", index=False)
    past[past.day == 8].drop(columns=["day", "ward"]).to_csv(place / "pilot.csv", index=False)
    (place / "campaign.toml").write_text(TEXT)
    return place


@pytest.mark.parametrize(("kind", "point"), [("labels", (3, -3, 3)), ("counts", (0, 0, 0))])
def test_the_prior_does_not_depend_on_where_the_history_was_expanded(kind: str, point: Any) -> None:
    """Expanded at 0, or far off, labels were shrunk and counts fitted to nonsense (a mean of 30)."""
    family = type(MODELS[kind])
    history = History.from_tables(tables(kind), family(mean=[0] * 3, precision=1, point=point).reduction)
    model = family.fit(history).model
    assert np.allclose(model.mean, MEANS[kind], atol=4 * SPREAD / np.sqrt(DAYS))
    assert np.allclose(np.array(model.precision) ** -0.5, SPREAD, rtol=4 / np.sqrt(2 * DAYS))
    assert model.point is None
    assert model.reduction.point == model.mean


def test_sums_alone_and_a_given_point_stay_at_one_point() -> None:
    rows, model = tables("labels", days=8), MODELS["labels"]
    history = History.from_tables(rows, model.reduction)
    sums = History(history.days, history.providers, history.summaries, history.present, history.reduction)
    fixed = {"precision": 4.0}
    assert LogisticRegression.fit(sums, **fixed).model.point == (0.0, 0.0, 0.0)
    assert LogisticRegression.fit(history, point=(0.1, 0.5, 0.0), **fixed).model.point == (0.1, 0.5, 0.0)
    with pytest.raises(DataError, match="another point"):
        LogisticRegression.fit(sums, point=(0.1, 0.5, 0.0))


def test_rows_are_added_up_again_at_another_point() -> None:
    rows, model = tables("labels", days=3), MODELS["labels"]
    moved = LogisticRegression(mean=[0] * 3, precision=1, point=[1.0, 0.5, 0.0])
    history = History.from_tables(rows, model.reduction).select(days=[0, 2], providers=["A", "C"])
    again = history.reduced_by(moved.reduction)
    assert np.allclose(again.summaries[1, 1], moved.summary((rows[2, "C"][:, :3], rows[2, "C"][:, 3])))
    assert history_digest(again) == history_digest(history)
    changed = {**rows, (2, "C"): rows[2, "C"] * [1, 1, 1.001, 1]}
    assert history_digest(History.from_tables(changed, model.reduction)) != history_digest(history)


def test_lies_about_rows_are_replayed_where_rows_are_at_hand() -> None:
    rows, model = tables("labels", days=24, rows=40), MODELS["labels"]
    declared = LogisticRegression(mean=MEANS["labels"], precision=4)
    history = History.from_tables(rows, model.reduction)
    rule = troth.LineUp(decoys=49)
    lies = [Flip(0.5), ShuffleLabels(), FabricateFromPrior()]
    replayed = troth.backtest(history, declared, rule, lies, folds=1)
    assert all(replayed[lie.name].gain < -0.1 for lie in lies)
    assert replayed.left_out == ()
    sums = History(history.days, history.providers, history.summaries, history.present, history.reduction)
    with pytest.raises(ParameterError, match="does not work on summaries"):
        troth.backtest(sums, model, rule, lies, folds=1)


def test_every_known_lie_about_labels_is_replayed_or_said_to_be_left_out() -> None:
    rows, model = tables("labels", days=8, rows=12), MODELS["labels"]
    history = History.from_tables(rows, model.reduction)
    sums = History(history.days, history.providers, history.summaries, history.present, history.reduction)
    names = [lie.name for lie in lies_left_out(model, model.reduction) if isinstance(lie, RowLie)]
    assert {"flip 10%", "shuffle labels", "swap two features", "send the easiest 50%"} < set(names)
    rule = troth.LineUp(decoys=4)
    assert set(names) < set(troth.backtest(history, model, rule, folds=1).lies)
    replayed = troth.backtest(sums, model, rule, folds=1)
    assert {*names, "shift by -1 sd", "scale by 0.9"} <= set(replayed.left_out)
    assert {*replayed.lies, *replayed.left_out} >= {lie.name for lie in KNOWN_LIES if not isinstance(lie, RowLie)}
    counts = len(replayed.lies), len(replayed.lies) + len(replayed.left_out)
    assert replayed.coverage == " ({} of {} known lies could be replayed)".format(*counts)
    assert replayed.gaining() or replayed.coverage in replayed.verdict
    assert replayed.lies == tuple(lie.name for lie in lies_for_reduction(model.reduction))
    assert "not replayed, because they do not follow from the sums of past days: " in str(replayed)
    assert replayed.to_dict()["left_out"] == list(replayed.left_out)


@pytest.fixture
def troth_says(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    """Run a command, and return its exit code and what it prints."""

    def say(*arguments: object) -> tuple[int, str]:
        code = run(monkeypatch, *arguments)
        printed = capsys.readouterr()
        return code, printed.out + printed.err

    return say


def test_fit_writes_a_campaign_that_expands_at_its_mean(folder: Path, troth_says: Any) -> None:
    code, text = troth_says("fit", folder / "campaign.toml", folder / "past.csv", "--day", "day")
    assert code == 0, text
    assert f"troth backtest {folder / 'campaign.toml'} {folder / 'past.csv'} --day day" in text.replace("\n", "")
    fitted = Campaign.load(folder / "fitted.toml")
    model: Any = fitted.model
    assert "point" not in fitted.plain["model"]
    assert model.reduction.point == model.mean
    assert fitted.history is not None
    assert fitted.history["digest"] == history_digest(read_history(fitted, folder / "past.csv", day="day"))


def test_a_pilot_moves_the_point_and_is_recorded(folder: Path, troth_says: Any) -> None:
    target = folder / "recentred.toml"
    code, text = troth_says("fit", folder / "campaign.toml", "--pilot", folder / "pilot.csv", "-o", target, "--json")
    assert code == 0, text
    plain, recentred = json.loads(text), Campaign.load(target)
    rows = pd.read_csv(folder / "pilot.csv")
    z = np.column_stack([np.ones(len(rows)), rows.a, rows.b])
    model: Any = recentred.model
    assert np.allclose(model.point, MODELS["labels"].expanded_at_mode((z, rows.y == "yes")).point)
    assert (model.mean, model.precision) == (MODELS["labels"].mean, MODELS["labels"].precision)
    digest = f"sha256:{sha256((folder / 'pilot.csv').read_bytes()).hexdigest()}"
    assert plain["pilot"] == digest == recentred.terms["model"]["pilot"]
    assert recentred.digest != Campaign.load(folder / "campaign.toml").digest


def test_a_pilot_is_of_rows_that_are_not_paid_and_needs_a_point(folder: Path, troth_says: Any) -> None:
    assert "pays for these rows" in troth_says("fit", folder / "campaign.toml", "--pilot", folder / "now.csv")[1]
    assert troth_says("fit", folder / "campaign.toml")[0] == 2
    assert troth_says("fit", folder / "campaign.toml", folder / "past.csv", "--pilot", folder / "pilot.csv")[0] == 2
    linear = TEXT.replace("LogisticRegression", "LinearRegression").replace('categories = ["no", "yes"]', "noise = 1")
    (folder / "linear.toml").write_text(
        linear.replace("precision = 1", "precision = [[1, 0, 0], [0, 1, 0], [0, 0, 1]]")
    )
    refused = troth_says("fit", folder / "linear.toml", "--pilot", folder / "pilot.csv")[1]
    assert "LinearRegression does not use a public point" in refused


def test_a_quadratic_is_the_same_around_another_point() -> None:
    """ℓ + s·(β − p) − ½(β − p)ᵀH(β − p) for every β, whatever p it is written around."""
    rng = np.random.default_rng(5)
    expansion: Any = MODELS["counts"].reduction
    rows = np.column_stack([np.ones(9), rng.normal(size=(9, 2)), rng.poisson(2.0, 9)])
    summary, point = expansion.of_rows(rows), np.array([0.4, -0.3, 0.7])
    moved = _recentred(expansion, summary, point)

    def at(beta: Any, start: Any, t: Any) -> float:
        step = beta - np.array(start)
        return float(t[1] + expansion.slope(t) @ step - 0.5 * step @ expansion.curvature(t) @ step)

    for beta in rng.normal(size=(5, 3)):
        assert at(beta, point, moved) == pytest.approx(at(beta, expansion.point, summary), abs=1e-12)
