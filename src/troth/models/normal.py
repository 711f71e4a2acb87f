"""Measurements: a normal mean with known noise, and mean and variance both unknown."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import gammaln, psi

from troth.errors import UnboundedRangeError
from troth.model import Extremes
from troth.models.extremes import ray_extremes
from troth.models.family import Family, scalar_parameters
from troth.models.second_difference import binet_remainder, log_ratio_excess

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from troth.model import Array, Generator, Model
    from troth.models.predictive import Exact


@dataclass(frozen=True)
class Normal(Family):
    """Values with unknown mean θ ~ N(mean, scale²) and known noise: x ~ N(θ, noise²).

    Statistic: (n, Σ(x − mean)). Λ(t) = h²/2λ − ½ ln λ with λ = 1/scale² + n/noise² and h = Σ(x − mean)/noise².

    The paper's appendix has a PMI that depends on n alone (erratum E1): it depends on the values, and is unbounded.

    Parameters
    ----------
    mean, scale
        Mean and standard deviation of the prior; values are centred on this mean, which costs no digits
        however far from zero it lies.
    noise
        Standard deviation of one value.
    reference
        The noise in whose units rows are counted, if several providers with different noise are combined: a row
        counts (reference/noise)² rows. `troth.combine` sets it; by default a row counts as one.

    Examples
    --------
    >>> Normal(mean=100, scale=5, noise=2).statistics([101, 104])
    array([2., 5.])
    """

    mean: float
    scale: float
    noise: float
    reference: float | None = None

    def __post_init__(self) -> None:
        self._finite("mean")
        self._positive("scale")
        self._positive("noise")
        if self.reference is not None:
            self._positive("reference")

    @property
    def _unit(self) -> float:
        return self.noise if self.reference is None else self.reference

    @property
    def _weight(self) -> float:
        """How many rows of the reference noise one row is worth."""
        return (self._unit / self.noise) ** 2

    def statistics(self, data: Any, /) -> Array:
        """Count the rows and sum the deviations from the prior mean along the last axis."""
        x = self.support.check(data) - self.mean
        return self._weight * np.stack([np.full(x.shape[:-1], float(x.shape[-1])), x.sum(axis=-1)], axis=-1)

    def log_evidence(self, statistics: Array, /) -> Array:
        """h²/2λ − ½ ln λ."""
        t = np.asarray(statistics) / self._unit**2
        precision = self.scale**-2 + t[..., 0]
        return np.asarray(t[..., 1] ** 2 / (2 * precision) - 0.5 * np.log(precision))

    def log_pmi(self, own: Array, peers: Array, both: Array | None = None, /) -> Array:
        """½ log1p(n₁n₂/(λ_Tλ₀)) − W: log-determinant and quadratic form, neither of which cancels."""
        one, two = own / self._unit**2, peers / self._unit**2
        total = one + two if both is None else both / self._unit**2
        return normal_log_pmi(
            self.scale**-2,
            *((t[..., 0], t[..., 1]) for t in (one, two, total)),
        )

    def rows(self, statistics: Array, /) -> Array:
        """Count the rows, whatever their weight."""
        return np.asarray(statistics, dtype=np.float64)[..., 0] / self._weight

    @property
    def space(self) -> Mapping[str, object]:
        """Family, prior and the noise in whose units rows are counted."""
        return {"family": "Normal", "mean": self.mean, "scale": self.scale, "reference noise": self._unit}

    def in_space_of(self, reference: Model, /) -> Model:
        """Return this law with its rows counted in units of the reference's noise."""
        if isinstance(reference, Normal) and (self.mean, self.scale) == (reference.mean, reference.scale):
            return dataclasses.replace(self, reference=reference._unit)
        return super().in_space_of(reference)

    def log_pmi_extremes(
        self, rows: int, peers: Sequence[tuple[Model, int]], values: tuple[float, float] | None = None, /
    ) -> Extremes:
        """Extremes over every report of up to so many rows within the declared values."""
        low, high = (value - self.mean for value in self._declared(values))
        own, peer = ((_effective_counts(part), low, high) for part in ([(self._weight, rows)], self._weights(peers)))
        prior = (self._unit / self.scale) ** 2
        return Extremes(*ray_extremes(self.log_pmi, (prior, 0.0), own, peer, integer=False))

    def paper_bounds(
        self, rows: int, peers: Sequence[tuple[Model, int]], values: tuple[float, float] | None = None, /
    ) -> Extremes:
        """Bound log PMI in closed form as in the paper's appendix, corrected for the values (erratum E1).

        log PMI = ½ log1p(n₁n₂/(λ_Tλ₀)) − W, and with values within D of the prior mean −λ₀D²/2 ≤ W ≤ 2(λ₁ + λ₂)D².
        """
        reach = max(abs(value - self.mean) for value in self._declared(values))
        prior, unit = self.scale**-2, self._unit**2
        own = self._weight * rows / unit
        other = sum(weight * count for weight, count in self._weights(peers)) / unit
        determinant = 0.5 * np.log1p(own / prior * (other / (prior + own + other)))
        return Extremes(-2 * (2 * prior + own + other) * reach**2, float(determinant + prior * reach**2 / 2))

    def _weights(self, peers: Sequence[tuple[Model, int]]) -> list[tuple[float, int]]:
        """Return what a row of each peer is worth, and its row limit."""
        weights = []
        for other, rows in peers:
            if not isinstance(other, Normal) or other.space != self.space:
                raise UnboundedRangeError(f"no range is known for {self!r} beside {other!r}")
            weights.append((other._weight, rows))
        return weights

    def draw_parameters(self, rng: Generator, shape: tuple[int, ...] = (), /) -> Array:
        """Draw means from the prior, shape ``(*shape, 1)``."""
        return rng.normal(self.mean, self.scale, size=(*shape, 1))

    def draw_data(self, rng: Generator, parameters: Array, rows: int, /) -> Array:
        """Draw rows of values for each mean."""
        return parameters + self.noise * rng.standard_normal((*parameters.shape[:-1], rows))

    def draw_statistics(self, rng: Generator, parameters: Array, design: Array, /) -> Array:
        """Draw (n, Σ(x − mean)) for each mean and number of rows."""
        theta, rows = scalar_parameters(parameters, design)
        noise = self.noise * np.sqrt(rows) * rng.standard_normal(rows.shape)
        return self._weight * np.stack([rows, rows * (theta - self.mean) + noise], axis=-1)

    def expected_log_evidence(self, design: Array, /) -> Exact:
        """E[Λ]: h has variance (λ − λ₀)λ/λ₀, so E[h²/2λ] = (λ/λ₀ − 1)/2."""
        added = design[..., 0] / self.noise**2
        return np.asarray(added * self.scale**2 / 2 - 0.5 * np.log(self.scale**-2 + added))


@dataclass(frozen=True)
class NormalUnknownVariance(Family):
    """Values with unknown mean and variance: σ² ~ InvGamma(shape, scale), μ | σ² ~ N(mean, σ²/strength).

    Statistic: (n, Σ(x − mean), Σ(x − mean)²). Λ(t) = lnΓ(A) − A ln B − ½ ln λ with A = shape + n/2,
    λ = strength + n and B = scale + ½(Σ(x − mean)² − (Σ(x − mean))²/λ).

    Parameters
    ----------
    mean
        Prior mean; values are centred on it.
    strength
        How many rows the prior mean is worth, above 0.
    shape, scale
        Of the inverse gamma prior on the variance, above 0; its mean is scale/(shape − 1) if shape > 1.

    Examples
    --------
    >>> NormalUnknownVariance(mean=10, strength=1, shape=2, scale=2).statistics([11, 8])
    array([ 2., -1.,  5.])
    """

    mean: float
    strength: float
    shape: float
    scale: float

    def __post_init__(self) -> None:
        self._finite("mean")
        for name in ("strength", "shape", "scale"):
            self._positive(name)

    def statistics(self, data: Any, /) -> Array:
        """Count the rows and sum deviations from the prior mean and their squares along the last axis."""
        x = self.support.check(data) - self.mean
        return np.stack([np.full(x.shape[:-1], float(x.shape[-1])), x.sum(axis=-1), (x * x).sum(axis=-1)], axis=-1)

    def log_evidence(self, statistics: Array, /) -> Array:
        """lnΓ(A) − A ln B − ½ ln λ."""
        A, B, precision, _ = self._posterior(np.asarray(statistics))
        return np.asarray(gammaln(A) - A * np.log(B) - 0.5 * np.log(precision))

    def log_pmi(self, own: Array, peers: Array, both: Array | None = None, /) -> Array:
        """Log PMI in a form that keeps its digits at any number of rows."""
        total = own + peers if both is None else both
        one, two, joint = (self._posterior(t) for t in (own, peers, total))
        prior = self._posterior(np.zeros(3))
        W = 0.5 * _quadratic_second_difference(*((m, p) for _, _, p, m in (prior, one, two, joint)))
        determinant = np.log1p((own[..., 0] / prior[2]) * (peers[..., 0] / joint[2]))
        return unknown_variance_log_pmi(W, determinant, *((A, B) for A, B, _, _ in (prior, one, two, joint)))

    def _posterior(self, t: Array) -> tuple[Array, Array, Array, Array]:
        """Shape A, rate B, precision λ and mean (relative to the prior mean) of the posterior."""
        precision = self.strength + t[..., 0]
        mean = t[..., 1] / precision
        rate = self.scale + 0.5 * (t[..., 2] - t[..., 1] * mean)
        return self.shape + 0.5 * t[..., 0], rate, precision, mean

    def draw_parameters(self, rng: Generator, shape: tuple[int, ...] = (), /) -> Array:
        """Draw (mean, variance) from the prior, shape ``(*shape, 2)``."""
        variance = self.scale / rng.standard_gamma(self.shape, size=shape)
        mean = self.mean + np.sqrt(variance / self.strength) * rng.standard_normal(shape)
        return np.stack([mean, variance], axis=-1)

    def draw_data(self, rng: Generator, parameters: Array, rows: int, /) -> Array:
        """Draw rows of values for each mean and variance."""
        mean, variance = parameters[..., :1], parameters[..., 1:]
        return mean + np.sqrt(variance) * rng.standard_normal((*parameters.shape[:-1], rows))

    def draw_statistics(self, rng: Generator, parameters: Array, design: Array, /) -> Array:
        """Draw (n, Σ(x − mean), Σ(x − mean)²): a normal sum and an independent chi-square spread around it."""
        mean, rows = scalar_parameters(parameters, design)
        variance = np.broadcast_to(parameters[..., 1], rows.shape)
        total = rows * (mean - self.mean) + np.sqrt(variance * rows) * rng.standard_normal(rows.shape)
        spread = 2 * variance * rng.standard_gamma(np.maximum(rows - 1, 0) / 2)
        return np.stack([rows, total, spread + total**2 / np.maximum(rows, 1)], axis=-1)

    def expected_log_evidence(self, design: Array, /) -> Exact:
        """E[Λ]: scale/B is Beta(shape, n/2), so E ln B = ln scale + ψ(A) − ψ(shape)."""
        rows = design[..., 0]
        A = self.shape + rows / 2
        expected_log_rate = np.log(self.scale) + psi(A) - psi(self.shape)
        return np.asarray(gammaln(A) - A * expected_log_rate - 0.5 * np.log(self.strength + rows))


def _effective_counts(weights: Sequence[tuple[float, int]]) -> Array:
    """Return the numbers of rows that providers with (weight, row limit) may have in all, in rows of the reference."""
    limits: dict[float, int] = {}
    for weight, rows in (pair for pair in weights if pair[1]):
        limits[weight] = limits.get(weight, 0) + rows
    if len(limits) <= 1:
        return np.concatenate([weight * np.arange(rows + 1.0) for weight, rows in limits.items()] or [np.zeros(1)])
    total = sum(weight * rows for weight, rows in limits.items())
    return np.linspace(0.0, total, 1001)


def normal_log_pmi(
    prior: float | Array, own: tuple[Array, Array], peers: tuple[Array, Array], both: tuple[Array, Array]
) -> Array:
    """Log PMI of a normal mean with prior precision λ₀ around 0, from the data's precision and weighted deviation."""
    (n1, h1), (n2, h2), (nT, hT) = own, peers, both
    p0 = np.asarray(prior)
    posteriors = [
        (np.zeros_like(p0), p0),
        *((h / (p0 + n), p0 + n) for n, h in ((n1, h1), (n2, h2), (nT, hT))),
    ]
    determinant = np.log1p((n1 / p0) * (n2 / (p0 + nT)))
    return np.asarray(0.5 * (determinant - _quadratic_second_difference(*posteriors)))


def unknown_variance_log_pmi(
    W: Array,
    determinant: Array,
    prior: tuple[Array, Array],
    own: tuple[Array, Array],
    peers: tuple[Array, Array],
    both: tuple[Array, Array],
) -> Array:
    """Log PMI from W = B_T + B₀ − B₁ − B₂, −Δ² ln det, and the (shape, rate) of four inverse gammas.

    With v = B/A: −Δ²(A ln v) = ΣA·L(v/v_T − 1) − W/v_T over own, peers and (negatively) prior, L(r) = log1p(r) − r.
    """
    v_T = both[1] / both[0]

    def part(A: Array, B: Array) -> Array:
        v = B / A
        return A * log_ratio_excess((v - v_T) / v_T, (v_T - v) / v)

    shapes = [pair[0] for pair in (prior, own, peers, both)]
    A0, A1, A2, AT = shapes
    R0, R1, R2, RT = (binet_remainder(np.atleast_1d(A)).reshape(np.shape(A)) for A in shapes)
    leading = (part(*own) - part(*prior)) + part(*peers) - W / v_T
    lower = 0.5 * np.log1p(((A1 - A0) / A0) * ((A2 - A0) / AT)) + ((RT - R2) - (R1 - R0))
    return np.asarray(leading + lower + 0.5 * determinant)


def _quadratic_second_difference(
    prior: tuple[Array, Array],
    own: tuple[Array, Array],
    peers: tuple[Array, Array],
    both: tuple[Array, Array],
) -> Array:
    """λ₁(μ₁−μ_T)² + λ₂(μ₂−μ_T)² − λ₀(μ₀−μ_T)²: minus the second difference of λμ², without its cancellation."""
    mean = both[0]
    parts = [precision * (m - mean) ** 2 for m, precision in (prior, own, peers)]
    return (parts[1] - parts[0]) + parts[2]
