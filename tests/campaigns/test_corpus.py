"""A corpus of bad campaigns, files and statistics: each is refused with its place, and leaves nothing behind."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from campaigns.shop import CLINICS, GOOD, run, write_campaign

Files = dict[str, str | bytes]


def change(old: str, new: str) -> str:
    assert old in GOOD
    return GOOD.replace(old, new)


def rows(*lines: str) -> Files:
    return {"clinics.csv": "clinic,improved\n" + "".join(line + "\n" for line in lines)}


def statistics_files(**changes: object) -> Files:
    """Two honest files of statistics and one with changes."""
    plain: dict[str, object] = {
        "kind": "troth summary",
        "format": 2,
        "provider": "Elm",
        "family": "Bernoulli",
        "rows": 4,
        "summary": [1, 3],
        "digest": "sha256:" + "0" * 64,
    }
    plain |= changes
    plain = {key: value for key, value in plain.items() if value is not ...}
    return {"clinics.csv": "clinic,improved\nAsh,1\nAsh,0\nBirch,1\n", "elm.json": json.dumps(plain)}


BOTH = change('source = "clinics.csv"', 'source = ["clinics.csv", "elm.json"]')
NORMAL = (
    BOTH.replace('"Bernoulli"', '"NormalUnknownVariance"')
    .replace("alpha = 1\nbeta = 1", "mean = 0\nstrength = 1\nshape = 3\nscale = 2")
    .replace('rule = "OneTime"\nrange = "clipped"', 'rule = "SyntheticPeers"')
)
REGRESSION = (
    NORMAL.replace('"NormalUnknownVariance"', '"LinearRegression"')
    .replace("mean = 0\nstrength = 1\nshape = 3\nscale = 2", "mean = [0]\nprecision = [[1]]\nnoise = 1")
    .replace('columns = ["improved"]', 'columns = ["clinic_size"]\ntarget = "improved"')
)
DAILY = change('provider = "clinic"', 'provider = "clinic"\nday = "day"').replace(
    'currency = "EUR"', 'budget_per = "day"'
)
SIZES: Files = {"clinics.csv": "clinic,clinic_size,improved\nAsh,1,2\nAsh,2,0\nBirch,1,1\n"}

CASES: dict[str, tuple[str, Files | None, str]] = {
    # the file itself
    "no TOML": ("[campaign\n", None, "campaign.toml: not valid TOML.*line 1"),
    "empty": ("", None, r"\[campaign\] is missing.*troth init"),
    "no model": (GOOD[: GOOD.index("[model]")], None, r"\[model\] is missing"),
    "unknown table": (GOOD + "\n[modle]\n", None, "modle.*did you mean 'model'"),
    "currency that clears a terminal": (change('"EUR"', '"\\u001b[2J"'), None, r"\[campaign\] currency.*cannot be printed"),
    "unknown key": (change("currency", "curency"), None, r"\[campaign\] curency.*did you mean 'currency'"),
    "table is no table": (GOOD.replace("[limits]\nrows = 50", "") .replace("[campaign]", "limits = 3\n[campaign]"), None, r"\[limits\].*table"),
    # money
    "budget is a float": (change('"1000.00"', "1000.5"), None, r"\[campaign\] budget.*decimal string"),
    "budget is words": (change('"1000.00"', '"much"'), None, "budget.*not an amount of money"),
    "budget is negative": (change('"1000.00"', '"-5"'), None, "budget.*at least 0"),
    "budget has mills": (change('"1000.00"', '"1000.001"'), None, "more than 2 decimals"),
    "budget is infinite": (change('"1000.00"', '"Infinity"'), None, "budget"),
    "no budget": (change('budget = "1000.00"', ""), None, "budget: is missing"),
    "no name": (change('name = "Clinics"', ""), None, "name: is missing"),
    "decimals are half": (change('currency = "EUR"', "decimals = 1.5"), None, "decimals.*whole number"),
    "currency is a number": (change('currency = "EUR"', "currency = 3"), None, "currency.*text"),
    # model
    "unknown family": (change('"Bernoulli"', '"Weibull"'), None, r"\[model\] family.*'Weibull' is not known.*Bernoulli"),
    "no family": (change('family = "Bernoulli"', ""), None, "family: is missing"),
    "missing parameter": (change("beta = 1", ""), None, "Bernoulli needs beta"),
    "unknown parameter": (change("beta = 1", "beta = 1\ngamma = 2"), None, r"\[model.prior\] gamma"),
    "impossible parameter": (change("beta = 1", "beta = -1"), None, "beta must be above 0"),
    "parameter is text": (change("beta = 1", 'beta = "1"'), None, "beta.*must be a number"),
    "parameter is true": (change("beta = 1", "beta = true"), None, "beta.*must be a number"),
    "parameter is not a number": (change("beta = 1", "beta = nan"), None, "beta must be finite"),
    "parameter twice": (change('columns = ["improved"]', 'columns = ["improved"]\nalpha = 3'), None, "alpha.*given twice"),
    "no columns": (change('columns = ["improved"]', ""), None, "columns: is missing"),
    "too many columns": (change('["improved"]', '["improved", "age"]'), None, "2 columns"),
    "column twice": (change('["improved"]', '["improved", "improved"]'), None, "twice"),
    "target without regression": (change('columns = ["improved"]', 'columns = ["improved"]\ntarget = "y"'), None, "regressions only"),
    "regression without target": (REGRESSION.replace('target = "improved"', ""), SIZES, "target: is missing"),
    "too few categories": (change('columns = ["improved"]', 'columns = ["improved"]\ncategories = ["yes"]'), None, "1 labels for 2"),
    "provider's own family": (
        GOOD + '\n[model.providers."Ash"]\nfamily = "Poisson"\n',
        None,
        r"\[model.providers.Ash\] family: there is no such setting; there are prior, alpha, beta",
    ),
    "provider's own prior": (GOOD + '\n[model.providers."Ash"]\nalpha = 3\n', None, r"\[model.providers\].*share"),
    # mechanism
    "unknown rule": (change('"OneTime"', '"Auction"'), None, r"\[mechanism\] rule.*'Auction'"),
    "unbounded rule": (change('rule = "OneTime"\nrange = "clipped"', 'rule = "LogPmiRule"'), None, "negative amounts"),
    "unknown range": (change('range = "clipped"', 'range = "wide"'), None, "range.*exact, clipped"),
    "range upside down": (change('range = "clipped"', "range = [3, -3]"), None, "range.*low < high"),
    "low above zero": (change('range = "clipped"', 'range = "clipped"\nlow = 2'), None, "low.*below 0"),
    "option of another rule": (change('range = "clipped"', "draws = 3"), None, "draws.*no such setting"),
    "no limits": (change("[limits]\nrows = 50", ""), None, r"OneTime needs \[limits\] rows"),
    "no draws": (change('rule = "OneTime"\nrange = "clipped"', 'rule = "SyntheticPeers"\ndraws = 0'), None, "draws.*at least 1"),
    "unknown divergence": (change('rule = "OneTime"\nrange = "clipped"', 'rule = "SyntheticPeers"\ndivergence = "hinge"'), None, "hinge"),
    "bad commitment": (change('range = "clipped"', 'commitment = "sha256:12"'), None, "commitment.*64 hexadecimal"),
    "missing secret": (change('rule = "OneTime"\nrange = "clipped"', f'rule = "SyntheticPeers"\ncommitment = "sha256:{"0" * 64}"'), None, "campaign.secret.*missing"),
    "days without a day": (change('rule = "OneTime"\nrange = "clipped"', 'rule = "MultiDay"'), None, r"\[data\] day"),
    "no range for the family": (NORMAL.replace('"SyntheticPeers"', '"OneTime"'), {**statistics_files(), "clinics.csv": CLINICS}, "NormalUnknownVariance"),
    # data
    "no source": (change('source = "clinics.csv"', ""), None, r"\[data\] source"),
    "no file": (change("clinics.csv", "clinic.csv"), None, "clinic.csv: there is no such file"),
    "no match": (change("clinics.csv", "*.parquet"), None, "no file matches"),
    "file named twice": (change('"clinics.csv"', '["clinics.csv", "clinics.csv"]'), None, "twice"),
    "file found twice": (change('"clinics.csv"', '["clinics.csv", "*.csv"]'), None, "clinics.csv.*named twice"),
    "unknown kind": (change("clinics.csv", "clinics.docx"), {"clinics.docx": "x"}, "clinics.docx: unknown kind of file"),
    "empty folder": (change("clinics.csv", "data"), {"data/readme.md": "x"}, "no data files"),
    "empty file": (GOOD, {"clinics.csv": ""}, "clinics.csv: the file is empty"),
    "no rows": (GOOD, rows(), "no reports"),
    "no such column": (change('"improved"', '"better"'), None, "clinics.csv: there is no column 'better'; there are 'clinic', 'improved'"),
    "no provider column": (change('provider = "clinic"', 'provider = "site"'), None, "no column 'site'"),
    "no day column": (DAILY, None, "no column 'day'"),
    "ragged": (GOOD, rows("Ash,1", "Ash,1,2"), "clinics.csv, row 2: 3 values for 2 columns"),
    "same header twice": (GOOD, {"clinics.csv": "clinic,improved,improved\nAsh,1,1\n"}, "2 columns named 'improved'"),
    "text": (GOOD, rows("Ash,1", "Birch,yes"), "provider 'Birch', column 'improved': 1 value not a number; name the labels.*row 2.*'yes'"),
    "missing value": (GOOD, rows("Ash,1", "Birch,", "Birch,0"), "provider 'Birch'.*missing.*row 2"),
    "out of support": (GOOD, rows("Ash,1", "Birch,3"), "provider 'Birch'.*not a whole number from 0 to 1.*3"),
    "NaN": (GOOD, rows("Ash,1", "Birch,nan"), "provider 'Birch'.*(missing|NaN)"),
    "infinite": (GOOD, rows("Ash,1", "Birch,inf"), "provider 'Birch'.*(infinite|whole)"),
    "no name of a provider": (GOOD, rows("Ash,1", ",1"), "without a provider's name.*row 2"),
    "name of spaces": (GOOD, rows("Ash,1", "  ,1"), "without a provider's name"),
    "one name in two spellings": (GOOD, rows("Ash,1", "Ash ,1", "Elm,0"), "'Ash' and 'Ash ' differ only in spaces"),
    "one name in two encodings": (GOOD, rows("Caf\u00e9,1", "Cafe\u0301,1", "Elm,0"), "differ only in spaces or in how accents"),
    "one provider": (GOOD, rows("Ash,1", "Ash,0"), "at least two providers"),
    "not UTF-8": (GOOD, {"clinics.csv": b"clinic,improved\n\xff\xfe,1\nAsh,0\n"}, "clinics.csv"),
    "no Parquet": (change("clinics.csv", "c.parquet"), {"c.parquet": b"PAR1 nonsense"}, "c.parquet: cannot be read as parquet"),
    "no Arrow": (change("clinics.csv", "c.arrow"), {"c.arrow": b"nonsense"}, "c.arrow: cannot be read as arrow"),
    "no JSON lines": (change("clinics.csv", "c.jsonl"), {"c.jsonl": '{"clinic": "Ash", "improved": 1}\nnonsense\n'}, "c.jsonl"),
    "too many rows": (change("rows = 50", "rows = 3"), None, "provider 'Ash': 4 rows.*limits.*3"),
    "limit is not a number": (change("rows = 50", 'rows = "many"'), None, r"\[limits\] rows"),
    "values are no pair": (change("rows = 50", "rows = 50\nvalues = [1]"), None, "values.*pair"),
    "day is no day": (DAILY, {"clinics.csv": "clinic,day,improved\nAsh,Monday,1\nBirch,Monday,0\n"}, "column 'day'.*not a date.*Monday"),
    "stranger": (change('provider = "clinic"', 'provider = "clinic"\nproviders = ["Ash", "Birch"]'), None, "'Elm' is not among"),
    "group of strangers": (GOOD + '\n[groups]\n"owner" = ["Ash", "Oak"]\n', None, r"\[groups\] names 'Oak'"),
    "two groups": (GOOD + '\n[groups]\n"a" = ["Ash"]\n"b" = ["Ash"]\n', None, "'Ash' is already in group"),
    "weights above one": (GOOD + "\n[weights]\nAsh = 0.5\nBirch = 0.4\nElm = 0.2\n", None, "add up to 1.1"),
    "weight missing": (GOOD + "\n[weights]\nAsh = 0.5\nBirch = 0.4\n", None, "no weight for provider 'Elm'"),
    "weight is words": (GOOD + '\n[weights]\nAsh = "half"\n', None, "must be a number from 0 to 1"),
    "unknown engine": (change('provider = "clinic"', 'provider = "clinic"\nengine = "abacus"'), None, "engine.*'abacus'"),
    # statistics
    "statistics are no JSON": (BOTH, {**statistics_files(), "elm.json": "{"}, "elm.json: not valid JSON"),
    "statistics are something else": (BOTH, {**statistics_files(), "elm.json": "[]"}, "elm.json: this is not a file that"),
    "statistics of another family": (BOTH, statistics_files(family="Poisson"), "family is 'Poisson'"),
    "statistics without a digest": (BOTH, statistics_files(digest=...), "digest"),
    "statistics with more": (BOTH, statistics_files(note="hello"), "unknown field 'note'"),
    "negative counts": (BOTH, statistics_files(summary=[-1, 5]), "elm.json: an impossible summary: the count of code 0 is -1"),
    "half a row": (BOTH, statistics_files(summary=[1.5, 2.5]), "an impossible summary.*1.5"),
    "wrong number of rows": (BOTH, statistics_files(rows=5), "rows is 5, but the summary counts 4"),
    "rows are text": (BOTH, statistics_files(rows="4"), "rows must be a whole number"),
    "statistics are text": (BOTH, statistics_files(summary=["3", "1"]), "list of numbers"),
    "too few statistics": (BOTH, statistics_files(summary=[3]), "summary has 1 numbers, but Bernoulli needs 2"),
    "infinite statistics": (BOTH, {**statistics_files(), "elm.json": statistics_files()["elm.json"].replace("[1, 3]", "[1e999, 1]")}, "number 0 of the summary is not a number up to"),  # type: ignore[arg-type]
    "statistics of nobody": (BOTH, statistics_files(provider=" "), "provider must be a name"),
    "reports twice": (BOTH, {**statistics_files(provider="Ash")}, "provider 'Ash'.*twice"),
    "squares too small": (NORMAL, statistics_files(family="NormalUnknownVariance", summary=[4, 10, 20]), "sum of squares is too small for the sum"),
    "squares below zero": (NORMAL, statistics_files(family="NormalUnknownVariance", summary=[4, 1, -1]), "below 0"),
    "one row cannot scatter": (NORMAL, statistics_files(family="NormalUnknownVariance", rows=1, summary=[1, 2, 9]), "rank 2"),
    "no positive matrix": (REGRESSION, {**SIZES, "elm.json": statistics_files(family="LinearRegression", summary=[4, 1, 5, 5, 2])["elm.json"]}, "positive semi-definite"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_bad_campaigns_are_refused(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text, files, message = CASES[case]
    path = write_campaign(tmp_path, text, files)
    before = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    assert run(monkeypatch, "pay", path) == 1
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("error: ")
    assert re.search(message, output.err, re.DOTALL), output.err
    assert "Traceback" not in output.err
    assert (
        str(tmp_path) not in output.err
        or "no such file" in output.err
        or "matches" in output.err
        or "no data" in output.err
    )
    assert {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()} == before


def test_the_corpus_is_large_and_its_root_is_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert len(CASES) >= 60
    checks: list[Callable[[], int]] = [
        lambda: run(monkeypatch, "pay", write_campaign(tmp_path / "a"), "--no-report"),
        lambda: run(monkeypatch, "pay", write_campaign(tmp_path / "b", BOTH, statistics_files()), "--no-report"),
        lambda: run(
            monkeypatch,
            "pay",
            write_campaign(
                tmp_path / "c", NORMAL, statistics_files(family="NormalUnknownVariance", summary=[4, 10, 26])
            ),
            "--no-report",
        ),
        lambda: run(
            monkeypatch,
            "pay",
            write_campaign(
                tmp_path / "d",
                REGRESSION,
                {**SIZES, "elm.json": statistics_files(family="LinearRegression", summary=[4, 5, 2, 2, 4])["elm.json"]},
            ),
            "--no-report",
        ),
    ]
    for check in checks:
        assert check() == 0, capsys.readouterr().err
