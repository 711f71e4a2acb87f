"""The result of a campaign: its payments as text, tables, plots, CSV, a ledger and a page."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from troth.campaigns.records.canonical_json import finite
from troth.campaigns.records.ledger import Ledger, write_atomic
from troth.campaigns.records.ledger_entries import read_payment, recorded_reports
from troth.campaigns.records.verify import check_ledger
from troth.certificates.fit import warning_about
from troth.core.contract import CountsEffectiveCandidates, WarnsAboutReports
from troth.core.errors import DataError, MissingCapabilityError
from troth.core.formats import printable
from troth.core.provider_models import one_each
from troth.data.read import reports_by_day

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from troth.campaigns.settle import Payment
    from troth.campaigns.terms import Campaign
    from troth.core.contract import Array, Model
    from troth.core.effective_candidates import EffectiveCandidates
    from troth.data import Day, Report
    from troth.results.pictures import Picture
    from troth.results.verdict import Verdict


@dataclass(frozen=True)
class PaidRound:
    """A paid round, with the seed of its draws; None for rules that draw nothing."""

    day: Day
    number: int
    payments: tuple[Payment, ...]
    seed: str | None
    last: bool


class Result:
    """Everything that a campaign has paid so far, according to its ledger.

    Attributes
    ----------
    campaign, ledger
        The terms and the ledger.
    paid_now
        The days that the latest run paid; empty if all had been paid before.
    is_dry_run
        Whether these days were only settled, but nothing was paid or written.
    """

    is_dry_run = False
    file: bytes | None = None  # of shares, for campaigns of tasks

    def __init__(self, campaign: Campaign, ledger: Ledger, paid_now: tuple[Day, ...] = ()) -> None:
        self.campaign, self.ledger, self.paid_now = campaign, ledger, paid_now

    @cached_property
    def rounds(self) -> tuple[PaidRound, ...]:
        """The paid rounds, in order."""
        by_day: dict[Any, list[Payment]] = {}
        for entry in self.ledger.of("payment"):
            by_day.setdefault(entry["day"], []).append(read_payment(self.campaign, entry))
        return tuple(
            PaidRound(head["day"], head["number"], tuple(by_day[head["day"]]), head["seed"], bool(head["last"]))
            for head in self.ledger.of("round")
        )

    @cached_property
    def reports(self) -> list[Report]:
        """The reports that were paid for."""
        return recorded_reports(self.ledger)

    @cached_property
    def reports_by_day(self) -> dict[Day, dict[str, Report]]:
        """The reports of each day, by provider."""
        by_day = reports_by_day(self.reports)
        return {day: {report.provider: report for report in reports} for day, reports in by_day.items()}

    @cached_property
    def summaries_by_day(self) -> dict[Day, Array]:
        """The sum of all providers' summaries of each day."""
        by_day = self.reports_by_day.items()
        return {day: np.sum([report.summary for report in reports.values()], axis=0) for day, reports in by_day}

    @property
    def paid(self) -> int:
        """The total that was paid, in minor units."""
        return sum(self.totals.values())

    @property
    def would_pay(self) -> int:
        """The total that a dry run would pay, in minor units; 0 for other runs."""
        now = self.paid_now if self.is_dry_run else ()
        return sum(
            payment.payment for paid_round in self.rounds if paid_round.day in now for payment in paid_round.payments
        )

    @property
    def paid_text(self) -> str:
        """A phrase that says what was paid or, in a dry run, would be paid."""
        show, before = self.campaign.show, self.paid - self.would_pay
        if not self.is_dry_run:
            return f"paid {show(self.paid)}"
        return f"would pay {show(self.would_pay)}" + (f" in addition to {show(before)} paid before" if before else "")

    @property
    def rule(self) -> str:
        """The name of the rule."""
        return self.campaign.rule.name

    @cached_property
    def by_provider(self) -> dict[str, list[tuple[Day, Payment]]]:
        """The payments of each provider with their days, by name."""
        payments: dict[str, list[tuple[Day, Payment]]] = {}
        for paid_round in self.rounds:
            for payment in paid_round.payments:
                payments.setdefault(payment.provider, []).append((paid_round.day, payment))
        return dict(sorted(payments.items()))

    @cached_property
    def totals(self) -> dict[str, int]:
        """The total payment of each provider, in minor units, by name."""
        return {name: sum(payment.payment for _, payment in payments) for name, payments in self.by_provider.items()}

    @cached_property
    def verdict(self) -> Verdict:
        """Whether the model fits, and who would have been better off sending nothing or less."""
        from troth.results.verdict import judge

        return judge(self)

    @cached_property
    def effective_candidates(self) -> EffectiveCandidates | None:
        """The effective numbers of candidates after the last round; None for models without candidates."""
        return self.candidates_on(self.rounds[-1].day) if self.rounds else None

    def candidates_on(self, day: Day) -> EffectiveCandidates | None:
        """Return the effective numbers of candidates after a day; None for models without candidates."""
        models, statistics = self._reported_on(day)
        first = next(iter(models), None)
        return first.effective_candidates(statistics) if isinstance(first, CountsEffectiveCandidates) else None

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences on what you should know about the data before paying."""
        from troth.results.findings import rows_left_out

        warning = ""
        if self.rounds:
            models, statistics = self._reported_on(self.rounds[-1].day)
            if any(isinstance(model, WarnsAboutReports) for model in models):
                warning = warning_about(models, statistics)
        return tuple(note for note in (warning, *rows_left_out(self.reports)) if note)

    def _reported_on(self, day: Day) -> tuple[list[Model], Array]:
        """Return the models and the statistics of the providers who reported on a day."""
        reports = self.reports_by_day.get(day)
        if not reports:
            return [], np.empty((0, 0))
        models = one_each(self.campaign.on(day).models_for(list(reports)), len(reports))
        return models, self.campaign.statistics_of(models, [report.summary for report in reports.values()])

    def payment(self, provider: str, day: Day = None) -> Payment:
        """Return a provider's payment of a day."""
        for paid_on, payment in self.by_provider.get(provider, ()):
            if paid_on == day or len(self.rounds) == 1:
                return payment
        on_day = "" if day is None else f" on day {day}"
        raise DataError(f"nothing was paid to {provider!r}{on_day}; providers are {', '.join(map(repr, self.totals))}")

    def explain(self, provider: str, day: Day = None) -> str:
        """Explain a payment step by step."""
        from troth.results.explanation import describe_data, explain

        payment = self.payment(provider, day)
        on_day = next(paid_round.day for paid_round in self.rounds if payment in paid_round.payments)
        return explain(self.campaign, payment, describe_data(self, on_day, provider))

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON, with money as decimal strings."""
        campaign, remaining = self.campaign, self.effective_candidates
        reporting = list(self.reports_by_day.get(self.rounds[-1].day, ())) if self.rounds else []
        return {
            "campaign": campaign.name,
            "rule": self.rule,
            "budget": campaign.text(campaign.budget),
            **({"budget_per": "day" if campaign.per_day else "campaign"} if campaign.daily else {}),
            "currency": campaign.currency,
            "paid": campaign.text(self.paid - self.would_pay),
            **({"would_pay": campaign.text(self.would_pay)} if self.is_dry_run else {}),
            "rounds": [
                {
                    "day": paid_round.day,
                    "payments": [
                        {
                            "provider": payment.provider,
                            "rows": payment.rows,
                            "score": finite(payment.score),
                            "share": payment.share,
                            "payment": campaign.text(payment.payment),
                        }
                        for payment in paid_round.payments
                    ],
                }
                for paid_round in self.rounds
            ],
            **({} if remaining is None else {"effective_candidates": remaining.to_dict(reporting)}),
        }

    def _columns(self) -> dict[str, list[Any]]:
        rows = [(paid_round.day, payment) for paid_round in self.rounds for payment in paid_round.payments]
        columns: dict[str, list[Any]] = {} if not self.campaign.daily else {"day": [day for day, _ in rows]}
        for name in ("provider", "rows", "log_pmi", "score", "share"):
            title = "tasks" if name == "rows" and self.campaign.task is not None else name
            columns[title] = [getattr(payment, name) for _, payment in rows]
        columns["payment"] = [self.campaign.amount(payment.payment) for _, payment in rows]
        return columns

    def to_arrow(self) -> Any:
        """Return a table with one line per payment; money is decimal."""
        import pyarrow as pa

        columns = self._columns()
        money = pa.decimal128(30, self.campaign.decimals)
        types = {"provider": pa.string(), "rows": pa.int64(), "tasks": pa.int64(), "payment": money}
        column_types = {name: types.get(name, pa.float64()) for name in columns if name != "day"}
        return pa.table({name: pa.array(values, column_types.get(name)) for name, values in columns.items()})

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

    def plot(self, path: str | Path | None = None) -> Picture:
        """Draw payments and their caps: one round as bars, several as a heat map of providers and days.

        The picture is SVG, which notebooks show. The name of a file must end in ``.svg``.
        """
        from troth.results.pictures import draw_payments

        picture = draw_payments(self)
        if path is not None:
            picture.save(path)
        return picture

    def verify(self) -> Self:
        """Recompute every payment from the ledger, or raise at the first that differs."""
        model, rule = self.campaign.model, self.campaign.rule
        custom_model = None if "family" in self.campaign.plain.get("model", {}) else model
        custom_rule = None if rule.to_settings() is not None else rule
        check_ledger(self.ledger, model=custom_model, rule=custom_rule, file=self.file)
        return self

    def write_ledger(self, path: str | Path) -> Path:
        """Write the ledger atomically; a new file is readable only by its owner, since it has all statistics."""
        return write_atomic(path, self.ledger.to_bytes(), private=True)

    def to_html(self, **options: Any) -> str:
        """Return the page as HTML; options are those of `troth.results.findings.check_result`."""
        from troth.results.page import render

        return render(self, **options)

    def write_page(self, path: str | Path, **options: Any) -> Path:
        """Write the page; options are those of `to_html`."""
        return write_atomic(path, self.to_html(**options).encode())

    def to_csv(self) -> str:
        """Return payments as CSV, escaping names that a spreadsheet would take for formulas."""
        columns = self._columns()
        columns["provider"] = [escape_formula(name) for name in columns["provider"]]
        return csv_text([columns, *zip(*columns.values(), strict=True)])

    def write_csv(self, path: str | Path) -> Path:
        """Write payments as CSV."""
        return write_atomic(path, self.to_csv().encode())

    def headline(self) -> str:
        """Return one line on the rule, the budget and what was paid."""
        campaign = self.campaign
        per = " a day" if campaign.per_day else ""
        return (
            f"{printable(campaign.name)}: {self.rule}, budget {campaign.show(campaign.budget)}{per}, "
            f"{self.paid_text} to {len(self.totals)} providers"
        )

    def __str__(self) -> str:
        from troth.results.tables import text_lines

        hint = "see .verdict: does the model fit, and who would have been better off sending nothing or less?"
        return "\n".join([*text_lines(self), f"  {hint}"])

    def __repr__(self) -> str:
        return f"<Result {self.headline()}>"

    def _repr_html_(self) -> str:
        from troth.results.tables import payment_table
        from troth.results.templating import make_environment

        table = payment_table(self)
        template = make_environment().get_template("results/notebook.html")
        return template.render(title=self.headline(), picture=self.plot(), head=table.head, lines=table.lines)


def escape_formula(name: str) -> str:
    """Escape a name that a spreadsheet would take for a formula."""
    return "'" + name if name[:1] in "=+-@\t\r" else name


def csv_text(rows: Iterable[Iterable[Any]]) -> str:
    """Return rows as CSV."""
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue()
