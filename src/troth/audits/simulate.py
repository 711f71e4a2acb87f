"""Expected payments of honest and dishonest providers, by paired simulation with common random numbers."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import accumulate
from os import cpu_count
from typing import TYPE_CHECKING, Any

import numpy as np

from troth.audits.baselines import TestSetRule
from troth.audits.findings import Audit, Comparison, finding_of
from troth.audits.strategies import Lie, Strategy, as_strategy, lies_for_model
from troth.core.contract import (
    Array,
    Generator,
    HasFeatures,
    Model,
    Models,
    PlansDesigns,
    SamplesData,
    SamplesStatistics,
    has_independent_rows,
)
from troth.core.errors import DataError, MissingCapabilityError, ParameterError
from troth.core.information import check_generator, impossible
from troth.core.provider_models import one_each, shared_evidence
from troth.mechanisms import Round, Rule, group_weights
from troth.mechanisms.round import indexes_by_label

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_CHUNK = 1_000_000  # numbers that are drawn in one chunk


def audit(
    model: Models,
    rule: Rule,
    lies: Sequence[Lie] | None = None,
    rows: Sequence[int] = (),
    *,
    lie: Lie | None = None,
    simulations: int = 20_000,
    liar: int = 0,
    rng: Generator | None = None,
    false_alarm: float = 1e-6,
    progress: Callable[[int, int], None] | None = None,
) -> Audit:
    """Simulate what lies earn under a rule while all other providers are honest.

    Rounds are drawn from the model. Truth and lie share θ, the liar's data and the peers' data, which reduces the
    variance of their difference. The interval is the empirical Bernstein bound, which needs no normal approximation.
    A strategy with several accounts is audited twice, the second time with its accounts declared as one group.

    Parameters
    ----------
    model
        One model, or one per provider.
    rule
        Any rule, or a baseline of `troth.audits.baselines`.
    lies
        Strategies or functions ``lie(data, rng) -> data``; by default, all known lies of a single provider.
    rows
        Rows of each provider's true dataset.
    lie
        A single lie, instead of ``lies``.
    simulations, liar
        How many simulations to run, and which provider lies.
    rng
        Defaults to a fixed seed, so that audits are reproducible.
    false_alarm
        The maximum probability that a finding's interval misses the true gain.
    progress
        Called with the number of simulations that are done, and the total.

    Examples
    --------
    >>> import troth
    >>> model = troth.models.Bernoulli(1, 1)
    >>> earnings = audit(model, troth.MultiDay(), lie=troth.strategies.Replicate(times=2), rows=[40] * 5)
    >>> earnings["replicate 2 times"].high < 0
    True
    """
    if not isinstance(rule, Rule):
        raise ParameterError(f"rule must be a payment rule, an instance of troth.Rule, not {rule!r}")
    if lies is not None and lie is not None:
        raise ParameterError("give lies= or lie=, not both")
    if simulations < 2 or not 0 < false_alarm < 1:
        raise ParameterError(
            f"an audit needs at least 2 simulations and a false_alarm between 0 and 1, not {simulations}, {false_alarm}"
        )
    setup = _Setup(model, rule, _integer_rows(rows), liar)
    chosen = [lie] if lie is not None else [lies] if isinstance(lies, Strategy) or callable(lies) else lies
    plays = lies_for_model(setup.own) if chosen is None else [as_strategy(lie) for lie in chosen]
    cases = [(play, False) for play in plays] + [(play, True) for play in plays if play.needed_accounts > 1]
    rng = np.random.default_rng(20201206) if rng is None else check_generator(rng)
    chunk = max(1, min(simulations, _CHUNK // setup.width))
    sizes = [min(chunk, simulations - start) for start in range(0, simulations, chunk)]
    seeds = rng.bit_generator.seed_seq.spawn(len(sizes))  # type: ignore[attr-defined]
    sums = np.zeros((len(cases), 4))
    with ThreadPoolExecutor(cpu_count() or 1) as pool:
        results = pool.map(partial(setup.simulate, cases), sizes, seeds)
        for done, part in zip(accumulate(sizes), results, strict=True):
            sums += part
            if progress is not None:
                progress(done, simulations)
    labels = _unique([f"{play.name}, in a group" if grouped else play.name for play, grouped in cases])
    findings = tuple(
        finding_of(label, total, simulations, rule, false_alarm, play.needed_accounts)
        for label, (play, _), total in zip(labels, cases, sums, strict=True)
    )
    return Audit(rule, simulations, false_alarm, setup.empty_share(np.random.default_rng(1)), findings)


def compare(
    model: Models, rules: Mapping[str, Rule], lies: Sequence[Lie], rows: Sequence[int], **options: Any
) -> Comparison:
    """Audit several rules with the same lies and the same random numbers.

    Parameters
    ----------
    rules
        Rules and baselines, by their names in tables.
    lies, rows, options
        As for `audit`.
    """
    strategies = [as_strategy(lie) for lie in lies]
    audits = {name: audit(model, rule, strategies, rows, **options) for name, rule in rules.items()}
    names = tuple(finding.lie for finding in next(iter(audits.values())).findings) if audits else ()
    return Comparison(audits, names)


class _Setup:
    """A rule, the providers with their rows, and the liar."""

    def __init__(self, model: Models, rule: Rule, rows: list[int], liar: int) -> None:
        if len(rows) < 2:
            raise DataError("an audit needs rows= of at least two providers, such as rows=[40] * 5")
        if not 0 <= liar < len(rows):
            raise ParameterError(f"liar must be one of the {len(rows)} providers, not {liar!r}")
        self.model, self.rule, self.rows, self.liar = model, rule, rows, liar
        self.evidence = shared_evidence(model)
        self.models = one_each(model, len(rows))
        for member in self.models:
            if not isinstance(member, SamplesData):
                raise MissingCapabilityError(f"{type(member).__name__} cannot draw data, so it cannot be audited")
        lying = self.models[liar]
        self.own: Any = lying.without_features if isinstance(lying, HasFeatures) else lying  # whose rows lies change
        self.classes: dict[Any, list[int]] = indexes_by_label(self.models)
        first: Any = self.models[0]
        rng = np.random.default_rng(0)
        self.statistics = int(first.statistics(first.draw_data(rng, self._theta(rng, (1,)), 1)).shape[-1])
        self.width = rule.days * (max(rows) * 2 + len(rows) * self.statistics * 2)

    def _theta(self, rng: Generator, shape: tuple[int, ...]) -> Array:
        return np.asarray(self.models[0].draw_parameters(rng, shape))

    def draw(self, rng: Generator, simulations: int) -> tuple[Any, Array, Array | None]:
        """Draw the liar's data, the honest statistics of all providers and, if the rule needs one, a test set."""
        days = (self.rule.days,) if self.rule.days > 1 else ()
        theta = self._theta(rng, (simulations, *days))
        honest = np.empty((simulations, *days, len(self.rows), self.statistics))
        for model, members in self.classes.items():
            counts = np.array([float(self.rows[i]) for i in members])
            honest[..., members, :] = _draw_statistics(model, rng, theta, counts)
        own: Any = self.models[self.liar]
        data = own.draw_data(rng, theta, self.rows[self.liar])
        honest[..., self.liar, :] = own.statistics(data)
        if not isinstance(self.rule, TestSetRule):
            return data, honest, None
        test = self.rule.bias(own.draw_data(rng, theta, self.rule.test_rows), rng)
        return data, honest, own.statistics(test)

    def simulate(self, cases: list[tuple[Strategy, bool]], simulations: int, seed: Any) -> Array:
        """Return sums over simulations for each case: earnings of truth and lie, squared gains, and refusals."""
        for_data, for_lies, secret = seed.spawn(3)
        data, honest, test = self.draw(np.random.default_rng(for_data), simulations)
        key = int(np.random.default_rng(secret).integers(2**63))  # the same draws of the rule for truth and lies
        truths: dict[tuple[tuple[int, ...], bool], Array] = {}
        sums = np.empty((len(cases), 4))
        for number, (play, grouped) in enumerate(cases):
            lies = np.random.default_rng(for_lies)  # so that a finding does not depend on earlier lies
            reported, accounts, sizes = play.play(lies, self.own, data, honest, self.liar)
            rows = np.concatenate([self.rows, np.zeros(reported.shape[-2] - len(self.rows))])
            rows[list(accounts)] = sizes
            existing = tuple(i for i in accounts if i < len(self.rows))
            # the truth of colluders is grouped too; a provider that splits could have kept one account
            with_group = grouped and existing == accounts
            if (existing, with_group) not in truths:
                honest_rows = np.array(self.rows, dtype=np.float64)
                truths[existing, with_group] = self._earned(honest, existing, test, key, with_group, honest_rows)[0]
            truth = truths[existing, with_group]
            earned, refused = self._earned(reported, accounts, test, key, grouped, rows)
            sums[number] = truth.sum(), earned.sum(), ((earned - truth) ** 2).sum(), refused.sum()
        return sums

    def _earned(
        self, t: Array, accounts: tuple[int, ...], test: Array | None, key: int, grouped: bool, rows: Array
    ) -> tuple[Array, Any]:
        """Return what the liar's accounts earn together, per real account, in units of an honest cap; and refusals.

        A refused report, which no state can produce or whose score is out of range, earns nothing.
        """
        count, own = t.shape[-2], t[..., list(accounts), :]
        ruled_out = impossible(self.evidence, own)
        t = t.copy()
        t[..., list(accounts), :] = np.where(ruled_out[..., None], 0.0, own)
        groups = [-1 if i in accounts else i for i in range(count)] if grouped else None
        weights = np.full(count, 1 / count) if groups is None else group_weights(groups)
        share = self._shares(t, accounts, test, key, groups, rows)
        refused = np.isnan(share).any(axis=-1) | ruled_out.reshape(len(t), -1).any(axis=1)
        existing = sum(i < len(self.rows) for i in accounts)
        earned = (np.nan_to_num(share, neginf=-1e9) * weights[list(accounts)]).sum(axis=-1) * len(self.rows) / existing
        return np.where(refused, 0.0, earned), refused

    def _shares(
        self, t: Array, accounts: tuple[int, ...], test: Array | None, key: int, groups: Any, rows: Array
    ) -> Array:
        """Return the shares of some accounts; peers are pooled first if that does not change them."""
        shared = isinstance(self.model, Model)
        poolable = shared and self.rule.pools_peers and has_independent_rows(self.evidence)
        if poolable and groups is None and len(accounts) == 1:
            (account,) = accounts
            peers = t[..., :account, :].sum(axis=-2) + t[..., account + 1 :, :].sum(axis=-2)
            t, accounts = np.stack([t[..., account, :], peers], axis=-2), (0,)
            rows = np.array([rows[account], rows.sum() - rows[account]])
        added = [self.models[self.liar]] * (t.shape[-2] - len(self.models))
        models = self.model if shared else [*self.models, *added]
        this_round = Round(models, t, groups, rows, np.random.default_rng(key), test, lenient=True)
        if not poolable:  # only the shares of these accounts are needed
            is_liar = np.isin(np.arange(t.shape[-2]), accounts)
            this_round = this_round.with_own(np.where(is_liar[:, None], t, 0.0))
        share = self.rule.evaluate(this_round).share
        return self._first_day(share)[..., list(accounts)]

    def _first_day(self, share: Array) -> Array:
        return share[..., 0, :] if self.rule.days > 1 else share

    def empty_share(self, rng: Generator) -> float:
        """Return the liar's empty share, averaged over a few simulations."""
        _, honest, test = self.draw(rng, 64)
        rows = np.array(self.rows, dtype=np.float64)
        this_round = Round(self.model, honest, None, rows, np.random.default_rng(2), test, lenient=True)
        return float(np.nanmean(self._first_day(self.rule.evaluate_empty(this_round))[..., self.liar]))


def _integer_rows(rows: Any) -> list[int]:
    counts = np.atleast_1d(np.asarray(rows, dtype=np.float64))
    if counts.ndim != 1 or not ((counts >= 0) & (counts == np.floor(counts))).all():
        raise DataError(f"rows must be whole numbers of at least 0, one per provider, not {rows!r}")
    return [int(n) for n in counts]


def _draw_statistics(model: Any, rng: Generator, theta: Array, counts: Array) -> Array:
    """Draw statistics ``(..., provider, statistic)`` for numbers of rows, without drawing rows if possible."""
    if isinstance(model, SamplesStatistics) and isinstance(model, PlansDesigns):
        try:
            return np.asarray(model.draw_statistics(rng, theta[..., None, :], model.plan(counts)))
        except DataError:
            pass
    return np.stack([model.statistics(model.draw_data(rng, theta, int(n))) for n in counts], axis=-2)


def _unique(labels: list[str]) -> list[str]:
    """Append numbers to labels that occur more than once."""
    numbered = [f"{label} ({labels[:i].count(label) + 1})" for i, label in enumerate(labels)]
    return [number if labels.count(label) > 1 else label for label, number in zip(labels, numbered, strict=True)]
