"""Example campaigns: one for every family, and the dozen clinics of the demonstration, two of which lie."""

from __future__ import annotations

import csv
import io
import json
import os
import tomllib
from dataclasses import dataclass, field
from datetime import date, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from troth import models
from troth.campaigns.commit import commit
from troth.campaigns.ledger import write_whole
from troth.campaigns.seed import Secret, save_secret, secret_path
from troth.campaigns.settle import rehearse
from troth.campaigns.starter.guess import Guess, guess
from troth.campaigns.terms import Campaign
from troth.core.errors import DataError, ParameterError
from troth.core.settings import closest
from troth.mechanisms import DEFAULT_DAILY_RULE, DEFAULT_RULE, RULES, offered_rules

CLINICS = ("Ashgrove", "Birchwood", "Cedar Hill", "Dogwood", "Eastgate", "Fairview", "Glenside", "Harbour", "Ivybridge",
           "Juniper", "Kingsway", "Lakeside")  # fmt: skip
INVENTS, EMBELLISHES = "Juniper", "Glenside"
DEMO_SECRET = Secret(sha256(b"the demonstration's secret is no secret").hexdigest(), 1)


@dataclass(frozen=True)
class Example:
    """A family's example: its parameters as TOML has them, the columns it reads, and a story."""

    story: str
    columns: tuple[str, ...]
    prior: dict[str, Any]
    others: dict[str, Any] = field(default_factory=dict)
    target: str | None = None
    labels: tuple[str, ...] | None = None
    providers: str = "clinic"


EXAMPLES: dict[str, Example] = {
    "Bernoulli": Example("did the patient improve?", ("improved",), {"alpha": 1.0, "beta": 1.0}),
    "Categorical": Example(
        "how annotators label pictures",
        ("label",),
        {"alpha": [1.0, 1.0, 1.0]},
        labels=("cat", "dog", "other"),
        providers="annotator",
    ),
    "Finite": Example(
        "a test whose accuracy is known, in a season that is calm, usual or epidemic",
        ("result",),
        {"prior": [0.5, 0.3, 0.2]},
        {"likelihood": [[0.95, 0.05], [0.85, 0.15], [0.6, 0.4]]},
        labels=("negative", "positive"),
        providers="laboratory",
    ),
    "Geometric": Example(
        "failed attempts before the first success", ("failures",), {"alpha": 3.0, "beta": 2.0}, providers="site"
    ),
    "NegativeBinomial": Example(
        "failures before the third success", ("failures",), {"alpha": 3.0, "beta": 2.0}, {"r": 3.0}, providers="site"
    ),
    "Poisson": Example("cars counted in a minute", ("cars",), {"shape": 4.0, "rate": 0.5}, providers="sensor"),
    "Exponential": Example("minutes between two calls", ("minutes",), {"shape": 3.0, "rate": 6.0}, providers="desk"),
    "Gamma": Example(
        "millimetres of rain on a wet day",
        ("rain",),
        {"shape": 3.0, "rate": 8.0},
        {"known_shape": 2.0},
        providers="station",
    ),
    "Normal": Example(
        "a price that shops report", ("price",), {"mean": 20.0, "scale": 5.0}, {"noise": 2.0}, providers="shop"
    ),
    "NormalUnknownVariance": Example(
        "a length whose spread is unknown too",
        ("length",),
        {"mean": 10.0, "strength": 0.5, "shape": 3.0, "scale": 4.0},
        providers="bench",
    ),
    "MultivariateNormal": Example(
        "height and weight of a species",
        ("height", "weight"),
        {"mean": [50.0, 8.0], "covariance": [[25.0, 3.0], [3.0, 4.0]]},
        {"noise": [[9.0, 1.0], [1.0, 1.0]]},
        providers="station",
    ),
    "MultivariateNormalUnknownCovariance": Example(
        "height and weight, whose spread is unknown too",
        ("height", "weight"),
        {"mean": [50.0, 8.0], "strength": 0.5, "dof": 6.0, "scale": [[27.0, 3.0], [3.0, 3.0]]},
        providers="station",
    ),
    "LinearRegression": Example(
        "what a dose and age do to a response",
        ("dose", "age"),
        {"mean": [0.0, 0.0], "precision": [[1.0, 0.0], [0.0, 1.0]]},
        {"noise": 1.0},
        target="response",
    ),
    "LinearRegressionUnknownNoise": Example(
        "what a dose and age do to a response that scatters we do not know how much",
        ("dose", "age"),
        {"mean": [0.0, 0.0], "precision": [[1.0, 0.0], [0.0, 1.0]], "shape": 3.0, "scale": 2.0},
        target="response",
    ),
    "LatentClass": Example(
        "parcels that arrive late, on quiet, usual and stormy days",
        ("late",),
        {"prior": [0.4, 0.4, 0.2]},
        {"law": "binary", "means": [0.05, 0.15, 0.45], "dispersion": 0.02},
        providers="depot",
    ),
    "ProviderNormal": Example(
        "a temperature that stations read with an offset and a daily error of their own",
        ("temperature",),
        {"mean": 15.0, "scale": 5.0},
        {"noise": 1.0, "offset": 0.0, "dispersion": 0.5},
        providers="station",
    ),
}


def init(
    directory: str | Path,
    family: str | None = None,
    rule: str | None = None,
    *,
    daily: bool = False,
    data: str | Path | None = None,
    provider: str | None = None,
    column: str | None = None,
    day: str | None = None,
    budget: str = "1000.00",
) -> Path:
    """Write a commented campaign with a small example dataset, or one for given data; return the campaign file.

    Parameters
    ----------
    directory
        A new or empty folder.
    family
        Any of `troth.models`; `Bernoulli` by default, or what given data look like.
    rule
        The name of the payment rule; the default one if none is given, that of days for daily examples.
    daily
        Make the example a campaign of five days.
    data
        A file or folder to write the campaign for. It stays where it is.
    provider, column, day
        Of the data: the column of providers (without it each file is a provider's), the column that is paid for, and the
        column of days in a daily campaign.
    budget
        What may be spent.
    """
    if data is not None:
        found = guess(Path(data), family, provider=provider, column=column, day=day)
        return _init_for(Path(directory), Path(data), found, rule, budget)
    if provider is not None or column is not None or day is not None:
        raise ParameterError("provider, column and day are of given data: name these too")
    chosen = closest(family or "Bernoulli", tuple(EXAMPLES))
    if chosen is None:
        raise ParameterError(f"there is no family {family!r}; there are {', '.join(EXAMPLES)}")
    rule = _rule_named(rule, DEFAULT_DAILY_RULE if daily else DEFAULT_RULE)
    daily = daily or RULES[rule]().days > 1
    folder = _new(Path(directory))
    example = EXAMPLES[chosen]
    names = [f"{example.providers} {letter}" for letter in "ABCDEFGH"]
    text = campaign_text(chosen, example, rule, Terms(budget=budget, days=5 if daily else 0))
    checked = _payable(text, names)
    drawn = _draw(chosen, example, names, days=5 if daily else 0)
    (folder / "data").mkdir(parents=True, exist_ok=True)
    for name, rows in drawn.items():
        _write_csv(folder / "data" / f"{name}.csv", rows)
    path = folder / "campaign.toml"
    write_whole(path, text.encode())
    if checked.draws:
        commit(path)
    return path


def _new(folder: Path) -> Path:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise DataError(f"{folder}: exists and is not empty; name a new folder")
    return folder


def _init_for(directory: Path, data: Path, found: Guess, rule: str | None, budget: str) -> Path:
    """Write a campaign for given data, which stay where they are."""
    chosen = _rule_named(rule, DEFAULT_RULE)
    if RULES[chosen]().days > 1 and found.day is None:
        raise ParameterError(f"{chosen} pays a campaign of days: say which column has the days")
    folder = _new(directory)
    story = f"what {data.name} holds"
    example = Example(
        story, (found.column,), found.prior, found.others, None, found.labels, found.provider or "provider"
    )
    terms = Terms(
        name=data.stem,
        budget=budget,
        days=found.days,
        source=Path(os.path.relpath(data.resolve(), folder.resolve())).as_posix(),
        provider=found.provider,
        day=found.day or "day",
        rows=10 ** len(str(found.most_rows)),
        limited=bool(RULES[chosen]().needs_rows),
        seen=found.seen,
    )
    text = campaign_text(found.family, example, chosen, terms)
    checked = _payable(text, ["one", "another"])
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "campaign.toml"
    write_whole(path, text.encode())
    if checked.draws:
        commit(path)
    return path


def _rule_named(name: str | None, default: str) -> str:
    """Return the rule that a name, not quite spelled perhaps, is of."""
    known = tuple(offered_rules())
    chosen = default if name is None else closest(name, known)
    if chosen is None:
        raise ParameterError(f"there is no rule {name!r}; there are {', '.join(known)}")
    return chosen


def _payable(text: str, names: list[str]) -> Campaign:
    """Return a campaign whose rule can pay its model, or say why none of its reports could be paid."""
    campaign = Campaign.from_dict(tomllib.loads(text))
    rehearse(campaign, names)
    return campaign


@dataclass(frozen=True)
class Terms:
    """What a campaign file says beside its model and its rule."""

    name: str = ""
    budget: str = "1000.00"
    days: int = 0
    source: str = "data"
    provider: str | None = None
    day: str = "day"
    rows: int = 60
    limited: bool = True
    seen: bool = False


def campaign_text(family: str, example: Example, rule: str, terms: Terms) -> str:
    """Return a commented campaign file."""
    daily = terms.days > 0
    options = "".join(
        f"{key} = {json.dumps(option.default if option.example is None else option.example)}".ljust(25)
        + (f" # {option.meaning}\n" if option.meaning else "\n")
        for key, option in RULES[rule].settings().items()
        if option.in_file
    )
    shared = f"days = {terms.days}".ljust(25)
    last = "; the last is paid by its own rule" if RULES[rule]().days > 1 else ""
    days = f'budget_per = "campaign"   # or "day"\n{shared} # they share the budget{last}\n'
    columns = ", ".join(map(_quoted, example.columns))
    model = [f'family = "{family}"', f"columns = [{columns}]         # what the model reads of a row"]
    if example.target is not None:
        model += [
            f'target = "{example.target}"       # what it explains',
            "# intercept = true       # put a constant 1 before the columns",
        ]
    if example.labels is not None:
        model.append("categories = [" + ", ".join(map(_quoted, example.labels)) + "]   # labels of the codes 0, 1, …")
    guessed_too = "             # guessed, like the prior" if terms.seen else ""
    model += [f"{key} = {json.dumps(value)}{guessed_too}" for key, value in example.others.items()]
    if "prior" in example.prior:
        each = "likelihood has a row" if family == "Finite" else "means have an entry"
        model.append(f"prior = {example.prior['prior']}     # chances of the states; {each} for each")
        prior = ""
    else:
        guessed = (
            "# Guessed from these very data. Replace it by what you knew before anybody reported, or learn it from past\n"
            "# days with `troth fit`: a prior that depends on the reports makes lies pay.\n"
        )
        prior = (
            "\n[model.prior]             # what is known before anybody reports\n"
            + guessed * terms.seen
            + "".join(f"{key} = {value}\n" for key, value in example.prior.items())
        )
    nl = "\n"
    limit = f"rows = {terms.rows}".ljust(25) + " # the most rows that a report may have"
    if not terms.limited:
        limit = "# " + limit
    provider = f"provider = {_quoted(terms.provider)}".ljust(25) + " # the column of providers"
    if terms.provider is None:
        provider = f'# provider = "{example.providers}"     # the column of providers; without it each file is a provider\'s and bears its name'
    named = terms.name or f"Example: {example.story}"
    source = f"source = {_quoted(terms.source)}".ljust(25)
    values = "# values = [0, 100]       # the least and the greatest value of a row"
    if RULES[rule]().needs_rows and family in ("Poisson", "Geometric", "NegativeBinomial", "Normal", "ProviderNormal"):
        values = "values = [0, 200]         # the least and the greatest value of a row"
    ended = example.story if example.story.endswith("?") else example.story + "."
    return f"""# A campaign: {ended} Pay it with `troth pay campaign.toml`.

[campaign]
name = {_quoted(named)}
{f'budget = "{terms.budget}"'.ljust(25)} # a decimal string; the sum of payments never exceeds it
{days if daily else ""}currency = "EUR"
decimals = 2

[model]
{nl.join(model)}
{prior}
# Providers that differ share the prior, not the rest:
# [model.providers."{example.providers} B"]

[mechanism]
rule = "{rule}"
{options}
[data]
{source} # a file, a folder or a pattern: CSV, Parquet, JSON lines, Arrow, statistics
{provider}
{f"day = {_quoted(terms.day)}".ljust(25) + " # dates or whole numbers" if daily else '# day = "day"             # the column of days, for a daily campaign'}
# providers = ["…"]       # everybody who is invited, if some may not report
# engine = "spark"        # where files are read: threads (here) or spark

[limits]
{limit}
{values}

# [groups]                # related accounts: never each other's peers, one cap between them
# "one owner" = ["{example.providers} A", "{example.providers} B"]
"""


def _quoted(text: str | None) -> str:
    return json.dumps(text, ensure_ascii=False)


def _draw(family: str, example: Example, names: list[str], days: int) -> dict[str, list[dict[str, Any]]]:
    """Draw everybody's rows: the same θ for all, and a fresh one each day."""
    rng = np.random.default_rng(20201206)
    model: Any = models.from_dict({"family": family, **example.prior, **example.others})
    data: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    start = date(2026, 5, 4)
    for day in range(max(1, days)):
        theta = model.draw_parameters(rng)
        for name in names:
            rows = model.draw_data(rng, theta, 24)
            table = np.column_stack([rows[0], rows[1]]) if isinstance(rows, tuple) else np.reshape(rows, (24, -1))
            columns = [*example.columns, *([example.target] if example.target is not None else [])]
            for row in table:
                stamp = {"day": (start + timedelta(days=day)).isoformat()} if days else {}
                data[name].append(
                    {**stamp, **{c: _entry(x, example.labels, model) for c, x in zip(columns, row, strict=True)}}
                )
    return data


def _entry(value: float, labels: tuple[str, ...] | None, model: Any) -> Any:
    if labels is not None:
        return labels[int(value)]
    return int(value) if model.support.integer else round(float(value), 6)


def _write_csv(path: Path, rows: list[dict[str, Any]]) -> None:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_whole(path, text.getvalue().encode())


def write_demo(directory: str | Path) -> tuple[Path, Path]:
    """Write the demonstration: twelve clinics of which two lie, and the same with everybody honest; return both files."""
    rng = np.random.default_rng(7)
    folder = Path(directory)
    other = folder / "campaign.toml"
    if other.exists() and other.read_text(encoding="utf-8", errors="replace") != _DEMO:
        raise DataError(f"{other}: is another campaign; name a new folder")
    honest = {
        name: (rng.random(int(size)) < 0.72).astype(int)
        for name, size in zip(CLINICS, rng.integers(45, 90, 12), strict=True)
    }
    told = dict(honest)
    told[INVENTS] = (rng.random(len(honest[INVENTS])) < 0.45).astype(int)
    told[EMBELLISHES] = np.where(rng.random(len(honest[EMBELLISHES])) < 0.85, 1, honest[EMBELLISHES])
    paths = []
    for place, data in ((folder, told), (folder / "honest", honest)):
        (place / "data").mkdir(parents=True, exist_ok=True)
        for name, rows in data.items():
            _write_csv(
                place / "data" / f"{name}.csv", [{"patient": i + 1, "improved": int(x)} for i, x in enumerate(rows)]
            )
        path = place / "campaign.toml"
        write_whole(path, _DEMO.encode())
        if not secret_path(path).exists():
            save_secret(DEMO_SECRET, secret_path(path))
        paths.append(path)
    return paths[0], paths[1]


_DEMO = f"""# Twelve clinics report which patients improved under a treatment. Nobody knows the true rate.

[campaign]
name = "Twelve clinics"
budget = "6000.00"
currency = "EUR"

[model]
family = "Bernoulli"
columns = ["improved"]

[model.prior]
alpha = 1
beta = 1

[mechanism]
rule = "SyntheticPeers"
draws = 256
commitment = "{DEMO_SECRET.commitment}"

[data]
source = "data"           # one CSV file per clinic
"""
