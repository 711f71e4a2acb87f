"""The demonstration: a dozen clinics, two of which lie."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import numpy as np

from troth.campaigns.records.ledger import write_atomic
from troth.campaigns.seed import Secret, save_secret, secret_path
from troth.campaigns.starter.examples import write_csv
from troth.core.errors import DataError

CLINICS = ("Ashgrove", "Birchwood", "Cedar Hill", "Dogwood", "Eastgate", "Fairview", "Glenside", "Harbour", "Ivybridge",
           "Juniper", "Kingsway", "Lakeside")  # fmt: skip
INVENTS, EMBELLISHES = "Juniper", "Glenside"
DEMO_SECRET = Secret(sha256(b"the demonstration's secret is no secret").hexdigest(), 1)


def write_demo(directory: str | Path) -> tuple[Path, Path]:
    """Write twelve clinics, two of which lie, and the same clinics all honest; return both campaign files."""
    rng = np.random.default_rng(7)
    folder = Path(directory)
    existing = folder / "campaign.toml"
    if existing.exists() and existing.read_text(encoding="utf-8", errors="replace") != _DEMO:
        raise DataError(f"{existing}: there is another campaign; name a new folder")
    honest = {
        name: (rng.random(int(size)) < 0.72).astype(int)
        for name, size in zip(CLINICS, rng.integers(45, 90, 12), strict=True)
    }
    reported = dict(honest)
    reported[INVENTS] = (rng.random(len(honest[INVENTS])) < 0.45).astype(int)
    reported[EMBELLISHES] = np.where(rng.random(len(honest[EMBELLISHES])) < 0.85, 1, honest[EMBELLISHES])
    paths = []
    for place, data in ((folder, reported), (folder / "honest", honest)):
        (place / "data").mkdir(parents=True, exist_ok=True)
        for name, rows in data.items():
            write_csv(
                place / "data" / f"{name}.csv", [{"patient": i + 1, "improved": int(x)} for i, x in enumerate(rows)]
            )
        path = place / "campaign.toml"
        write_atomic(path, _DEMO.encode())
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
rule = "LineUp"
commitment = "{DEMO_SECRET.commitment}"

[data]
source = "data"           # one CSV file per clinic
"""
