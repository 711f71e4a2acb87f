"""Regressions whose evidence is that of a linear regression with known noise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np

from troth.core.contract import Array, Generator
from troth.models.regression import ABOVE_ANY_FIT, Regression


@dataclass(frozen=True)
class KnownNoiseRegression(Regression):
    """Θ ~ N(mean, precision⁻¹), and Λ(t) = ½ hᵀΛ⁻¹h − ½ ln det Λ with Λ = precision + G/unit², h = g/unit²."""

    @property
    def _unit(self) -> float:
        """The noise in whose units rows are counted."""
        return 1.0

    def log_evidence(self, statistics: Array, /) -> Array:
        """½ hᵀΛ⁻¹h − ½ ln det Λ."""
        t, unit = np.asarray(statistics, dtype=np.float64), self._unit**2
        posterior = self._posterior(t, unit, self._product(t), ABOVE_ANY_FIT)
        log_determinant = posterior.log_determinant - len(self.mean) * np.log(unit)
        return np.asarray(0.5 * (posterior.whitened**2).sum(axis=-1) / unit - 0.5 * log_determinant)

    def log_pmi(self, own: Array, peers: Array, both: Array | None = None, /) -> Array:
        """Log PMI with quadratic forms that do not cancel, three factorisations at most."""

        def kernel(own: Array, peers: Array, both: Array) -> Array:
            information = self._information(own, peers, both, self._unit**2, None)
            return np.asarray(0.5 * information.determinant - information.W)

        return self._in_chunks(kernel, own, peers, both)

    def line_log_pmi(self, own: Array, line: Array, /) -> Array:
        """Log PMI with many peers that have the same features."""
        return self.answer_scorer(own, line[0])(self._product(line))

    def answer_scorer(self, own: Array, peers: Array, /) -> Callable[[Array], Array]:
        """Return log PMI with peers that have the same features as a function of their h."""
        unit = self._unit**2

        def evidence(_: Array, quadratic: Array, log_determinant: Array) -> Array:
            return np.asarray(0.5 * (quadratic / unit - log_determinant))

        return lambda line: self._in_line(own, peers, line, np.zeros(2), unit, evidence)

    def posterior(self, statistics: Array, /) -> Self:
        """N(mean + Λ⁻¹h, Λ⁻¹)."""
        return self._replace(**self._posterior_prior(np.asarray(statistics, dtype=np.float64) / self._unit**2))

    def draw_parameters(self, rng: Generator, shape: tuple[int, ...] = (), /) -> Array:
        """Draw coefficients from the prior, shape ``(*shape, d)``."""
        noise = rng.standard_normal((*shape, len(self.mean)))
        return np.array(self.mean) + noise @ np.linalg.inv(self._prior_root)

    def draw_posterior(self, rng: Generator, statistics: Array, /) -> Array:
        """Draw coefficients given statistics."""
        t = np.asarray(statistics, dtype=np.float64) / self._unit**2
        return self._draw_coefficients(rng, t, np.ones(t.shape[:-1]))
