"""Campaigns that pay by the line-up: from one file, over days, explained, verified."""

from __future__ import annotations

from math import inf
from pathlib import Path
from typing import Any

import pytest

import troth
from registry import generator
from troth.campaigns.records.ledger_entries import report_root
from troth.campaigns.seed import derive_seed
from troth.data.read import reports_by_day


def table(days: int, seed: int = 3) -> dict[str, list[Any]]:
    rng = generator(seed)
    columns: dict[str, list[Any]] = {"clinic": [], "day": [], "improved": []}
    for day in range(days):
        rate = rng.beta(2, 2)
        for clinic in range(4):
            columns["clinic"] += [f"c{clinic}"] * 15
            columns["day"] += [day] * 15
            columns["improved"] += (rng.random(15) < rate).astype(int).tolist()
    return columns


def write(path: Path, days: int) -> Path:
    columns = table(days)
    lines = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_later_days_of_a_campaign_are_decoys(tmp_path: Path) -> None:
    """A day is paid when three more are in, the last ones at the end, and everything verifies."""
    ledger = tmp_path / "ledger.jsonl"
    rule = troth.LineUp(rivals=2, decoys=3, source="days")

    def pay(days: int) -> troth.Result:
        data, terms = write(tmp_path / f"{days}.csv", days), {"campaign": {"days": 6}}
        model = troth.models.Bernoulli(2, 2)
        return troth.pay(data, model, rule, provider="clinic", day="day", budget="72.00", terms=terms, ledger=ledger)

    assert [paid_round.day for paid_round in pay(4).rounds] == [0]
    result = pay(6)
    assert [paid_round.day for paid_round in result.rounds] == list(range(6))
    assert [head["next"] for head in result.ledger.of("round")] == [[1, 2, 3], [2, 3, 4], [3, 4, 5], [4, 5], [5], []]
    roots = {day: report_root(reports) for day, reports in reports_by_day(result.reports).items()}
    for head in result.ledger.of("round"):  # of every report that the payments depend on
        assert head["seed"] == derive_seed(head["link"], [roots[day] for day in (head["day"], *head["next"])])
    assert result.rounds[0].payments[0].terms["decoys"] == 3
    assert result.rounds[4].payments[0].terms["decoys"] == 3  # too few later days: drawn from the model
    assert "later days" in result.explain("c0", 3)
    troth.verify(ledger)


@pytest.mark.parametrize(
    "rule",
    [troth.LineUp(decoys=99), troth.LineUp(decoys=inf, panels=2), troth.Bonded(troth.LineUp(decoys=19, strict=0.2))],
    ids=repr,
)
def test_one_round_is_paid_explained_and_verified(rule: troth.Rule, tmp_path: Path) -> None:
    data = write(tmp_path / "data.csv", 1)
    model = troth.models.Bernoulli(2, 2)
    result = troth.pay(data, model, rule, provider="clinic", columns=["improved"], budget=100)
    assert 0 < result.paid <= 10_000
    text = result.explain("c0")
    assert "Your rate is" in text
    assert text.index("your data better") < text.index("log PMI")
    troth.verify(result.ledger)
    assert "fit best" in result.write_page(tmp_path / "page.html", simulations=2).read_text()


def test_without_a_rule_few_reports_have_as_many_decoys_as_init_writes(tmp_path: Path) -> None:
    def decoys(days: int, rule: Any = None, **options: Any) -> Any:
        columns: dict[str, Any] = {"provider": "clinic", "day": "day", "budget": "9.00", "seed": 1}
        result: Any = troth.pay(table(days), troth.models.Bernoulli(2, 2), rule, **columns, **options)
        return result.campaign.rule.decoys

    assert (decoys(2), decoys(26)) == (4999, 999)
    assert decoys(2, "LineUp") == decoys(2, troth.LineUp()) == 999
    assert decoys(2, terms={"mechanism": {"rivals": 2}}) == 999
    ledger = tmp_path / "ledger.jsonl"
    assert decoys(2, ledger=ledger, anyway=True) == 4999
    assert decoys(26, ledger=ledger, anyway=True) == 4999
    assert troth.verify(ledger).campaign.rule.decoys == 4999  # type: ignore[attr-defined]
