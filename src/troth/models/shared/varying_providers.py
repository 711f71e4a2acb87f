"""Base classes of families whose providers differ by an unknown amount, in general and by normal random effects."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from troth.core.contract import Array, ComparedDesign, Generator, Mask
from troth.core.limits import MAX_SUM
from troth.models.family import ReducesRows
from troth.models.numerics.possible_statistics import agree, all_possible, are_products
from troth.models.numerics.random_effects import (
    Effects,
    draw_coefficients,
    evidence_in_line,
    evidence_of_effects,
    integrate_effects,
)
from troth.models.numerics.spread_grid import CHANCE_OF_NO_SPREAD, SpreadGrid, spread_grid
from troth.models.parameters import Word, parameter

BORROWED_ROWS = 3.0
"""Weight of the declared noise, in rows, relative to the residuals of a provider's own rows."""

_MAX_SPREADS = {"little": 0.1, "some": 0.3}  # for "any" the family decides


def differ_parameter(limit: str) -> Any:
    """Return the metadata of the parameter ``differ``; ``limit`` describes the largest spread."""
    meaning = f"how far honest providers may differ: little, some or any; any means {limit}"
    return parameter(meaning, Word(*_MAX_SPREADS, "any"), "any")


@dataclass(frozen=True)
class VaryingProviders(ReducesRows):
    """A family in which each provider has its own parameter around a common one, with an unknown spread.

    θ is the common parameter and the spread. The spread is 0 with probability 0.1, and otherwise log-uniform between
    the smallest that can be distinguished from 0 and the largest that ``differ`` allows. Λ integrates over it, so each
    round learns the spread from its own reports. A subclass defines what adds over providers.

    Ten providers with a hundred rows determine a spread only to within a third. A prior that expects spreads far below
    those of real providers takes honest differences for chance and overpays large reports, so that sending every row
    twice gains. Therefore the smallest spread is not far below what matters, and 0 stands for everything below it.
    """

    independent_rows: ClassVar[bool] = False
    evidence_cost: ClassVar[int] = 60
    min_spread: ClassVar[float]
    max_spread: ClassVar[float]

    @property
    def differ(self) -> str:
        """How far providers may differ: "little", "some" or "any". Each family has this as its last parameter."""
        raise NotImplementedError

    @property
    def _spreads(self) -> tuple[float, float]:
        """The smallest and the largest spread."""
        largest = _MAX_SPREADS.get(self.differ, self.max_spread)
        return min(self.min_spread, largest / 10), largest

    possible_statistics: ClassVar[str] = "statistics agree with the sums that they contain"

    def possible(self, statistics: Array, /) -> Mask:
        """Test whether statistics agree with the sums that they contain, and these sums are possible."""
        t = np.asarray(statistics, dtype=np.float64)
        with np.errstate(all="ignore"):
            recomputed, valid = self._recomputed(t)
            return valid & agree(t, recomputed)

    def _recomputed(self, statistics: Array) -> tuple[Array, Mask]:
        """Recompute statistics from the sums that they contain; also return whether data can have such sums."""
        return statistics, all_possible(statistics)

    def expected_log_evidence(self, _: Array, /) -> None:
        """Return None: rows of two providers are not those of one, so designs do not add."""
        return

    def _draw_spread(self, rng: Generator, shape: tuple[int, ...]) -> Array:
        low, high = np.log(self._spreads)
        uniform, without_spread = rng.random(shape), rng.random(shape) < CHANCE_OF_NO_SPREAD
        return np.where(without_spread, 0.0, np.exp(low + (high - low) * uniform))


@dataclass(frozen=True)
class RandomEffects(VaryingProviders):
    """Coefficients β ~ N(mean, Σ), of a provider βᵢ ~ N(β, τ²Σ), and answers whose mean is linear in βᵢ.

    A provider's rows have their observed variance s² = (3·noise² + squared residuals)/(3 + degrees of freedom), which
    like features is independent of θ. So a report is a normal log-likelihood of βᵢ with known precision, and its
    integral over the effect is c + hᵀγ − ½γᵀMγ for each τ, in coordinates γ of the prior. The statistic consists of
    these, the number of rows and the number of providers. Λ integrates over γ in closed form and over τ by quadrature.
    """

    @property
    def _coefficients(self) -> int:
        raise NotImplementedError

    @property
    def _grid(self) -> SpreadGrid:
        return spread_grid(*self._spreads)

    @property
    def _spreads_of_prior(self) -> Array:
        """The spread's nodes, in units of the prior's standard deviation."""
        return self._grid.nodes

    @property
    def _scale_of_effects(self) -> Array | None:
        """The matrix A if a provider's coefficients are N(γ, τ²AAᵀ) in units of the prior; None for the identity."""
        return None

    def _integrated(self, rows: Array, precision: Array, product: Array) -> Array:
        """Integrate over the effect: return the statistics of products g with precision H, which may be shared."""
        effects = integrate_effects(precision, product, self._spreads_of_prior, self._scale_of_effects)
        parts = [part.reshape(*part.shape[: -1 - more], -1) for more, part in enumerate(effects)]
        parts = [np.broadcast_to(part, (*rows.shape, part.shape[-1])) for part in parts]
        return np.concatenate([rows[..., None], (rows > 0)[..., None], *parts], axis=-1)

    @staticmethod
    def _limited(statistics: Array, summary: Array) -> Array:
        """Make statistics infinite if a sum exceeds the limit, which they would not reveal otherwise."""
        beyond = ~(np.abs(summary) <= MAX_SUM).all(axis=-1, keepdims=True)
        return np.where(beyond, np.inf, statistics) if beyond.any() else statistics

    def _unpack(self, statistics: Array) -> Effects:
        d, spreads, leading = self._coefficients, len(self._grid.nodes), statistics.shape[:-1]
        ends = np.cumsum([spreads, spreads * d, spreads * d * d])
        constant, product, precision, _ = np.split(statistics[..., 2:], ends, axis=-1)
        return Effects(constant, product.reshape(*leading, spreads, d), precision.reshape(*leading, spreads, d, d))

    def _without_spread(self, statistics: Array) -> tuple[Array, Array]:
        """Return H and g of the provider's coefficients."""
        effects = self._unpack(np.asarray(statistics, dtype=np.float64))
        return effects.precision[..., 0, :, :], effects.product[..., 0, :]

    def _recomputed(self, statistics: Array) -> tuple[Array, Mask]:
        """Integrate g and H, which the statistic contains at spread 0, over the effect; test that H is some ZᵀZ."""
        precision, product = self._without_spread(statistics)
        unlimited = np.full(statistics.shape[:-1], np.inf)
        return self._integrated(statistics[..., 0], precision, product), are_products(precision, unlimited)

    def _effects(self, statistics: Array) -> Array:
        """Return the number of effects, one per provider and coefficient, which determines the spread's precision."""
        return np.asarray(self._coefficients * statistics[..., 1])

    def log_evidence(self, statistics: Array, /) -> Array:
        """Ln of the integral of the evidence over the spread."""
        t = np.asarray(statistics, dtype=np.float64)
        return self._grid.integrate(evidence_of_effects(self._unpack(t)), self._effects(t))

    def answer_part(self, statistics: Array, /) -> Array:
        """Return c and h for each spread."""
        t = np.asarray(statistics, dtype=np.float64)
        return t[..., 2 : 2 + len(self._grid.nodes) * (1 + self._coefficients)]

    def answer_scorer(self, own: Array, peers: Array, /) -> Callable[[Array], Array]:
        """Return log PMI as a function of peers' c and h; 1 + M is factored once per spread."""
        a, b, nodes = self._unpack(own), self._unpack(peers), len(self._grid.nodes)
        joint, alone = evidence_in_line(a.precision + b.precision), evidence_in_line(b.precision)
        own_evidence = self.log_evidence(own) - self.log_evidence(np.zeros(own.shape[-1]))
        counts = self._effects(own + peers), self._effects(peers)

        def score(line: Array) -> Array:
            constant, product = line[..., :nodes], line[..., nodes:].reshape(*line.shape[:-1], nodes, -1)
            pooled, peers_alone = (
                self._grid.integrate(evidence, np.broadcast_to(count, evidence.shape[:-1]))
                for evidence, count in zip(
                    (joint(a.constant + constant, a.product + product), alone(constant, product)), counts, strict=True
                )
            )
            return np.asarray((pooled - peers_alone) - own_evidence)

        return score

    def design(self, statistics: Array, /) -> Array:
        """Return the number of rows, and the precision of the provider's coefficients that they give."""
        return self._design(self.rows(statistics), self._without_spread(statistics)[0])

    def compared_design(self, statistics: Array, /) -> ComparedDesign:
        """Return rows alone: the scatter of rows is part of the data, and may differ between days."""
        return ComparedDesign.rows_only(statistics)

    def _design(self, rows: Array, precision: Array) -> Array:
        return np.concatenate([rows[..., None], precision.reshape(*rows.shape, -1)], axis=-1)

    def _answers(self, precision: Array, product: Array) -> Array:
        """Return c and h for each spread, from products g with precision H."""
        effects = integrate_effects(precision, product, self._spreads_of_prior, self._scale_of_effects, matrices=False)
        return np.concatenate([effects.constant, effects.product.reshape(*product.shape[:-1], -1)], axis=-1)

    def _draw_statistics(self, rng: Generator, gamma: Array, spread: Array, design: Array) -> Array:
        """Draw statistics given coefficients and spread in units of the prior."""
        precision, product = self._draw_product(rng, gamma, spread, design)
        return self._integrated(np.broadcast_to(design[..., 0], product.shape[:-1]), precision, product)

    def _draw_product(self, rng: Generator, gamma: Array, spread: Array, design: Array) -> tuple[Array, Array]:
        """Return H, and g ~ N(Hγᵢ, H) given coefficients and spread in units of the prior."""
        d = self._coefficients
        leading = np.broadcast_shapes(gamma.shape[:-1], design.shape[:-1])
        precision = design[..., 1 : 1 + d * d].reshape(*design.shape[:-1], d, d)
        values, vectors = np.linalg.eigh(precision)
        root = vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :]
        own = gamma + spread[..., None] * self._draw_effects(rng, (*leading, d))
        noise = np.einsum("...ik,...k->...i", root, rng.standard_normal((*leading, d)))
        return precision, np.einsum("...ik,...k->...i", precision, own) + noise

    def _draw_effects(self, rng: Generator, shape: tuple[int, ...]) -> Array:
        """Draw effects of providers for a spread of 1, in units of the prior."""
        effects, scale = rng.standard_normal(shape), self._scale_of_effects
        return effects if scale is None else effects @ scale.T

    def _draw_posterior(self, rng: Generator, statistics: Array) -> tuple[Array, Array]:
        """Draw (γ, τ) given statistics; γ is in units of the prior."""
        t = np.asarray(statistics, dtype=np.float64)
        effects = self._unpack(t)
        spread = self._grid.draw(rng, evidence_of_effects(effects), self._effects(t))
        product, precision = (self._grid.interpolate(part, spread) for part in effects[1:])
        chosen = Effects(np.zeros(spread.shape), product, precision)
        return draw_coefficients(rng.standard_normal(product.shape), chosen), spread
