"""What a campaign paid: prints, shows itself in a notebook, converts, plots, and writes the ledger and the report."""

from __future__ import annotations

import html
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from troth.campaigns.ledger import Ledger, write_whole
from troth.campaigns.rounds import read_payment, recorded_reports
from troth.campaigns.verify import campaign_of, check_ledger
from troth.core.errors import DataError, MissingCapabilityError
from troth.results.explanation import printable

if TYPE_CHECKING:
    from troth.campaigns.settle import Payment
    from troth.campaigns.terms import Campaign
    from troth.data import Day, Report
    from troth.mechanisms import Rule


@dataclass(frozen=True)
class PaidRound:
    """A round that was paid.

    Attributes
    ----------
    seed
        What the rule's draws were made with, revealed; None for rules that draw nothing.
    """

    day: Day
    number: int
    payments: tuple[Payment, ...]
    seed: str | None
    last: bool


class Result:
    """Everything that a campaign has paid so far, as its ledger has it.

    Attributes
    ----------
    campaign, ledger
        The terms, and the ledger that this is a view of.
    paid_now
        The days that the run which made this result paid; empty if all had been paid before.
    """

    def __init__(self, campaign: Campaign, ledger: Ledger, paid_now: tuple[Day, ...] = ()) -> None:
        self.campaign, self.ledger, self.paid_now = campaign, ledger, paid_now

    def __reduce__(self) -> tuple[Any, ...]:
        return _revived, (self.ledger.to_bytes(), self._own_model, self._own_rule, self.paid_now)

    @cached_property
    def rounds(self) -> tuple[PaidRound, ...]:
        """The rounds, in the order in which they were paid."""
        by_day: dict[Any, list[Payment]] = {}
        for entry in self.ledger.of("payment"):
            by_day.setdefault(entry["day"], []).append(read_payment(self.campaign, entry))
        return tuple(
            PaidRound(head["day"], head["number"], tuple(by_day[head["day"]]), head["seed"], bool(head["last"]))
            for head in self.ledger.of("round")
        )

    @cached_property
    def reports(self) -> list[Report]:
        """The reports that payments were made of."""
        return recorded_reports(self.campaign, self.ledger)

    @property
    def paid(self) -> int:
        """What was paid in all, in minor units."""
        return sum(payment.payment for paid in self.rounds for payment in paid.payments)

    @property
    def rule(self) -> str:
        """The name of the rule."""
        return self.campaign.rule.name

    @cached_property
    def totals(self) -> dict[str, int]:
        """What each provider was paid in all, in minor units, by name."""
        totals: dict[str, int] = {}
        for paid in self.rounds:
            for payment in paid.payments:
                totals[payment.provider] = totals.get(payment.provider, 0) + payment.payment
        return dict(sorted(totals.items()))

    def payment(self, provider: str, day: Day = None) -> Payment:
        """Return a provider's payment of a day."""
        for paid in self.rounds:
            for payment in paid.payments:
                if payment.provider == provider and (paid.day == day or len(self.rounds) == 1):
                    return payment
        on = "" if day is None else f" on day {day}"
        raise DataError(f"nothing was paid to {provider!r}{on}; providers are {', '.join(map(repr, self.totals))}")

    def explain(self, provider: str, day: Day = None) -> str:
        """Explain a payment with its own numbers."""
        from troth.results.explanation import explain

        return explain(self.campaign, self.payment(provider, day))

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON, money as decimal strings."""
        campaign = self.campaign
        return {
            "campaign": campaign.name,
            "rule": self.rule,
            "budget": campaign.text(campaign.budget),
            "currency": campaign.currency,
            "paid": campaign.text(self.paid),
            "rounds": [
                {
                    "day": paid.day,
                    "payments": [
                        {
                            "provider": payment.provider,
                            "rows": payment.rows,
                            "score": _plain(payment.score),
                            "share": payment.share,
                            "payment": campaign.text(payment.payment),
                        }
                        for payment in paid.payments
                    ],
                }
                for paid in self.rounds
            ],
        }

    def _columns(self) -> dict[str, list[Any]]:
        from decimal import Decimal

        rows = [(paid.day, payment) for paid in self.rounds for payment in paid.payments]
        columns: dict[str, list[Any]] = {} if not self.campaign.daily else {"day": [day for day, _ in rows]}
        for name in ("provider", "rows", "log_pmi", "score", "share"):
            columns[name] = [getattr(payment, name) for _, payment in rows]
        columns["payment"] = [Decimal(self.campaign.text(payment.payment)) for _, payment in rows]
        return columns

    def to_arrow(self) -> Any:
        """Return a table with one line per payment; money is decimal."""
        import pyarrow as pa

        columns = self._columns()
        money = pa.decimal128(30, self.campaign.decimals)
        types = {"provider": pa.string(), "rows": pa.int64(), "payment": money}
        kinds = {name: types.get(name, pa.float64()) for name in columns if name != "day"}
        return pa.table({name: pa.array(values, kinds.get(name)) for name, values in columns.items()})

    def to_pandas(self) -> Any:
        """Return a pandas frame with one line per payment; money is `decimal.Decimal`."""
        try:
            import pandas as pd
        except ImportError:
            raise MissingCapabilityError("this needs pandas: pip install pandas") from None
        return pd.DataFrame(self._columns())

    def to_polars(self) -> Any:
        """Return a Polars frame with one line per payment; money is decimal."""
        try:
            import polars as pl
        except ImportError:
            raise MissingCapabilityError("this needs Polars: pip install polars") from None
        return pl.from_arrow(self.to_arrow())

    def plot(self, path: Any = None) -> Any:
        """Draw payments against caps; needs matplotlib (``pip install troth[plots]``)."""
        from troth.results.pictures import plot_payments

        return plot_payments(self, path)

    def verify(self) -> Result:
        """Recompute every payment from the ledger, or raise at the first that differs."""
        check_ledger(self.ledger, model=self._own_model, rule=self._own_rule)
        return self

    @property
    def _own_model(self) -> Any:
        return None if "family" in self.campaign.plain.get("model", {}) else self.campaign.model

    @property
    def _own_rule(self) -> Rule | None:
        return None if self.campaign.rule.to_settings() is not None else self.campaign.rule

    def write_ledger(self, path: str | Path) -> Path:
        """Write the ledger, in one piece."""
        path = Path(path)
        write_whole(path, self.ledger.to_bytes())
        return path

    def write_report(self, path: str | Path, **options: Any) -> Path:
        """Write the report: one HTML file that needs no network."""
        from troth.results.page import render

        path = Path(path)
        write_whole(path, render(self, **options).encode())
        return path

    def to_csv(self) -> str:
        """Return payments as CSV, with names that a spreadsheet would take for formulas made harmless."""
        import csv
        import io

        columns = self._columns()
        columns["provider"] = ["'" + name if name[:1] in "=+-@\t\r" else name for name in columns["provider"]]
        text = io.StringIO()
        writer = csv.writer(text)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
        return text.getvalue()

    def write_csv(self, path: str | Path) -> Path:
        """Write payments as CSV."""
        path = Path(path)
        write_whole(path, self.to_csv().encode())
        return path

    def headline(self) -> str:
        """Say in a line what was paid."""
        campaign = self.campaign
        per = " a day" if campaign.per_day else ""
        return (
            f"{printable(campaign.name)}: {self.rule}, budget {campaign.show(campaign.budget)}{per}, "
            f"paid {campaign.show(self.paid)} to {len(self.totals)} providers"
        )

    def _table(self) -> tuple[list[str], list[list[str]]]:
        campaign, lines = self.campaign, []
        for paid in self.rounds:
            for p in paid.payments:
                score = "–" if p.score is None else f"{p.score:.4f}"
                amount = campaign.text(p.payment)
                day = [] if not campaign.daily else [str(paid.day)]
                lines.append([*day, printable(p.provider), f"{p.rows:,}", score, f"{p.share:.2%}", amount])
        head = ["provider", "rows", "score", "share of cap", f"payment {campaign.currency}".strip()]
        return (["day", *head] if campaign.daily else head), lines

    def __str__(self) -> str:
        head, lines = self._table()
        shown = lines if len(lines) <= 60 else [*lines[:30], ["…"] * len(head), *lines[-29:]]
        widths = [max(len(row[i]) for row in [head, *shown]) for i in range(len(head))]
        named = len(head) - 5
        text = [self.headline()]
        for row in [head, *shown]:
            cells = [c.ljust(w) if i <= named else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))]
            text.append("  " + "  ".join(cells).rstrip())
        return "\n".join(text)

    def __repr__(self) -> str:
        return f"<Result {self.headline()}>"

    def _repr_html_(self) -> str:
        head, lines = self._table()
        body = "".join("<tr>" + "".join(f"<td>{html.escape(c)}</td>" for c in row) + "</tr>" for row in lines[:200])
        more = f"<p>… and {len(lines) - 200:,} more</p>" if len(lines) > 200 else ""
        cells = "".join(f"<th>{html.escape(c)}</th>" for c in head)
        title = html.escape(self.headline())
        return f"<p><b>{title}</b></p><table><thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table>{more}"


def _revived(raw: bytes, model: Any, rule: Any, paid_now: tuple[Day, ...]) -> Result:
    """Make a result of a ledger's bytes: how results are pickled."""
    ledger = Ledger.from_bytes(raw)
    return Result(campaign_of(ledger, model=model, rule=rule), ledger, paid_now)


def _plain(value: float | None) -> float | str | None:
    """Return a number as JSON has it: what is not finite becomes text."""
    from math import isfinite

    return value if value is None or isfinite(value) else str(value)
