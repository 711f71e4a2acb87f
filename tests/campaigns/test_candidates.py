"""Candidates in a campaign: a file with a digest, every kind of table, and what everybody sees of them."""

from __future__ import annotations

import json
import pickle
import re
import tomllib
from hashlib import sha256
from pathlib import Path
from typing import Any

import ibis
import numpy as np
import pandas as pd
import pytest
from scipy.stats import t as student_t

import troth
from campaigns.shop import run
from registry import SOAK, generator
from troth import models
from troth.audits import strategies
from troth.audits.strategies import lies_for_model
from troth.campaigns.records.ledger import Ledger
from troth.campaigns.records.verify import check_ledger
from troth.campaigns.statistics_file import make_statistics, parse_statistics
from troth.campaigns.toml import to_toml
from troth.core.errors import DataError, MissingCapabilityError, UnboundedRangeError
from troth.core.settings import CampaignError
from troth.data import read_reports
from troth.history import from_summaries

HOSPITALS = [f"hospital {k}" for k in range(8)]
CAMPAIGN = """[campaign]
name = "Readmission"
budget = "800.00"

[model]
file = "candidates.json"
digest = "{digest}"
columns = ["age", "stay"]
target = "readmitted"
categories = ["no", "yes"]
intercept = true

[mechanism]
rule = "LineUp"
decoys = 199

[data]
source = "rows.csv"
provider = "hospital"
{more}
"""


def candidates(size: int = 12) -> models.LogisticCandidates:
    return models.LogisticCandidates(generator(1).normal([-0.5, 0.8, -0.6], 1.0, (size, 3)))


def frame_of(model: Any, rows: int = 60, days: int = 0) -> pd.DataFrame:
    """Draw rows of every hospital from one candidate, or from a fresh one each day; the last shuffles its labels."""
    rng, parts = generator(2), []
    for day in range(max(1, days)):
        theta = model.draw_parameters(rng) if days else np.array([0.0])
        for hospital in HOSPITALS:
            z = np.column_stack([np.ones(rows), rng.normal(size=(rows, 2))])
            _, y = model.draw_data(rng, theta, z)
            y = rng.permutation(y) if hospital == HOSPITALS[-1] and not days else y
            labels = np.where(y > 0, "yes", "no")
            parts.append(pd.DataFrame({"age": z[:, 1], "stay": z[:, 2], "readmitted": labels, "hospital": hospital}))
            parts[-1]["day"] = day + 1
    return pd.concat(parts, ignore_index=True)


@pytest.fixture
def campaign(tmp_path: Path) -> Path:
    return write_folder(tmp_path, candidates())


def write_folder(folder: Path, model: models.LogisticCandidates, more: str = "") -> Path:
    digest = troth.save_model(model, folder / "candidates.json")
    frame_of(model).to_csv(folder / "rows.csv", index=False)
    (folder / "campaign.toml").write_text(CAMPAIGN.format(digest=digest, more=more))
    return folder / "campaign.toml"


def test_somebody_else_verifies_the_ledger_without_the_file(campaign: Path) -> None:
    digest = "sha256:" + sha256((campaign.parent / "candidates.json").read_bytes()).hexdigest()
    assert f'digest = "{digest}"' in campaign.read_text()
    result = troth.pay(campaign, ledger=campaign.parent / "ledger.jsonl", seed=5, anyway=True)
    shares = [payment.share for payment in result.rounds[0].payments]
    assert min(shares) == shares[-1] < 0.5 < np.mean(shares)
    (campaign.parent / "candidates.json").unlink()
    ledger = Ledger.from_bytes((campaign.parent / "ledger.jsonl").read_bytes())
    assert check_ledger(ledger).model == candidates()
    terms = json.loads(json.dumps(result.campaign.terms))
    assert troth.Campaign.from_dict(terms).digest == result.campaign.digest  # as a service has them
    assert troth.Campaign.from_dict(tomllib.loads(to_toml(terms))).digest == result.campaign.digest
    terms["model"]["coefficients"][0][0] += 1e-9
    with pytest.raises(CampaignError, match=r"\[model\] digest: the model has the digest sha256:.* was announced"):
        troth.Campaign.from_dict(terms)


def test_another_file_is_refused_with_both_digests(campaign: Path) -> None:
    announced = re.search("sha256:[0-9a-f]{64}", campaign.read_text())
    other = troth.save_model(candidates(11), campaign.parent / "candidates.json")
    assert announced is not None
    with pytest.raises(
        CampaignError, match=f"candidates.json has the digest {other}, but {announced[0]} was announced"
    ):
        troth.Campaign.load(campaign)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda path: path.write_text(re.sub("digest = .*", "", path.read_text())), r'digest: is missing; write digest = "sha256:'),
        (lambda path: path.with_name("candidates.json").unlink(), r"\[model\] file: candidates.json: cannot be read: No such file"),
        (lambda path: path.with_name("candidates.json").write_bytes(pickle.dumps(candidates())), "not JSON of plain numbers"),
        (lambda path: path.with_name("candidates.json").write_text('{"family": "LogisticCandidates", "coefficients": [[NaN]]}'), "NaN is not a number"),
        (lambda path: path.with_name("candidates.json").write_text("[1]"), "not a model that troth.save_model wrote"),
        (lambda path: path.with_name("candidates.json").write_text('{"family": "Nobody"}'), "there is no family 'Nobody'"),
        (lambda path: path.write_text(path.read_text().replace("[model]", '[model]\nfamily = "PoissonCandidates"')), "family: is given here and in candidates.json"),
        (lambda path: path.write_text(path.read_text().replace("intercept = true", "")), "there are 2 columns, a target, but the model's parameters are for 3"),
    ],
)  # fmt: skip
def test_mistakes_are_named(campaign: Path, change: Any, message: str) -> None:
    change(campaign)
    with pytest.raises(troth.ParameterError, match=message):
        troth.Campaign.load(campaign)


def test_without_a_folder_a_file_cannot_be_named(campaign: Path) -> None:
    terms = {"campaign": {"name": "x", "budget": "1"}, "model": {"file": "candidates.json"}}
    with pytest.raises(CampaignError, match="there is no folder to read it from; give the parameters"):
        troth.Campaign.from_dict(terms)


def test_a_python_function_is_no_campaign() -> None:
    model = models.Candidates([0.5, 0.5], lambda data: np.zeros(2))
    with pytest.raises(MissingCapabilityError, match="nobody else could verify"):
        troth.pay({"who": ["a", "b"], "x": [1, 0]}, model, provider="who", budget="1.00")


@pytest.mark.parametrize("size", [4, 12])
def test_every_kind_of_table_is_reduced_to_the_same_sums(size: int, tmp_path: Path) -> None:
    """Four candidates are summed in the engine, twelve have too many sums, so columns are fetched."""
    path = write_folder(tmp_path, candidates(size))
    terms, frame = troth.Campaign.load(path), pd.read_csv(tmp_path / "rows.csv")
    frame.to_parquet(tmp_path / "rows.parquet")
    kinds = [tmp_path / "rows.csv", tmp_path / "rows.parquet", frame, ibis.memtable(frame)]
    sums = [{report.provider: report.summary for report in read(kind, terms)} for kind in kinds]
    z = np.column_stack([np.ones(60), frame[frame.hospital == HOSPITALS[2]][["age", "stay"]]])
    y = (frame[frame.hospital == HOSPITALS[2]].readmitted == "yes").to_numpy(float)
    expected = candidates(size).summary((z, y))
    for summary in sums:
        assert np.allclose(summary[HOSPITALS[2]], expected, rtol=1e-9, atol=1e-9)


def read(data: Any, terms: troth.Campaign) -> list[Any]:
    return read_reports(data, terms.request)[0]


def test_statistics_are_submitted_instead_of_rows(campaign: Path) -> None:
    terms = troth.Campaign.load(campaign)
    frame = pd.read_csv(campaign.parent / "rows.csv")
    own = campaign.parent / f"{HOSPITALS[1]}.csv"
    frame[frame.hospital == HOSPITALS[1]].to_csv(own, index=False)
    plain = make_statistics(terms, own)
    (report,) = parse_statistics(terms, plain)
    (by_rows,) = [report for report in read(frame, terms) if report.provider == HOSPITALS[1]]
    assert np.allclose(report.summary, by_rows.summary)
    width = terms.request.reduction.width // 12
    raised = [x + 5 * (place == 1 + 3 * width) for place, x in enumerate(plain["summary"])]
    with pytest.raises(DataError, match="candidate 4 lies above the tangent at candidate|above 0"):
        parse_statistics(terms, {**plain, "summary": raised})


def test_everybody_sees_how_many_candidates_are_left(
    campaign: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    assert run(monkeypatch, "pay", campaign, "--anyway", "--no-report") == 0
    assert "effective candidates out of 12:" in capsys.readouterr().out
    result = troth.pay(campaign, ledger=campaign.parent / "ledger.jsonl", anyway=True)
    effective = result.effective_candidates
    assert effective is not None
    t = np.stack([result.campaign.statistics(result.campaign.model, report.summary) for report in result.reports])
    posterior = np.exp(t[:, :12] - t[:, :12].max(axis=1, keepdims=True))
    posterior /= posterior.sum(axis=1, keepdims=True)
    assert np.allclose(effective.by_report, 1 / (posterior**2).sum(axis=1))
    plain = result.to_dict()["effective_candidates"]
    assert (plain["of"], plain["by_report"][HOSPITALS[0]]) == (12, pytest.approx(effective.by_report[0]))
    assert effective.near_one
    page = result.write_page(campaign.parent / "report.html", simulations=50).read_text()
    assert "Few candidates are left" in page
    assert "Of 12 candidates, one report alone leaves" in page
    assert "candidate 1" in page


def test_other_models_have_no_candidates() -> None:
    result = troth.pay(
        {"who": ["a", "a", "b"], "x": [1, 0, 1]}, models.Bernoulli(1, 1), provider="who", budget="1.00", seed=1
    )
    assert result.effective_candidates is None
    assert "effective_candidates" not in result.to_dict()


def test_no_lie_gains_and_made_up_reports_earn_the_empty_share() -> None:
    """Decoys from the normal limit of each candidate are as good as real peers for a report that says nothing."""
    model, rows = candidates(6), [40] * 5
    names = {lie.name for lie in lies_for_model(model)}
    assert {"flip 10%", "shuffle labels", "label with its own model", "copy public labels", "send the easiest 50%",
            "swap two features", "fabricate from the prior"} <= names  # fmt: skip
    few = [
        strategies.Flip(),
        strategies.LabelWithOwnModel(),
        strategies.CopyPublicLabels(),
        strategies.FabricateFromPrior(),
    ]
    rule, rounds = troth.LineUp(decoys=19), 20_000 if SOAK else 800
    audit = troth.audit(model, rule, None if SOAK else few, rows=rows, simulations=rounds, rng=generator(3))
    assert not audit.gaining()
    for lie in ("fabricate from the prior", "copy public labels"):
        earned = next(finding.earned for finding in audit.findings if finding.lie == lie)
        assert earned == pytest.approx(0.2, abs=0.05)


def test_the_certificate_says_what_is_exact_and_what_is_assumed() -> None:
    labels = troth.certify(candidates(), [60] * 4)
    assert "exact mean and covariance" in labels["exact likelihood"].text
    assert "θ is one of the candidates" in labels["one of the states"].text
    numbers = troth.certify(models.LinearCandidates([[0.0], [1.0]], noise=1.0), [60] * 4, troth.SyntheticPeers())
    assert "exact likelihood" not in {claim.name for claim in numbers.claims}
    assert numbers["sensitive"].verdict == "proved"
    assert numbers["sensitive"].min_rows == 1
    z = generator(1).normal(size=(20, 3))
    at_hand = troth.certify([candidates().with_features(z)] * 3, [20] * 3)
    assert "exact likelihood" not in {claim.name for claim in at_hand.claims}


def test_a_clipped_range_is_bounded_by_the_prior() -> None:
    scale = troth.clipped_range(candidates(), [60] * 4, low=-8)
    assert scale.high == pytest.approx(np.log(12))
    with pytest.raises(UnboundedRangeError, match="clipped"):
        troth.exact_range(candidates(), [60] * 4)


def test_past_days_teach_the_probabilities_of_candidates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """`troth fit` and `troth backtest` on a history that favours some candidates."""
    rng, model = generator(7), candidates(3)
    model = models.LogisticCandidates(np.array(model.coefficients) * 3, prior=[0.6, 0.3, 0.1])
    t = np.stack(
        [
            model.summary(model.draw_data(rng, theta.repeat(2)[:, None], 40))
            for theta in model.draw_parameters(rng, (300,))
        ]
    )
    fitted: Any = models.LogisticCandidates.fit(from_summaries(model.reduction, t), coefficients=model.coefficients)
    errors = np.asarray(fitted.errors["prior"])
    assert (np.abs(np.array(fitted.model.prior) - model.prior) < 5 * errors + 1e-9).all()
    path = write_folder(tmp_path, model)
    frame_of(model, 12, days=14).to_csv(tmp_path / "past.csv", index=False)
    assert run(monkeypatch, "backtest", path, tmp_path / "past.csv", "--day", "day") == 0
    assert "fitted LogisticCandidates" in capsys.readouterr().out
    assert run(monkeypatch, "fit", path, tmp_path / "past.csv", "--day", "day", "--family", "LogisticCandidates") == 0
    learnt: Any = troth.Campaign.load(tmp_path / "fitted.toml").model
    assert learnt.coefficients == model.coefficients
    assert learnt.prior[0] > learnt.prior[2]


def test_any_likelihood_is_paid_by_the_log_likelihoods_that_providers_compute(tmp_path: Path) -> None:
    """Heavy-tailed answers, which no regression here has: providers send a column for each candidate."""
    rng = generator(9)
    slopes = rng.normal(0, 0.7, (5, 2))

    def log_likelihoods(candidate: int, rows: int, shuffled: bool = False) -> Any:
        z = rng.normal(size=(rows, 2))
        y = z @ slopes[candidate] + rng.standard_t(3, size=rows)
        return student_t.logpdf((rng.permutation(y) if shuffled else y)[:, None] - z @ slopes.T, 3)

    model = models.ReportedCandidates.from_simulation([log_likelihoods(k, 2000) for k in range(5)])
    names = [f"c{k}" for k in range(5)]
    parts = [
        pd.DataFrame(log_likelihoods(2, 80, who == HOSPITALS[-1]), columns=names).assign(hospital=who)
        for who in HOSPITALS
    ]
    frame = pd.concat(parts)
    result = troth.pay(
        frame, model, provider="hospital", budget="800.00", seed=1, ledger=tmp_path / "ledger.jsonl", anyway=True
    )
    shares = [payment.share for payment in result.verify().rounds[0].payments]
    assert shares[-1] < 0.45 < np.mean(shares[:-1])
    assert result.effective_candidates is not None
    digest = troth.save_model(model, tmp_path / "candidates.json")
    assert troth.load_model(tmp_path / "candidates.json", digest) == model
    assert "distribution of the simulation" in troth.certify(model, [80] * 4)["exact likelihood"].text
    for rows in (1, 40):
        drawn = model.draw_statistics(rng, np.full((20_000, 1), 3.0), model.plan(rows))
        assert np.allclose(drawn[:, :5].mean(axis=0) / rows, model.means[3], atol=0.05)
    assert model.statistics(model.draw_data(rng, np.zeros((4, 3, 1)), 7)).shape == (4, 3, 6)
    with pytest.raises(troth.ParameterError, match="covariances of 2 candidates must be 2 by 3"):
        models.ReportedCandidates([[-1.0, -2.0], [-2.0, -1.0]], [[1.0], [1.0]])
