"""The first campaign of somebody with one messy file: what `troth init` makes of it, and that it is paid."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import troth
from campaigns.shop import campaign_for, run
from registry import generator
from troth.campaigns.money import minor_unit
from troth.campaigns.starter.columns import read_column
from troth.campaigns.starter.examples import init, start
from troth.campaigns.starter.guess import _holds_labels, guess
from troth.core.contract import OrdersPeers
from troth.mechanisms import decoys, drawn_peers
from troth.models.first_guess import Column, round_up
from troth.results.page import render

ROWS = 120
RNG = np.random.default_rng(3)
AREA = RNG.normal(120, 40, ROWS).round(1)
TABLE: dict[str, Any] = {
    "office": [f"office {letter}" for letter in "ABCDEF"] * (ROWS // 6),
    "area": AREA,
    "year": RNG.integers(1990, 2020, ROWS),
    "price": (1500 * AREA + RNG.normal(0, 20_000, ROWS)).round(),
    "wage": np.exp(RNG.normal(8, 0.5, ROWS)).round().astype(int),
    "count": RNG.poisson(4, ROWS),
    "over": RNG.negative_binomial(1, 0.1, ROWS),
    "answer": ["Yes", "yes", "YES", "No", "no"] * (ROWS // 5),
    "tail": [*RNG.normal(size=ROWS - 1), 1000.0],
    "hello": [*map(str, range(ROWS - 1)), "hello"],
    "minus": [f"−{x}" for x in range(ROWS)],
    "weight": [f"{x} kg" for x in range(ROWS)],
    "kroner": [f"{x} kr" for x in range(ROWS)],
    "arabic": [*map(str, range(ROWS - 1)), "٥١"],
    "nans": [*map(str, range(ROWS - 1)), "-nan"],
    "mixed": ["yes", "no", "Y", "0", "true"] * (ROWS // 5),
    "date": [f"2026-01-{x % 28 + 1:02d}" for x in range(ROWS)],
    "german": [f"{x % 9 + 1}.7.2026" for x in range(ROWS)],
    "american": [f"7/{x % 9 + 1}/2026" for x in range(ROWS)],
    "dates": [f"{x % 31 + 1}.{x % 12 + 1}.2026" for x in range(ROWS)],
    "spelled": ["yes", "Y", "no", "N", "no"] * (ROWS // 5 - 1) + ["yes", "Y", "no", "N", "Ja"],
    "letters": ["t", "u", "x", "y", "z"] * (ROWS // 5),
    "partly": ["0", "1", "yes", "1", "1"] * (ROWS // 5),
    "greetings": ["hello" if x % 40 == 0 else str(x) for x in range(ROWS)],
    "three": ["3"] * ROWS,
    "debts": [*(-5.5 - x % 3 for x in range(ROWS - 1)), -1000.0],
    "visits": RNG.poisson(22, ROWS),
    "infinite": [*map(str, range(ROWS - 1)), "inf"],
    "large": [*map(str, range(ROWS - 1)), "1e300"],
    "percent": [f"{x}%" for x in range(ROWS)],
    "money": [f"€{1000 + x:,}.50" for x in range(ROWS)],
    "thousands": [f"{1000 + x:,}" for x in range(ROWS)],
    "blanks": [f"{1000 + x:,}".replace(",", " ") for x in range(ROWS)],
    "fees": [f"${x % 9}" for x in range(ROWS)],
    "hourly": RNG.normal(25, 4, ROWS).astype(int),
    "likert": RNG.integers(1, 6, ROWS),
    "sex": RNG.integers(1, 3, ROWS),
    "same": ["Yes"] * ROWS,
    "seven": [7] * ROWS,
    "beds": [*(str(x % 9) for x in range(ROWS - 1)), "hello"],
    "children": [("0", "1", "2", "3+")[x % 4] for x in range(ROWS)],
    "names": [f"person {x}" for x in range(ROWS)],
    "absent": [None if x % 10 == 0 else 5 + x % 7 / 3 for x in range(ROWS)],
    "marked": ["?" if x % 10 == 0 else str(x % 13) for x in range(ROWS)],
    "profit": [f"({x % 40})" if x % 3 == 0 else str(x) for x in range(ROWS)],
    "time": [f"{x % 24:02d}:{x % 60:02d}" for x in range(ROWS)],
    "none": [*map(str, range(ROWS - 1)), "none"],
    "age": RNG.normal(45, 15, ROWS).round().astype(int),
    "pressure": RNG.normal(130, 17, ROWS).round().astype(int),
    "dollars": RNG.normal(24, 7, ROWS).round().astype(int),
    "gaps": ["NA" if x % 10 == 0 else "a" if x % 3 else "b" for x in range(ROWS)],
}


@pytest.fixture(name="table")
def _table(tmp_path: Path) -> Path:
    pd.DataFrame(TABLE).to_csv(tmp_path / "own.csv", index=False)
    return tmp_path / "own.csv"


@pytest.mark.parametrize(
    ("column", "family"),
    [
        ("wage", "VaryingNormal"),
        ("count", "VaryingPoisson"),
        ("over", "VaryingNormal"),
        ("answer", "VaryingCategorical"),
        ("year", "VaryingNormal"),
        ("hourly", "VaryingNormal"),
        ("age", "VaryingNormal"),
        ("pressure", "VaryingNormal"),
        ("dollars", "VaryingNormal"),
        ("visits", "VaryingNormal"),
        ("likert", "VaryingNormal"),
        ("sex", "VaryingCategorical"),
    ],
)
def test_a_family_whose_providers_differ_is_proposed(column: str, family: str, table: Path) -> None:
    assert guess(table, provider="office", column=column).family == family


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ("hello", r"1 value is not a number \(first: row 120 of own.csv: 'hello'\)"),
        ("infinite", "row 120 of own.csv: 'inf' is infinite"),
        ("large", "row 120 of own.csv: '1e300' is too large to add up"),
        ("percent", "percent signs, such as '0%'; remove the signs, and divide by 100"),
        ("money", "currency signs, such as '€1,000.50'; remove the signs"),
        ("thousands", "numbers with commas, such as '1,000'; write them with a decimal point"),
        ("minus", "a minus sign that is not a hyphen, such as '−0'; write - instead"),
        ("weight", "numbers with a unit, such as '0 kg'; remove it"),
        ("kroner", "currency signs, such as '0 kr'; remove the signs"),
        ("arabic", "1 value is not a number .first: row 120 of own.csv: '٥١'"),
        ("nans", "1 value is not a number .first: row 120 of own.csv: '-nan'"),
        ("profit", r"numbers with parentheses, such as '\(0\)'; write -4 instead of \(4\)"),
        ("time", "times, such as '00:00'; write each as a number, of hours or of minutes"),
        ("none", "row 120 of own.csv: 'none'.; correct it, or remove the row; if there is no value, leave it empty"),
        (
            "greetings",
            r"3 of 120 values are not numbers \(first: row 1 of own.csv: 'hello'\); correct them, or remove their rows;",
        ),
        (
            "partly",
            "24 of 120 values .* 'yes'.; yes or no and 1 or 0 seem to be mixed: spell them all in the same way$",
        ),
        ("three", "column 'three' has 3 in all 120 rows"),
        (
            "dates",
            "column 'dates' has 120 different dates, such as '1.1.2026', too many for labels: write each as a nu",
        ),
        ("blanks", "numbers with something between their digits, such as '1 000'; write them without thousands"),
    ],
)
def test_what_is_no_number_is_named_with_the_remedy(column: str, message: str, table: Path) -> None:
    with pytest.raises(troth.DataError, match=message):
        guess(table, provider="office", column=column)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (
            "fees",
            r"column 'fees' has numbers with currency signs, such as '\$0'; remove .*labels, write each label as",
        ),
        ("percent", "column 'percent' has numbers with percent signs"),
        ("thousands", "column 'thousands' has numbers with commas"),
        (
            "beds",
            "1 value is not a number .first: row 120 of own.csv: 'hello'.; .* labels, write each label as a word",
        ),
        (
            "names",
            "'names' has 120 different labels, and each would need its own coefficient: leave the column out",
        ),
    ],
)
def test_features_that_are_no_numbers_are_named_with_a_remedy_that_works(
    column: str, message: str, table: Path
) -> None:
    for target in ("price", "answer"):
        with pytest.raises(troth.DataError, match=message):
            guess(table, provider="office", column=["area", column], target=target)


@pytest.mark.parametrize("chosen", [{"column": "price"}, {"column": ["area"], "target": "sex"}])
def test_the_file_says_how_far_providers_may_differ(chosen: Any, table: Path, tmp_path: Path) -> None:
    path = campaign_for(tmp_path / "x", data=table, provider="office", **chosen)
    prior = path.read_text().partition("[model.prior]")[2].partition("\n[")[0]
    assert re.search('differ = "any" +# how far honest providers may differ: little, some or any; any means', prior)
    path.write_text(path.read_text().replace('differ = "any"', 'differ = "little"'))
    model: Any = troth.Campaign.load(path).model
    assert model.differ == "little"


def test_a_frequent_word_among_few_numbers_is_a_level(table: Path) -> None:
    guessed = guess(table, provider="office", column=["area", "children"], target="answer")
    assert guessed.levels["children"] == ("0", "1", "2", "3+")


def test_the_example_of_labelled_rows_reads_them_and_lies(tmp_path: Path) -> None:
    from examples import labelled_rows

    file = tmp_path / "own.csv"
    pd.DataFrame({**TABLE, "gap": [None, *AREA[1:]]}).to_csv(file, index=False)
    campaign = troth.Campaign.load(
        campaign_for(tmp_path / "x", data=file, provider="office", column=["gap", "children"], target="sex")
    )
    model: Any = campaign.model
    assert model.relative_spread == (1.0, 0.1, 0.1, 0.1, 0.1)
    data = labelled_rows.rows_of(campaign, file)
    assert sum(len(y) for _, y in data.values()) == ROWS - 1
    for lie in labelled_rows.LIES:
        for own in data.values():
            model.statistics(labelled_rows.lied(generator(1), model, own, lie))


def test_spellings_of_a_label_are_one(table: Path, tmp_path: Path) -> None:
    guessed = guess(table, provider="office", column="answer")
    assert guessed.labels is not None
    assert len(guessed.labels) == 2
    assert "'YES', 'yes'" in guessed.notes[0] or "'yes'" in guessed.notes[0]
    result = troth.pay(campaign_for(tmp_path / "x", data=table, provider="office", column="answer"))
    assert sum(report.rows for report in result.reports) == ROWS


def test_a_label_is_spelled_as_it_is_most_often() -> None:
    """It is the name on the page and in the campaign file, whichever spelling happens to come first."""
    texts = ["NO", "Yes", "yes", "no", "no", "yes", "yes"]
    read = read_column("answer", texts, [f"row {row + 1}" for row in range(len(texts))], labels=True)
    assert read.values == ["no", "yes", "yes", "no", "no", "yes", "yes"]
    assert "column 'answer': 'yes', 'Yes' are read as one label, 'yes'" in read.notes


@pytest.mark.parametrize(
    ("column", "note"),
    [
        ("mixed", "labels '0', 'Y', 'no', 'true', 'yes', read as 5 different labels: if they mean yes and no"),
        ("spelled", "labels 'N', 'Y', 'no', 'yes', read as 4 different labels: if they mean yes and no"),
        ("date", "column 'date' has dates, such as '2026-01-01', read as 28 labels: write each as a number"),
        ("german", "column 'german' has dates, such as '1.7.2026', read as 9 labels"),
        ("american", "column 'american' has dates, such as '7/1/2026', read as 9 labels"),
        ("debts", "column 'debts' has heavy tails: −1,000 is"),
        (
            "likert",
            "from 1 to 5, which are never 0, as about 6 of 120 counts with this mean would be: read as values",
        ),
        ("hourly", "vary less than counts would"),
        ("count", "read as counts; if they are labels, pass --family VaryingCategorical; if they are values"),
        ("visits", "read as values; if they are counts, pass --family VaryingPoisson"),
    ],
)
def test_what_a_column_is_taken_for_is_said(column: str, note: str, table: Path) -> None:
    assert note in " ".join(guess(table, provider="office", column=column).notes)


def test_letters_are_not_taken_for_yes_and_no(table: Path) -> None:
    assert not guess(table, provider="office", column="letters").notes


def test_the_family_that_was_rejected_is_not_advised(table: Path) -> None:
    notes = " ".join(guess(table, provider="office", column="over").notes)
    assert "which vary far more than counts would (variance " in notes
    assert "VaryingPoisson" not in notes


def test_a_file_without_column_names_or_with_two_of_one_name_is_said(tmp_path: Path) -> None:
    rows = "".join(f"office {x % 4},{x}.5,{x}\n" for x in range(40))
    (tmp_path / "own.csv").write_text(rows)
    with pytest.raises(troth.DataError, match=r"is the first line, with '0.5', a row\? Put a line of column names"):
        guess(tmp_path / "own.csv", provider="office")
    (tmp_path / "two.csv").write_text("office,price,price\n" + rows)
    with pytest.raises(troth.DataError, match="2 columns are called 'price'; give each its own name"):
        guess(tmp_path / "two.csv", provider="office", column="price")
    (tmp_path / "blank.csv").write_text("office,price,\n" + rows)
    assert guess(tmp_path / "blank.csv", provider="office", column="price").columns == ("price",)


def test_names_that_are_one_are_said_before_payment_refuses_them(tmp_path: Path) -> None:
    names = ["Zoë", "Zoe\u0308", "7", "7.0", "Elm", "Fir"] * (ROWS // 6)
    prices = [None if name == "Fir" else 1.0 + row for row, name in enumerate(names)]
    pd.DataFrame({"office": names, "price": prices}).to_csv(tmp_path / "own.csv", index=False)
    notes = guess(tmp_path / "own.csv", provider="office", column="price").notes
    assert "providers '7', '7.0' differ only in how a number is written" in notes[1]
    assert "with these names payment is refused: 'Zoe\u0308', 'Zoë' differ only in spaces or in how accents" in notes[2]
    assert "20 rows have no value" in notes[-1]
    assert "provider 'Fir' has no value in any row, and payment is refused" in notes[0]
    with pytest.raises(troth.DataError, match="provider 'Fir': all of its 20 rows lack a value"):
        troth.pay(campaign_for(tmp_path / "x", data=tmp_path / "own.csv", provider="office", column="price"))


def test_a_large_file_that_is_sorted_is_not_taken_for_one_provider(tmp_path: Path, monkeypatch: Any) -> None:
    pd.DataFrame({**TABLE, "office": ["Ash"] * 100 + ["Elm"] * (ROWS - 100)}).to_csv(tmp_path / "a.csv", index=False)
    monkeypatch.setattr("troth.campaigns.starter.guess.MAX_INSPECTED", 100)
    monkeypatch.setattr("troth.data.gather.MAX_INSPECTED", 100)
    assert guess(tmp_path / "a.csv", provider="office", column="price").family == "VaryingNormal"


def test_days_and_json_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    pd.DataFrame({**TABLE, "day": ["2026-01-01", "01/02/2026"] * (ROWS // 2)}).to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(troth.DataError, match="column 'day', row 2 of a.csv: '01/02/2026' is not a day"):
        guess(tmp_path / "a.csv", provider="office", column="price", day="day")
    (tmp_path / "a.json").write_text("[]")
    with pytest.raises(troth.DataError, match="JSON holds rows if each line is one object"):
        guess(tmp_path / "a.json", provider="office", column="price")


def test_heavy_tails_and_similar_names_are_said(tmp_path: Path) -> None:
    names = ["Ash", "ash ", "Elm"] * (ROWS // 3)
    pd.DataFrame({**TABLE, "office": names}).to_csv(tmp_path / "own.csv", index=False)
    notes = " ".join(guess(tmp_path / "own.csv", provider="office", column="tail").notes)
    assert "providers 'Ash', 'ash ' differ only in capitals or spaces" in notes
    assert "'tail' has heavy tails: 1,000 is" in notes


@pytest.mark.parametrize("column", ["absent", "marked", "gaps"])
def test_missing_values_are_counted_dropped_and_recorded(column: str, table: Path, tmp_path: Path) -> None:
    path = campaign_for(tmp_path / "x", data=table, provider="office", column=column)
    assert 'missing = "drop"' in path.read_text()
    result = troth.pay(path)
    assert sum(report.dropped for report in result.reports) == 12
    assert sum(report.rows for report in result.reports) == ROWS - 12
    assert sum(entry.get("dropped", 0) for entry in result.ledger.of("report")) == 12
    assert "note: 12 rows without a value are left out: office A 4, office C 4, office E 4" in str(result)
    result.verify()
    path.write_text(path.read_text().replace('missing = "drop"', 'missing = "refuse"'))
    with pytest.raises(troth.DataError, match="missing|not among|not a number"):
        troth.pay(path)


def test_rows_without_a_provider_are_counted_dropped_and_recorded(tmp_path: Path) -> None:
    names = [*(["Ash", "Elm", "Oak", "Nan"] * 10), "", " ", "NA", "?", *["Ash"] * 4]
    values = [*RNG.integers(0, 2, 44), "", *RNG.integers(0, 2, 3)]
    pd.DataFrame({"who": names, "x": values}).to_csv(tmp_path / "own.csv", index=False)
    guessed = guess(tmp_path / "own.csv", provider="who", column="x")
    assert guessed.missing == 5
    assert "column 'who' has no provider's name in 4 rows (first: row 41 of own.csv: " in guessed.notes[0]
    assert [note for note in guessed.notes if "no value" in note or "no provider" in note][1:] == [
        '1 row has no value: the campaign says missing = "drop", and the ledger counts them'
    ]
    path = campaign_for(tmp_path / "x", data=tmp_path / "own.csv", provider="who", column="x")
    result = troth.pay(path)
    assert [(report.provider, report.rows, report.dropped, report.unnamed) for report in result.reports] == [
        ("Ash", 13, 1, 4),
        ("Elm", 10, 0, 0),
        ("Nan", 10, 0, 0),
        ("Oak", 10, 0, 0),
    ]
    assert [entry.get("unnamed") for entry in result.ledger.of("report")] == [4, None, None, None]
    assert result.notes == (
        "1 row without a value is left out: Ash 1",
        "4 rows without a provider are left out",
    )
    result.verify()
    path.write_text(path.read_text().replace('missing = "drop"', 'missing = "refuse"'))
    with pytest.raises(troth.DataError, match="without a provider's name.*row 4[123]"):
        troth.pay(path)


def test_the_page_says_which_rows_are_left_out() -> None:
    rng = np.random.default_rng(3)
    own: dict[str, list[Any]] = {"clinic": ["Ash", "Elm", "Oak"] * 10, "x": rng.integers(0, 2, 30).tolist()}
    terms: dict[str, Any] = {"data": {"missing": "drop"}, "limits": {"rows": 99}}
    model = troth.models.Bernoulli(alpha=1, beta=1)

    def page(table: Any) -> str:
        return render(troth.pay(table, model, "OneTime", provider="clinic", budget="90.00", terms=terms))

    whole = page(own)
    assert "Nothing to flag" in whole
    assert "left out" not in whole
    lacking: dict[str, list[Any]] = {"clinic": ["Ash", "<Elm>", "Ash", None], "x": [None, None, None, 1]}
    own["clinic"] = [name.replace("Elm", "<Elm>") for name in own["clinic"]]
    partly = page({name: [*own[name], *lacking[name]] for name in own})
    assert "<li>3 rows without a value are left out: Ash 2, &lt;Elm&gt; 1.</li>" in partly
    assert "<li>1 row without a provider is left out.</li>" in partly
    assert "Nothing to flag" not in partly


def test_engines_drop_the_same_rows() -> None:
    ibis = pytest.importorskip("ibis")
    names = [*["a", "b"] * 4, None, "NA"]
    frame = pd.DataFrame({"who": names, "x": ["Yes", "no", None, "NO", "yes", "NA", "", "no", "no", "no"]})
    terms: dict[str, Any] = {"data": {"missing": "drop"}, "model": {"categories": ["no", "yes"]}}
    model = troth.models.Categorical([1, 1])
    paid = [
        troth.pay(data, model, provider="who", budget="10", terms=terms, seed=1)
        for data in (frame, ibis.memtable(frame))
    ]
    assert paid[0].totals == paid[1].totals
    for each in paid:
        assert [(report.dropped, report.unnamed) for report in each.reports] == [(2, 2), (1, 0)]


def test_a_regression_is_standardised_by_public_scales(table: Path, tmp_path: Path, monkeypatch: Any) -> None:
    arguments = ["--provider", "office", "--target", "price", "--column", "area", "--column", "year"]
    assert run(monkeypatch, "init", tmp_path / "x", "--data", table, *arguments) == 0
    path = tmp_path / "x" / "campaign.toml"
    text = path.read_text()
    assert '"area" = [120.0, 40.0]' in text or '"area" = [120.0, 50.0]' in text
    assert "precision" not in text
    campaign = troth.Campaign.load(path)
    assert [scale is None for scale in campaign.scales] == [True, False, False, False]
    result = troth.pay(path)
    total = np.sum([report.summary for report in result.reports], axis=0)
    gram = total[1:].reshape(4, 4)[:3, :3] / ROWS
    assert np.linalg.cond(gram) < 10
    result.verify()
    path.write_text(text.replace('"area" = [', '"area" = [0, 0] #'))
    with pytest.raises(troth.ParameterError, match=r"area: must be \[centre, scale\]"):
        troth.Campaign.load(path)


def test_a_command_to_copy_quotes_its_path(table: Path, tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    folder = tmp_path / "spring round"
    assert run(monkeypatch, "init", folder, "--data", table, "--provider", "office", "--column", "answer") == 0
    assert f"troth pay '{folder}/campaign.toml' --dry-run" in capsys.readouterr().out
    assert run(monkeypatch, "pay", folder / "campaign.toml", "--anyway", "--no-report") == 0
    capsys.readouterr()
    name = next(iter(troth.verify(folder / "ledger.jsonl").totals))
    assert run(monkeypatch, "explain", folder / "ledger.jsonl", name.upper()) == 1
    assert f"did you mean {name!r}?" in capsys.readouterr().err


def test_rows_of_several_numbers_are_paid_together(tmp_path: Path) -> None:
    """The columns that are named are one vector under a family of vectors."""
    rng, data = np.random.default_rng(3), tmp_path / "birds.csv"
    rows = [
        f"{site},{'xy'[n % 2]},{rng.normal(30, 5):.2f},{rng.normal(10, 2)},7" for site in "ABCDE" for n in range(12)
    ]
    data.write_text("\n".join(["site,note,height,weight,same", *rows]) + "\n")
    path, guessed = start(tmp_path / "birds", data, "MultivariateNormal", provider="site", column=["height", "weight"])
    assert guessed.columns == ("height", "weight")
    assert troth.Campaign.load(path).columns == ("height", "weight")
    assert troth.pay(path, anyway=True).paid > 0
    for columns, family, message in (
        (["height", "weight"], None, "add --family MultivariateNormal"),
        (["height", "same"], "MultivariateNormal", "column 'same' has 7 in all 60 rows"),
        (["note", "height"], "MultivariateNormal", "column 'note' has text"),
    ):
        with pytest.raises(troth.DataError, match=message):
            start(tmp_path / "more", data, family, provider="site", column=columns)


def test_a_currency_has_its_decimals(table: Path, tmp_path: Path) -> None:
    assert (minor_unit("EUR"), minor_unit("JPY"), minor_unit("KWD")) == (2, 0, 3)
    path = campaign_for(tmp_path / "x", data=table, provider="office", column="wage", currency="JPY", budget="90000")
    assert troth.pay(path).campaign.show(1234) == "1,234 JPY"
    path = campaign_for(tmp_path / "usual", data=table, provider="office", column="wage", currency="JPY")
    assert 'budget = "1000" ' in path.read_text()
    with pytest.raises(troth.ParameterError, match="'XYZ' is not an ISO 4217 currency"):
        campaign_for(tmp_path / "y", data=table, provider="office", column="wage", currency="XYZ")


def test_a_budget_with_days_means_the_same_in_the_shell_and_in_python(tmp_path: Path, monkeypatch: Any) -> None:
    frame = pd.DataFrame({"who": ["a", "b", "c"] * 20, "day": np.repeat([1, 2, 3], 20), "x": RNG.integers(0, 2, 60)})
    frame.to_csv(tmp_path / "own.csv", index=False)
    arguments = ["--provider", "who", "--day", "day", "--family", "Bernoulli", "--rule", "SyntheticPeers"]
    assert run(monkeypatch, "init", tmp_path / "x", "--data", tmp_path / "own.csv", *arguments) == 0
    shell = troth.pay(tmp_path / "x" / "campaign.toml", seed=None)
    assert "payments for each day never exceeds it" in (tmp_path / "x" / "campaign.toml").read_text()
    assert (shell.to_dict()["budget"], shell.to_dict()["budget_per"]) == ("1000.00", "day")
    model = troth.models.Bernoulli(1, 1)
    python = troth.pay(frame, model, "SyntheticPeers", provider="who", day="day", columns="x", budget="1000.00")
    assert shell.campaign.per_day
    assert python.campaign.round_budget == shell.campaign.round_budget == 100_000


def test_spreadsheets_are_read(tmp_path: Path) -> None:
    pytest.importorskip("python_calamine")
    pd.DataFrame(TABLE).to_excel(tmp_path / "own.xlsx", index=False)
    pd.DataFrame(TABLE).to_csv(tmp_path / "own.csv", index=False)
    sums = []
    for name in ("own.xlsx", "own.csv"):
        path = campaign_for(tmp_path / name[-3:], data=tmp_path / name, provider="office", column="wage")
        sums.append([report.summary.tolist() for report in troth.pay(path).reports])
    assert sums[0] == sums[1]


def test_rows_that_are_not_in_utf_8_are_refused(tmp_path: Path) -> None:
    (tmp_path / "own.csv").write_bytes("who,x\nChâtel,1\nÉlan,0\n".encode("latin-1"))
    with pytest.raises(troth.DataError, match=r"own.csv: holds text that is not in UTF-8"):
        campaign_for(tmp_path / "x", data=tmp_path / "own.csv", provider="who", column="x")


def test_init_says_what_it_noticed_as_json(table: Path, tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    arguments = ["--data", table, "--provider", "office", "--column", "absent", "--json"]
    assert run(monkeypatch, "init", tmp_path / "x", *arguments) == 0
    plain = json.loads(capsys.readouterr().out)
    assert plain["missing"] == 12
    assert any("12 rows have no value" in note for note in plain["notes"])


def differing(path: Path, family: str) -> Path:
    """Write a campaign of ten providers whose rates are far apart."""
    rates = np.repeat(np.linspace(0.05, 0.95, 10), 60)
    names = np.repeat([f"shop {letter}" for letter in "ABCDEFGHIJ"], 60)
    frame = pd.DataFrame({"who": names, "x": (np.random.default_rng(1).random(600) < rates).astype(int)})
    frame.to_csv(path / "rates.csv", index=False)
    return campaign_for(path / family, family, data=path / "rates.csv", provider="who", column="x", budget="1000")


def test_a_model_that_does_not_fit_stops_payment(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    path = differing(tmp_path, "Bernoulli")
    assert run(monkeypatch, "pay", path, "--dry-run", "--json") == 3
    assert json.loads(capsys.readouterr().out)["paid"] == "0.00"
    assert run(monkeypatch, "pay", path, "--dry-run", "--anyway") == 0
    capsys.readouterr()
    assert run(monkeypatch, "pay", path, "--no-report") == 3
    output = capsys.readouterr()
    assert "budget 1,000.00 EUR, would pay " in output.out.splitlines()[0]
    assert "does not fit (p = 0.00" in output.out
    assert "under a model that does not fit, lying may pay" in output.out
    assert re.search("better off with nothing +[56789] of 10: shop [A-J] .by 1", output.out)
    assert "troth fit" in output.err
    assert "--anyway pays" in output.err
    assert not (path.parent / "ledger.jsonl").exists()
    assert run(monkeypatch, "pay", path, "--no-report", "--anyway") == 0
    assert (path.parent / "ledger.jsonl").exists()


def test_python_writes_no_ledger_under_a_model_that_does_not_fit(tmp_path: Path) -> None:
    path, ledger = differing(tmp_path, "Bernoulli"), tmp_path / "own.jsonl"
    frame = pd.read_csv(tmp_path / "rates.csv")
    options: dict[str, Any] = {"provider": "who", "budget": "10", "seed": 1, "ledger": ledger}
    calls: list[Any] = [
        lambda **more: troth.pay(path, ledger=ledger, **more),
        lambda **more: troth.pay(frame, troth.models.Bernoulli(1, 1), **options, **more),
    ]
    for pay in calls:
        with pytest.raises(troth.DataError, match="does not fit these reports: .* anyway=True pays"):
            pay()
        assert not ledger.exists()
        pay(anyway=True)
        assert ledger.exists()
        ledger.unlink()


def test_a_dry_run_writes_nothing(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    path = differing(tmp_path, "VaryingNormal")
    before = sorted(path.parent.iterdir())
    assert run(monkeypatch, "pay", path, "--dry-run", "--json") == 0
    plain = json.loads(capsys.readouterr().out)
    assert plain["verdict"]["model"] == "fits"
    assert list(plain["verdict"]["gain_of_less"]) == ["send a tenth", "send half"]
    assert plain["written"] is False
    assert sorted(path.parent.iterdir()) == before
    assert run(monkeypatch, "pay", path, "--no-report", "--json") == 0
    paid = json.loads(capsys.readouterr().out)
    assert paid["rounds"] == plain["rounds"]
    assert (paid["paid"], "would_pay" in paid) == (plain["would_pay"], False)
    assert plain["paid"] == "0.00"
    assert paid["verdict"] == plain["verdict"]


def test_a_dry_run_after_everything_was_paid_writes_nothing_either(
    tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    path = differing(tmp_path, "VaryingNormal")
    assert run(monkeypatch, "pay", path, "--no-report") == 0
    before = {file: file.read_bytes() for file in path.parent.iterdir()}
    capsys.readouterr()
    assert run(monkeypatch, "pay", path, "--dry-run", "--csv", path.parent / "payments.csv") == 0
    output = capsys.readouterr().out
    assert "nothing to pay: everything has already been paid" in output
    assert "report.html" not in output
    assert run(monkeypatch, "pay", path, "--dry-run", "--json") == 0
    assert json.loads(capsys.readouterr().out)["written"] is False
    assert {file: file.read_bytes() for file in path.parent.iterdir()} == before
    assert run(monkeypatch, "pay", path) == 0
    assert (path.parent / "report.html").exists()


def test_a_fitted_campaign_is_paid(tmp_path: Path, monkeypatch: Any) -> None:
    path = init(tmp_path / "x", "Bernoulli", "SyntheticPeers", daily=True)
    assert run(monkeypatch, "fit", path, path.parent / "data", "--family", "Bernoulli") == 0
    assert run(monkeypatch, "fit", path, path.parent / "data", "--family", "Bernoulli") == 0
    fitted = path.with_name("fitted.toml")
    assert troth.Campaign.load(fitted).commitment not in (None, troth.Campaign.load(path).commitment)
    assert len(troth.pay(fitted).rounds) == 5


def test_the_noise_is_guessed_from_reports_of_several_rows() -> None:
    column = Column("x", [10.0, 14.0, 31.0, 35.0, 50.0, 70.0], ["a", "a", "b", "b", "c", "d"])
    assert troth.models.Normal.first_guess(column).parameters["noise"] == round_up(8**0.5)


def test_a_rare_word_among_numbers_is_a_mistake_though_others_are_frequent() -> None:
    beds = ["0", "1", "2"] * 30 + ["3+"] * 9
    assert _holds_labels(beds)
    assert not _holds_labels([*beds, "oops"])


def test_the_reports_without_which_a_model_fits_are_named(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    rates = np.repeat([0.5] * 9 + [0.99], 60)
    frame = pd.DataFrame({"who": np.repeat(list("ABCDEFGHIJ"), 60), "x": (rng.random(600) < rates).astype(int)})
    result = troth.pay(frame, troth.models.Bernoulli(1, 1), provider="who", budget="100", seed=1)
    assert result.verdict.word == "does not fit"
    assert result.verdict.odd == ("J",)
    assert "without the data of J it fits" in result.verdict.remedy
    honest = troth.pay(frame[frame.who != "J"], troth.models.Bernoulli(1, 1), provider="who", budget="100", seed=1)
    assert honest.verdict.supports
    assert "if it is right, telling the truth pays best" in honest.verdict.meaning
    assert "under a model that does not fit, lying may pay" in result.verdict.meaning


def test_a_verdict_is_cheap(monkeypatch: Any) -> None:
    """Three evaluations with few decoys and one check of the fit, however many providers and decoys are paid."""
    drawn: list[int] = []
    original = troth.LineUp.breakdown

    def breakdown(self: Any, this_round: Any) -> Any:
        drawn.append(int(self.decoys))
        return original(self, this_round)

    frame = pd.DataFrame({"who": np.repeat(np.arange(300), 5), "x": RNG.integers(0, 2, 1500)})
    result = troth.pay(
        frame, troth.models.Bernoulli(1, 1), troth.LineUp(decoys=999), provider="who", budget="10", seed=1
    )
    monkeypatch.setattr(troth.LineUp, "breakdown", breakdown)
    assert result.verdict.fit is not None
    assert result.verdict.fit.simulations == 400
    assert sum(drawn) < 999


@pytest.mark.parametrize("wrong", [troth.models.Bernoulli, "Bernoulli"])
def test_a_class_or_a_name_is_refused_in_a_sentence(wrong: Any) -> None:
    t = np.array([[1.0, 2.0], [2.0, 1.0]])
    calls: list[Any] = [
        lambda: troth.pay({"who": ["a", "b"], "x": [1, 0]}, wrong, provider="who", budget="1"),
        lambda: troth.log_pmi(wrong, t[0], t[1]),
        lambda: troth.peer_log_pmi(wrong, t),
        lambda: troth.audit(wrong, troth.LineUp(), rows=[3, 3]),
        lambda: troth.certify(wrong, [3, 3]),
        lambda: troth.check_fit(wrong, t),
        lambda: troth.check_model(wrong),
        lambda: troth.LineUp().pay(wrong, t, budget=1.0),
    ]
    for call in calls:
        with pytest.raises(troth.ParameterError, match="Bernoulli.* is a (class|name), not a model: give"):
            call()
    misspelt: Any = "varyingbernouli"
    with pytest.raises(troth.ParameterError, match=r"such as troth\.models\.VaryingBernoulli\(…\)"):
        troth.pay({"who": ["a", "b"], "x": [1, 0]}, misspelt, provider="who", budget="1")
    rule: Any = troth.LineUp
    with pytest.raises(troth.ParameterError, match="LineUp is a class, not a rule"):
        troth.pay({"who": ["a", "b"], "x": [1, 0]}, troth.models.Bernoulli(1, 1), rule, provider="who", budget="1")


def test_results_have_a_table_in_a_notebook() -> None:
    model = troth.models.Bernoulli(1, 1)
    audit = troth.audit(model, troth.MultiDay(), rows=[5, 5, 5], simulations=50)
    fit = troth.check_fit(model, np.array([[3.0, 4.0], [4.0, 4.0]]), simulations=200)
    assert "<td>report nothing</td>" in audit._repr_html_()
    assert "<td>spread of scores</td>" in fit._repr_html_()


def test_commands_are_grouped_with_whole_sentences(monkeypatch: Any, capsys: Any) -> None:
    assert run(monkeypatch, "--help") == 0
    output = " ".join(capsys.readouterr().out.split())
    assert (
        output.index("Your own files:") < output.index("init ") < output.index("Use a service") < output.index("login ")
    )
    assert "Write a commented campaign file, with a small example dataset or for your own data." in output
    assert "..." not in output.partition("Your own files:")[2]


def test_many_days_are_summed_up(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    frame = pd.DataFrame(
        {"who": ["a", "b", "c"] * 400, "day": np.repeat(np.arange(100), 12), "x": RNG.integers(0, 2, 1200)}
    )
    result = troth.pay(
        frame, troth.models.Bernoulli(1, 1), "SyntheticPeers", provider="who", day="day", columns="x", budget="3"
    )
    result.write_ledger(tmp_path / "ledger.jsonl")
    assert run(monkeypatch, "explain", tmp_path / "ledger.jsonl", "a") == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) < 12
    assert lines[0].startswith(f"a: {result.campaign.show(result.totals['a'])} for 100 days, out of at most 100.00")
    assert run(monkeypatch, "explain", tmp_path / "ledger.jsonl", "a", "--day", "7") == 0
    assert "share of the cap" in capsys.readouterr().out
    assert "the last 60 of 100 days" in result.plot().standalone()
    printed = str(result).splitlines()
    assert len(printed) == 7
    assert printed[2].split() == ["a", "100", "400", *printed[2].split()[3:]]
    assert printed[2].split()[-1] == result.campaign.text(result.totals["a"])
    assert printed[-2] == "  sums of 300 payments on 100 days, which the ledger and the page have"
    assert run(monkeypatch, "explain", tmp_path / "ledger.jsonl") == 0
    assert capsys.readouterr().out.splitlines() == printed[:-1]


def test_a_row_with_too_many_values_is_named_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "own.csv").write_text("who,x\na,1\nb,1,2\n")
    with pytest.raises(troth.DataError, match=r"own.csv, row 2: 3 values for 2 columns \(b,1,2\); correct the row"):
        guess(tmp_path / "own.csv", provider="who", column="x")


def test_a_flat_prior_is_drawn_flat() -> None:
    from troth.results.beliefs import belief_from_draws

    belief = belief_from_draws("rate", RNG.random(20_000), RNG.beta(30, 30, 20_000))
    assert set(belief.prior) == {1.0}
    assert len(set(belief.posterior)) > 50


@pytest.mark.parametrize(
    ("model", "rule"),
    [
        (troth.models.VaryingBernoulli(), troth.LineUp()),
        (troth.models.VaryingBernoulli(), troth.LineUp(decoys=99, panels=3)),
        (troth.models.Normal(0, 1, 1), troth.LineUp(decoys=4999)),
        (troth.models.Bernoulli(1, 1), troth.SyntheticPeers(draws=200)),
        (troth.models.Bernoulli(1, 1), troth.LineUp(decoys=999)),
    ],
)
def test_progress_is_said_within_a_round(model: Any, rule: Any, monkeypatch: Any) -> None:
    """One round with many decoys takes long: whoever waits sees how much of it is done, paying and verifying."""
    if not isinstance(model, OrdersPeers):
        for module in (drawn_peers, decoys):
            monkeypatch.setattr(module, "BLOCK", 1 << 10)
    rows = {"who": [name for name in "abcdef" for _ in range(5)], "x": [n % 2 for n in range(30)]}
    parts: dict[str, list[float]] = {}

    def note(step: str, done: float, total: int) -> None:
        parts.setdefault(step, []).append(done / total)

    result = troth.pay(rows, model, rule, provider="who", budget="100.00", seed=1, progress=note)
    troth.verify(result.ledger, progress=note)
    for step in ("paying", "verifying"):
        assert parts[step] == sorted(parts[step])
        assert parts[step][0] == 0
        assert len(parts[step]) > 2
        assert parts[step][-1] == 1


def test_progress_over_days_never_goes_back() -> None:
    rows = {"who": list("abcdef") * 6, "x": [n % 2 for n in range(36)], "day": [n // 6 for n in range(36)]}
    parts: list[float] = []
    rule, model = troth.LineUp(decoys=3, rivals=2, source="days", panels=3), troth.models.VaryingBernoulli()
    troth.pay(
        rows,
        model,
        rule,
        provider="who",
        day="day",
        budget="100.00",
        seed=1,
        progress=lambda step, done, total: parts.append(done / total) if step == "paying" else None,
    )
    assert parts == sorted(parts)
    assert parts[-1] == 1


@pytest.mark.parametrize(("providers", "decoys"), [(10, 4999), (120, 999)])
def test_few_reports_have_a_longer_line(providers: int, decoys: int, tmp_path: Path) -> None:
    rows = "".join(f"p{n},{n % 2}\np{n},1\n" for n in range(providers))
    (tmp_path / "rows.csv").write_text(f"who,x\n{rows}")
    path = campaign_for(tmp_path / "new", data=tmp_path / "rows.csv", provider="who")
    assert f"decoys = {decoys} " in path.read_text("utf-8")


@pytest.mark.parametrize(("high", "labels"), [(2, ("1", "2")), (10, ("1", "10")), (11, None)])
def test_two_small_whole_numbers_are_labels(high: int, labels: tuple[str, ...] | None, tmp_path: Path) -> None:
    rows = "".join(f"{'ABC'[k % 3]},{high if k % 5 < 2 else 1}\n" for k in range(60))
    (tmp_path / "sizes.csv").write_text(f"office,size\n{rows}")
    assert guess(tmp_path / "sizes.csv", provider="office", column="size").labels == labels


def test_the_limit_of_rows_that_is_written_leaves_room_for_the_largest_report(tmp_path: Path) -> None:
    sizes = {"Ash": 3, "Birch": 120, "Elm": 7}
    who, x = zip(*((name, row % 2) for name, size in sizes.items() for row in range(size)), strict=True)
    pd.DataFrame({"who": who, "x": x}).to_csv(tmp_path / "data.csv", index=False)
    path, guessed = start(tmp_path / "mine", tmp_path / "data.csv", rule="OneTime", provider="who")
    assert guessed.max_rows == 120
    assert troth.Campaign.load(path).rows == 1000
