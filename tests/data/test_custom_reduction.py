"""A family may bring its own reduction: every engine adds its rows up, and the ledger has what it adds."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from scipy.special import gammaln

import troth
from troth import models
from troth.campaigns.statistics_file import make_statistics, parse_statistics
from troth.core.contract import Array
from troth.core.errors import DataError
from troth.core.reductions import Reduction
from troth.core.support import Bounds, Support
from troth.models.parameters import parameter, positive


@dataclass(frozen=True)
class LogSum:
    """Rows become n and Σ ln x."""

    support: ClassVar[Support] = Support(0, open=True)
    columns, width, labels, batch_columns = 1, 2, None, 1

    def of_rows(self, table: Array, /) -> Array:
        """Reduce a table."""
        return np.stack(
            [np.full(table.shape[:-2], float(table.shape[-2])), np.log(table[..., 0]).sum(axis=-1)], axis=-1
        )

    def add(self, columns: Sequence[NDArray[Any]], codes: NDArray[np.integer], size: int, /) -> Array:
        """Reduce a batch by code."""
        return np.stack([np.bincount(codes, w, size) for w in (None, np.log(columns[0]))], axis=-1)

    def rows(self, summary: Array, /) -> Array:
        """Return n."""
        return summary[..., 0]

    def magnitudes(self, summary: Array, /) -> Array:
        """Return Σ ln x, which is infinite if a value was."""
        return summary[..., 1:]

    def check(self, summary: Array, values: Bounds | None = None, constant: Collection[int] = (), /) -> None:
        """Refuse a sum of no rows."""
        if summary[0] == 0 and summary[1] != 0:
            raise DataError("no rows have a sum of logarithms")

    def expressions(self, columns: Sequence[Any], labels: Sequence[Any] | None = None, /) -> dict[str, Any]:
        """Sum ln x where the data are."""
        return {"log_sum": columns[0].ln().sum()}

    def collect(self, rows: float, aggregates: Mapping[str, Any], /) -> Array:
        """Return n and Σ ln x."""
        return np.array([rows, aggregates["log_sum"]], dtype=np.float64)

    def convert(self, summary: Array, wanted: Reduction, /) -> Array:
        """Return the summary."""
        return summary


@dataclass(frozen=True)
class Pareto(models.Family):
    """Incomes x ≥ m with density αmᵅ/xᵅ⁺¹, α ~ Gamma(shape, rate)."""

    shape: float = field(metadata=parameter("pseudo-count of incomes", positive, 3.0))
    rate: float = field(metadata=parameter("pseudo-sum of ln(x/m)", positive, 2.0))
    least: float = field(default=1.0, metadata=parameter("the least income m", positive, 1.0, known=True))

    description: ClassVar[str] = "incomes above a minimum"
    example: ClassVar[models.Example] = models.Example("how unequal are incomes?", ("income",), "bureau")
    theta: ClassVar[tuple[str, ...]] = ("equality of {column}",)
    reduction: ClassVar[Reduction] = LogSum()

    @property
    def support(self) -> Support:
        """Above 0."""
        return self.reduction.support

    def summary(self, data: Any, /) -> Array:
        """(n, Σ ln x)."""
        return self.reduction.of_rows(self.support.check(data)[..., None])

    def from_summary(self, summary: Array, /) -> Array:
        """(n, Σ ln(x/m))."""
        return np.asarray(summary @ np.array([[1.0, -np.log(self.least)], [0.0, 1.0]]))

    def log_evidence(self, statistics: Array, /) -> Array:
        """lnΓ(a + n) − (a + n) ln(b + Σ ln(x/m))."""
        a = self.shape + statistics[..., 0]
        return np.asarray(gammaln(a) - a * np.log(self.rate + statistics[..., 1]))

    def draw_parameters(self, rng: np.random.Generator, shape: tuple[int, ...] = (), /) -> Array:
        """Draw α from the prior."""
        return rng.gamma(self.shape, 1 / self.rate, size=(*shape, 1))

    def draw_data(self, rng: np.random.Generator, parameters: Array, rows: int, /) -> Array:
        """Draw incomes."""
        return self.least * np.exp(rng.exponential(size=(*parameters.shape[:-1], rows)) / parameters)

    def draw_statistics(self, rng: np.random.Generator, parameters: Array, design: Array, /) -> Array:
        """Draw (n, Σ ln(x/m))."""
        rate, rows = np.broadcast_arrays(parameters[..., 0], design[..., 0])
        return np.stack([rows, rng.standard_gamma(rows) / rate], axis=-1)


@pytest.fixture(autouse=True)
def family() -> Iterator[type[Pareto]]:
    yield models.register(Pareto)
    del models.FAMILIES["Pareto"]


@pytest.fixture
def incomes() -> pd.DataFrame:
    rng = np.random.default_rng(5)
    names = np.repeat(["Ash", "Birch", "Elm"], 8)
    return pd.DataFrame({"bureau": names, "income": Pareto(3, 2).draw_data(rng, np.array([1.5]), 24)})


def test_every_engine_adds_it_up(incomes: pd.DataFrame, tmp_path: Path) -> None:
    ibis = pytest.importorskip("ibis")
    path = tmp_path / "incomes.csv"
    incomes.to_csv(path, index=False)
    wanted = [Pareto(3, 2).summary(rows) for _, rows in incomes.groupby("bureau")["income"]]
    for data in (incomes, path, ibis.memtable(incomes)):
        paid = troth.pay(data, Pareto(3, 2), provider="bureau", budget="300.00", seed=1)
        assert [report.summary for report in paid.reports] == [pytest.approx(sums, rel=1e-12) for sums in wanted]


def test_it_is_paid_and_verified_from_a_campaign_file(incomes: pd.DataFrame, tmp_path: Path) -> None:
    incomes.to_csv(tmp_path / "incomes.csv", index=False)
    (tmp_path / "campaign.toml").write_text(
        '[campaign]\nname = "incomes"\nbudget = "300.00"\n[model]\nfamily = "Pareto"\ncolumns = ["income"]\n'
        '[model.prior]\nshape = 3\nrate = 2\n[data]\nsource = "incomes.csv"\nprovider = "bureau"\n'
    )
    ledger = tmp_path / "ledger.jsonl"
    paid = troth.pay(tmp_path / "campaign.toml", ledger=ledger, anyway=True)
    assert troth.verify(ledger).paid == paid.paid > 0
    incomes[incomes.bureau == "Ash"].to_csv(tmp_path / "ash.csv", index=False)
    sent = make_statistics(paid.campaign, tmp_path / "ash.csv")
    assert parse_statistics(paid.campaign, sent)[0].summary == pytest.approx(paid.reports[0].summary)
    with pytest.raises(DataError, match="no rows have a sum of logarithms"):
        parse_statistics(paid.campaign, sent | {"summary": [0.0, 1.0], "rows": 0})
