"""Measurements: a normal with known noise, and one whose mean and variance are both unknown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import floor, log10
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import gammaln

from troth.core.contract import Array, Extremes, Generator, Mask
from troth.core.reductions import Moments, Reduction
from troth.core.sensitivity import Peers
from troth.models.family import MAX_DRAW, Example, ReducesRows, scalar_parameters
from troth.models.first_guess import Column, FirstGuess, round_up
from troth.models.fitting.initial_parameters import FreeParameters, Positive, Real, day_moments, normal_parameters
from troth.models.numerics.dispersed import dispersed_mean_log_density, summaries_around
from troth.models.numerics.extremes import count_ladder
from troth.models.numerics.normal_extremes import Side, normal_extremes
from troth.models.numerics.possible_statistics import SLACK
from troth.models.numerics.predictive import log_gamma_excess
from troth.models.numerics.second_difference import binet_remainder, in_chunks, minus_product, weighted_excess
from troth.models.parameters import number, parameter, positive
from troth.models.shared.conjugate import Conjugate
from troth.models.shared.reference_noise import ReferenceNoise


@dataclass(frozen=True)
class NormalMean(ReducesRows):
    """A family whose θ ~ N(mean, scale²) is the mean of normal data with known precision.

    Statistic: (Σw, Σw(x − mean)) with weights w in units of the precision 1/unit². Λ(t) = h²/2λ − ½ ln λ with
    λ = 1/scale² + Σw/unit² and h = Σw(x − mean)/unit².
    """

    mean: float
    scale: float = field(metadata=parameter("prior standard deviation of the mean", positive, 5.0))

    theta: ClassVar[tuple[str, ...]] = ("mean of {column}",)

    @property
    def _unit(self) -> float:
        return 1.0

    @property
    def _prior_rows(self) -> float:
        """The weight of the prior."""
        return self.scale**-2

    @property
    def reduction(self) -> Reduction:
        """The number of rows and the sum of deviations from the prior mean."""
        return Moments((self.mean,))

    def log_evidence(self, statistics: Array, /) -> Array:
        """h²/2λ − ½ ln λ."""
        t = np.asarray(statistics) / self._unit**2
        precision = self.scale**-2 + t[..., 0]
        return np.asarray(t[..., 1] * (t[..., 1] / (2 * precision)) - 0.5 * np.log(precision))

    def log_pmi(self, own: Array, peers: Array, both: Array | None = None, /) -> Array:
        """½ log1p(w₁w₂/(λ_Tλ₀)) − W: a log-determinant and a quadratic form, both without cancellation."""
        prior = np.asarray(self._prior_rows)
        total = own + peers if both is None else both
        mean = total[..., 1] / (prior + total[..., 0])
        r1, r2 = (minus_product(t[..., 1], mean, t[..., 0]) - prior * mean for t in (own, peers))
        weights = own[..., 0], peers[..., 0], total[..., 0]
        return normal_log_pmi(prior, weights, mean, (r1, r2), self._unit**2)

    def peer_order(self, statistics: Array, /) -> Array:
        """Return the sum of deviations."""
        return np.asarray(statistics, dtype=np.float64)[..., 1]

    def posterior(self, statistics: Array, /) -> Self:
        """N(mean + h/λ, 1/λ)."""
        weight, h = np.asarray(statistics, dtype=np.float64) / self._unit**2
        precision = self.scale**-2 + weight
        return self._replace(mean=self.mean + h / precision, scale=precision**-0.5)

    def draw_parameters(self, rng: Generator, shape: tuple[int, ...] = (), /) -> Array:
        """Draw θ from the prior, shape ``(*shape, 1)``."""
        return rng.normal(self.mean, self.scale, size=(*shape, 1))

    def draw_posterior(self, rng: Generator, statistics: Array, /) -> Array:
        """Draw θ given statistics."""
        t = np.asarray(statistics, dtype=np.float64) / self._unit**2
        precision = self.scale**-2 + t[..., :1]
        return self.mean + t[..., 1:] / precision + rng.standard_normal(precision.shape) / np.sqrt(precision)

    one_row_suffices: ClassVar[str] = "the predictive's mean and variance determine the posterior (E1)"
    """Proof, against the paper's appendix (erratum E1). The predictive is normal with the posterior mean plus a known
    offset, and with the posterior variance plus a known noise and dispersion: it determines both. ∎
    """

    @classmethod
    def suits_reduction(cls, reduction: Reduction, /) -> bool:
        """Return whether reports sum one column of real numbers."""
        return isinstance(reduction, Moments) and reduction.columns == 1 and not reduction.support.integer


@dataclass(frozen=True)
class Normal(ReferenceNoise, NormalMean):
    """Values with unknown mean θ ~ N(mean, scale²) and known noise: x ~ N(θ, noise²).

    Statistic: (n, Σ(x − mean)). Λ(t) = h²/2λ − ½ ln λ with λ = 1/scale² + n/noise² and h = Σ(x − mean)/noise².

    In the paper's appendix PMI depends on n alone (erratum E1); in fact it depends on the values and is unbounded.
    Values are centred on the prior mean, so results stay accurate however far from zero it lies. `troth.combine` sets
    ``reference`` for providers with different noise: a row then counts as (reference/noise)² rows.

    Examples
    --------
    >>> Normal(mean=100, scale=5, noise=2).statistics([101, 104])
    array([2., 5.])
    """

    mean: float = field(metadata=parameter("prior mean", number, 20.0))
    noise: float = field(metadata=parameter("standard deviation of one value", positive, 2.0, known=True))
    reference: float | None = field(
        default=None, metadata=parameter("noise that defines the unit of rows", positive, hidden=True)
    )

    description: ClassVar[str] = "numbers with known noise"
    example: ClassVar[Example] = Example("a price that shops report", ("price",), "shop", values=(0, 200))

    @classmethod
    def suits(cls, column: Column, /) -> bool:
        """Return whether values are numbers."""
        return not column.has_text

    @classmethod
    def first_guess(cls, column: Column, /) -> FirstGuess:
        """Take centre and spread from the data, and the noise from the spread within reports."""
        x = column.numbers
        reports: dict[Any, list[float]] = {}
        for report, value in zip(column.reports, x, strict=True):
            reports.setdefault(report, []).append(value)
        within = [float(np.std(values, ddof=1)) for values in reports.values() if len(values) > 1]
        spread = round_up(float(x.std())) or 1.0
        noise = (round_up(float(np.mean(within))) if within else 0.0) or spread
        unit = 10.0 ** floor(log10(spread))
        mean = round(float(np.median(x)) / unit) * unit
        return FirstGuess({"mean": mean, "scale": spread, "noise": noise}, from_data=True)

    @property
    def _prior_rows(self) -> float:
        """The weight of the prior, in rows of the reference noise."""
        return float((self._unit / self.scale) ** 2)

    def log_pmi_extremes(self, rows: int, peers: Peers, values: tuple[float, float] | None = None, /) -> Extremes:
        """Extremes over every report of up to ``rows`` rows within the declared values."""
        low, high = (value - self.mean for value in self._declared(values))
        limits: Counter[float] = Counter()
        for model, limit in self._in_one_space(peers):
            limits[model._weight] += limit
        own, *peer_sides = (
            Side(count_ladder(limit, weight), low, high) for weight, limit in [(self._weight, rows), *limits.items()]
        )
        return Extremes(*normal_extremes(self.log_pmi, self._prior_rows, own, peer_sides))

    def paper_bounds(self, rows: int, peers: Peers, values: tuple[float, float] | None = None, /) -> Extremes:
        """Bound log PMI in closed form as in the paper's appendix, corrected for the values (erratum E1).

        log PMI = ½ log1p(n₁n₂/(λ_Tλ₀)) − W, and with values within D of the prior mean −λ₀D²/2 ≤ W ≤ 2(λ₁ + λ₂)D².
        """
        farthest = max(abs(value - self.mean) for value in self._declared(values))
        prior, unit = self.scale**-2, self._unit**2
        own = self._weight * rows / unit
        other = sum(model._weight * count for model, count in self._in_one_space(peers)) / unit
        determinant = 0.5 * np.log1p(own / prior * (other / (prior + own + other)))
        return Extremes(-2 * (2 * prior + own + other) * farthest**2, float(determinant + prior * farthest**2 / 2))

    def draw_data(self, rng: Generator, parameters: Array, rows: int, /) -> Array:
        """Draw rows of values for each mean."""
        return parameters + self.noise * rng.standard_normal((*parameters.shape[:-1], rows))

    def draw_statistics(self, rng: Generator, parameters: Array, design: Array, /) -> Array:
        """Draw (n, Σ(x − mean)) for each mean and number of rows."""
        theta, rows = scalar_parameters(parameters, design)
        noise = self.noise * np.sqrt(rows) * rng.standard_normal(rows.shape)
        return self._weight * np.stack([rows, rows * (theta - self.mean) + noise], axis=-1)

    def expected_log_evidence(self, design: Array, /) -> Array | None:
        """−½ ln(λ/λ₀): h has variance (λ − λ₀)λ/λ₀, so E[h²/2λ] = (λ/λ₀ − 1)/2 is linear in n."""
        return np.asarray(-0.5 * np.log1p(design[..., 0] * (self.scale / self.noise) ** 2))

    def base_measure(self, summaries: Array, reduction: Reduction, /) -> Array:
        """Return −½ ln(2πσ²) − (x − mean)²/2σ² for each row; without squares, for the mean of each report."""
        return dispersed_mean_log_density(summaries_around(summaries, reduction, self.mean), 0.0, self.noise)

    @classmethod
    def initial_parameters(cls, summaries: Array, reduction: Reduction, _: Mapping[str, Any], /) -> FreeParameters:
        return normal_parameters(cls.__name__, summaries, reduction)


@dataclass(frozen=True)
class NormalUnknownVariance(Conjugate, ReducesRows):
    """Values with unknown mean and variance: σ² ~ InvGamma(shape, scale), μ | σ² ~ N(mean, σ²/strength).

    Statistic: (n, Σ(x − mean), Σ(x − mean)²). Λ(t) = lnΓ(A) − A ln B − ½ ln λ with A = shape + n/2,
    λ = strength + n and B = scale + ½(Σ(x − mean)² − (Σ(x − mean))²/λ).

    Examples
    --------
    >>> NormalUnknownVariance(mean=10, strength=1, shape=2, scale=2).statistics([11, 8])
    array([ 2., -1.,  5.])
    """

    mean: float = field(metadata=parameter("prior mean", number, 10.0))
    strength: float = field(metadata=parameter("weight of the prior mean, in rows", positive, 0.5))
    shape: float = field(metadata=parameter("prior shape of the variance", positive, 3.0))
    scale: float = field(metadata=parameter("prior scale of the variance", positive, 4.0))

    description: ClassVar[str] = "numbers with unknown noise"
    example: ClassVar[Example] = Example("a length whose spread is unknown too", ("length",), "bench")
    theta: ClassVar[tuple[str, ...]] = ("mean of {column}", "variance of {column}")

    @property
    def reduction(self) -> Reduction:
        """The number of rows, the sum of deviations from the prior mean and of their squares."""
        return Moments((self.mean,), squares=True)

    possible_statistics: ClassVar[str] = "n·Σx² is at least (Σx)², and equal to it for one row"

    def possible(self, statistics: Array, /) -> Mask:
        """Return where n·Σx² ≥ (Σx)², which is an equality for one row."""
        n, total, squares = np.moveaxis(np.asarray(statistics, dtype=np.float64), -1, 0)
        left, right = n * squares, total * total
        return np.asarray((squares >= 0) & (left >= right * (1 - SLACK)) & ((n > 1) | (left * (1 - 2e-6) <= right)))

    def _posterior_parameters(self, statistics: Array) -> dict[str, Array]:
        """Normal-inverse-gamma with λ, A and B."""
        n, total, squares = np.moveaxis(statistics, -1, 0)
        strength = self.strength + n
        scale = self.scale + 0.5 * np.maximum(squares - total * (total / strength), 0.0)
        return {
            "mean": self.mean + total / strength,
            "strength": strength,
            "shape": self.shape + 0.5 * n,
            "scale": scale,
        }

    @staticmethod
    def _log_integral(*, mean: Array, strength: Array, shape: Array, scale: Array) -> Array:
        """lnΓ(A) − A ln B − ½ ln λ."""
        return np.asarray(gammaln(shape) - shape * np.log(scale) - 0.5 * np.log(strength))

    @staticmethod
    def _draw(rng: Generator, *, mean: Array, strength: Array, shape: Array, scale: Array) -> Array:
        """Draw (mean, variance)."""
        variance = draw_variance(rng, shape, scale)
        return np.stack([mean + np.sqrt(variance / strength) * rng.standard_normal(variance.shape), variance], axis=-1)

    def log_pmi(self, own: Array, peers: Array, both: Array | None = None, /) -> Array:
        """Log PMI in a form that stays accurate for any number of rows.

        Around m = μ_T, with r = Σ(x − m) − λ₀m and Q = Σ(x − m)² + λ₀m², each formed without cancellation,
        B = scale + ½(Q − r²/λ), and W = ½(r₁²/λ₁ + r₂²/λ₂ − λ₀m²) is stationary in m. Where the prior mean is closer
        to the data than m, B is computed around the prior mean.
        """
        prior = np.asarray(self.strength)

        def kernel(own: Array, peers: Array, both: Array) -> Array:
            mean = both[..., 1] / (prior + both[..., 0])
            anchor = prior * mean * mean
            sides, W = [], -0.5 * anchor
            for t in (own, peers):
                deviation = minus_product(t[..., 1], mean, t[..., 0])
                Q = minus_product(t[..., 2], mean, t[..., 1]) - mean * deviation + anchor
                shrunk = (deviation - prior * mean) ** 2 / (prior + t[..., 0])
                direct = t[..., 2] - t[..., 1] * (t[..., 1] / (prior + t[..., 0]))
                spread = np.maximum(np.where(t[..., 2] < Q, direct, Q - shrunk), 0.0)
                sides.append((self.shape + 0.5 * t[..., 0], self.scale + 0.5 * spread))
                W = W + 0.5 * shrunk
            determinant = np.log1p((own[..., 0] / prior) * (peers[..., 0] / (prior + both[..., 0])))
            prior_variance = np.array([self.shape]), np.array([self.scale])
            information = unknown_variance_log_pmi(
                W, determinant, prior_variance, sides[0], sides[1], self.shape + 0.5 * both[..., 0]
            )
            return zero_where_empty(information, own[..., 0], peers[..., 0])

        return in_chunks(kernel, own, peers, both)

    def draw_data(self, rng: Generator, parameters: Array, rows: int, /) -> Array:
        """Draw rows of values for each mean and variance."""
        mean, variance = parameters[..., :1], parameters[..., 1:]
        return mean + np.sqrt(variance) * rng.standard_normal((*parameters.shape[:-1], rows))

    def draw_statistics(self, rng: Generator, parameters: Array, design: Array, /) -> Array:
        """Draw (n, Σ(x − mean), Σ(x − mean)²): a normal sum and an independent chi-square scatter."""
        mean, rows = scalar_parameters(parameters, design)
        variance = np.broadcast_to(parameters[..., 1], rows.shape)
        total = rows * (mean - self.mean) + np.sqrt(variance * rows) * rng.standard_normal(rows.shape)
        spread = 2 * variance * rng.standard_gamma(np.maximum(rows - 1, 0) / 2)
        return np.stack([rows, total, spread + total**2 / np.maximum(rows, 1)], axis=-1)

    def expected_log_evidence(self, design: Array, /) -> Array | None:
        """S(A) − ½ ln(λ/λ₀): scale/B is Beta(shape, n/2), so E ln B = ln scale + ψ(A) − ψ(shape)."""
        rows = design[..., 0]
        return np.asarray(log_gamma_excess(self.shape + rows / 2) - 0.5 * np.log1p(rows / self.strength))

    one_row_suffices: ClassVar[str] = "degrees of freedom, location and scale of one row determine it"
    """Proof. The predictive is Student's t with 2A degrees of freedom, A = shape + n/2, which gives n and with it λ;
    its location is the posterior mean and its squared scale B(λ + 1)/(Aλ), which gives B. ∎
    """

    def base_measure(self, summaries: Array, _: Reduction, /) -> Array:
        """Return −½ ln 2π for each row."""
        return np.asarray(-summaries[..., 0] / 2 * np.log(2 * np.pi))

    @classmethod
    def initial_parameters(cls, summaries: Array, reduction: Reduction, _: Mapping[str, Any], /) -> FreeParameters:
        days = day_moments(cls.__name__, summaries, reduction)
        return {
            "mean": Real(days.centre[0], np.sqrt(days.between[0])),
            "strength": Positive(days.strength[0]),
            "shape": Positive(3.0),
            "scale": Positive(2 * days.noise[0] ** 2),
        }


def draw_variance(rng: Generator, shape: Array, scale: Array) -> Array:
    """Draw from an inverse gamma, bounded so that squares do not overflow."""
    return np.asarray(scale / np.maximum(rng.standard_gamma(shape), scale / MAX_DRAW))


def normal_log_pmi(
    prior: Array, rows: tuple[Array, Array, Array], mean: Array, gaps: tuple[Array, Array], unit: float
) -> Array:
    """Log PMI of a normal mean whose prior, centred on 0, is worth ``prior`` rows; ``rows`` of own, peers and both.

    ½ log1p(n₁n₂/(λ_Tλ₀)) − W with W = ½(r₁²/λ₁ + r₂²/λ₂ − λ₀m²)/noise², r = Σ(x − m) − λ₀m and m = μ_T: minus half
    the second difference of λμ². W is stationary in m, so rounding of m does no harm if r is exact.
    """
    (n1, n2, nT), (r1, r2) = rows, gaps
    determinant = np.log1p((n1 / prior) * (n2 / (prior + nT)))
    W = (r1**2 / (prior + n1) - prior * mean**2) + r2**2 / (prior + n2)
    return zero_where_empty(0.5 * (determinant - W / unit), n1, n2)


def unknown_variance_log_pmi(
    W: Array,
    determinant: Array,
    prior: tuple[Array, Array],
    own: tuple[Array, Array],
    peers: tuple[Array, Array],
    AT: Array,
) -> Array:
    """Log PMI from W = B_T + B₀ − B₁ − B₂, −Δ² ln det, the (shape, rate) of three inverse gammas and the fourth shape.

    With v = B/A: −Δ²(A ln v) = ΣA·L(v/v_T − 1) − W/v_T over own, peers and (negatively) prior, L(r) = log1p(r) − r.
    """
    (A0, B0), (A1, B1), (A2, B2) = prior, own, peers
    v_T = ((B1 - B0) + B2 + W) / AT

    def part(A: Array, B: Array) -> Array:
        v = B / A
        return weighted_excess(A, (v - v_T) / v_T, lambda: (v_T - v) / v)

    R0, R1, R2, RT = (binet_remainder(A) for A in (A0, A1, A2, AT))
    leading = (part(*own) - part(*prior)) + part(*peers) - W / v_T
    lower = 0.5 * np.log1p(((A1 - A0) / A0) * ((A2 - A0) / AT)) + ((RT - R2) - (R1 - R0))
    return np.asarray(leading + lower + 0.5 * determinant)


def zero_where_empty(information: Array, own_rows: Array, peer_rows: Array) -> Array:
    """Return exactly 0 where a dataset is empty, because it carries no information."""
    return np.where((own_rows == 0) | (peer_rows == 0), 0.0, information)
