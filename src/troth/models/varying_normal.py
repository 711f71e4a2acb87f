"""Measurements by providers that differ, in their means and in the spread of their rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from troth.core.contract import Array, Extremes, Generator, Mask
from troth.core.reductions import Moments, Reduction
from troth.core.sensitivity import Peers
from troth.models.family import Example
from troth.models.first_guess import Column, FirstGuess
from troth.models.fitting.initial_parameters import FreeParameters, normal_parameters
from troth.models.normal import Normal
from troth.models.numerics.dispersed import summaries_around
from troth.models.numerics.possible_statistics import SLACK
from troth.models.numerics.spread_grid import CHANCE_OF_NO_SPREAD
from troth.models.parameters import number, parameter, positive
from troth.models.shared.varying_providers import BORROWED_ROWS, RandomEffects, differ_parameter


@dataclass(frozen=True)
class VaryingNormal(RandomEffects):
    """Values of providers whose means differ: a provider's mean is N(μ, τ²), and both μ and τ are unknown.

    μ ~ N(mean, scale²); τ is 0 or up to thirty times the noise. Given the spread s of its rows, the mean of a
    provider's n rows is N(μ, τ² + s²/n), where s² = (3·noise² + Σ(x − x̄)²)/(3 + n − 1) is estimated from the rows and
    not paid for by itself. For n normal rows this is the usual model, except that a normal replaces Student's t, which
    matters below ten rows. At τ = 0 it is `Normal`, with a noise for each provider.

    The summary (n, Σ(x − mean), Σ(x − mean)²) adds over rows. The statistic is a normal log-likelihood of μ for each τ.

    Providers' means differ by up to a tenth of the noise if ``differ`` is ``"little"``, and up to three tenths if it is
    ``"some"``.

    Examples
    --------
    >>> import troth
    >>> model = VaryingNormal(mean=100, scale=20, noise=5)
    >>> own, peers = model.statistics([101, 104, 99]), model.statistics([102, 97]) + model.statistics([103, 98])
    >>> round(float(troth.log_pmi(model, own, peers)), 3)
    1.743
    """

    mean: float = field(metadata=parameter("roughly where the mean lies", number, 20.0))
    scale: float = field(metadata=parameter("how far off that may be", positive, 10.0))
    noise: float = field(metadata=parameter("roughly how far a provider's rows scatter", positive, 2.0))
    differ: str = field(default="any", metadata=differ_parameter("up to thirty times the noise"))

    description: ClassVar[str] = "numbers, from providers that differ"
    example: ClassVar[Example] = Normal.example
    theta: ClassVar[tuple[str, ...]] = ("mean of {column}", "spread of providers' means")
    min_spread: ClassVar[float] = 0.1
    max_spread: ClassVar[float] = 30.0

    suits = Normal.suits

    @classmethod
    def first_guess(cls, column: Column, /) -> FirstGuess:
        """Guess as `Normal` does, with twice its scale.

        Decoys have means from the prior. A prior that is guessed from the data is centred on the real peers, and the
        narrower it is, the less an honest report distinguishes them from decoys.
        """
        guess = Normal.first_guess(column)
        return replace(guess, parameters={**guess.parameters, "scale": 2 * guess.parameters["scale"]})

    _coefficients = 1

    @property
    def _spreads_of_prior(self) -> Array:
        return self._grid.nodes * (self.noise / self.scale)

    @property
    def reduction(self) -> Reduction:
        """The number of rows, the sum of deviations from the prior mean and of their squares."""
        return Moments((self.mean,), squares=True)

    def _precision(self, rows: Array, squares: Array) -> Array:
        """Return the precision n/s² of the mean of ``rows`` rows, given their squared deviations from it."""
        freedom = BORROWED_ROWS + np.maximum(rows - 1, 0.0)
        return np.asarray(rows * freedom / (BORROWED_ROWS * self.noise**2 + squares))

    def from_summary(self, summary: Array, /) -> Array:
        """Map a summary to a normal log-likelihood of μ for each spread."""
        s = np.asarray(summary, dtype=np.float64)
        average = s[..., 1] / np.maximum(s[..., 0], 1.0)
        precision = self._precision(s[..., 0], np.maximum(s[..., 2] - s[..., 1] * average, 0.0))
        unit = precision * self.scale**2
        t = self._integrated(s[..., 0], unit[..., None, None], (unit * average / self.scale)[..., None])
        return self._limited(t, s)

    def _recomputed(self, statistics: Array) -> tuple[Array, Mask]:
        recomputed, valid = super()._recomputed(statistics)
        rows, precision = statistics[..., 0], self.design(statistics)[..., 1]
        return recomputed, valid & (precision <= self._precision(rows, np.zeros(())) * self.scale**2 * (1 + SLACK))

    def log_pmi_extremes(self, rows: int, peers: Peers, values: tuple[float, float] | None = None, /) -> Extremes:
        """Bounds over every report of up to ``rows`` rows within the declared values.

        With u the deviation of a report's mean from the prior's and w its precision, in units of the prior, its
        likelihood is at most e^{wu²/2} times that at the prior mean. So log PMI ≤ wu²/2 − Λ(own) + Λ(0), maximised over
        w and u; by the part of Λ(own + peers) without spread log PMI ≥ ln P(no spread) − ½ log1p(W) − ½WD², where W is
        the largest total precision and D the largest deviation. ∎
        """
        low, high = ((value - self.mean) / self.scale for value in self._declared(values))
        limits = np.array([rows, *(n for _, n in self._in_one_space(peers))], dtype=np.float64)
        precisions = self._precision(limits, np.zeros(limits.shape)) * self.scale**2
        w, u = np.meshgrid(np.append(0.0, np.geomspace(1e-6, 1, 40)) * precisions[0], np.linspace(low, high, 41))
        t = self._integrated(np.ones(w.shape), w[..., None, None], (w * u)[..., None])
        upper = (w * u**2 / 2 - self.log_evidence(t)).max() + self.log_evidence(np.zeros(t.shape[-1]))
        W, D = float(np.sum(precisions)), max(abs(low), abs(high))
        lower = np.log(CHANCE_OF_NO_SPREAD) - 0.5 * np.log1p(W) - 0.5 * W * D**2
        return Extremes(float(lower), float(upper) + 0.01)

    def plan(self, rows: Any, /) -> Array:
        """Return the design of a report of ``rows`` rows with the declared noise."""
        count = super().plan(rows)[..., 0]
        return self._design(count, (count * (self.scale / self.noise) ** 2)[..., None, None])

    def draw_parameters(self, rng: Generator, shape: tuple[int, ...] = (), /) -> Array:
        """Draw (μ, τ) from the prior, shape ``(*shape, 2)``."""
        mean = rng.normal(self.mean, self.scale, size=shape)
        return np.stack([mean, self.noise * self._draw_spread(rng, shape)], axis=-1)

    def draw_posterior(self, rng: Generator, statistics: Array, /) -> Array:
        """Draw (μ, τ) given statistics."""
        gamma, spread = self._draw_posterior(rng, statistics)
        return np.stack([self.mean + self.scale * gamma[..., 0], self.noise * spread], axis=-1)

    def draw_data(self, rng: Generator, parameters: Array, rows: int, /) -> Array:
        """Draw rows of values for each (μ, τ): first their scatter, then their mean given the scatter."""
        scatter = rng.standard_normal((*parameters.shape[:-1], rows)) * self.noise
        if rows == 0:
            return scatter
        scatter -= scatter.mean(axis=-1, keepdims=True)
        precision = self._precision(np.asarray(float(rows)), (scatter**2).sum(axis=-1))
        deviation = np.sqrt(parameters[..., 1] ** 2 + 1 / precision)
        mean = parameters[..., 0] + deviation * rng.standard_normal(precision.shape)
        return np.asarray(mean[..., None] + scatter)

    def draw_statistics(self, rng: Generator, parameters: Array, design: Array, /) -> Array:
        """Draw statistics for each (μ, τ) and precision of the mean."""
        gamma = (parameters[..., :1] - self.mean) / self.scale
        return self._draw_statistics(rng, gamma, parameters[..., 1] / self.scale, design)

    one_row_suffices: ClassVar[str] = "the predictive is a mixture of normals with increasing variances"
    """Proof. Given the report, a peer's mean is a mixture over τ of normals. Their variances Var(μ|τ, report) + τ² +
    s²/n increase strictly in τ, because the variance of μ does, so no two components are equal. Finite mixtures of
    different normals are identifiable: the predictive determines each component's weight p(τ|report), mean and
    variance, and with them the posterior. ∎
    """

    def base_measure(self, summaries: Array, reduction: Reduction, /) -> Array:
        """Return the log-density of a report at μ = mean and τ = 0."""
        s = summaries_around(summaries, reduction, self.mean)
        n = np.maximum(s[..., 0], 1.0)
        squares = np.maximum(s[..., 2] - s[..., 1] ** 2 / n, 0.0)
        precision = self._precision(n, squares)
        mean_part = 0.5 * np.log(precision / (2 * np.pi * n)) - precision * (s[..., 1] / n) ** 2 / 2
        scatter_part = -(n - 1) / 2 * np.log(2 * np.pi * self.noise**2) - squares / (2 * self.noise**2)
        return np.where(s[..., 0] > 0, mean_part + scatter_part, 0.0)

    @classmethod
    def initial_parameters(cls, summaries: Array, reduction: Reduction, _: Mapping[str, Any], /) -> FreeParameters:
        return normal_parameters(cls.__name__, summaries, reduction)
