"""The messages of a line-up: about its options, its proofs, and the share of a provider."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np
import pytest

import troth
from registry import generator
from troth import models
from troth.core.settings import CampaignError, Section
from troth.mechanisms import read_rule

MODEL = models.Bernoulli(1, 1)
DATA: dict[str, list[Any]] = {"clinic": ["a"] * 3 + ["b"] * 3 + ["c"] * 2, "improved": [1, 0, 1, 1, 1, 0, 0, 1]}
CONTRADICTING: dict[str, list[Any]] = {"clinic": ["a", "a", "b", "b", "c", "c"], "improved": [1, 0, 1, 1, 2, 0]}
ZEROS = models.Finite([0.5, 0.5], [[0.5, 0.5, 0.0], [0.5, 0.0, 0.5]])


def pay(rule: Any, data: Any = DATA, model: Any = MODEL, **more: Any) -> troth.Result:
    return troth.pay(data, model, rule, provider="clinic", budget="750.00", seed=3, **more)


def test_all_decoys_are_infinity_in_python_and_a_word_in_campaign_files() -> None:
    word: Any = "all"
    rule = troth.LineUp(decoys=word)
    assert rule == troth.LineUp(decoys=inf) == read_rule(Section("mechanism", {"rule": "LineUp", "decoys": "all"}))
    assert rule.to_settings() == {**troth.LineUp().to_settings(), "decoys": "all"}  # type: ignore[dict-item]
    assert pay(rule).totals == pay(troth.LineUp(decoys=inf)).totals
    word = "many"
    with pytest.raises(troth.ParameterError, match="decoys must be \"all\" or a whole number .* not 'many'"):
        troth.LineUp(decoys=word)


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"decoys": 1}, r"decoys: must be at least rivals \(4\), not 1"),
        ({"decoys": "many"}, 'decoys: must be "all" or a whole number'),
        ({"decoys": "all", "source": "days"}, "decoys: must be a number if later days are decoys"),
        ({"strict": 2}, "strict: must be a number from 0 to 1"),
    ],
)
def test_a_campaign_file_names_the_key(settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(CampaignError, match=rf"^\[mechanism\] {problem}") as refused:
        read_rule(Section("mechanism", {"rule": "LineUp", **settings}))
    assert refused.value.key == problem.partition(":")[0]


@pytest.mark.parametrize(
    "model", [models.Normal(0, 1, 1), models.Poisson(2, 1), models.VaryingPoisson(2, 1), models.VaryingNormal(0, 1, 1)]
)
def test_an_exhaustive_line_for_infinitely_many_datasets_names_the_remedy(model: Any) -> None:
    """A campaign is rejected before anybody reports; statistics passed from Python, when they are paid."""
    problem = f"{type(model).__name__} .* choose a number of decoys, such as 999"
    for rule in (troth.LineUp(decoys=inf), troth.Bonded(troth.LineUp(decoys=inf))):
        with pytest.raises(CampaignError, match=rf"\[mechanism\] decoys: .*{problem}"):
            pay(rule, model=model)
    t = np.stack([model.statistics([1.0, 2.0])] * 3)
    with pytest.raises(troth.MissingCapabilityError, match=problem):
        troth.LineUp(decoys=inf).pay(model, t, budget=1.0)


@pytest.mark.parametrize("rule", [troth.LineUp(), troth.SyntheticPeers(), troth.Bonded(troth.LineUp())], ids=repr)
def test_a_round_without_providers_is_an_error(rule: troth.Rule) -> None:
    with pytest.raises(troth.DataError, match="there are no providers to pay"):
        rule.pay(MODEL, np.zeros((0, 2)), budget=1.0, rng=generator(1))


def test_public_data_without_the_column_are_named() -> None:
    with pytest.raises(troth.DataError, match="^public data: there is no column 'improved'; there are 'other'$"):
        pay(troth.LineUp(), public={"other": [1, 0]})


@pytest.mark.parametrize("rule", [troth.LineUp(decoys=99), troth.SyntheticPeers(), troth.Bonded(troth.LineUp())])
def test_a_score_that_is_not_paid_is_not_printed(rule: troth.Rule) -> None:
    result = pay(rule, CONTRADICTING, ZEROS)
    rows = {line.split()[0]: line.split()[2] for line in str(result).splitlines()[2:]}
    assert rows["a"] == rows["b"] == "–" != rows["c"]
    text = result.explain("a")
    assert text.count("where peers contradict each other") == 1
    assert "imaginary" not in text
    assert "imaginary" in result.explain("c") or isinstance(rule, troth.SyntheticPeers)


def test_a_day_whose_next_day_contradicts_itself_has_no_score() -> None:
    days = {"clinic": CONTRADICTING["clinic"] * 2, "improved": [1, 0, 1, 1, 1, 0, *CONTRADICTING["improved"]]}
    result = pay(troth.MultiDay(), {**days, "day": [0] * 6 + [1] * 6}, ZEROS, day="day")
    assert [payment.score is None for payment in result.rounds[0].payments] == [True, True, False]
    assert "Peers contradict each other, on this day or on the next" in result.explain("a", 0)


def test_a_bond_keeps_the_explanation_of_the_line_and_is_exact() -> None:
    result = pay(troth.Bonded(troth.LineUp(decoys=99)))
    assert "Against 4 of these picked at random they would win with probability" in result.explain("a")
    assert result.rounds[0].payments[0].deposit == 62_50
    odd = troth.Bonded(troth.LineUp(rivals=2, decoys=99, strict=0.3))
    lowest = odd.rule.line_empty_share / (1 - odd.rule.line_empty_share)  # type: ignore[attr-defined]
    assert pay(odd).rounds[0].payments[0].deposit == np.ceil(25_000 * lowest)


def test_an_exhaustive_line_is_explained_by_probabilities(tmp_path: Any) -> None:
    result = pay(troth.LineUp(decoys=inf))
    text = result.explain("c")
    assert "probability of a better fit" in text
    assert "of 100" not in text
    page = result.write_page(tmp_path / "page.html", simulations=2).read_text()
    assert "all that peers could report, a dot for 1%" in page
    assert "of 100 decoys" not in page


def test_each_part_of_a_share_has_its_own_theorem() -> None:
    basis = {
        part: troth.certify(MODEL, [3] * 3, troth.LineUp(strict=part))["truthful"].basis for part in (0.0, 0.3, 1.0)
    }
    order, score = "rearrangement inequality", "spherical score"
    assert [order in basis[part] for part in basis] == [True, True, False]
    assert [score in basis[part] for part in basis] == [False, True, True]


def test_an_empty_report_is_paid_its_empty_share_on_days_with_fewer_decoys() -> None:
    """An empty report scores higher in a shorter line, so a bond must subtract more there."""
    t = np.tile([[5.0, 5.0], [3.0, 7.0], [6.0, 4.0], [0.0, 0.0]], (6, 1, 1))
    rule = troth.LineUp(rivals=1, decoys=3, strict=0.3, source="days")
    share = rule.explain(MODEL, t, rng=generator(1)).share[:, 3]
    assert share.tolist() == rule.empty_share(MODEL, t)[:, 3].tolist()
    assert share[4] > share[3] > share[2] == share[5]
    assert not troth.Bonded(rule).explain(MODEL, t, rng=generator(1)).share[:, 3].any()


def test_later_days_are_not_described_as_drawn() -> None:
    days: dict[str, Any] = {**DATA, "day": np.repeat(range(4), 8).tolist()}
    days |= {key: days[key] * 4 for key in DATA}
    result = pay(troth.LineUp(rivals=1, decoys=2, source="days"), days, day="day")
    assert "reports on 2 later days stand for" in result.explain("a", 0)
    assert "We drew 2 imaginary groups" in result.explain("a", 3)


def test_a_line_up_on_the_last_day_of_a_multi_day_rule_is_explained() -> None:
    days: dict[str, Any] = {**DATA, "day": [0] * 8 + [1] * 8}
    days |= {key: days[key] * 2 for key in DATA}
    result = pay(troth.MultiDay(last=troth.LineUp(decoys=99)), days, day="day")
    assert "We drew 99 imaginary groups" in result.explain("a", 1)
    assert "imaginary" not in result.explain("a", 0)


def test_log_pmi_with_peers_who_contradict_each_other_is_not_shown_beside_panels() -> None:
    result = pay(troth.LineUp(decoys=99, panels=2), CONTRADICTING, ZEROS)
    assert "log PMI" not in result.explain("a")
    assert "log PMI" in result.explain("c")
    troth.verify(result.ledger)
