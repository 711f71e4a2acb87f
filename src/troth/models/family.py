"""What every family derives from its two functions, written once."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias

import numpy as np

from troth.core.errors import DataError, IncompatibleModelsError, ParameterError, UnboundedRangeError
from troth.core.information import check_generator as check_generator
from troth.core.reductions import Moments
from troth.core.sensitivity import unproved
from troth.core.support import Support, as_floats
from troth.models.fitting.marginal_likelihood import fit_prior

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from troth.core.contract import Array, Model
    from troth.core.reductions import Reduction

    # What a constructor takes for a hyper-parameter; it is stored as a (nested) tuple of floats.
    Vector: TypeAlias = Sequence[float] | Array
    Matrix: TypeAlias = Sequence[Sequence[float]] | Array
    from troth.core.past import History
    from troth.core.sensitivity import Peers, Price, Sensitivity
    from troth.models.fitting.fitted import Fitted
    from troth.models.fitting.free_parameters import FreeParameter


LARGEST_PARAMETER = 1e100
LARGEST_STATISTIC = 1e290
LARGEST_DRAW = 1e280
"""Draws of heavy-tailed priors stop here, so that sums of them are still statistics."""


@dataclass(frozen=True)
class Family:
    """A family whose rows are i.i.d. given θ and whose design is the number of rows.

    A subclass is a frozen dataclass with ``statistics`` and ``log_evidence``; hyper-parameters are numbers or
    nested tuples of numbers, so that models print, compare, hash and serialise. Here is the rest: the summary is
    the statistic itself, and the design is the count of rows that `rows` reads off a statistic.
    """

    independent_rows: ClassVar[bool] = True
    """Whether rows are i.i.d. given θ, so that data of several providers are like one dataset of all their rows."""

    @property
    def support(self) -> Support:
        """The values that an entry of a row may take."""
        return Support()

    def statistics(self, data: Any, /) -> Array:
        """Numbers for one provider's dataset that add over providers, shape ``(..., statistic)``."""
        raise NotImplementedError

    def log_evidence(self, statistics: Array, /) -> Array:
        """Λ(t), one number for each leading index of ``(..., statistic)``."""
        raise NotImplementedError

    @cached_property
    def width(self) -> int:
        """How many numbers a statistic has: as many as that of no data at all."""
        return int(self.statistics(self._nothing).shape[-1])

    @property
    def _nothing(self) -> Any:
        return ()

    def summary(self, data: Any, /) -> Array:
        """Numbers that add over rows; rows are i.i.d. given θ, so these are the statistics."""
        return self.statistics(data)

    def from_summary(self, summary: Array, /) -> Array:
        """Map a summary to statistics: the identity, because rows are i.i.d. given θ."""
        return np.asarray(summary, dtype=np.float64)

    @property
    def reduction(self) -> Reduction:
        """How rows become a summary: they are counted, and their values added up."""
        return Moments(support=self.support)

    def rows(self, statistics: Array, /) -> Array:
        """Count the rows behind each statistic."""
        return np.asarray(statistics, dtype=np.float64)[..., 0]

    def design(self, statistics: Array, /) -> Array:
        """Read off what was fixed before the data were drawn: the number of rows, shape ``(..., 1)``."""
        return self.rows(statistics)[..., None]

    def plan(self, rows: Any, /) -> Array:
        """Return the design of a report with so many rows."""
        count = np.asarray(rows, dtype=np.float64)
        if not (np.isfinite(count).all() and (count >= 0).all() and (count == np.floor(count)).all()):
            raise DataError(f"a number of rows must be a whole number of at least 0, not {rows!r}")
        return count[..., None]

    @property
    def space(self) -> Mapping[str, object]:
        """What two models must agree on for their statistics to add: family and hyper-parameters."""
        return self.to_dict()

    def in_space_of(self, reference: Model, /) -> Model:
        """Return this law with statistics in the space of ``reference``: impossible for most families."""
        theirs = reference.space if isinstance(reference, Family) else {"family": type(reference).__name__}
        for key, ours in self.space.items():
            if theirs.get(key) != ours:
                raise IncompatibleModelsError(
                    f"{type(self).__name__} cannot be combined with {type(reference).__name__}: "
                    f"{key} is {ours} here and {theirs.get(key)} there, and providers must share it"
                )
        return self

    def _peer_rows(self, peers: Sequence[tuple[Model, int]]) -> int:
        """Add up the peers' rows, which must be rows of this very law."""
        for other, _ in peers:
            if other != self:
                raise UnboundedRangeError(f"no range is known for {self!r} beside {other!r}")
        return sum(rows for _, rows in peers)

    def _declared(self, values: tuple[float, float] | None) -> tuple[float, float]:
        """Return declared bounds on values, within the support."""
        name = type(self).__name__
        if values is None:
            raise UnboundedRangeError(
                f"log PMI of {name} grows without bound with the values: declare values=(low, high) of a report"
            )
        low, high = float(values[0]), float(values[1])
        if not (np.isfinite([low, high]).all() and low <= high):
            raise ParameterError(
                f"values must be a pair of finite numbers (low, high) with low <= high, not {values!r}"
            )
        if high < self.support.low or low > self.support.high:
            raise ParameterError(f"values {values!r} are outside the support of {name}: {self.support}")
        low, high = max(low, self.support.low), min(high, self.support.high)
        if self.support.integer:
            low, high = float(np.ceil(low)), float(np.floor(high))
            if low > high:
                raise ParameterError(f"values {values!r} hold no whole number, and {name} has no others")
        return low, high

    def to_dict(self) -> dict[str, Any]:
        """Plain data (strings, numbers, lists) from which `troth.models.from_dict` makes an equal model."""
        fields = {f.name: _plain(getattr(self, f.name)) for f in dataclasses.fields(self) if f.init}
        return {
            "family": type(self).__name__,
            **{key: value for key, value in fields.items() if value is not None},
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Self:
        """Make the model that `to_dict` described."""
        names = {f.name for f in dataclasses.fields(cls) if f.init}
        unknown = [key for key in plain if key not in names and key != "family"]
        if unknown:
            raise ParameterError(f"{cls.__name__} has no parameter {unknown[0]!r}; it has {', '.join(sorted(names))}")
        return cls(**{key: value for key, value in plain.items() if key != "family"})

    def _set(self, name: str, value: object) -> None:
        """Store a checked hyper-parameter; only for ``__post_init__`` of a frozen family."""
        object.__setattr__(self, name, value)

    def _positive(self, name: str) -> None:
        self._finite(name)
        value = getattr(self, name)
        if not value > 0:
            raise ParameterError(f"{type(self).__name__}: {name} must be above 0, not {value!r}")
        if not 1 / LARGEST_PARAMETER <= value <= LARGEST_PARAMETER:
            raise ParameterError(
                f"{type(self).__name__}: {name} must lie between {1 / LARGEST_PARAMETER:g} and {LARGEST_PARAMETER:g}, "
                f"where arithmetic neither overflows nor vanishes, not {value!r}"
            )

    def _finite(self, name: str) -> None:
        value = getattr(self, name)
        try:
            number = float(value)
        except OverflowError:
            raise ParameterError(f"{type(self).__name__}: {name} is too large") from None
        except (TypeError, ValueError):
            raise ParameterError(f"{type(self).__name__}: {name} must be a number, not {value!r}") from None
        if not np.isfinite(number):
            raise ParameterError(f"{type(self).__name__}: {name} must be finite, not {value!r}")
        self._set(name, number)

    def _vector(self, name: str, length: int | None = None) -> Array:
        array = self._array(name, 1)
        if length is not None and len(array) != length:
            raise ParameterError(f"{type(self).__name__}: {name} must have {length} entries, not {len(array)}")
        return array

    def _array(self, name: str, dimensions: int) -> Array:
        try:
            array = as_floats(getattr(self, name), name)
        except DataError as error:
            raise ParameterError(f"{type(self).__name__}: {name}: {error}") from None
        if array.ndim != dimensions or array.size == 0:
            kind = {1: "a vector", 2: "a matrix"}[dimensions]
            raise ParameterError(f"{type(self).__name__}: {name} must be {kind}, not of shape {array.shape}")
        if not np.isfinite(array).all():
            raise ParameterError(f"{type(self).__name__}: {name} must be finite")
        self._set(name, _nested_tuple(array))
        return array

    def _covariance(self, name: str, size: int) -> Array:
        """Check that a hyper-parameter is a symmetric positive definite matrix of the given size."""
        matrix = self._array(name, 2)
        if matrix.shape != (size, size):
            raise ParameterError(f"{type(self).__name__}: {name} must be {size} by {size}, not {matrix.shape}")
        scale = np.sqrt(np.maximum(np.diagonal(matrix), 0))
        if not (np.abs(matrix - matrix.T) <= 1e-9 * np.outer(scale, scale)).all():
            raise ParameterError(f"{type(self).__name__}: {name} must be symmetric")
        matrix = (matrix + matrix.T) / 2
        try:
            np.linalg.cholesky(matrix)
        except np.linalg.LinAlgError:
            raise ParameterError(f"{type(self).__name__}: {name} must be positive definite") from None
        self._set(name, _nested_tuple(matrix))
        return matrix

    def sensitivity(self, rows: int, peers: Peers, /) -> Sensitivity:  # noqa: ARG002
        """Decide whether a provider with up to ``rows`` rows has a free lie, given its peers' models and rows.

        A family proves it here; without a proof it is undecided.
        """
        return unproved(self)

    def price_of_lying(self, rows: int, peers: Peers, low: float = -np.inf, /) -> Price | None:  # noqa: ARG002
        """Return what a lie costs at least, in nats of a log score that is never below ``low``; None if not known."""
        return None

    def k_rank_condition(self, peers: Peers, /) -> bool | None:  # noqa: ARG002
        """Return whether the paper's k-rank condition holds, which is about finitely many states; None for others."""
        return None

    @property
    def score_measure(self) -> str | None:
        """What log scores leave out: only those that leave out the same are comparable, and none where it is None."""
        return "nothing"

    given_parameters: ClassVar[tuple[str, ...]] = ()
    """Parameters that a history does not tell: a fit must be given them."""

    provider_effects: ClassVar[str] = ""
    """What a fit learns of each provider by itself, such as ``"offsets"``; empty where all share one model."""

    @classmethod
    def suits_reduction(cls, reduction: Reduction, /) -> bool:  # noqa: ARG003
        """Tell whether people would try this family first on a history of such summaries."""
        return False

    @classmethod
    def fit_options(cls, reduction: Reduction, /) -> tuple[str, ...]:  # noqa: ARG003
        """Name the options of `fit` for a history of such summaries, beside parameters to keep."""
        return ()

    @property
    def refit_options(self) -> Mapping[str, Any]:
        """Options of `fit` by which a model that was learnt is learnt again in the same size."""
        return {}

    @classmethod
    def initial_parameters(
        cls,
        summaries: Array,  # noqa: ARG003
        reduction: Reduction,  # noqa: ARG003
        fixed: Mapping[str, Any],  # noqa: ARG003
        /,
    ) -> dict[str, FreeParameter]:
        """Return the parameters that are fitted, each written as free numbers around a first guess by moments.

        Parameters
        ----------
        summaries
            Summaries of days with reports, ``(day, provider, entry)``, as ``reduction`` made them.
        fixed
            Parameters that are given.
        """
        raise ParameterError(f"{cls.__name__} does not say how its prior is fitted: it has no initial_parameters")

    @classmethod
    def fit(cls, history: History, **options: Any) -> Fitted:
        """Fit the prior to past days, by maximum marginal likelihood.

        Parameters
        ----------
        history
            Past days; they must be public or paid for, and not depend on the reports that the model will price.
        options
            Parameters to keep as they are given. Some must be given: ``given_parameters``.

        Examples
        --------
        >>> import troth
        >>> from troth.core.reductions import Counts
        >>> rng = np.random.default_rng(1)
        >>> ones = rng.binomial(20, rng.beta(2, 6, size=(400, 1)), size=(400, 3))
        >>> past = troth.history.from_summaries(Counts(2), np.stack([20 - ones, ones], axis=-1))
        >>> print(troth.models.Bernoulli.fit(past))
        Bernoulli from 400 days, log-likelihood -12286.824
          alpha = 1.9959 ± 0.16
          beta = 6.3735 ± 0.54
        """
        return fit_prior(cls, history, options)


def moments(compute: Callable[..., Array], *data: Any) -> Array:
    """Return what ``compute`` makes of the data, or refuse values whose sums no statistic can hold."""
    with np.errstate(over="ignore", invalid="ignore"):
        t = compute(*data)
    if not (np.abs(t) <= LARGEST_STATISTIC).all():
        raise DataError(f"the values are too large to add up: a sum exceeds {LARGEST_STATISTIC:g}; rescale them")
    return t


def scalar_parameters(parameters: Array, design: Array) -> tuple[Array, Array]:
    """Broadcast a single parameter and a row count against each other, without their last axes."""
    theta, rows = np.broadcast_arrays(parameters[..., 0], design[..., 0])
    return theta, rows


def _plain(value: Any) -> Any:
    return [_plain(entry) for entry in value] if isinstance(value, tuple) else value


def _nested_tuple(array: Array) -> tuple[Any, ...]:
    return tuple(_nested_tuple(entry) if entry.ndim else float(entry) for entry in array)
