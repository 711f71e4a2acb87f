"""The payments of the line-up: bounds, symmetry, the empty share, and the strength of incentives."""

from __future__ import annotations

from dataclasses import replace
from math import comb, inf
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import troth
from registry import EXAMPLES, SOAK, generator
from troth import models
from troth.mechanisms import Round, decoys
from troth.mechanisms.line import limit_share, on_grid, rank_share

FAMILIES: dict[str, Any] = dict(EXAMPLES)
RULES = {
    "default": troth.LineUp(decoys=19),
    "many decoys": troth.LineUp(decoys=99),
    "strict, by lot": troth.LineUp(decoys=7, rivals=2, strict=0.25, ties="lot"),
    "panels": troth.LineUp(decoys=9, panels=2, strict=0.1),
    "single peers": troth.LineUp(decoys=9, panels=50),
}


def reports(name: str, providers: int, seed: int, rows: int = 4) -> Any:
    """Reports that need not come from any common θ, the last equal to the first."""
    model, rng = FAMILIES[name], generator(seed, providers)
    sizes = rng.integers(1, rows + 1, providers).tolist()
    t = [model.statistics(model.draw_data(rng, model.draw_parameters(rng), size)) for size in sizes]
    t[-1] = t[0]
    return np.stack(t)


def share(rule: troth.Rule, model: Any, t: Any, seed: int = 1, **options: Any) -> Any:
    return rule.explain(model, t, rng=generator(seed), **options).share


@settings(max_examples=200 if SOAK else 25, deadline=None)
@given(
    name=st.sampled_from(sorted(FAMILIES)),
    rule=st.sampled_from(sorted(RULES)),
    providers=st.integers(2, 6),
    seed=st.integers(0, 10**6),
    grouped=st.booleans(),
)
def test_for_every_input(name: str, rule: str, providers: int, seed: int, grouped: bool) -> None:
    rng = generator(seed)
    model, t = FAMILIES[name], reports(name, providers, seed)
    sizes = rng.integers(1, 5, providers).astype(float)
    sizes[-1] = sizes[0]
    groups = [int(i) for i in rng.integers(0, 3, providers)] if grouped else list(range(providers))
    groups[-1] = groups[0] if grouped else groups[-1]
    rows = sizes if name.startswith("day types") or "provider" in name or "finite" in name else None
    pay = RULES[rule].pay(model, t, budget=9.7, groups=groups, rows=rows, rng=generator(seed, 2))
    assert (pay >= 0).all()
    assert (pay <= 9.7 / providers).all()
    assert pay.sum() <= 9.7
    assert pay[0] == pay[-1]  # equal reports, equal payments
    order = rng.permutation(providers)
    again = RULES[rule].pay(
        model,
        t[order],
        budget=9.7,
        groups=[groups[i] for i in order],
        rows=None if rows is None else rows[order],
        rng=generator(seed, 2),
    )
    assert np.array_equal(again, pay[order])


def test_peers_that_differ_only_in_rows_are_dealt_out_in_any_order() -> None:
    """Two rows of one label are worth one row of another: the statistics are equal, but the designs are not."""
    model = models.Finite([0.5, 0.5], [[0.25, 0.0625, 0.5, 0.1875], [0.25, 0.0625, 0.1875, 0.5]])
    data = [[0, 0], [1]] * 7 + [[2], [3, 2, 2], [2, 2]]
    t, rows = np.stack([model.statistics(x) for x in data]), np.array([len(x) for x in data], dtype=float)
    assert np.array_equal(t[0], t[1])
    rule, order = troth.LineUp(decoys=9, panels=4), generator(1).permutation(len(data))
    paid, again = (share(rule, model, t[who], rows=rows[who]) for who in (np.arange(len(data)), order))
    assert np.array_equal(again, paid[order])


@pytest.mark.parametrize("name", FAMILIES)
def test_an_empty_report_is_paid_exactly_the_empty_share(name: str) -> None:
    t = reports(name, 4, 3)
    t[1] = 0.0
    rows = np.array([2.0, 0.0, 3.0, 2.0])
    for rule in (*RULES.values(), troth.LineUp(decoys=64, strict=1.0), troth.LineUp(rivals=1, decoys=1)):
        paid = replace(rule, ties="average")
        assert share(paid, FAMILIES[name], t, rows=rows)[1] == paid.line_empty_share
        assert (paid.empty_share(FAMILIES[name], t, rng=generator(1)) == paid.line_empty_share).all()
    assert troth.LineUp().fixed_empty_share == 0.2


@pytest.mark.parametrize("name", [name for name, model in FAMILIES.items() if hasattr(model, "peer_order")])
@pytest.mark.parametrize("ties", ["average", "lot"])
def test_bisection_agrees_with_comparing_all_decoys(name: str, ties: Any, monkeypatch: Any) -> None:
    model, rng = FAMILIES[name], generator(4)
    theta = model.draw_parameters(rng, (12, 1))
    t = np.stack([model.statistics(model.draw_data(rng, theta[:, 0], n)) for n in (1, 3, 8, 8, 40)], axis=-2)
    rule = troth.LineUp(decoys=150, ties=ties)
    searched = share(rule, model, t)
    monkeypatch.setattr(decoys, "_MIN_SORTED", 10**9)
    assert np.array_equal(searched, share(rule, model, t))


def test_the_empty_share_is_that_of_a_line_in_which_all_tie() -> None:
    model = troth.models.Bernoulli(1, 1)
    t = np.array([[0.0, 0.0], [2.0, 1.0], [1.0, 3.0]])
    for rule, empty in (
        (troth.LineUp(decoys=99, strict=0.1), 0.9 / 5 + 0.1 / 10),  # 1/5 by the place, 1/sqrt(99 + 1) by the score
        (troth.LineUp(decoys=8, rivals=1, strict=1.0), 1 / 3),
        (troth.LineUp(decoys=15, rivals=3, strict=0.5, panels=2), 0.5 / 4 + 0.5 / 4),
        (troth.LineUp(decoys=24, rivals=4), 1 / 5),
    ):
        assert share(rule, model, t)[0] == pytest.approx(empty, abs=1e-15)
        assert rule.empty_share(model, t, rng=generator(1)) == pytest.approx(empty, abs=1e-15)
        assert rule.fixed_empty_share == pytest.approx(empty, abs=1e-15)


def test_scores_that_differ_in_the_last_bits_tie_and_change_by_at_most_half_a_step() -> None:
    for score in (0.0, 1.0, -2.5, 2.0**-20):  # such values are exact more often than any others
        assert len(np.unique(on_grid(score + np.array([-3e-16, 0.0, 3e-16])))) == 1
    scores = generator(5).normal(size=1000)
    assert np.abs(on_grid(scores) - scores).max() <= 2.0**-31
    assert on_grid(np.array([-np.inf])) == -np.inf


def test_shares_are_the_probability_of_beating_all_rivals() -> None:
    places = np.arange(10)
    assert rank_share(places, np.zeros(10), 9, 4) == pytest.approx([comb(9 - j, 4) / comb(9, 4) for j in places])
    for above, tied in ((0, 3), (2, 7), (5, 1)):
        mean = np.mean([comb(9 - j, 4) / comb(9, 4) for j in range(above, above + tied + 1)])
        assert rank_share(np.array([above]), np.array([tied]), 9, 4)[0] == pytest.approx(mean, rel=1e-14)
    u = np.linspace(0.2, 0.5, 100_001)
    assert limit_share(np.array([0.2]), np.array([0.5]), 4)[0] == pytest.approx(np.mean((1 - u) ** 4), rel=1e-5)


def bernoulli_rounds(simulations: int, seed: int = 1) -> tuple[Any, Any]:
    rng = generator(seed)
    ones = rng.binomial(100, rng.beta(2, 2, (simulations, 1)), (simulations, 10)).astype(float)
    return rng, np.stack([ones, 100 - ones], axis=-1)


def test_incentives_are_as_strong_as_published() -> None:
    """Ten providers with 100 rows, Beta(2, 2), an exhaustive line: only the data are random."""
    model, (rng, t) = models.Bernoulli(2, 2), bernoulli_rounds(4000 if SOAK else 400)
    rule = troth.LineUp(decoys=inf)
    ones, zeros = t[..., 0].astype(int), t[..., 1].astype(int)
    honest = rule.explain(model, t).share

    def lost(remaining: Any, rows: int) -> float:
        own = np.stack([remaining, rows - remaining], axis=-1).astype(float)
        return float((honest - rule.breakdown(Round(model, t).with_own(own)).share).mean())

    assert honest.mean() >= 0.70
    assert lost(rng.hypergeometric(ones, zeros, 50), 50) >= 0.06
    assert lost(ones - rng.binomial(ones, 0.1) + rng.binomial(zeros, 0.1), 100) >= 0.12
    assert lost(rng.binomial(100, rng.beta(2, 2, ones.shape)), 100) >= 0.50
    assert lost(np.zeros_like(ones), 0) >= 0.50
    assert abs(lost(2 * ones, 200)) < 0.005  # sending every row twice keeps the order


def test_payments_hardly_depend_on_the_seed() -> None:
    model, (_, t) = models.Bernoulli(2, 2), bernoulli_rounds(5)
    paid = np.array([share(troth.LineUp(), model, t, seed) for seed in range(30)])
    spread = paid.std(axis=0, ddof=1)
    assert spread.mean() < 0.03
    assert spread.max() < 0.045
    exact = share(troth.LineUp(decoys=inf), model, t)
    assert np.abs(paid.mean(axis=0) - exact).max() < 5 * 0.03 / np.sqrt(30)


@pytest.mark.parametrize("name", ["bernoulli", "categorical", "finite", "finite with zeros", "day types, binary"])
def test_an_exhaustive_line_is_the_limit(name: str) -> None:
    model, rng = FAMILIES[name], generator(6)
    theta = model.draw_parameters(rng, (3,))
    t = np.stack([model.statistics(model.draw_data(rng, theta, n)) for n in (4, 2, 3)], axis=-2)
    rows = np.array([4.0, 2.0, 3.0])
    exact = share(troth.LineUp(decoys=inf), model, t, rows=rows)
    drawn = np.mean([share(troth.LineUp(decoys=2000), model, t, seed, rows=rows) for seed in range(5)], axis=0)
    assert np.abs(drawn - exact).max() < 0.03
    many = np.broadcast_to(t, (400, *t.shape))
    lot = share(troth.LineUp(decoys=inf, ties="lot"), model, many, rows=np.broadcast_to(rows, many.shape[:-1]))
    assert np.abs(lot.mean(axis=0) - exact).max() < 0.1


def test_exhaustive_lines_that_cannot_be_enumerated_are_an_error() -> None:
    t = reports("poisson", 3, 1)
    with pytest.raises(troth.MissingCapabilityError, match="infinitely many possible reports: choose a number"):
        share(troth.LineUp(decoys=inf), FAMILIES["poisson"], t)
    with pytest.raises(troth.DataError, match="choose a number of decoys"):
        share(troth.LineUp(decoys=inf), models.Categorical([1.0] * 6), np.full((3, 6), 60.0))


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"decoys": 3}, r"decoys must be at least rivals \(4\), not 3"),
        ({"rivals": 0}, "rivals must be a whole number of at least 1"),
        ({"strict": 1.5}, "strict must be a number from 0 to 1"),
        ({"ties": "coin"}, 'ties must be "average" or "lot"'),
        ({"source": "past"}, 'source must be "model" or "days"'),
        ({"panels": 0}, "panels must be a whole number of at least 1"),
        ({"decoys": "many"}, 'decoys must be "all" or a whole number'),
        ({"decoys": inf, "source": "days"}, "decoys must be a number if later days are decoys"),
    ],
)
def test_options_are_checked(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(troth.ParameterError, match=problem):
        troth.LineUp(**options)


def test_settings_spell_all_decoys_as_a_word() -> None:
    rule = troth.LineUp(decoys=inf, panels=3)
    settings_ = rule.to_settings()
    assert settings_ is not None
    assert settings_["decoys"] == "all"
    from troth.core.settings import Section
    from troth.mechanisms import read_rule

    assert read_rule(Section("mechanism", dict(settings_))) == rule


@settings(max_examples=150 if SOAK else 12, deadline=None)
@given(
    providers=st.integers(3, 8),
    panels=st.sampled_from([2, 3, 4, 8]),
    ones=st.integers(0, 10**9),
    zeros=st.integers(0, 4000),
    seed=st.integers(0, 10**6),
)
def test_no_other_provider_changes_a_share_by_more_than_one_panel(
    providers: int, panels: int, ones: int, zeros: int, seed: int
) -> None:
    """For the same seed and any report of one provider, of any size."""
    model, rng = models.Bernoulli(2, 2), generator(seed)
    counts = rng.binomial(40, rng.beta(2, 2), providers).astype(float)
    t = np.stack([counts, 40 - counts], axis=-1)
    hostile = t.copy()
    hostile[0] = ones, zeros
    rule = troth.LineUp(decoys=49, panels=panels)
    moved = np.abs(share(rule, model, t) - share(rule, model, hostile))[1:]
    assert (moved <= 1 / min(panels, providers - 1) + 1e-12).all()


@pytest.mark.parametrize("name", ["bernoulli", "normal"])
def test_decoys_are_drawn_with_the_seed_in_panels_too(name: str) -> None:
    """Each peer is a panel, so only the decoys depend on the seed, and providers must not know them."""
    model, t = FAMILIES[name], reports(name, 4, 6)
    rule, rows = troth.LineUp(decoys=19, panels=3), np.array([3.0, 2.0, 4.0, 3.0])
    shares = {tuple(share(rule, model, t, seed, rows=rows)) for seed in range(5)}
    assert len(shares) == 5


def test_a_large_round_is_split_by_the_seed_into_even_panels() -> None:
    from troth.mechanisms.panels import split

    t = reports("normal", 30, 2)
    panels = split(Round(FAMILIES["normal"], t), 4, generator(1))
    assert len(panels.provider) == 120
    members = panels.sum(np.eye(30)[None])[0]
    assert set(members.ravel()) == {0, 1}
    by_provider = members.reshape(30, 4, 30)
    assert set(by_provider.sum(axis=-1).ravel()) == {7, 8}
    assert (by_provider.sum(axis=1) == 1 - np.eye(30)).all()


def test_panels_of_groups_are_even_and_leave_out_the_group() -> None:
    from troth.mechanisms.panels import split

    groups = ["a"] * 5 + ["b"] * 2 + ["c"] * 2 + list(range(21))
    panels = split(Round(FAMILIES["normal"], reports("normal", 30, 2), groups), 4, generator(1))
    related = np.array([[first == second for second in groups] for first in groups])
    by_provider = panels.sum(np.eye(30)[None])[0].reshape(30, 4, 30)
    assert (by_provider.sum(axis=1) == ~related).all()
    assert np.ptp(by_provider.sum(axis=-1), axis=1).max() <= 1
    assert (by_provider[0] == by_provider[4]).all()


def test_the_cost_of_panels_is_linear_in_providers() -> None:
    """A mask of panels against providers would take 100 GB here."""
    from troth.mechanisms.panels import mean_over_panels, split

    model, rng = models.Bernoulli(1, 1), generator(1)
    ones = rng.binomial(40, 0.4, 100_000).astype(float)
    t = np.stack([ones, 40 - ones], axis=-1)
    panels = split(Round(model, t), 8, rng)
    sums = panels.sum(t[None])[0].reshape(100_000, 8, 2)
    assert (sums.sum(axis=1) == t.sum(axis=0) - t).all()
    assert (mean_over_panels(np.ones((1, 800_000)), panels) == 1).all()


@pytest.mark.parametrize("hostile", [(0.0, 4000.0), (1e9, 0.0)])
def test_one_hostile_provider_among_several(hostile: tuple[float, float]) -> None:
    """4,000 opposite rows, or a billion ones, among 8 × 40: with more panels, others lose less."""
    model, rng = models.Bernoulli(2, 2), generator(9)
    simulations = 60 if SOAK else 12
    rate = rng.beta(2, 2, (simulations, 1))
    ones = rng.binomial(40, rate, (simulations, 9)).astype(float)
    t = np.stack([ones, 40 - ones], axis=-1)
    attacked = t.copy()
    rows = sum(hostile)
    attacked[:, 0] = np.where(rate > 0.5, [hostile], [hostile[::-1]]) if rows < 1e6 else hostile
    lost = {}
    for panels in (1, 2, 4, 8):
        rule = troth.LineUp(decoys=99, panels=panels)
        lost[panels] = float((share(rule, model, t) - share(rule, model, attacked))[:, 1:].mean())
    print({panels: round(value, 3) for panels, value in lost.items()})
    assert lost[1] > 0.3
    assert lost[2] < 0.75 * lost[1]
    assert lost[8] < 0.25 * lost[1]
    assert all(lost[panels] <= 1 / panels for panels in lost)


def test_contradicting_peers_and_impossible_pairs() -> None:
    """Peers that contradict each other pay the empty share; a report that contradicts its peers comes last."""
    model = models.Finite([0.5, 0.5], [[0.5, 0.5, 0.0], [0.5, 0.0, 0.5]])
    t = np.stack([model.statistics(x) for x in ([0], [1], [2])])
    rule = troth.LineUp(decoys=99)
    result = rule.explain(model, t, rows=np.ones(3), rng=generator(1))
    assert result.share[0] == 0.2
    assert result.note
    pair = np.stack([model.statistics(x) for x in ([1, 1], [2, 2])])
    assert share(rule, model, pair, rows=np.full(2, 2.0)).max() < 0.2


def test_bonds_are_small() -> None:
    model, (_, t) = models.Bernoulli(2, 2), bernoulli_rounds(3)
    bonded = troth.Bonded(troth.LineUp(decoys=99))
    assert bonded.deposit(model, t, budget=10.0, rng=generator(1)) == pytest.approx(0.25)
    pay = bonded.pay(model, t, budget=10.0, rng=generator(1))
    assert (pay >= -0.25).all()
    assert (pay <= 1).all()
    t[:, 0] = 0.0
    assert bonded.pay(model, t, budget=10.0, rng=generator(1))[:, 0] == pytest.approx(0.0, abs=1e-15)


def test_later_days_are_decoys() -> None:
    model, rng = models.Bernoulli(1, 1), generator(3)
    ones = rng.binomial(20, rng.beta(1, 1, (7, 1)), (7, 4)).astype(float)
    t = np.stack([ones, 20 - ones], axis=-1)
    rule = troth.LineUp(rivals=2, decoys=3, source="days")
    payments = rule.explain(model, t, rng=generator(1))
    assert payments.share.shape == (7, 4)
    assert rule.days == 4
    for day in range(5):
        for provider in range(4):
            peers = (t.sum(axis=1) - t[:, provider])[day : day + 4]
            v = troth.log_pmi(model, t[day, provider], peers)
            above = sum(x > v[0] + 1e-9 for x in v[1:])
            tied = sum(abs(x - v[0]) <= 1e-9 for x in v[1:])
            expected = rank_share(np.array([above]), np.array([tied]), len(v) - 1, 2)[0]
            assert payments.share[day, provider] == pytest.approx(expected)
    t[3, 0] = 9.0, 12.0
    without = rule.explain(model, np.where(np.arange(4)[:, None] == 0, 0.0, t), rng=generator(1)).share
    # on day 3, and on days 0 to 2, which are compared with it, the first provider is not a peer
    np.testing.assert_array_equal(rule.explain(model, t, rng=generator(1)).share[:4, 1:], without[:4, 1:])
    assert replace(rule, exchangeable=True).explain(model, t, rng=generator(1)).share.shape == (7, 4)
    regression = FAMILIES["regression"]
    features = generator(5).standard_normal((3, 2, 5, 2))
    t = np.array([[regression.statistics((z, z[:, 0])) for z in day] for day in features])
    with pytest.raises(troth.UnequalSizesError, match="but other features on day 1"):
        troth.LineUp(rivals=1, decoys=2, source="days").explain(regression, t, rng=generator(1))


def test_unequal_days_are_reported_with_provider_rows_and_day() -> None:
    """Each provider's rows change on a different one of the compared days; features do not."""
    t = np.tile([3.0, 4.0], (5, 3, 1))
    t[2, 1], t[1, 0], t[3, 2] = [3.0, 5.0], [0.0, 0.0], [9.0, 9.0]
    rule = troth.LineUp(rivals=2, decoys=4, source="days")
    with pytest.raises(troth.UnequalSizesError) as refused:
        rule.explain(models.Bernoulli(1, 1), t, rng=generator(1))
    error = refused.value
    assert (error.provider, error.day, error.rows, error.compared) == (0, 0, (7.0, 0.0), range(5))
    assert "every day from 0 to 4: for example, provider 0 has 7 rows on day 0, but 0 on day 1;" in str(error)
    assert "features" not in str(error)
    names, days = ["Ash", "Elm", "Fir"], ["Mon", "Tue", "Wed", "Thu", "Fri"]
    assert "from Mon to Fri: for example, provider 'Ash' has 7 rows on day Mon, but 0 on day Tue" in error.in_campaign(
        names, days
    )
    assert rule.explain(models.Bernoulli(1, 1), t[:, [1, 2, 2]][[0, 1, 4, 0, 1]], rng=generator(1)).share.shape == (
        5,
        3,
    )


def test_certificates_state_what_is_proved() -> None:
    model = models.Bernoulli(1, 1)

    def verdicts(rule: troth.Rule) -> list[str]:
        certificate = troth.certify(model, [20] * 4, rule)
        risk = "truthful for every attitude to risk"
        base = f"uninformed reports earn {'at most' if getattr(rule, 'strict', 0) else 'exactly'} the empty share"
        return [certificate[name].verdict for name in (base, "truthful", risk, "sensitive")]

    assert verdicts(troth.LineUp(ties="lot")) == ["proved", "proved", "proved", "undecided"]
    assert verdicts(troth.LineUp()) == ["proved", "proved", "undecided", "undecided"]
    assert verdicts(troth.LineUp(ties="lot", strict=0.1)) == ["proved", "proved", "undecided", "proved"]
    assert verdicts(troth.LineUp(ties="lot", panels=2)) == ["proved", "proved", "undecided", "undecided"]
    assert verdicts(troth.Bonded(troth.LineUp()))[:2] == ["proved", "proved"]
    assert "keep the order" in troth.certify(model, [20] * 4, troth.LineUp())["sensitive"].text


def test_with_a_strict_part_made_up_reports_earn_less_than_empty_ones() -> None:
    """Three standard errors of 400 rounds below the empty share, which is therefore claimed as a bound."""
    rule, model, rng = troth.LineUp(decoys=49, strict=1.0), models.Bernoulli(2, 2), generator(5)
    ones = rng.binomial(20, rng.beta(2, 2, (400, 1)), (400, 3))
    t = np.zeros((400, 4, 2))
    t[:, 1:] = np.stack([ones, 20 - ones], axis=-1)
    t[:, 0] = 50, 0
    share = rule.evaluate(Round(model, t, rng=generator(6))).share[:, 0]
    assert share.mean() + 3 * share.std() / 20 < rule.line_empty_share


def test_random_tie_breaking_gives_an_empty_report_each_place_equally_often() -> None:
    """Five standard errors of 2,000 rounds, about one false alarm in a million."""
    rule, model = troth.LineUp(rivals=2, decoys=5, ties="lot"), models.Bernoulli(1, 1)
    t = np.zeros((2000, 3, 2))
    t[:, 1:] = model.statistics([1, 0, 1])
    share = rule.evaluate(Round(model, t, rng=generator(11))).share[:, 0]
    places = np.array([comb(5 - place, 2) / comb(5, 2) for place in range(6)])
    assert set(np.round(share, 12)) == set(np.round(places, 12))
    assert abs(share.mean() - 1 / 3) < 5 * share.std() / np.sqrt(len(share))
