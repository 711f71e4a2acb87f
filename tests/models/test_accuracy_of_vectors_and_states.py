"""Log PMI of day types, states, vectors, offsets and regressions against 60 digits of mpmath, from their sums."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest

import troth
from registry import SOAK, generator
from troth import models
from troth.models.numerics.dispersed import draw_effect, draw_summaries

DIGITS = 60
SIZES = (1e3, 1e6, 1e9, 1e12)
TOLERANCE = 2e-9
"""Error in nats, or relative to log PMI where that is above one nat."""

PRIOR = [0.3, 0.3, 0.4]
TABLE = [[0.2, 0.3, 0.5], [0.6, 0.3, 0.1], [0.1, 0.8, 0.1]]
DAY_TYPES: list[Any] = [
    models.LatentClass(PRIOR, parameters[0], parameters[1], dispersion, *parameters[2:])
    for dispersion in (0.0, 1e-9, 1e-3, 0.08, 0.5)
    for parameters in (
        ("binary", [0.15, 0.45, 0.8]),
        ("binary", [0.299, 0.3, 0.301]),
        ("categorical", TABLE),
        ("count", [1.5, 4.0, 9.0]),
        ("count", [1500.0, 1501.0, 1503.0]),
        ("real", [2.0, 3.5, 6.0], 1.2, 3.0),
        ("real", [1002.0, 1003.5, 1006.0], 0.1),
    )
]


def log_likelihoods(model: Any, sums: Any) -> list[Any]:
    """Ln p(data|type) up to terms that all types share, as the definition has it."""
    s, delta = [mpmath.mpf(float(x)) for x in sums], mpmath.mpf(model.dispersion)
    types = []
    for mean in model.means:
        if model.outcome in ("binary", "categorical"):
            p = [1 - mpmath.mpf(mean), mpmath.mpf(mean)] if model.outcome == "binary" else [mpmath.mpf(x) for x in mean]
            if delta:
                a = [q * (1 - delta) / delta for q in p]
                types.append(sum(mpmath.loggamma(x + n) - mpmath.loggamma(x) for x, n in zip(a, s, strict=True)))
            else:
                types.append(sum(n * mpmath.log(q) for n, q in zip(s, p, strict=True)))
        elif model.outcome == "count":
            n, total, rate = *s, mpmath.mpf(mean)
            term = (total + 1 / delta) * mpmath.log1p(n * rate * delta) if delta else n * rate
            types.append(total * mpmath.log(rate) - term)
        else:
            n, total = s
            variance = delta**2 + mpmath.mpf(model.spread) ** 2 / n
            types.append(-((total / n - (mpmath.mpf(mean) - mpmath.mpf(model.centre))) ** 2) / (2 * variance))
    return types


def log_pmi_of_states(prior: Any, own: list[Any], peers: list[Any]) -> Any:
    def evidence(t: list[Any]) -> Any:
        peak = max(t)
        return peak + mpmath.log(sum(mpmath.mpf(p) * mpmath.exp(x - peak) for p, x in zip(prior, t, strict=True)))

    total = [x + y for x, y in zip(own, peers, strict=True)]
    return evidence(total) + evidence([mpmath.mpf(0)] * len(own)) - evidence(own) - evidence(peers)


def error(measured: Any, expected: Any) -> float:
    return float(abs(mpmath.mpf(float(measured)) - expected) / max(1, abs(expected)))


@pytest.mark.parametrize("rows", SIZES)
@pytest.mark.parametrize("model", DAY_TYPES, ids=lambda m: f"{m.outcome} {np.ravel(m.means)[0]} {m.dispersion}")
def test_day_types(model: Any, rows: float) -> None:
    for seed in range(10 if SOAK else 1):
        rng = generator(seed, int(np.log10(rows)), 31)
        types = model.draw_parameters(rng, (2,))[:, 0].astype(int)
        for pair in (types, [types[0], types[0]], [0, 2]):
            effects = draw_effect(model.outcome, rng, np.array(model.means)[list(pair)], model.dispersion)
            sizes = np.array([0.3 * rows, 0.7 * rows]).round()
            summaries = draw_summaries(model.outcome, rng, effects, sizes, model.spread or 0.0, model.centre)
            with mpmath.workdps(DIGITS):
                expected = log_pmi_of_states(PRIOR, *(log_likelihoods(model, s) for s in summaries))
                assert error(troth.log_pmi(model, *model.from_summary(summaries)), expected) < TOLERANCE


@pytest.mark.parametrize("outcome", ["binary", "categorical", "count", "real"])
@pytest.mark.parametrize("dispersion", [0.0, 0.2])
def test_ratios_and_what_they_leave_out_make_the_likelihood(outcome: str, dispersion: float) -> None:
    """Around the number of rows from which labels are taken relative to the likeliest type, log scores have no step."""
    parameters: Any = {
        "binary": ([0.3, 0.30001, 0.8],),
        "categorical": (TABLE,),
        "count": ([2.0, 2.00001, 9.0],),
        "real": ([2.0, 2.00001, 6.0], dispersion, 1.0),
    }[outcome]
    model: Any = models.LatentClass(PRIOR, outcome, *(parameters if outcome == "real" else (*parameters, dispersion)))
    sums: Any = {"binary": [0.7, 0.3], "categorical": [0.2, 0.3, 0.5], "count": [1.0, 2.0], "real": [1.0, 2.0, 4.4]}[
        outcome
    ]
    reduction = models.NormalUnknownVariance(0, 1, 1, 1).reduction if outcome == "real" else model.reduction
    scores = []
    for rows in (999_990.0, 1_000_000.0, 1_000_010.0):
        summary = rows * np.array(sums)
        scores.append(
            model.log_evidence(model.from_summary(reduction.convert(summary, model.reduction)))
            + model.base_measure(summary, reduction)
        )
    assert scores[2] - scores[1] == pytest.approx(scores[1] - scores[0], rel=1e-3)


@pytest.mark.parametrize("rows", SIZES)
def test_finite_states(rows: float) -> None:
    model = models.Finite(PRIOR, TABLE)
    for own, peers in ((0, 0), (1, 1), (0, 2)):
        rng = generator(own, peers, int(np.log10(rows)), 32)
        counts: Any = [rng.multinomial(int(n * rows), TABLE[k]) for n, k in ((0.3, own), (0.7, peers))]
        with mpmath.workdps(DIGITS):
            t = [
                [sum(int(n) * mpmath.log(mpmath.mpf(q)) for n, q in zip(c, row, strict=True)) for row in TABLE]
                for c in counts
            ]
            measured = troth.log_pmi(model, *(model.from_summary(c) for c in counts))
            assert error(measured, log_pmi_of_states(PRIOR, *t)) < TOLERANCE


@pytest.mark.parametrize("rows", SIZES)
@pytest.mark.parametrize("dispersion", [0.0, 1e-4, 0.7])
def test_provider_offsets(dispersion: float, rows: float) -> None:
    own, other = (models.ProviderNormal(3, 2, 1.5, offset=b, dispersion=dispersion) for b in (0.4, -1.1))
    rng = generator(int(np.log10(rows)), 33)
    theta = rng.normal(3, 2)
    sides = []
    with mpmath.workdps(DIGITS):
        summaries = []
        for model, share in ((own, 0.3), (other, 0.7)):
            n = round(share * rows)
            deviation = (
                theta - 3 + model.offset + dispersion * rng.standard_normal() + 1.5 * rng.standard_normal() / np.sqrt(n)
            )
            summaries.append(np.array([n, n * deviation]))
            count, total = (mpmath.mpf(float(x)) for x in summaries[-1])
            w = 1 / (mpmath.mpf(dispersion) ** 2 + mpmath.mpf(1.5) ** 2 / count)
            sides.append((w, w * (total / count - mpmath.mpf(model.offset))))

        def evidence(w: Any, h: Any) -> Any:
            return h**2 / (2 * (mpmath.mpf(0.25) + w)) - mpmath.log(mpmath.mpf(0.25) + w) / 2

        (w1, h1), (w2, h2) = sides
        expected = evidence(w1 + w2, h1 + h2) + evidence(0, mpmath.mpf(0)) - evidence(w1, h1) - evidence(w2, h2)
    measured = troth.log_pmi([own, other], *(m.from_summary(s) for m, s in zip((own, other), summaries, strict=True)))
    assert error(measured, expected) < (1e-7 if dispersion < 0.1 and rows > 1e6 else TOLERANCE)


def vector_evidence(model: Any, t: Any) -> Any:
    """Λ of a mean vector with known and with unknown covariance, as the definitions have it."""
    d = len(model.mean)
    n, s = t[0], mpmath.matrix(t[1 : d + 1])
    if isinstance(model, models.MultivariateNormal):
        noise = mpmath.inverse(mpmath.matrix(model.noise))
        precision = mpmath.inverse(mpmath.matrix(model.covariance)) + n * noise
        h = noise * s
        return (h.T * mpmath.lu_solve(precision, h))[0] / 2 - mpmath.log(mpmath.det(precision)) / 2
    strength, dof = model.strength + n, model.dof + n
    scale = mpmath.matrix(model.scale) + mpmath.matrix(d, d)
    for i in range(d):
        for j in range(d):
            scale[i, j] += t[1 + d + i * d + j] - s[i] * s[j] / strength
    gammas = sum(mpmath.loggamma((dof - j) / 2) for j in range(d))
    return gammas - dof / 2 * mpmath.log(mpmath.det(scale)) - mpmath.mpf(d) / 2 * mpmath.log(strength)


def regression_evidence(model: Any, t: Any) -> Any:
    """Λ of a regression with known and with unknown noise, as the definitions have it."""
    d, known = len(model.mean), isinstance(model, models.LinearRegression)
    unit = mpmath.mpf(model.noise) ** 2 if known else mpmath.mpf(1)
    precision = mpmath.matrix(model.precision) + mpmath.matrix(d, d)
    for i in range(d):
        for j in range(d):
            precision[i, j] += t[i * d + j] / unit
    h = mpmath.matrix([t[d * d + i] / unit for i in range(d)])
    fit, log_determinant = (h.T * mpmath.lu_solve(precision, h))[0], mpmath.log(mpmath.det(precision))
    if known:
        return (fit - log_determinant) / 2
    a = model.shape + t[-1] / 2
    return mpmath.loggamma(a) - a * mpmath.log(model.scale + (t[-2] - fit) / 2) - log_determinant / 2


MATRICES: list[tuple[Any, Any]] = [
    (models.MultivariateNormal([1, 2], [[2, 0.5], [0.5, 1]], [[1, 0.2], [0.2, 3]]), vector_evidence),
    (models.MultivariateNormalUnknownCovariance([1, 2], 2, 4, [[2, 0.5], [0.5, 1]]), vector_evidence),
    (models.LinearRegression([1, -2], [[2, 0.5], [0.5, 1]], 0.7), regression_evidence),
    (models.LinearRegressionUnknownNoise([1, -2], [[2, 0.5], [0.5, 1]], 3, 2), regression_evidence),
]


@pytest.mark.parametrize(
    ("model", "evidence", "rows"),
    [(*case, rows) for case in MATRICES for rows in (*SIZES, 1e7) if rows <= case[0].max_rows],
    ids=lambda value: type(value).__name__ if isinstance(value, models.Family) else None,
)
def test_vectors_and_regressions(model: Any, evidence: Any, rows: float) -> None:
    rng = generator(int(np.log10(rows)), 34)
    theta = model.draw_parameters(rng)
    sides = []
    for share in (0.3, 0.7):
        n = float(round(share * rows))
        design = n * np.array([1.0, 0.5, 0.5, 2.0, 1.0]) if model.explains_target else np.array([n])
        sides.append(model.draw_statistics(rng, theta, design))
    with mpmath.workdps(DIGITS):
        own, peers = ([mpmath.mpf(float(x)) for x in t] for t in sides)
        total = [x + y for x, y in zip(own, peers, strict=True)]
        nothing = [mpmath.mpf(0)] * len(own)
        expected = evidence(model, total) + evidence(model, nothing) - evidence(model, own) - evidence(model, peers)
        assert error(troth.log_pmi(model, *sides), expected) < TOLERANCE
