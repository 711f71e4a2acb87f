"""Candidates with any likelihood: θ is one of a few, and a report is its log-likelihood under each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from troth.core.contract import Array, ComparedDesign, Generator, Mask
from troth.core.errors import DataError, MissingCapabilityError, ParameterError, first_line
from troth.models.numerics.dispersed import draw_codes
from troth.models.shared.candidate_states import (
    FEATURES_UNKNOWN,
    CandidateStates,
    draws_by_name,
    reject_identical_candidates,
    reject_other_draws,
    summed_log_likelihoods,
)
from troth.models.shared.features_at_hand import FeaturesAtHand


@dataclass(frozen=True, eq=False)
class Candidates(CandidateStates):
    """θ is one of S candidates: draws from a prior or from last year's posterior, or trained models.

    Statistic: the log-likelihood of a dataset under each candidate. Λ(t) = logsumexp(log p + t). The model is finite:
    if θ is one of the candidates, what is proved for finitely many states holds exactly.

    Parameters
    ----------
    prior
        Probabilities of the candidates.
    log_likelihood
        ``log_likelihood(data)`` returns one number per candidate, −∞ allowed.
    draw
        ``draw(rng, candidate, features)`` returns the answers of a candidate to a provider's features, or, for
        data without features, ``draw(rng, candidate, rows)`` a dataset. Rules that draw decoys need it, and each
        provider's own model, which knows its features or its number of rows: `with_features`.
    pairs
        Whether data are pairs (z, y), and draws are answers to z.

    Examples
    --------
    >>> import troth
    >>> rates = np.array([0.2, 0.5, 0.8])
    >>> model = Candidates([1 / 3] * 3, lambda x: sum(x) * np.log(rates) + (len(x) - sum(x)) * np.log1p(-rates))
    >>> own, peers = model.statistics([1, 1, 0]), model.statistics([1, 1, 1])
    >>> round(float(troth.log_pmi(model, own, peers)), 3)
    0.284
    >>> print(model.effective_candidates(np.stack([own, peers])))
    effective candidates out of 3: 1.5 to 2.46 given each report alone, 1.46 given all reports; too few: ...
    """

    log_likelihood: Callable[[Any], Any]
    draw: Callable[[Any, int, Any], Any] | None = None
    pairs: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        reject_identical_candidates("Candidates", np.arange(float(len(self.prior))), "prior")
        for name, function in (("log_likelihood", self.log_likelihood), ("draw", self.draw)):
            if not (callable(function) or (name == "draw" and function is None)):
                raise ParameterError(f"Candidates: {name} must be a function, not {function!r}", parameter=name)

    @property
    def explains_target(self) -> bool:  # type: ignore[override]
        """Whether data are pairs (z, y)."""
        return self.pairs

    @property
    def space(self) -> Mapping[str, object]:
        """The candidates themselves."""
        return {"prior": self.prior, "candidates": self.log_likelihood}

    def to_dict(self) -> dict[str, Any]:
        """Raise `MissingCapabilityError`: a function is not plain data."""
        raise MissingCapabilityError(
            "a ledger cannot hold the Python function of Candidates, so nobody else could verify payments: pay with "
            "rule.pay, or use candidates made of plain numbers, such as LogisticCandidates"
        )

    @property
    def width(self) -> int:
        """One number per candidate."""
        return len(self.prior)

    def statistics(self, data: Any, /) -> Array:
        """Return the log-likelihood under each candidate."""
        t = np.asarray(self.log_likelihood(data), dtype=np.float64)
        if t.shape != (len(self.prior),):
            raise DataError(f"log_likelihood returned shape {t.shape}, not one number for {len(self.prior)} candidates")
        if np.isnan(t).any() or np.isposinf(t).any():
            raise DataError(f"candidate {int(np.argmax(~(t < np.inf)))} has a log-likelihood of {t.max()}")
        if np.isneginf(t).all():
            raise DataError(
                f"all {len(t)} candidates give these data probability 0, so nobody can be paid for them: add "
                "candidates, or give every outcome a probability above 0"
            )
        return t

    def design(self, statistics: Array, /) -> Array:
        """Return 0 for empty reports and 1 for others: log-likelihoods do not determine the number of rows."""
        return np.asarray(np.asarray(statistics).any(axis=-1, keepdims=True), dtype=np.float64)

    def compared_design(self, statistics: Array, /) -> ComparedDesign:
        """Compare only the number of rows; pairs have features too, which log-likelihoods do not show."""
        if self.pairs:
            raise MissingCapabilityError(FEATURES_UNKNOWN)
        return ComparedDesign.rows_only(statistics)

    def draw_data(self, rng: Generator, parameters: Array, rows: Any, /) -> Any:
        """Draw one dataset of a candidate, given its features or its number of rows."""
        if self.draw is None:
            raise MissingCapabilityError("these candidates cannot draw data: give draw=")
        if self.pairs and np.ndim(rows) == 0:
            raise MissingCapabilityError(
                "these candidates explain features: give the features instead of a number of rows"
            )
        answers = self.draw(rng, int(np.asarray(parameters).ravel()[0]), rows)
        return (rows, answers) if self.pairs else answers

    def draw_with_features(self, rng: Generator, parameters: Array, features: Any, /) -> Array:
        """Draw statistics of fresh data with these features for each candidate."""
        candidates = np.asarray(parameters)[..., 0]
        fresh = [self.statistics(self.draw_data(rng, np.array([k]), features)) for k in candidates.ravel()]
        return np.reshape(fresh, (*candidates.shape, len(self.prior)))

    def with_features(self, features: Any, /) -> FeaturesAtHand:
        """Return the model of a provider with these features, or this number of rows, whose decoys can be drawn.

        Examples
        --------
        >>> import troth
        >>> rates = np.array([0.2, 0.8])
        >>> model = Candidates(
        ...     [0.5, 0.5],
        ...     lambda x: np.sum(x) * np.log(rates) + np.sum(1 - x) * np.log1p(-rates),
        ...     lambda rng, candidate, rows: (rng.random(rows) < rates[candidate]) * 1,
        ... )
        >>> reports = np.stack([model.statistics(np.array(x)) for x in ([1, 1, 0], [1, 1, 1], [1, 1])])
        >>> models = [model.with_features(rows) for rows in (3, 3, 2)]
        >>> troth.LineUp().pay(models, reports, budget=3.0, rng=np.random.default_rng(1)).shape
        (3,)
        """
        if np.ndim(features) > 1 and np.shape(features)[1] == 0:
            raise ParameterError(f"features have shape {np.shape(features)}: give (row, feature), at least one feature")
        return FeaturesAtHand(self, features)

    def _of_states(self, possible: Mask) -> dict[str, Any]:
        states = np.flatnonzero(possible)
        log_likelihood, draw = self.log_likelihood, self.draw
        draw_of_state = None if draw is None else lambda rng, k, features: draw(rng, int(states[k]), features)
        return {"log_likelihood": lambda data: np.asarray(log_likelihood(data))[states], "draw": draw_of_state}

    @classmethod
    def from_estimators(cls, estimators: Sequence[Any], prior: Any = None) -> Candidates:
        """Create candidates from trained classifiers with ``predict_log_proba`` and ``classes_``, as in scikit-learn.

        Data are pairs (z, y) of features and labels among the classes, which all estimators must share. Probabilities
        of 0, which forests predict, are rejected: one row would rule an estimator out for good.
        """
        if (different := len({id(estimator) for estimator in estimators})) < 2:
            raise ParameterError(
                f"give at least two different estimators, not {different}: data are paid for telling them apart"
            )
        for k, estimator in enumerate(estimators):
            if not hasattr(estimator, "classes_"):
                raise ParameterError(f"estimator {k} ({type(estimator).__name__}) has no classes_: train it first")
            if not hasattr(estimator, "predict_log_proba"):
                raise ParameterError(
                    f"estimator {k} ({type(estimator).__name__}) has no predict_log_proba: calibrate it, in "
                    "scikit-learn with CalibratedClassifierCV"
                )
        widths = [getattr(estimator, "n_features_in_", None) for estimator in estimators]
        if len(set(widths)) > 1:
            raise ParameterError(f"the estimators were trained on different numbers of features: {widths}")
        classes = [list(estimator.classes_) for estimator in estimators]
        if any(labels != classes[0] for labels in classes):
            raise ParameterError("give estimators that were trained on the same classes")
        code = {label: k for k, label in enumerate(classes[0])}

        def log_probabilities(k: int, z: Any) -> Array:
            try:
                return np.asarray(estimators[k].predict_log_proba(z))
            except ValueError as error:
                raise DataError(
                    f"estimator {k} ({type(estimators[k]).__name__}) cannot read these features: {first_line(error)}"
                ) from None

        def log_likelihood(data: Any) -> Array:
            z, y = data
            try:
                codes = np.array([code[label] for label in np.asarray(y).tolist()], dtype=np.intp)
            except KeyError as error:
                raise DataError(f"the estimators do not know the label {error}") from None
            if not len(codes):
                return np.zeros(len(estimators))
            with np.errstate(divide="ignore"):
                logs = np.array([log_probabilities(k, z)[np.arange(len(codes)), codes] for k in range(len(estimators))])
            if np.isneginf(logs).any():
                certain = np.flatnonzero(np.isneginf(logs).any(axis=1)).tolist()
                row = int(np.argmax(np.isneginf(logs).any(axis=0)))
                raise DataError(
                    f"estimators {', '.join(map(str, certain))} ({type(estimators[certain[0]]).__name__}) give a label "
                    f"probability 0 (first: row {row + 1}, {np.asarray(y).tolist()[row]!r}), which would rule them out "
                    "for good: calibrate or smooth them, in scikit-learn with CalibratedClassifierCV, before anybody "
                    "reports"
                )
            return np.asarray(logs.sum(axis=1))

        def draw(rng: Generator, candidate: int, features: Any) -> Any:
            probabilities = np.exp(log_probabilities(candidate, features))
            return np.array(classes[0])[draw_codes(rng, probabilities, 1)[:, 0].astype(int)]

        count = len(estimators)
        return cls([1 / count] * count if prior is None else prior, log_likelihood, draw, pairs=True)

    @classmethod
    def from_draws(
        cls,
        draws: Any,
        log_likelihood: Callable[[Mapping[str, Any], Any], float] | None = None,
        draw: Callable[[Any, Mapping[str, Any], Any], Any] | None = None,
        *,
        group: str = "posterior",
        max_draws: int = 500,
        pairs: bool = False,
    ) -> Candidates:
        """Create candidates from draws of a prior or posterior: ArviZ's ``InferenceData``, or arrays by name.

        Parameters
        ----------
        draws
            An ``InferenceData`` (from PyMC, CmdStanPy or NumPyro), whose ``group`` is used, or a mapping of names to
            arrays whose first axis is the draw.
        log_likelihood
            ``log_likelihood(parameters, data)``, with the parameters of one draw by name. By default, data are an
            ``InferenceData`` of the same draws with a group ``log_likelihood``, which PyMC's
            ``compute_log_likelihood`` and NumPyro's converter add, so that providers can compute it themselves. If it
            contains ``group``, these draws must be the published ones.
        draw
            ``draw(rng, parameters, features)``, for rules that draw decoys.
        max_draws
            The maximum number of draws to keep, evenly spaced.

        Examples
        --------
        >>> model = Candidates.from_draws(
        ...     {"rate": np.linspace(0.05, 0.95, 19)},
        ...     lambda p, x: float(np.sum(x) * np.log(p["rate"]) + np.sum(1 - np.array(x)) * np.log1p(-p["rate"])),
        ... )
        >>> model.posterior_probabilities(model.statistics([1] * 9 + [0])).argmax()
        np.int64(17)
        """
        variables = draws_by_name(draws, group, max_draws)
        count = len(next(iter(variables.values())))
        candidates = [{name: values[k] for name, values in variables.items()} for k in range(count)]
        draw_of_candidate = None if draw is None else lambda rng, k, features: draw(rng, candidates[k], features)

        def log_likelihoods(data: Any) -> Array:
            if log_likelihood is None:
                reject_other_draws(data, variables, group, max_draws)
                return summed_log_likelihoods(data, max_draws)
            return np.array([log_likelihood(candidate, data) for candidate in candidates])

        return cls([1 / count] * count, log_likelihoods, draw_of_candidate, pairs)
