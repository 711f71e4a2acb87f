"""Small campaigns for tests, and the command line in this process."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from registry import EXAMPLES, SOAK, generator
from troth import models
from troth.campaigns.starter.examples import start
from troth.campaigns.starter.task_campaign import start_tasks
from troth.campaigns.toml import to_toml
from troth.cli import main


def campaign_for(directory: Path, family: str | None = None, *, data: Path, **options: Any) -> Path:
    """Write a campaign for a data file, and return the campaign file."""
    return start(directory, data, family, **options)[0]


def task_campaign_for(directory: Path, data: Path, *, column: str | Sequence[str], **options: Any) -> Path:
    """Write campaigns for a data file with tasks, and return the first campaign file."""
    return start_tasks(directory, data, columns=[column] if isinstance(column, str) else column, **options)[0][0]


GOOD = """
[campaign]
name = "Clinics"
budget = "1000.00"
currency = "EUR"

[model]
family = "Bernoulli"
columns = ["improved"]

[model.prior]
alpha = 1
beta = 1

[mechanism]
rule = "OneTime"
range = "clipped"

[data]
source = "clinics.csv"
provider = "clinic"

[limits]
rows = 50
"""
CLINICS = "clinic,improved\n" + "".join(
    f"{name},{x}\n" for name, rows in {"Ash": "1101", "Birch": "1011", "Elm": "0010"}.items() for x in rows
)


def write_campaign(folder: Path, text: str = GOOD, files: Mapping[str, str | bytes] | None = None) -> Path:
    """Write a campaign and its data, and return the campaign file."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in (files or {"clinics.csv": CLINICS}).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    path = folder / "campaign.toml"
    path.write_text(text, encoding="utf-8")
    return path


def run(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    """Run the command line in this process, and return its exit code."""
    monkeypatch.setattr(sys, "argv", ["troth", *map(str, arguments)])
    with pytest.raises(SystemExit) as stopped:
        main()
    return int(stopped.value.code or 0)


def frame_of(name: str, *, providers: int = 4, rows: int = 30, days: int = 1, seed: int = 5) -> pd.DataFrame:
    """Draw a table from an example model, with columns who, c0, c1, …, and day."""
    model: Any = EXAMPLES[name]
    rng = generator(seed)
    parts = []
    for day in range(days):
        theta = model.draw_parameters(rng)
        for provider in range(providers):
            data = model.draw_data(rng, theta, rows)
            arrays = [np.asarray(part) for part in (data if isinstance(data, tuple) else (data,))]
            table = np.column_stack([a[:, None] if a.ndim == 1 else a for a in arrays])
            frame = pd.DataFrame(table, columns=[f"c{i}" for i in range(table.shape[1])])
            if model.support.integer:
                frame = frame.astype(np.int64)
            frame.insert(0, "who", f"provider {provider}")
            frame["day"] = f"2026-05-{day + 1:02d}"
            parts.append(frame)
    return pd.concat(parts).sample(frac=1, random_state=3).reset_index(drop=True)


def value_columns(frame: pd.DataFrame) -> list[str]:
    return [name for name in frame.columns if name.startswith("c")]


def families() -> list[str]:
    """Return the names of examples, without those that only arise from combining models."""
    return [name for name, model in EXAMPLES.items() if getattr(model, "reference", None) is None]


def reductions() -> list[str]:
    """Return an example of each kind of reduction: counts, moments, squares of residuals; all under `make soak`."""
    return families() if SOAK else ["bernoulli", "normal, unknown variance", "regression"]


def toml_of(model: models.Family, frame: pd.DataFrame, source: str, *, extra: str = "", data: str = "") -> str:
    """Return a campaign file for an example model."""
    columns: list[str] = value_columns(frame)
    table: dict[str, Any] = {**model.to_dict(), "columns": columns}
    if model.explains_target:
        table["target"] = columns.pop()
    plain = {"model": table, "mechanism": {"rule": "SyntheticPeers", "draws": 8}}
    head = f'[campaign]\nname = "example"\nbudget = "1000.00"\n{extra}\n'
    return head + to_toml(plain) + f'\n[data]\nsource = "{source}"\nprovider = "who"\n{data}'
