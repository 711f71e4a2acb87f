"""The report: one HTML file that needs no network, readable on a phone, in the dark and on paper."""

from __future__ import annotations

from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np

from troth.history.findings import HONEST_PAST, INDEPENDENT_PAST
from troth.results.explanation import steps
from troth.results.findings import Findings, find

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from troth.campaigns.settle import Payment
    from troth.results.findings import Belief
    from troth.results.result import Result

ASSUMED = (
    "given what is to be learned, providers' datasets are independent: copies and common errors break this",
    "the prior and the likelihood are right: a poor fit weakens the guarantee by as much as it misleads the honest",
    "each provider sends one dataset and knows its own alone; related accounts are declared as groups",
    "rows are exchangeable given what is to be learned, and their number is not chosen by looking at the data",
)
_MOST_BARS = 60
_MOST_BYTES, _MOST_WITH_REASONS = 1_400_000, 1_000_000
_LONGEST_NAME = 80


def render(
    result: Result,
    *,
    simulations: int = 4000,
    history: Any = None,
    watch: Callable[[str, int, int], None] | None = None,
) -> str:
    """Return the report of a result as HTML.

    Parameters
    ----------
    simulations
        How many rounds are simulated to say what lies earn.
    history
        Past days (a `troth.History`, or any table) on which the known lies are replayed; by default those that the
        campaign file names under ``[history]``.
    """
    found = find(result, simulations=simulations, history=history, watch=watch)
    assets = files("troth.results") / "assets"
    style, script = ((assets / name).read_text(encoding="utf-8") for name in ("report.css", "report.js"))
    body = "\n".join(
        [
            _head(result, found),
            _flags(result, found),
            _section("Payments", _payments_plot(result), _payments_table(result)),
            _section("What the data say", *_posterior(found)),
            _section("What lies would have earned", *_lies(result, found)),
            _section("What lies would have earned on past days", *_past(found)),
            _section("What is proved, and what is assumed", *_proofs(result, found)),
            _section("Does the model fit?", *_fit(found)),
            _section("How to check all this", *_ledger(result)),
        ]
    )
    title = escape(f"{_short(result.campaign.name, 200)} – payments")
    policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<link rel="icon" href="data:,">
<title>{title}</title>
<style>
{style}</style>
</head>
<body>
<main>
{body}
</main>
<script>
{script}</script>
</body>
</html>
"""


def _section(title: str, *parts: str) -> str:
    inner = "\n".join(part for part in parts if part)
    return f"<section>\n<h2>{escape(title)}</h2>\n{inner}\n</section>" if inner else ""


def _head(result: Result, found: Findings) -> str:
    campaign = result.campaign
    days = f"{len(result.rounds)} days" if campaign.daily else "one round"
    spent = campaign.round_budget * len(result.rounds)
    nothing = [p.nothing for paid in result.rounds for p in paid.payments]
    least, most = min(nothing, default=0.0), max(nothing, default=0.0)
    share = f"{least:.0%}" if most - least < 0.005 else f"{least:.0%} to {most:.0%}"
    fit = "–" if found.fit is None else "plausible" if found.fit.plausible else "poor"
    tiles = [
        ("paid", campaign.show(result.paid), f"of {campaign.show(spent)}"),
        ("goes back", campaign.show(spent - result.paid), "what was not earned"),
        ("providers", f"{len(result.totals):,}", days),
        ("paid for nothing", share, "of the cap, for an empty report"),
        ("fit of the model", fit, f"{type(campaign.model).__name__}"),
    ]
    cells = "".join(
        f'<div class="tile"><span>{escape(name)}</span><b>{escape(value)}</b><small>{escape(more)}</small></div>'
        for name, value, more in tiles
    )
    time = result.ledger.of("round")[-1]["time"][:10] if result.rounds else ""
    return (
        f"<header>\n<h1>{escape(_short(campaign.name, 200))}</h1>\n<p>Paid by the rule <b>{escape(result.rule)}</b>, so that telling the "
        f'truth pays best. {escape(time)}</p>\n<div class="tiles">{cells}</div>\n</header>'
    )


def _flags(result: Result, found: Findings) -> str:
    flags = []
    for day, one, two, why in found.near_duplicates[:40]:
        on = "" if day is None else f" on day {day}"
        flags.append(
            f"<b>{escape(_short(one))}</b> and <b>{escape(_short(two))}</b> have {escape(why)}{escape(on)}: look whether one copied"
        )
    if len(found.near_duplicates) > 40:
        flags.append(f"… and {len(found.near_duplicates) - 40} more pairs that are too alike")
    if found.fit is not None and not found.fit.plausible:
        flags.append(
            "<b>The model does not fit these reports.</b> Either the model is wrong, and the guarantee weaker than it says, or "
            "some reports are not what their providers saw: see below"
        )
    if found.audit is not None:
        flags += [f"Under the model the lie <b>{escape(f.lie)}</b> gains" for f in found.audit.gaining()]
    if result.campaign.draws and result.campaign.commitment is None:
        flags.append(
            "No commitment to the seed was published before reports came in: nobody can check that it was not chosen"
        )
    low = [
        p for p in (result.rounds[-1].payments if result.rounds else ()) if p.log_pmi is not None and p.log_pmi < -10
    ]
    if low:
        some = ", ".join(f"<b>{escape(_short(p.provider))}</b>" for p in low[:8])
        flags.append(
            f"Data that hardly fit the others' (log PMI below −10): {some}{' and more' if len(low) > 8 else ''}"
        )
    if not flags:
        return '<section class="quiet"><p>Nothing to flag: no datasets too alike, and the model fits as far as this was checked.</p></section>'
    items = "".join(f"<li>{flag}</li>" for flag in flags)
    return f'<section class="flags"><h2>Look at this first</h2><ul>{items}</ul></section>'


def _payments_plot(result: Result) -> str:
    if len(result.rounds) > 1:
        return _heat_map(result)
    payments = sorted(result.rounds[0].payments, key=lambda p: -p.payment) if result.rounds else []
    if not payments:
        return ""
    if len(payments) > _MOST_BARS:
        return _curve(payments)
    height, left, right, wide = 24, 130, 70, 540
    span = wide - left - right
    top = 22
    rows = []
    for i, p in enumerate(payments):
        y = top + i * height
        length = max(0.0, p.share) * span
        name = _short(p.provider, 18)
        rows.append(
            f'<g><title>{escape(_short(p.provider))}</title><text class="label" x="{left - 8}" y="{y + 15}" text-anchor="end">{escape(name)}</text>'
            f'<rect class="track" x="{left}" y="{y + 4}" width="{span}" height="{height - 8}" rx="3"/>'
            f'<rect class="bar" x="{left}" y="{y + 4}" width="{length:.1f}" height="{height - 8}" rx="3"/>'
            f'<text class="value" x="{left + span + 8}" y="{y + 15}">{escape(result.campaign.text(p.payment))}</text></g>'
        )
    nothing = payments[0].nothing
    x = left + nothing * span
    total = top + len(payments) * height
    mark = (
        f'<line class="mark" x1="{x:.1f}" x2="{x:.1f}" y1="{top - 4}" y2="{total}"/>'
        f'<text class="note" x="{x:.1f}" y="{top - 8}" text-anchor="middle">an empty report: {nothing:.0%}</text>'
    )
    label = "Payments as shares of the cap, largest first"
    return _svg(wide, total + 6, label, "".join(rows) + mark) + (
        f'<p class="caption">Payments as shares of {_caps(result, payments)}. '
        "The line is what an empty report would have been paid.</p>"
    )


def _caps(result: Result, payments: Sequence[Payment]) -> str:
    caps = {p.cap for p in payments}
    return f"the cap of {escape(result.campaign.show(caps.pop()))}" if len(caps) == 1 else "each provider's own cap"


def _curve(payments: Sequence[Payment]) -> str:
    shares = np.sort([p.share for p in payments])[::-1]
    places = np.linspace(0, len(shares) - 1, min(400, len(shares))).astype(int)
    points = " ".join(f"{40 + 660 * i / max(1, len(shares) - 1):.1f},{210 - 180 * shares[i]:.1f}" for i in places)
    axis = "".join(
        f'<line class="grid" x1="40" x2="700" y1="{210 - 180 * s:.1f}" y2="{210 - 180 * s:.1f}"/>'
        f'<text class="note" x="34" y="{214 - 180 * s:.1f}" text-anchor="end">{s:.0%}</text>'
        for s in (0.0, 0.25, 0.5, 0.75, 1.0)
    )
    y = 210 - 180 * payments[0].nothing
    mark = f'<line class="mark" x1="40" x2="700" y1="{y:.1f}" y2="{y:.1f}"/>'
    text = f'<text class="note" x="370" y="232" text-anchor="middle">{len(shares):,} providers, the best paid first; dashed: an empty report</text>'
    return _svg(
        720, 240, "Shares of the cap, sorted", axis + f'<polyline class="curve" points="{points}"/>' + mark + text
    )


def _heat_map(result: Result) -> str:
    names = list(result.totals)[:40]
    rounds = result.rounds[-60:]
    cell = max(10.0, min(40.0, 560 / len(rounds)))
    left, top, height = 150, 34, 20
    shapes = []
    for i, name in enumerate(names):
        short = _short(name, 20)
        y = top + i * height
        shapes.append(f'<text class="label" x="{left - 8}" y="{y + 14}" text-anchor="end">{escape(short)}</text>')
        for j, paid in enumerate(rounds):
            payment = next((p for p in paid.payments if p.provider == name), None)
            x = left + j * cell
            what = f"{_short(name)}, day {paid.day}: "
            if payment is None:
                shapes.append(
                    f'<g><title>{escape(what)}no report</title><rect class="track" x="{x:.1f}" y="{y + 1}" width="{cell - 2:.1f}" height="{height - 2}"/></g>'
                )
                continue
            shade = min(1.0, max(0.08, payment.share))
            told = f"{what}{payment.share:.1%} of the cap, {result.campaign.show(payment.payment)}"
            shapes.append(
                f'<g><title>{escape(told)}</title><rect class="bar" fill-opacity="{shade:.2f}" x="{x:.1f}" y="{y + 1}" '
                f'width="{cell - 2:.1f}" height="{height - 2}"/></g>'
            )
    step = max(1, round(70 / cell))
    days = "".join(
        f'<text class="note" x="{left + j * cell:.1f}" y="{top - 8}">{escape(str(paid.day))}</text>'
        for j, paid in enumerate(rounds)
        if j % step == 0
    )
    wide = max(720, int(left + cell * len(rounds) + 10))
    cut = " The first 40 providers." if len(result.totals) > 40 else ""
    return _svg(
        wide, top + len(names) * height + 6, "Shares of the cap by provider and day", days + "".join(shapes)
    ) + (f'<p class="caption">Shares of each day\'s cap: the fuller the colour, the more was paid.{cut}</p>')


def _payments_table(result: Result) -> str:
    campaign = result.campaign
    by_provider: dict[str, list[tuple[Any, Payment]]] = {}
    for paid in result.rounds:
        for payment in paid.payments:
            by_provider.setdefault(payment.provider, []).append((paid.day, payment))
    daily = len(result.rounds) > 1 or campaign.daily
    lines = []
    size = explained = 0
    for name, some in sorted(by_provider.items()):
        rows = sum(p.rows for _, p in some)
        share = float(np.mean([p.share for _, p in some]))
        scores = [p.log_pmi for _, p in some if p.log_pmi is not None]
        score = float(np.mean(scores)) if scores else float("nan")
        total = sum(p.payment for _, p in some)
        shown = escape(_short(name))
        why = _why(result, some) if size < _MOST_WITH_REASONS else ""
        explained += bool(why)
        line = (
            f'<tbody><tr><td data-value="{shown}">{shown}</td><td class="n wide" data-value="{rows}">{rows:,}</td>'
            f'<td class="n wide" data-value="{_finite(score)}">{_number(score)}</td>'
            f'<td class="n" data-value="{share}">{share:.2%}</td><td class="n" data-value="{total}"><b>{campaign.text(total)}</b></td></tr>'
            f"{why}</tbody>"
        )
        size += len(line.encode())
        if size > _MOST_BYTES:
            break
        lines.append(line)
    head = [
        ("provider", "text"),
        ("rows", "number wide"),
        ("mean log PMI" if daily else "log PMI", "number wide"),
        ("mean share of cap" if daily else "share of cap", "number"),
        (f"payment {campaign.currency}".strip(), "number"),
    ]
    cells = "".join(
        f'<th class="{kind}" scope="col"><button type="button">{escape(name)}</button></th>' for name, kind in head
    )
    cut = ""
    if len(lines) < len(by_provider):
        cut = f"<p>The first {len(lines):,} of {len(by_provider):,} providers; the ledger has all.</p>"
    elif explained < len(by_provider):
        cut = f"<p>The first {explained:,} are explained here; <code>troth explain LEDGER PROVIDER</code> explains any.</p>"
    return f'<div class="scroll"><table class="sortable"><thead><tr>{cells}</tr></thead>{"".join(lines)}</table></div>{cut}'


def _why(result: Result, some: list[tuple[Any, Payment]]) -> str:
    """Explain a provider's payments with their own numbers, folded away."""
    shown = some[-5:]
    parts = []
    for day, payment in shown:
        title = "" if day is None else f"<caption>day {escape(str(day))}</caption>"
        rows = "".join(
            f'<tr><th scope="row">{escape(what)}</th><td>{escape(value)}</td><td>{escape(meaning)}</td></tr>'
            for what, value, meaning in steps(result.campaign, payment)
        )
        parts.append(f'<table class="steps">{title}<tbody>{rows}</tbody></table>')
    more = f"<p>The last {len(shown)} of {len(some)} days.</p>" if len(shown) < len(some) else ""
    inner = f"<details><summary>why?</summary>{''.join(parts)}{more}</details>"
    return f'<tr class="why"><td colspan="5">{inner}</td></tr>'


def _posterior(found: Findings) -> list[str]:
    if not found.beliefs:
        why = found.skipped.get("posterior")
        return [f"<p>No picture of the posterior for this model{': ' + escape(why) if why else ''}.</p>"]
    day = "" if found.belief_day is None else f" of day {escape(str(found.belief_day))}"
    intro = f"<p>What was believed before anybody reported (grey), and what all reports{day} together say (blue).</p>"
    return [intro, '<div class="plots">' + "".join(_belief(b) for b in found.beliefs) + "</div>"]


def _belief(belief: Belief) -> str:
    if belief.discrete:
        n = len(belief.places)
        step = 320 / n
        shapes = ""
        for k, (name, p, q) in enumerate(zip(belief.places, belief.prior, belief.posterior, strict=True)):
            x = 20 + k * step
            shapes += f'<rect class="prior" x="{x:.1f}" y="{140 - 120 * p:.1f}" width="{step * 0.38:.1f}" height="{120 * p:.1f}"/>'
            shapes += f'<rect class="bar" x="{x + step * 0.4:.1f}" y="{140 - 120 * q:.1f}" width="{step * 0.38:.1f}" height="{120 * q:.1f}"/>'
            if n <= 8:
                shapes += f'<text class="note" x="{x + step * 0.4:.1f}" y="156" text-anchor="middle">{escape(str(name))}</text>'
        return (
            "<figure>"
            + _svg(360, 165, belief.name, shapes)
            + f"<figcaption>{escape(belief.name)}</figcaption></figure>"
        )
    low, high = belief.places[0], belief.places[-1]

    def path(heights: Any) -> str:
        points = [
            f"{20 + 320 * (x - low) / (high - low):.1f},{140 - 118 * y:.1f}"
            for x, y in zip(belief.places, heights, strict=True)
        ]
        return f"M20,140 L{' L'.join(points)} L340,140 Z"

    ticks = "".join(
        f'<text class="note" x="{20 + 320 * f:.0f}" y="156" text-anchor="middle">{low + f * (high - low):.3g}</text>'
        for f in (0.0, 0.5, 1.0)
    )
    shapes = (
        f'<path class="prior" d="{path(belief.prior)}"/><path class="posterior" d="{path(belief.posterior)}"/>{ticks}'
    )
    caption = f"{belief.name}: {belief.summary}"
    return "<figure>" + _svg(360, 165, belief.name, shapes) + f"<figcaption>{escape(caption)}</figcaption></figure>"


def _lies(result: Result, found: Findings) -> list[str]:
    parts = []
    campaign = result.campaign
    caps = [p.cap for p in result.rounds[-1].payments] if result.rounds else [0]
    cap = sum(caps) / len(caps)
    if found.audit is not None and found.audit.findings:
        reach = max(0.05, *(max(abs(f.low), abs(f.high)) for f in found.audit.findings))
        shapes, height = "", 24
        zero = 470 + 0.0
        scale = 220 / reach
        findings = sorted(found.audit.findings, key=lambda f: f.gain)
        for i, f in enumerate(findings):
            y = 12 + i * height
            kind = "gain" if f.low > 0 else "loss" if f.high < 0 else "none"
            shapes += f'<text class="label" x="205" y="{y + 4}" text-anchor="end">{escape(f.lie)}</text>'
            shapes += f'<line class="{kind}" x1="{zero + scale * f.low:.1f}" x2="{zero + scale * f.high:.1f}" y1="{y}" y2="{y}"/>'
            shapes += f'<circle class="{kind}" cx="{zero + scale * f.gain:.1f}" cy="{y}" r="4.5"/>'
        bottom = 12 + len(findings) * height
        shapes += f'<line class="axis" x1="{zero}" x2="{zero}" y1="0" y2="{bottom - 10}"/>'
        shapes += f'<text class="note" x="{zero}" y="{bottom + 6}" text-anchor="middle">gain over the truth, from −{reach:.0%} to +{reach:.0%} of the cap</text>'
        rows = "".join(
            f'<tr><td>{escape(f.lie)}</td><td class="n">{f.earned:.3f}</td><td class="n">{f.gain:+.4f}</td>'
            f'<td class="n wide">{f.low:+.4f} to {f.high:+.4f}</td><td>{escape(f.verdict)}</td></tr>'
            for f in findings
        )
        honest = found.audit.findings[0].truth
        parts.append(
            f"<p><b>In expectation, under the model.</b> {found.audit.simulations:,} rounds were drawn from the model; one provider lies, "
            f"the others are honest. The honest earn {honest:.1%} of the cap.</p>"
            + _svg(720, bottom + 14, "Gain of each lie over the truth", shapes)
            + '<details><summary>the numbers</summary><div class="scroll"><table><thead><tr><th>lie</th><th class="n">earns</th><th class="n">gain</th>'
            f'<th class="n wide">interval</th><th>verdict</th></tr></thead><tbody>{rows}</tbody></table></div></details>'
        )
    elif "lies" in found.skipped:
        parts.append(f"<p>Lies could not be simulated: {escape(found.skipped['lies'])}.</p>")
    if found.replays:
        rows = "".join(
            f'<tr><td>{escape(r.lie)}</td><td class="n">{r.truth:.2%}</td><td class="n">{r.earned:.2%}</td>'
            f'<td class="n">{escape(campaign.show(int((r.earned - r.truth) * cap)))}</td></tr>'
            for r in found.replays
        )
        parts.append(
            "<p><b>On these very reports.</b> What the lie would have been paid in this round, each provider lying alone against the "
            "same peers; the mean over providers. A single round is partly luck: a lie that would have gained here does not in "
            "expectation.</p>"
            '<div class="scroll"><table><thead><tr><th>lie</th><th class="n">paid</th><th class="n">would have been paid</th>'
            f'<th class="n">difference</th></tr></thead><tbody>{rows}</tbody></table></div>'
        )
    return parts


def _past(found: Findings) -> list[str]:
    """Show the backtest: models against lies, each fitted to other days than those it is tried on."""
    if found.backtest is None:
        why = found.skipped.get("backtest")
        if why is not None:
            return [f"<p>The backtest failed: {escape(why)}.</p>"]
        return [
            "<p>Whether the model is right cannot be proved. With past days at hand, <code>troth fit</code> learns a model from "
            "them and <code>troth backtest</code> tries the known lies on days that it never saw.</p>"
        ]
    comparison = found.backtest
    models = list(comparison.backtests)
    first = comparison[models[0]]
    head = "".join(f'<th class="n">{escape(name)}</th>' for name in models)
    rows = ""
    for lie in first.lies:
        cells = ""
        for name in models:
            finding = comparison[name][lie]
            worst = comparison[name].worst(lie)
            gains = "GAINS" in (finding.verdict, worst.verdict)
            interval = f"{100 * finding.low:+.1f} to {100 * finding.high:+.1f}"
            text = f"{100 * finding.gain:+.1f}% <small>[{interval}] ({100 * worst.gain:+.1f})</small>"
            cells += f'<td class="n{" gains" if gains else ""}">{text}</td>'
        rows += f"<tr><td>{escape(lie)}</td>{cells}</tr>"
    assumes = "".join(f"<li>{escape(line)}</li>" for line in (HONEST_PAST, INDEPENDENT_PAST))
    return [
        f"<p><b>{escape(comparison.verdict)}</b></p><p>{first.days:,} past days; each block of days is paid under models fitted to the "
        "others, each provider lying alone. Gain over the truth in percent of the cap: the mean over providers with its interval "
        "over days, and in brackets the worst provider. Orange gains significantly.</p>",
        f'<div class="scroll"><table><thead><tr><th>lie</th>{head}</tr></thead><tbody>{rows}</tbody></table></div>',
        f"<ul>{assumes}</ul>",
    ]


def _proofs(result: Result, found: Findings) -> list[str]:
    parts = []
    if found.certificate is not None:
        sign = {"proved": "✓", "refuted": "✗", "undecided": "?"}
        items = "".join(
            f'<li class="{escape(c.verdict)}"><b>{sign[c.verdict]} {escape(c.name)}</b> ({escape(c.verdict)}): {escape(c.text)} '
            f"<small>[{escape(c.basis)}]</small></li>"
            for c in found.certificate.claims
        )
        parts.append(f'<ul class="claims">{items}</ul>')
    elif "proofs" in found.skipped:
        parts.append(f"<p>No certificate: {escape(found.skipped['proofs'])}.</p>")
    parts.append(
        "<p><b>Assumed, not proved:</b></p><ul>" + "".join(f"<li>{escape(line)}</li>" for line in ASSUMED) + "</ul>"
    )
    parts.append(
        "<p><b>Paid for nothing.</b> Payments are never negative, so an empty report is paid too: every bounded rule of this kind "
        "pays it at least half of the cap. What data earn above that is what they were worth.</p>"
    )
    if result.campaign.groups:
        parts.append(
            "<p>Related accounts were declared as groups: they are not each other's peers, and share one cap.</p>"
        )
    return parts


def _fit(found: Findings) -> list[str]:
    if found.fit is None:
        return [
            f"<p>The fit was not checked: {escape(found.skipped.get('fit', 'this model cannot draw statistics'))}.</p>"
        ]
    fit = found.fit
    verdict = "The model is plausible for these reports."
    if not fit.plausible:
        verdict = "The model does NOT fit these reports: it is wrong, or some of them are."
    rows = "".join(
        f'<tr><td>{escape(name)}</td><td class="n">{fit.observed[name]:.4g}</td><td class="n">{fit.expected[name]:.4g}</td><td class="n">{p:.4f}</td></tr>'
        for name, p in fit.p_values.items()
    )
    return [
        f"<p><b>{verdict}</b> Scores of {escape(found.fit_of)} against {fit.simulations:,} simulations. If the model is wrong, no lie gains more "
        "than the model misleads an honest provider about its peers.</p>",
        '<div class="scroll"><table><thead><tr><th>check</th><th class="n">observed</th><th class="n">expected</th><th class="n">p</th></tr></thead>'
        f"<tbody>{rows}</tbody></table></div>",
    ]


def _ledger(result: Result) -> list[str]:
    ledger, campaign = result.ledger, result.campaign
    seeds = [paid.seed for paid in result.rounds if paid.seed is not None]
    lines = [("head of the ledger", ledger.head), ("digest of the terms", campaign.digest)]
    if campaign.commitment is not None:
        lines.append(("commitment to the seed", campaign.commitment))
    lines += [("seed, now revealed", seeds[-1])] if seeds else []
    versions = ledger.of("round")[-1]["versions"] if result.rounds else {}
    lines.append(("computed with", ", ".join(f"{name} {number}" for name, number in versions.items())))
    rows = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td><code>{escape(value)}</code></td></tr>' for name, value in lines
    )
    return [
        "<p><code>troth verify LEDGER</code> checks every byte of the ledger and recomputes every payment in it from the reports, the terms "
        "and the seed. Write the head down: with it a ledger that was cut off is found too.</p>",
        f'<div class="scroll"><table class="steps"><tbody>{rows}</tbody></table></div>',
    ]


def _svg(width: float, height: float, label: str, shapes: str) -> str:
    return f'<div class="plot"><svg viewBox="0 0 {width} {height}" role="img" aria-label="{escape(label)}">{shapes}</svg></div>'


def _short(name: str, most: int = _LONGEST_NAME) -> str:
    return name if len(name) <= most else name[: most - 1] + "…"


def _number(value: float) -> str:
    return "–" if np.isnan(value) else f"{value:+.3f}"


def _finite(value: float) -> float:
    return float(np.nan_to_num(value, nan=-1e308, neginf=-1e308))
