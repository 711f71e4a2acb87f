"""Candidates that are regressions with known coefficients: plain numbers, which a campaign file can name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from troth.core.contract import Array, Generator
from troth.core.errors import ParameterError
from troth.core.sensitivity import Peers, Sensitivity, refuted_without_data
from troth.core.support import Support
from troth.models.answered_rows import draw_features, planned_features
from troth.models.candidate_states import FittedCandidates, draws_by_name, refuse_alike
from troth.models.family import Matrix
from troth.models.features_at_hand import FeaturesAtHand
from troth.models.parameters import matrix, parameter

LARGEST_TABLE = 1_000_000
"""The most numbers that a statistic may have."""


@dataclass(frozen=True)
class RegressionCandidates(FittedCandidates):
    """Rows (z, y), and θ is one of S known vectors of coefficients.

    The statistic is the S log-likelihoods, the number of rows, and what fresh answers to the same features need.
    """

    coefficients: Matrix = field(
        metadata=parameter(
            "coefficients of each candidate, a row each", matrix, [[-1.0, 0.5], [0.0, 1.0], [1.0, -0.5], [0.5, 1.5]]
        )
    )

    explains_target: ClassVar[bool] = True
    by_state: ClassVar[tuple[str, ...]] = ("coefficients",)
    given_parameters: ClassVar[tuple[str, ...]] = ("coefficients",)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_size()
        refuse_alike(type(self).__name__, self._likelihoods, "coefficients")

    def _check_size(self) -> None:
        """Refuse tables of coefficients that the family cannot read; any will do, unless it says so."""

    @cached_property
    def _points(self) -> Array:
        """Coefficients, ``(candidate, coefficient)``."""
        return np.array(self.coefficients)

    @property
    def _features_of_row(self) -> int:
        return int(self._points.shape[1])

    @property
    def _likelihoods(self) -> Array:
        """What tells the likelihoods of candidates apart, a row each."""
        return self._points

    @classmethod
    def standard_prior(cls, coefficients: int, given: Mapping[str, Any], /) -> dict[str, Any]:  # noqa: ARG003
        """Return nothing: coefficients are given, whatever the scales."""
        return {}

    def rows(self, statistics: Array, /) -> Array:
        """Count the rows behind each statistic."""
        return np.asarray(statistics, dtype=np.float64)[..., len(self.coefficients)]

    def plan(self, rows: Any, /) -> Array:
        """Return the design of a report with these features, ``(rows, d)``."""
        z = planned_features(rows, self._features_of_row)
        return np.asarray(self.design(self.statistics((z, np.zeros(z.shape[:-1])))))

    def _chosen(self, parameters: Array, leading: tuple[int, ...]) -> NDArray[np.intp]:
        return np.broadcast_to(np.asarray(parameters)[..., 0].astype(np.intp), leading)

    def draw_data(self, rng: Generator, parameters: Array, rows: Any, /) -> tuple[Array, Array]:
        """Draw (z, y): answers for features ``rows`` of shape (rows, d), or for ``rows`` standard normal ones."""
        chosen = np.asarray(parameters)[..., 0].astype(np.intp)
        z = draw_features(rng, rows, self._features_of_row, chosen.shape)
        y = self._draw_answers(rng, chosen, z)
        return np.broadcast_to(z, (*y.shape, z.shape[-1])), y

    def _draw_answers(self, rng: Generator, chosen: NDArray[np.intp], z: Array) -> Array:
        raise NotImplementedError

    def draw_with_features(self, rng: Generator, parameters: Array, features: Any, /) -> Array:
        """Draw statistics of fresh answers to these features, from the likelihood itself."""
        return self.statistics(self.draw_data(rng, parameters, features))

    def with_features(self, features: Any, /) -> FeaturesAtHand:
        """Return the model of a provider with these features, ``(rows, d)``, whose decoys come from the likelihood."""
        return FeaturesAtHand(self, Support().check(features, "feature", columns=self._features_of_row))

    def posterior_mean(self, statistics: Array, /) -> Array:
        """Return the posterior mean of the coefficients, ``(..., coefficient)``."""
        return np.asarray(self.posterior_probabilities(statistics) @ self._points)

    @property
    def public_coefficients(self) -> Array:
        """The prior mean of the coefficients: what everybody knows."""
        return np.asarray(np.array(self.prior) @ self._points)

    def sensitivity(self, rows: int, peers: Peers, /) -> Sensitivity:  # noqa: ARG002
        """As many peer rows as there are other candidates suffice, for features in general position.

        Proof. Two candidates with different coefficients give the answer of a row in general position different
        distributions, so the k-rank of its matrix of likelihoods is at least 2. By the paper's Corollary n rows tell
        n + 1 states apart. ∎
        """
        if refutation := refuted_without_data(peers):
            return refutation
        count, distinct = sum(n for _, n in peers), len(np.unique(self._likelihoods, axis=0))
        if count >= distinct - 1:
            reason = f"{count} peer rows tell {distinct} candidates apart, for features in general position"
            return Sensitivity("proved", f"{reason} (the paper's Corollary on k-ranks)")
        return Sensitivity("undecided", f"{count} peer rows may not tell {distinct} candidates apart")

    @classmethod
    def from_draws(
        cls, draws: Any, names: Sequence[str], *, group: str = "posterior", most: int = 200, **given: Any
    ) -> Self:
        """Take coefficients from draws of a prior or of a posterior: ArviZ's ``InferenceData``, or arrays by name.

        Parameters
        ----------
        draws
            An ``InferenceData`` (PyMC, CmdStanPy and NumPyro make one), or a mapping of names to arrays whose first
            axis is the draw.
        names
            The variables that follow each other in a vector of coefficients, such as ``["intercept", "slopes"]``.
        group, most
            Which group is used, and how many draws are kept, evenly spaced.
        given
            The family's other parameters, such as ``classes``.

        Examples
        --------
        >>> from troth.models import LogisticCandidates
        >>> draws = {"intercept": np.zeros(3), "slopes": np.array([[1.0, 2.0], [0.0, 1.0], [3.0, 4.0]])}
        >>> LogisticCandidates.from_draws(draws, ["intercept", "slopes"]).coefficients[0]
        (0.0, 1.0, 2.0)
        """
        return cls(coefficients=_side_by_side(draws_by_name(draws, group, most), names), **given)


def trained_coefficients(estimators: Sequence[Any]) -> tuple[Array, int]:
    """Return a row of coefficients for each estimator, and how many classes they know (0 for counts and numbers).

    With several classes the coefficients follow each other class by class. If any estimator has an intercept, it is the
    first coefficient of each class.
    """
    if not estimators:
        raise ParameterError("give at least one trained estimator")
    for k, each in enumerate(estimators):
        if not hasattr(each, "coef_"):
            raise ParameterError(
                f"estimator {k} ({type(each).__name__}) has no coef_: train a linear one. Where a pipeline "
                "standardises columns, give the campaign [model.scales] and train on these"
            )
    classes = [[str(label) for label in getattr(each, "classes_", ())] for each in estimators]
    if any(each != classes[0] for each in classes):
        raise ParameterError("give estimators that were trained on the same classes")
    slopes = [np.atleast_2d(np.asarray(each.coef_, dtype=np.float64)) for each in estimators]
    if len({each.shape for each in slopes}) > 1:
        raise ParameterError("give estimators that were trained on the same columns")
    constants = [np.broadcast_to(np.ravel(getattr(each, "intercept_", 0.0)), len(slopes[0])) for each in estimators]
    if any(np.any(each) for each in constants):
        slopes = [np.column_stack([first, rest]) for first, rest in zip(constants, slopes, strict=True)]
    return np.stack([each.ravel() for each in slopes]), len(classes[0])


def _side_by_side(named: Mapping[str, Any], names: Sequence[str]) -> Array:
    """Return draws of several variables as one vector each, ``(draw, coefficient)``."""
    for name in names:
        if name not in named:
            raise ParameterError(f"there are no draws of {name!r}; there are {', '.join(sorted(named))}")
    return np.concatenate([np.reshape(named[name], (len(named[name]), -1)) for name in names], axis=1)
