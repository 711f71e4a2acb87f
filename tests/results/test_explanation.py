"""A payment in words: the data of every kind, then the line, then the share."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import troth
from registry import EXAMPLES, generator
from troth import models
from troth.core.formats import share
from troth.core.reductions.reduction import DescribesSummary, FitsCoefficients
from troth.mechanisms import Figures, Line
from troth.results.explanation import describe_data, explain_days, strip

CLINICS = np.repeat(["a", "b", "c"], 8).tolist()
RULE = troth.LineUp(decoys=19)
BERNOULLI = models.Bernoulli(1, 1)


def pay(model: Any, table: dict[str, Any], **terms: Any) -> troth.Result:
    return troth.pay(
        {"clinic": CLINICS, **table}, model, RULE, provider="clinic", budget="300.00", seed=1, terms={"model": terms}
    )


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_family_says_what_data_are_on_average(name: str) -> None:
    model: Any = EXAMPLES[name]
    rng = generator(5)
    summary = model.summary(model.draw_data(rng, model.draw_parameters(rng), 12))
    reduction = model.reduction
    if isinstance(reduction, FitsCoefficients) and reduction.predicts:
        assert np.isfinite(reduction.coefficients(summary)).all()
    else:
        assert isinstance(reduction, DescribesSummary)
        words = reduction.describe(summary, None)
        assert words is not None
        assert words.noun
        assert words.value


def test_shares_of_labels_and_means_of_columns() -> None:
    kinds = ["red", "green", "blue", "red"] * 6
    terms = {"columns": ["kind"], "categories": ["blue", "green", "red"]}
    text = describe_data(pay(models.Categorical([1, 1, 1]), {"kind": kinds}, **terms), None, "a")
    red, others = "blue (25%), green (25%), red (50%)", "your peers' are"
    assert text == f"Your label shares are {red}; {others} {red}."
    yes = pay(BERNOULLI, {"well": ["no", "yes"] * 12}, columns=["well"], categories=["no", "yes"])
    assert describe_data(yes, None, "a") == "Your rate of yes is 50%; your peers' is 50%."
    model = models.MultivariateNormal([0, 0], [[1, 0], [0, 1]], [[1, 0], [0, 1]])
    result = pay(model, {"x": [1.0] * 24, "y": [2.0] * 24}, columns=["x", "y"])
    assert describe_data(result, None, "b") == "Your means of x, y are 1, 2; your peers' are 1, 2."


def test_members_of_a_group_are_not_among_the_peers_whose_data_are_compared() -> None:
    def averages(names: str) -> str:
        x = [1, 1, 1, 1, 0, 0, 0, 0, 1, 0, 1, 0, 1, 1, 1, 0]
        table = {"clinic": np.repeat([*names], 4).tolist(), "x": x[: 4 * len(names)]}
        groups = {"groups": {"one owner": ["a", "b"]}}
        result = troth.pay(table, BERNOULLI, RULE, provider="clinic", budget="300.00", seed=1, terms=groups)
        return describe_data(result, None, "a")

    assert averages("abcd") == "Your rate is 100%; your peers' is 62%."
    assert averages("abc") == "", "the only peer's data would be given away"


def test_a_regression_is_an_equation_in_the_units_of_the_columns() -> None:
    area = generator(1).uniform(20, 90, 24).round(1)
    wards = (["surgery", "other", "surgery", "other"] * 6, np.tile([0.0, 5.0], 12))
    table = {"area": area.tolist(), "ward": wards[0], "price": (2 + 3 * area - wards[1]).tolist()}
    result = pay(
        models.LinearRegression([0, 0, 0], np.eye(3).tolist(), 0.1),
        table,
        columns=["area", "ward"],
        target="price",
        intercept=True,
        levels={"ward": ["surgery", "other"]},
        scales={"area": [50.0, 20.0], "price": [170.0, 70.0]},
    )
    fitted = "price ≈ 2 + 3 × area − 5 × ward = other"
    assert describe_data(result, None, "a") == f"From your rows, {fitted}; from your peers' rows, {fitted}."
    assert describe_data(result, None, "a", peers=False) == f"From your rows, {fitted}."


def test_rows_that_are_too_few_for_a_fit_say_so() -> None:
    frame = {"clinic": ["a", *CLINICS[8:]], "x": np.arange(17.0).tolist(), "y": np.arange(17.0).tolist()}
    model = models.LinearRegression([0, 0], [[1, 0], [0, 1]], 1)
    terms = {"model": {"columns": ["x"], "target": "y", "intercept": True}}
    result = troth.pay(frame, model, RULE, provider="clinic", budget="300.00", seed=1, terms=terms)
    text = describe_data(result, None, "a")
    assert text.startswith("Your rows alone do not determine all coefficients; from your peers' rows, y ≈ ")
    assert text.endswith("+ 1 × x.")


def test_log_odds_of_a_label() -> None:
    rng = generator(3)
    age = rng.integers(20, 80, 24)
    sick = np.where(rng.random(24) < 1 / (1 + np.exp(-(age - 50) / 10)), "yes", "no").tolist()
    terms = {"columns": ["age"], "target": "sick", "intercept": True, "categories": ["no", "yes"]}
    model = models.LogisticRegression([-5, 0.1], [1, 100])
    text = describe_data(pay(model, {"age": age.tolist(), "sick": sick}, **terms), None, "a")
    assert text.startswith("From your rows, log-odds of sick = yes ≈ −")
    assert " × age; from your peers' rows, log-odds of sick = yes ≈ −" in text


def test_days_are_summed_up_by_their_means() -> None:
    table = {"clinic": CLINICS * 3, "day": np.repeat([1, 2, 3], 24).tolist(), "improved": [1, 0, 1] * 24}
    result = troth.pay(table, models.Bernoulli(1, 1), troth.MultiDay(), provider="clinic", day="day", budget="9.00")
    payments = result.by_provider["a"]
    empty = [payment.empty_share for _, payment in payments]
    assert empty[-1] > empty[0]  # on the last day everybody earns the cap
    assert f"mean empty share {share(sum(empty) / 3)}" in explain_days(result.campaign, payments)


def test_the_line_is_drawn_above_the_place_and_the_share() -> None:
    text = pay(models.Bernoulli(1, 1), {"improved": [1, 0] * 12}, columns=["improved"]).explain("a").splitlines()
    assert [line.split("  ")[1] for line in text[1:5]] == [
        "data",
        "the line",
        "decoys that fit better",
        "share of the cap",
    ]
    assert text[2].count("·") == 19
    assert text[2].count("◉") == 1
    assert "you are paid" in text[4]
    assert text[-1].startswith("  log PMI")


@pytest.mark.parametrize(("line", "before"), [(Line(999, 0, 0), 0), (Line(999, 999, 0), 60), (Line(None, 0.5, 0), 30)])
def test_the_strip_has_the_real_peers_in_their_place(line: Line, before: int) -> None:
    assert strip(line) == f"best {'·' * before}◉{'·' * (60 - before)} worst"


def test_a_small_share_does_not_pass_for_nothing() -> None:
    terms = {"decoys": 999.0, "above": 807.0, "tied": 9.0}
    figures = Figures(log_pmi=-13.0, score=0.0, low=0.0, high=1.0, terms=terms, share=0.0012, empty_share=0.2)
    assert troth.LineUp().steps(figures)[1].meaning.endswith("with probability 0.12%: you are paid 0.12% of your cap.")


def test_numbers_have_a_true_minus_and_amounts_have_separators() -> None:
    table = {"clinic": CLINICS, "x": (generator(1).normal(-3, 1, 24)).tolist()}
    model = models.Normal(mean=0, scale=5, noise=1)
    result = troth.pay(table, model, RULE, provider="clinic", budget="1000000", seed=1)
    text = str(result) + describe_data(result, None, "a") + result.explain("a")
    assert "Your mean is −" in text
    for amount in result.totals.values():
        assert f"{amount // 100:,}." in text
        assert f",{amount // 100}." in result.to_csv()
    shown = [
        str(troth.audit(model, RULE, rows=[8] * 3, simulations=50)),
        str(troth.check_fit(model, result.campaign.statistics_of(model, [r.summary for r in result.reports]))),
        re.sub("<[^>]*>", " ", result.to_html()),
    ]
    for each in (text, *shown):
        assert re.search(r"[ >\[(]-\d+\.\d", each) is None, each
    assert "−" in shown[0]
