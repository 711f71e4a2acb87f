"""Base classes of families with conjugate priors."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Self

import numpy as np
from scipy.special import betaln, gammaln

from troth.core.contract import Array, Generator
from troth.models.family import MAX_DRAW, Family


class Conjugate(Family):
    """A family whose posterior has the same form as its prior.

    A subclass defines the posterior's parameters given statistics, the log normalising integral of its density, and
    how to draw θ. That logarithm, for the posterior, is Λ(t): the prior's cancels in log PMI. The prior's parameters
    are all hyper-parameters except those declared as known.
    """

    def _posterior_parameters(self, statistics: Array) -> dict[str, Array]:
        """Return the posterior's parameters, each with the leading axes of the statistics."""
        raise NotImplementedError

    _log_integral: ClassVar[Callable[..., Array]]
    """Ln of the integral over θ of the unnormalised density with these parameters."""

    _draw: ClassVar[Callable[..., Array]]
    """Draws θ, ``(..., parameter)``, given a generator and these parameters."""

    def log_evidence(self, statistics: Array, /) -> Array:
        """Ln of the integral of the posterior's unnormalised density."""
        return np.asarray(self._log_integral(**self._posterior_parameters(np.asarray(statistics, dtype=np.float64))))

    def posterior(self, statistics: Array, /) -> Self:
        """Return the family with the posterior's parameters as its prior's."""
        return self._replace(**self._posterior_parameters(np.asarray(statistics, dtype=np.float64)))

    def draw_parameters(self, rng: Generator, shape: tuple[int, ...] = (), /) -> Array:
        """Draw θ from the prior, shape ``(*shape, parameter)``."""
        prior = {
            parameter.name: np.array(getattr(self, parameter.name))
            for parameter in self.parameters()
            if not parameter.known
        }
        return self._draw(rng, **{name: np.broadcast_to(x, (*shape, *x.shape)) for name, x in prior.items()})

    def draw_posterior(self, rng: Generator, statistics: Array, /) -> Array:
        """Draw θ given statistics."""
        return np.asarray(self._draw(rng, **self._posterior_parameters(np.asarray(statistics, dtype=np.float64))))


class BetaPrior(Conjugate):
    """A family whose θ is a rate with a Beta prior: Λ(t) = ln B(α, β), given t."""

    alpha: float
    beta: float

    @staticmethod
    def _log_integral(*, alpha: Array, beta: Array) -> Array:
        return np.asarray(betaln(alpha, beta))

    @staticmethod
    def _draw(rng: Generator, *, alpha: Array, beta: Array) -> Array:
        return np.asarray(rng.beta(alpha, beta))[..., None]


class GammaPrior(Conjugate):
    """A family whose θ is a positive number with a Gamma prior: Λ(t) = lnΓ(a) − a ln b, given t."""

    shape: float
    rate: float

    @staticmethod
    def _log_integral(*, shape: Array, rate: Array) -> Array:
        return np.asarray(gammaln(shape) - shape * np.log(rate))

    @staticmethod
    def _draw(rng: Generator, *, shape: Array, rate: Array) -> Array:
        return np.maximum(rng.gamma(shape, 1 / rate), 1 / MAX_DRAW)[..., None]
