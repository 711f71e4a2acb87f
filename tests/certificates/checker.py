"""Check every claim about random small campaigns by enumeration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import comb, inf, sqrt
from typing import Any

import numpy as np
from scipy.optimize import nnls
from scipy.special import gammaln, logsumexp, xlogy

import troth
from mechanisms.exact import one_model
from registry import generator
from troth.core.contract import Array
from troth.core.settings import Section
from troth.mechanisms import RULES
from troth.mechanisms.line_options import DecoysOption
from troth.mechanisms.one_time import RangeOption
from troth.mechanisms.options import Choice, Flag, Integer
from troth.mechanisms.round import empty_round
from troth.models.numerics.extremes import unordered_datasets

ROUNDING, INTEGRATED = 1e-11, 1e-7
VARYING = (troth.models.VaryingBernoulli, troth.models.VaryingCategorical)
EXPANDED = (troth.models.LogisticRegression, troth.models.PoissonRegression)
BUDGET = 7.0
DRAWS = 60
CONFIRMATIONS = 50  # the factor by which fresh seeds exceed the first ones before a claim counts as wrong
MAX_LISTINGS = 1e5  # the listings of several days might not fit into memory
MAX_SUM = 40  # larger sums of counts have a negligible probability


@dataclass(frozen=True)
class World:
    """A campaign small enough to list every report: models, limits on rows, groups and a rule."""

    models: list[Any]
    max_rows: list[int]
    min_rows: list[int] | None
    groups: list[int] | None
    rule: troth.Rule

    @property
    def model(self) -> Any:
        return one_model(self.models)

    @property
    def rounding(self) -> float:
        """The tolerance for rounding, and for numerical integration if providers vary."""
        return INTEGRATED if isinstance(self.models[0], VARYING) else ROUNDING

    @cached_property
    def prepared(self) -> troth.Rule:
        return self.rule.prepared(self.model, self.max_rows)

    def certify(self) -> troth.Certificate:
        return troth.certify(self.model, self.max_rows, self.rule, groups=self.groups, min_rows=self.min_rows)

    def peers_of(self, provider: int) -> list[int]:
        labels = range(len(self.models)) if self.groups is None else self.groups
        return [j for j, label in enumerate(labels) if label != labels[provider]]


class View:
    """All datasets and reports of one provider, up to the order of rows, and all reports of its peers."""

    def __init__(self, world: World, provider: int, peer_rows: list[int]) -> None:
        self.world, self.provider = world, provider
        self.t, self.rows, _ = listed(world.models[provider], range(world.max_rows[provider] + 1))
        peers = world.peers_of(provider)
        parts = [listed(world.models[j], [peer_rows[j]], MAX_SUM) for j in peers]
        joint = list(product(*(range(len(t)) for t, _, _ in parts)))
        self.peers = np.zeros((len(joint), len(world.models), self.t.shape[-1]))
        orders = np.zeros(len(joint))
        for place, (j, (t, _, log_orders)) in enumerate(zip(peers, parts, strict=True)):
            chosen = [row[place] for row in joint]
            self.peers[:, j], orders = t[chosen], orders + log_orders[chosen]
        evidence = true_evidence(world.models[0])
        pooled = self.peers.sum(axis=1)
        possible = np.isfinite(evidence(pooled))
        self.peers, pooled, orders = self.peers[possible], pooled[possible], orders[possible]
        self.sizes = np.array([float(peer_rows[j]) if j in peers else 0.0 for j in range(len(world.models))])
        self.marginal = np.exp(orders + evidence(pooled) - evidence(np.zeros(pooled.shape[-1])))
        self.forecast = np.exp(orders + evidence(self.t[:, None] + pooled) - evidence(self.t)[:, None])
        self.moved = posterior_distance(world.models[provider], self.t)

    def shares(self, rule: troth.Rule, seed: int = 0) -> Any:
        """Return the share of every report given the peers' reports, averaged over other days: ``(report, peers)``."""
        days = rule.days - 1
        combinations = list(product(range(len(self.peers)), repeat=days))
        others = np.array(combinations, dtype=np.intp).reshape(len(combinations), days)
        chance = self.marginal[others].prod(axis=-1)
        shape = (len(self.t), len(self.peers), len(others), rule.days, *self.peers.shape[1:])
        t = np.empty(shape)
        t[..., 0, :, :] = self.peers[:, None]
        t[..., 0, self.provider, :] = self.t[:, None, None]
        t[..., 1:, :, :] = self.peers[others]
        sizes = np.broadcast_to(self.sizes, shape[:-1]).copy()
        if days == 0:
            sizes[..., self.provider] = self.rows[:, None, None, None]
            t, sizes = t[..., 0, :, :], sizes[..., 0, :]
        share = self._evaluated(rule, t, sizes, seed)[..., self.provider]
        return (share[..., 0] if days else share) @ chance

    def last_day(self, rule: troth.Rule) -> Any:
        """Return the share of every report on the last day, ``(report, peers)``."""
        t = np.repeat(self.peers[None], len(self.t), axis=0)
        t[..., self.provider, :] = self.t[:, None]
        sizes = np.broadcast_to(self.sizes, t.shape[:-1]).copy()
        sizes[..., self.provider] = self.rows[:, None]
        return self._evaluated(rule, t[..., None, :, :], sizes[..., None, :])[..., 0, self.provider]

    def _evaluated(self, rule: troth.Rule, t: Any, sizes: Any, seed: int = 0) -> Any:
        rng = np.random.default_rng(seed)
        return rule.evaluate(troth.Round(self.world.model, t, self.world.groups, sizes, rng, lenient=True)).share

    def gains(self, shares: Any) -> Any:
        """Return the gain of every report (column) over the truth (row), as a share of the cap."""
        with np.errstate(invalid="ignore"):  # an impossible outcome may have a share of −∞
            expected = np.where(self.forecast[:, None] > 0, self.forecast[:, None] * shares[None], 0.0).sum(axis=-1)
        return expected - np.diagonal(expected)[:, None]

    @cached_property
    def log_score_losses(self) -> Any:
        """The loss of every report (column) under the log score: Kullback-Leibler divergences."""
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.log(self.forecast[:, None] / self.forecast[None])
            return np.where(self.forecast[:, None] > 0, self.forecast[:, None] * ratio, 0.0).sum(axis=-1)

    def places(self, decoys: int) -> tuple[Any, Any]:
        """Return possible numbers of decoys that fit better and equally well, and P(numbers | report, peers), last."""
        with np.errstate(divide="ignore"):
            scores = np.log(self.forecast / self.marginal)
        scores = np.maximum(scores, -1e9)  # for peers that contradict the report
        gap = scores[:, None] - scores[:, :, None]
        better, equal = ((gap > 1e-9) @ self.marginal, (np.abs(gap) <= 1e-9) @ self.marginal)
        worse = np.clip(1 - better - equal, 0, 1)
        counts = [(a, t) for a in range(decoys + 1) for t in range(decoys + 1 - a)]
        chance = [
            comb(decoys, a) * comb(decoys - a, t) * better**a * equal**t * worse ** (decoys - a - t) for a, t in counts
        ]
        return np.array(counts), np.stack(chance, axis=-1)

    def free_lies(self, gains: Any) -> Any:
        """Return which lies to another posterior are free, except those that rounding may hide."""
        distance = np.abs(self.forecast[:, None] - self.forecast[None]).sum(axis=-1)
        certain = (distance < 1e-9) | (distance > 1e-4)
        return (self.moved > 1e-6) & (gains > -1e-13) & certain


def true_evidence(model: Any) -> Any:
    """Return Λ of the exact likelihood: by quadrature for expansions with one coefficient and a constant feature."""
    if not isinstance(model, EXPANDED):
        return model.log_evidence
    deviation = float(np.ravel(model.precision)[0]) ** -0.5
    z = np.linspace(-9, 9, 3001)
    theta = model.mean[0] + deviation * z
    log_weight = -0.5 * z**2 - np.log(np.exp(-0.5 * z**2).sum())
    counts = not np.isfinite(model.support.high)
    log_partition = np.exp(theta) if counts else np.logaddexp(0, theta)
    mean = np.exp(model.mean[0]) if counts else 1 / (1 + np.exp(-model.mean[0]))

    def evidence(t: Any) -> Any:
        rows, total = t[..., -1:], t[..., 1:2] + t[..., -1:] * mean
        return logsumexp(total * theta - rows * log_partition + log_weight, axis=-1)

    return evidence


def posterior_distance(model: Any, t: Any) -> Any:
    """Return the distances between the posteriors of reports: exact for finitely many states, otherwise 0 or 1."""
    if hasattr(model, "posterior_probabilities"):
        posterior = model.posterior_probabilities(t)
        return np.linalg.norm(posterior[:, None] - posterior[None], axis=-1)
    return (np.abs(t[:, None] - t[None]).max(axis=-1) > 0).astype(np.float64)


def listed(model: Any, sizes: Any, largest: int = 4) -> tuple[Any, Any, Any]:
    """List all datasets of these sizes up to order: statistics, rows, log numbers of orders; counts up to a sum."""
    if not np.isfinite(model.support.high):
        return _listed_counts(model, sizes, largest)
    labels = int(model.support.high) + 1
    counts = np.concatenate([unordered_datasets(int(n), labels) for n in sizes])
    single = np.stack([model.summary(_rows(model, [label])) for label in range(labels)])
    t = model.from_summary(counts @ single)
    possible = np.isfinite(model.log_evidence(t))
    orders = gammaln(counts.sum(axis=1) + 1) - gammaln(counts + 1).sum(axis=1)
    if not getattr(model, "normalised", True):  # scale symbols so that likelihoods become probabilities
        table = np.array(model.likelihood)
        orders = orders + xlogy(counts, nnls(table, np.ones(len(table)))[0]).sum(axis=1)
        possible &= np.isfinite(orders)
    return t[possible], counts.sum(axis=1)[possible], orders[possible]


def _rows(model: Any, answers: list[float]) -> Any:
    """Return rows with these values, or with these answers and a feature that is always 1."""
    return (np.ones((len(answers), 1)), answers) if model.explains_target else answers


def _listed_counts(model: Any, sizes: Any, largest: int) -> tuple[Any, Any, Any]:
    """List all (n, Σx) up to a sum, with the log of the factor that Λ omits from their probability."""
    pairs = [(float(n), float(x)) for n in sizes for x in sums_of(n, largest)]
    rows, sums = np.array(pairs).T
    r = getattr(model, "r", None)
    orders = xlogy(sums, rows) if r is None else gammaln(sums + r * rows) - gammaln(np.maximum(r * rows, 1e-300))
    orders = np.where(rows > 0, orders, 0.0) - gammaln(sums + 1)
    if isinstance(model, troth.models.LatentClass):
        orders += model.base_measure(np.array(pairs), model.reduction)
    if model.explains_target:
        t = np.stack([model.statistics(_rows(model, [x, *[0.0] * int(n - 1)][: int(n)])) for n, x in pairs])
        return t, rows, orders
    return model.from_summary(np.array(pairs)), rows, orders


def sums_of(rows: int, largest: int) -> range:
    return range(largest + 1 if rows else 1)


def violations(world: World, certificate: troth.Certificate) -> list[str]:
    """Return the names of claims that enumeration contradicts, or that are refuted without a witness."""
    claims = {claim.name: claim for claim in certificate.claims}
    if not payable(world):
        return [] if list(claims) == ["payable"] else ["payable"]
    if "payable" in claims:  # without peers, any rule pays the empty share
        return ["payable"] * any(world.peers_of(provider) for provider in range(len(world.models)))
    row_counts = [claim.min_rows for claim in claims.values() if claim.min_rows is not None]
    fewest = world.min_rows or [min(n, *row_counts) if row_counts else n for n in world.max_rows]
    views = [
        View(world, provider, rows)
        for provider in range(len(world.models))
        for rows in ([fewest] if fewest == world.max_rows else [fewest, world.max_rows])
    ]
    few = [view for view in views if view.sizes.tolist() == _only(view, fewest)]
    rng = generator(2)
    lowest = world.min_rows or [0] * len(world.max_rows)
    between = [int(rng.integers(low, max_rows + 1)) for low, max_rows in zip(lowest, world.max_rows, strict=True)]
    rule, only_drawn = _in_expectation(world, views[0])
    by_view = [view.shares(rule) for view in views]
    if only_drawn:
        by_draws = _gains_by_draws(claims["truthful"], views, rule) + _base_by_draws(claims, views, rule)
        return by_draws + _wrong_payments(world, claims, by_view)
    gains = {id(view): view.gains(shares) for view, shares in zip(views, by_view, strict=True)}
    wrong = []
    truthful, sensitive = claims["truthful"], claims["sensitive"]
    if truthful.verdict == "proved":
        others = [View(world, provider, between) for provider in range(len(world.models))]
        paid = [*zip(views, by_view, strict=True), *((view, view.shares(rule)) for view in others)]
        if rule.days > 1 and not rule.needs_seed:
            paid += [(view, view.last_day(rule)) for view in (*views, *others)]
        worst = max(float(view.gains(shares).max()) for view, shares in paid)
        if not worst <= (truthful.margin or 0.0) + world.rounding or any(np.isnan(shares).any() for _, shares in paid):
            wrong.append("truthful")
    free = {id(view): bool(view.free_lies(gains[id(view)]).any()) for view in views}
    if (sensitive.verdict == "proved" and any(free.values())) or (
        sensitive.verdict == "refuted" and not any(free[id(view)] for view in few)
    ):
        wrong.append("sensitive")
    if "k-rank condition" in claims and claims["k-rank condition"].verdict == "proved":
        wrong += ["k-rank condition"] * any(view.free_lies(-view.log_score_losses).any() for view in few)
    exactly = truthful.verdict == "proved" and not truthful.margin
    wrong += _wrong_claims_of_a_line(world, claims, views, by_view)
    return wrong + _wrong_prices(world, claims, exactly, views, gains) + _wrong_payments(world, claims, by_view)


def _in_expectation(world: World, view: View) -> tuple[troth.Rule, bool]:
    """Return the rule in expectation over its draws, or else the rule itself, and whether it must be simulated."""
    rule = world.prepared.in_expectation()
    try:
        view.shares(rule)
    except troth.MissingCapabilityError:
        return world.prepared, True
    return rule, rule.needs_seed and rule.days == 1


def _gains_by_draws(truthful: Any, views: list[View], rule: troth.Rule) -> list[str]:
    """Return whether a lie gains on average over seeds, for a rule that must be simulated."""
    if truthful.verdict != "proved":
        return []
    margin = truthful.margin or 0.0
    for view in views:

        def gains(seed: int, view: View = view) -> Array:
            return np.asarray(view.gains(view.shares(rule, seed)) - margin)

        if _exceeds(gains, view.world.rounding):
            return ["truthful"]
    return []


def _exceeds(drawn: Callable[[int], Array], rounding: float) -> bool:
    """Return whether a mean over seeds is above 0 by six standard errors, confirmed with many fresh seeds.

    If rare draws dominate the mean, the first seeds may miss them and underestimate the standard error.
    """
    for seeds in (range(DRAWS), range(DRAWS, (1 + CONFIRMATIONS) * DRAWS)):
        sample = np.stack([drawn(seed) for seed in seeds])
        error = sample.std(axis=0, ddof=1) / np.sqrt(len(seeds))
        if not (sample.mean(axis=0) > 6 * error + rounding).any():
            return False
    return True


def _base_by_draws(claims: Any, views: list[View], rule: troth.Rule) -> list[str]:
    """Compare the mean pay of uninformed reports over seeds with that of an empty one."""
    wrong = []
    for much in ("exactly", "at most"):
        claim = claims.get(f"uninformed reports earn {much} the empty share")
        if claim is None or claim.verdict != "proved":
            continue
        for view in views:

            def above(seed: int, view: View = view) -> Array:
                earned = view.shares(rule, seed) @ view.marginal
                return np.asarray(earned - earned[view.rows == 0])

            def below(seed: int, above: Callable[[int], Array] = above) -> Array:
                return -above(seed)

            sides = (above, below) if much == "exactly" else (above,)
            if any(_exceeds(side, view.world.rounding) for side in sides):
                wrong.append(claim.name)
                break
    return wrong


def _wrong_claims_of_a_line(world: World, claims: Any, views: list[View], by_view: list[Any]) -> list[str]:
    """Compare the pay of uninformed reports with the empty share, and check stochastic dominance of the truth."""
    bonded = isinstance(world.rule, troth.Bonded)
    rule: Any = world.rule.rule if bonded else world.rule  # type: ignore[attr-defined]
    wrong, rounding = [], world.rounding
    exactly, at_most = (claims.get(f"uninformed reports earn {how} the empty share") for how in ("exactly", "at most"))
    if exactly or at_most:
        spherical = 1 / (rule.rivals + 1) if rule.decoys == inf else 1 / sqrt(rule.decoys + 1)
        empty = 0.0 if bonded else (1 - rule.strict) / (rule.rivals + 1) + rule.strict * spherical
        uninformed = [shares @ view.marginal - empty for view, shares in zip(views, by_view, strict=True)]
        if any((earned > rounding).any() or (exactly and (earned < -rounding).any()) for earned in uninformed):
            wrong.append((exactly or at_most).name)
    risk = "truthful for every attitude to risk"
    for name in (risk, f"{risk}, each day by itself"):
        if name in claims and claims[name].verdict == "proved" and rule.decoys < inf:
            total = rule.days > 1 and name == risk
            better = _dominance_of_two_days if total else _dominance
            if min(float(better(view, rule).min()) for view in views) < -rounding:
                wrong.append(name)
    return wrong


def _dominance(view: View, rule: Any) -> Any:
    """Return P(share > s) under the truth minus that under each report, by truth, report and s."""
    counts, chance = view.places(rule.decoys)
    places = range(rule.decoys + 1)
    phi = np.array([comb(rule.decoys - j, rule.rivals) / comb(rule.decoys, rule.rivals) for j in places])
    if rule.ties == "lot":  # all tied places are equally likely
        spread = np.array([[(a <= j <= a + t) / (t + 1) for j in places] for a, t in counts])
        shares, chance = phi, chance @ spread
    else:
        shares = np.array([phi[a : a + t + 1].mean() for a, t in counts])
    above = chance @ (shares[:, None] > np.unique(shares.round(9)) + 1e-9)
    expected = np.einsum("dp,xps->dxs", view.forecast, above)
    return np.einsum("dds->ds", expected)[:, None] - expected


def _dominance_of_two_days(view: View, rule: Any) -> Any:
    """Return the same for the total of two days that are decoys of each other.

    Day 1 has the line b₀, b₁, rest, and day 2 the line b₁, rest, last. Tied places are equally likely.
    """
    with np.errstate(divide="ignore"):
        scores = np.maximum(np.log(view.forecast / view.marginal), -1e9)
    count, places = len(view.peers), range(rule.decoys + 1)
    phi = np.array([comb(rule.decoys - j, rule.rivals) / comb(rule.decoys, rule.rivals) for j in places])
    rest = np.array(list(product(range(count), repeat=rule.decoys - 1)), dtype=np.intp)
    gap = scores[:, None] - scores[:, :, None]  # between decoy and real peers: report, real, decoy

    def chances(decoys: Any) -> Any:
        """Return P(place), given the gap of each decoy to the real peers (last axis)."""
        above, tied = (decoys > 1e-9).sum(axis=-1), (np.abs(decoys) <= 1e-9).sum(axis=-1)
        return np.stack([((above <= j) & (j <= above + tied)) / (tied + 1) for j in places], axis=-1)

    in_rest = gap[:, :, rest]  # report, real, rest, decoy
    one = np.broadcast_to(gap[:, :, :, None, None], (*gap.shape, len(rest), 1))
    with_rest = np.broadcast_to(in_rest[:, :, None], (*gap.shape, *rest.shape))
    line = chances(np.concatenate([one, with_rest], axis=-1))  # report, real, single decoy, rest, place
    second = np.einsum("xblrj,l->xbrj", line, view.marginal)
    first = np.einsum("db,xblrj,r->dxlrj", view.forecast, line, view.marginal[rest].prod(axis=-1))
    joint = np.einsum("dxbrj,eb,ybrk->dexyjk", first, view.forecast, second, optimize=True)
    total = (phi[:, None] + phi).ravel()
    above = joint.reshape(*joint.shape[:4], -1) @ (total[:, None] > np.unique(total.round(9)) + 1e-9)
    return np.einsum("dedes->des", above)[:, :, None, None] - above


def _only(view: View, rows: list[int]) -> list[float]:
    peers = view.world.peers_of(view.provider)
    return [float(n) if j in peers else 0.0 for j, n in enumerate(rows)]


def _wrong_prices(world: World, claims: Any, exactly: bool, views: list[View], gains: Any) -> list[str]:
    """Check that every lie loses at least its price times the distance of posteriors or its square."""
    scale = world.prepared.price_scale(exactly)
    wrong = []
    for name, power in (("price of lying", 2), ("linear price of lying", 1)):
        if name not in claims or claims[name].verdict != "proved":
            continue
        for view in views:
            losses = view.log_score_losses if scale is None or not np.isfinite(scale.low) else -gains[id(view)]
            if (losses < claims[name].margin * view.moved**power * (1 - 1e-9) - world.rounding).any():
                wrong.append(name)
                break
    return wrong


def _wrong_payments(world: World, claims: Any, by_view: list[Any]) -> list[str]:
    """Check the rule's payments on random rounds of all admissible sizes."""
    rng, rule = generator(1), world.prepared
    days = (rule.days,) if rule.days > 1 else ()
    sizes = np.stack([rng.integers(0, max_rows + 1, 24) for max_rows in world.max_rows], axis=-1)
    t = np.stack(
        [_drawn(rng, *arguments, days) for arguments in zip(world.models, world.max_rows, sizes.T, strict=True)],
        axis=-2,
    )
    rows = np.broadcast_to(sizes[:, None] if days else sizes, t.shape[:-1]).astype(np.float64)

    def shares(order: list[int]) -> Any:
        models = one_model([world.models[j] for j in order])
        groups = None if world.groups is None else [world.groups[j] for j in order]
        rng = np.random.default_rng(3)
        this_round = troth.Round(models, t[..., order, :], groups, rows[..., order], rng, lenient=True)
        return rule.evaluate(this_round).share

    order = list(range(len(world.models)))
    paid = shares(order)
    lowest = min(float(np.nanmin(paid)), *(float(np.nanmin(shares)) for shares in by_view))
    given = troth.Round(world.model, t, world.groups, rows, np.random.default_rng(4), lenient=True)
    bounded = isinstance(rule, troth.Bonded) and rule.rule.individually_rational
    if bounded and np.nanmin(paid + rule.deposit_shares(given).astype(np.float64)) < -world.rounding:
        return ["individually rational"]  # a loss exceeds the deposit
    capped = np.isfinite(rule.cap(len(order), budget=BUDGET)).all()
    total = (rule.cap(len(order), budget=BUDGET) * np.nan_to_num(paid)).sum(axis=-1) if capped else np.inf
    exceeded = bool(np.any(total > BUDGET * (1 + 1e-12))) if capped else bool((paid > 0).any())
    negative, replayed = _replayed(world, claims["individually rational"]), _replayed(world, claims["budget feasible"])
    seen = {
        "individually rational": lowest < 0 or (negative is not None and negative.min() < 0),
        "budget feasible": exceeded or (replayed is not None and replayed.max() > (1 if capped else 0)),
    }
    wrong = [
        name
        for name, broken in seen.items()
        if (claims[name].verdict == "proved" and broken) or (claims[name].verdict == "refuted" and not broken)
    ]
    turned = [*order[1:], order[0]]
    if claims["symmetric"].verdict == "proved" and not np.array_equal(
        shares(turned), paid[..., turned], equal_nan=True
    ):
        wrong.append("symmetric")
    return wrong


def _drawn(rng: Any, model: Any, max_rows: int, sizes: Any, days: tuple[int, ...]) -> Any:
    """Draw a report of each size uniformly from the listed ones, or one for each day."""
    t, rows, _ = listed(model, range(max_rows + 1))
    places = [rng.choice(np.flatnonzero(rows == size), days or None) for size in sizes]
    return t[np.array(places)]


def _replayed(world: World, claim: Any) -> Any:
    """Pay the round that is the witness of a claim, of the largest provider and its largest peer."""
    if claim.witness is None:
        return None
    order = sorted(range(len(world.max_rows)), key=lambda place: -world.max_rows[place])
    other = next(place for place in order if place in world.peers_of(order[0]))
    t = np.array(claim.witness)
    this_round = troth.Round(
        [world.models[order[0]], world.models[other]],
        t,
        rows=np.array([world.max_rows[order[0]], world.max_rows[other]], dtype=float),
        rng=np.random.default_rng(3),
        lenient=True,
    )
    return world.prepared.evaluate(this_round).share


def payable(world: World) -> bool:
    """Return whether the rule can pay a round of full reports and a round of empty ones."""
    parts = [listed(model, [max_rows])[0][0] for model, max_rows in zip(world.models, world.max_rows, strict=True)]
    try:
        rule = world.prepared
        t = np.stack([np.stack(parts)] * rule.days) if rule.days > 1 else np.stack(parts)
        rule.evaluate(
            troth.Round(
                world.model, t, world.groups, np.array(world.max_rows, float), np.random.default_rng(0), lenient=True
            )
        )
        empty = empty_round(world.model, len(parts), rule.days, groups=world.groups, rng=np.random.default_rng(0))
        rule.evaluate(empty)
    except (troth.MissingCapabilityError, troth.UnboundedRangeError, troth.ScoreOutOfRangeError):
        return False
    return True


def random_world(seed: int, name: str) -> World:
    """Return a random campaign that can be listed, with random options, groups, limits and bonds."""
    rng = generator(seed, *name.encode())
    providers = int(rng.integers(2, 4))
    models = FAMILIES[seed % len(FAMILIES)](rng, providers)
    providers = len(models)
    max_rows = [int(n) for n in rng.integers(1, 4 if providers == 2 else 3, providers)]
    min_rows = [int(rng.integers(0, n + 1)) for n in max_rows] if rng.random() < 0.4 else None
    groups = [int(label) for label in rng.integers(0, 2, providers)] if rng.random() < 0.3 else None
    rule = random_rule(rng, name)
    while _listings(models, max_rows, rule) > MAX_LISTINGS:
        rule = random_rule(rng, name)
    return World(models, max_rows, min_rows, groups, troth.Bonded(rule) if rng.random() < 0.3 else rule)


def _listings(models: list[Any], max_rows: list[int], rule: troth.Rule) -> float:
    """Return the maximum number of shares of a provider, over all of its reports and its peers' on all days."""
    own = max(len(listed(model, range(rows + 1))[0]) for model, rows in zip(models, max_rows, strict=True))
    others = [len(listed(model, [rows], MAX_SUM)[0]) for model, rows in zip(models, max_rows, strict=True)]
    return own * float(np.prod(others) / min(others)) ** rule.days


def random_rule(rng: Any, name: str) -> troth.Rule:
    """Return a rule with random options, read from settings as in a campaign file."""
    kind = RULES[name]
    table: dict[str, Any] = {}
    for key, setting in kind.settings().items():
        if isinstance(setting, RangeOption) and rng.random() < 0.3:
            low, high = -float(rng.uniform(0.1, 3)), float(rng.uniform(0.3, 4))
            source = str(rng.choice(["clipped", "declared", "exact"]))
            shift = 3.5 if source == "declared" and high < 2 else 0.0  # excludes the score of an empty report
            table[key] = {"low": low + shift, "high": high + shift, "source": source}
        elif isinstance(setting, Choice):
            table[key] = str(rng.choice(list(setting.choices)))
        elif isinstance(setting, Flag):
            table[key] = bool(rng.random() < 0.5)
        elif isinstance(setting, DecoysOption):
            table[key] = "all" if rng.random() < 0.2 else int(rng.integers(2, 4))
        elif isinstance(setting, Integer):
            table[key] = int(rng.integers(max(setting.minimum, min(setting.default, 1)), 3))
        elif key == "strict" and rng.random() < 0.5:
            table[key] = float(rng.choice([0.3, 1.0]))
        elif key == "low":
            table[key] = -float(rng.uniform(0.1, 3))
        elif key == "last" and rng.random() < 0.5:
            one_day = [name for name, rule in RULES.items() if not (rule.not_offered or rule().days > 1)]
            last = random_rule(rng, str(rng.choice(one_day)))
            while last.days > 1:
                last = random_rule(rng, str(rng.choice(one_day)))
            table[key] = last.to_settings()
    if table.get("source") == "days" and table["decoys"] == "all":
        table["decoys"] = 2
    return kind.from_settings(Section("mechanism", table))


def _finite(rng: Any, providers: int) -> list[Any]:
    """Return models with one table for all or for each, sometimes with zeros or with indistinguishable states."""
    states = int(rng.integers(2, 4))
    prior = rng.dirichlet(np.full(states, 2.0))
    tables = []
    for _ in range(providers):
        table = rng.dirichlet(np.ones(int(rng.integers(2, 4))), size=states)
        if rng.random() < 0.3:
            table *= rng.random(table.shape) > 0.35
            table[np.arange(states), rng.integers(0, table.shape[1], states)] += 0.05
            table /= table.sum(axis=1, keepdims=True)
        if rng.random() < 0.2:
            table[1] = table[0]
        tables.append(table)
    return [troth.models.Finite(prior, table) for table in (tables if rng.random() < 0.5 else tables[:1] * providers)]


def _open(rng: Any, providers: int) -> list[Any]:
    """Return finite models defined by posteriors, which may not determine p(data|θ)."""
    prior, table = np.array([0.4, 0.6]), rng.dirichlet(np.ones(3), size=2)
    joint = prior[:, None] * table
    return [troth.models.Finite.from_posteriors(prior, (joint / joint.sum(axis=0)).T)] * providers


def _bernoulli(rng: Any, providers: int) -> list[Any]:
    alpha, beta = (1.0, 1.0) if rng.random() < 0.4 else 10 ** rng.uniform(-0.7, 1, 2)
    return [troth.models.Bernoulli(alpha, beta)] * providers


def _categorical(rng: Any, providers: int) -> list[Any]:
    prior = np.ones(3) if rng.random() < 0.4 else 10 ** rng.uniform(-0.7, 1, 3)
    return [troth.models.Categorical(prior)] * providers


def _day_types(rng: Any, providers: int) -> list[Any]:
    """Return models of labels whose rows share a random effect, the same for all providers or not."""
    types = int(rng.integers(2, 4))
    prior = rng.dirichlet(np.full(types, 2.0))
    binary = rng.random() < 0.5
    models = []
    for _ in range(providers):
        means = rng.uniform(0.05, 0.95, types) if binary else rng.dirichlet(np.ones(3), size=types)
        dispersion = float(rng.choice([0.0, rng.uniform(0.02, 0.5)]))
        models.append(troth.models.LatentClass(prior, "binary" if binary else "categorical", means, dispersion))
    return models if rng.random() < 0.5 else models[:1] * providers


def _counts(rng: Any, providers: int) -> list[Any]:
    """Return models of counts of two providers, so small that sums rarely exceed `MAX_SUM`."""
    kind = int(rng.integers(4))
    if kind == 0:
        return [troth.models.Poisson(rng.uniform(1, 4), rng.uniform(8, 16))] * 2
    if kind == 1:
        return [troth.models.Geometric(rng.uniform(35, 45), rng.uniform(1, 2))] * 2
    if kind == 2:
        return [troth.models.NegativeBinomial(rng.uniform(0.5, 1.5), rng.uniform(35, 45), rng.uniform(1, 2))] * 2
    means = rng.uniform(0.1, 0.8, 2)
    return [troth.models.LatentClass([0.4, 0.6], "count", means, float(rng.choice([0.0, 0.1])))] * 2


def _labelled(rng: Any, providers: int) -> list[Any]:
    """Return regressions of labels, or of counts of two providers, on a constant: expansions or candidates."""
    kind, wide = int(rng.integers(3)), float(rng.uniform(0.1, 1))
    if kind == 0:
        return [troth.models.LogisticRegression(mean=[0.0], precision=wide)] * providers
    if kind == 1:
        return [troth.models.PoissonRegression(mean=[0.0], precision=3 + 10 * wide)] * 2
    return [troth.models.LogisticCandidates(rng.normal(0, 2, (2, 1)))] * providers


def _varying(rng: Any, providers: int) -> list[Any]:
    """Return models of providers with their own rates, of ones or of labels, around an unknown mean."""
    if rng.random() < 0.5:
        return [troth.models.VaryingBernoulli(*rng.uniform(0.5, 4, 2))] * providers
    return [troth.models.VaryingCategorical(rng.uniform(0.5, 4, 3))] * providers


FAMILIES = (_finite, _bernoulli, _day_types, _categorical, _counts, _finite, _open, _day_types, _labelled, _varying)
