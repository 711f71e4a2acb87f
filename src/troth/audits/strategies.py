"""What a provider may do with its data, one small class each.

A strategy plays a whole round: it is shown the liar's rows and everybody's honest statistics, and returns what is
reported, and whose payments are the liar's. Most strategies change one report; `Copy`, `Collude` and `Split` need more.
A function ``lie(data, rng) -> data`` is a strategy too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from troth.core.contract import Array, Generator, HasSummary, HasSupport, Model, SamplesPosterior
from troth.core.errors import MissingCapabilityError, ParameterError


class Play(NamedTuple):
    """What is reported, ``(..., provider, statistic)``, the liar's accounts, and how many rows each of them reports."""

    statistics: Array
    accounts: tuple[int, ...]
    rows: tuple[int, ...]


@dataclass(frozen=True)
class Strategy:
    """A way to report: most strategies map the liar's rows to others."""

    def lie(self, rng: Generator, model: Any, data: Any) -> Any:
        """Return the rows to report instead of ``data``, whose axes are ``(..., row[, column])``."""
        raise NotImplementedError

    def play(self, rng: Generator, model: Model, data: Any, honest: Array, liar: int) -> Play:
        """Return the round in which provider ``liar`` lies and everybody else is honest."""
        reported, told = honest.copy(), self.lie(rng, model, data)
        reported[..., liar, :] = _statistics(model, told)
        return Play(reported, (liar,), (_rows(model, told),))

    @property
    def name(self) -> str:
        """What it is called in tables."""
        return str(self)


@dataclass(frozen=True)
class Truthful(Strategy):
    """Report the data."""

    def __str__(self) -> str:
        return "tell the truth"

    def lie(self, rng: Generator, model: Any, data: Any) -> Any:  # noqa: ARG002
        """Change nothing."""
        return data


@dataclass(frozen=True)
class Replicate(Strategy):
    """Report every row several times."""

    times: int = 2

    def __post_init__(self) -> None:
        if self.times < 1 or self.times != int(self.times):
            raise ParameterError(f"Replicate: times must be a whole number of at least 1, not {self.times!r}")

    def __str__(self) -> str:
        return f"replicate {self.times} times"

    def lie(self, rng: Generator, model: Any, data: Any) -> Any:  # noqa: ARG002
        """Repeat the rows."""
        return _map(model, data, lambda x, axis: np.concatenate([x] * self.times, axis=axis))

    def play(self, rng: Generator, model: Model, data: Any, honest: Array, liar: int) -> Play:
        """Multiply the summary, which adds over rows, where the model has one."""
        if not isinstance(model, HasSummary):
            return super().play(rng, model, data, honest, liar)
        reported = honest.copy()
        reported[..., liar, :] = model.from_summary(self.times * model.summary(data))
        return Play(reported, (liar,), (self.times * _rows(model, data),))


@dataclass(frozen=True)
class Withhold(Strategy):
    """Keep a share of the rows back; they are exchangeable, so the last ones."""

    share: float = 0.5

    def __post_init__(self) -> None:
        _check_share(self)

    def __str__(self) -> str:
        return f"withhold {self.share:.0%}"

    def lie(self, rng: Generator, model: Any, data: Any) -> Any:  # noqa: ARG002
        """Report the first rows only."""
        kept = round(_rows(model, data) * (1 - self.share))
        return _map(model, data, lambda x, axis: x.take(range(kept), axis=axis))


@dataclass(frozen=True)
class Nothing(Strategy):
    """Report no rows at all."""

    def __str__(self) -> str:
        return "report nothing"

    def lie(self, rng: Generator, model: Any, data: Any) -> Any:  # noqa: ARG002
        """Drop every row."""
        return _map(model, data, lambda x, axis: x.take(range(0), axis=axis))


@dataclass(frozen=True)
class Flip(Strategy):
    """Give a share of the rows the next label instead of their own."""

    share: float = 0.1

    def __post_init__(self) -> None:
        _check_share(self)

    def __str__(self) -> str:
        return f"flip {self.share:.0%}"

    def lie(self, rng: Generator, model: Any, data: Any) -> Any:  # noqa: ARG002
        """Add one to the labels of the first rows, around the corner."""
        labels = _labels(model, self)
        flipped = round(self.share * _rows(model, data))
        reported = np.array(data)
        reported[..., :flipped] = (reported[..., :flipped] + 1) % labels
        return reported


@dataclass(frozen=True)
class Perturb(Strategy):
    """Add noise: to numbers, a share of their own spread; of labels, that share is drawn anew."""

    amount: float = 0.5

    def __post_init__(self) -> None:
        if not self.amount > 0:
            raise ParameterError(f"Perturb: amount must be above 0, not {self.amount!r}")

    def __str__(self) -> str:
        return f"perturb by {self.amount:g}"

    def lie(self, rng: Generator, model: Any, data: Any) -> Any:
        """Blur values or answers."""
        if _is_labels(model):
            anew = rng.random(data.shape) < min(self.amount, 1.0)
            return np.where(anew, rng.integers(0, _labels(model, self), data.shape), data)

        def blur(x: Array) -> Array:
            noise = self.amount * x.std(axis=_row_axis(model, data), keepdims=True) * rng.standard_normal(x.shape)
            return _admissible(model, x + noise)

        return (data[0], blur(data[1])) if isinstance(data, tuple) else blur(data)


@dataclass(frozen=True)
class Shift(Strategy):
    """Move all values, or answers, by some of their own standard deviations."""

    by: float = 1.0

    def __str__(self) -> str:
        return f"shift by {self.by:g} sd"

    def lie(self, rng: Generator, model: Any, data: Any) -> Any:  # noqa: ARG002
        """Add a constant."""
        if _is_labels(model):
            raise MissingCapabilityError("Shift moves numbers; for labels use Flip")

        def move(x: Array) -> Array:
            return _admissible(model, x + self.by * x.std(axis=_row_axis(model, data), keepdims=True))

        return (data[0], move(data[1])) if isinstance(data, tuple) else move(data)


@dataclass(frozen=True)
class FabricateFromPrior(Strategy):
    """Make data up: parameters from the prior, rows from the parameters."""

    def __str__(self) -> str:
        return "fabricate from the prior"

    def lie(self, rng: Generator, model: Any, data: Any) -> Any:
        """Draw as many rows as there are."""
        leading = (data[1] if isinstance(data, tuple) else data).shape[: _leading(model, data)]
        parameters = model.draw_parameters(rng, leading)
        return model.draw_data(rng, parameters, data[0] if isinstance(data, tuple) else _rows(model, data))


@dataclass(frozen=True)
class FabricateFromPosterior(Strategy):
    """Make up ``times`` as many rows as one has, from what one's own data say about the parameters."""

    times: float = 1.0

    def __str__(self) -> str:
        amount = "" if self.times == 1 else f"{self.times:g}× "
        return f"fabricate {amount}from own posterior"

    def lie(self, rng: Generator, model: Any, data: Any) -> Any:
        """Draw rows from the posterior predictive."""
        if not isinstance(model, SamplesPosterior):
            raise MissingCapabilityError(f"{type(model).__name__} cannot draw from its posterior (draw_posterior)")
        own: Any = model
        parameters = own.draw_posterior(rng, own.statistics(data))
        rows = data[0] if isinstance(data, tuple) else round(self.times * _rows(model, data))
        return own.draw_data(rng, parameters, rows)


@dataclass(frozen=True)
class ShuffleLabels(Strategy):
    """Pair each row's features with another row's answer."""

    def __str__(self) -> str:
        return "shuffle labels"

    def lie(self, rng: Generator, model: Any, data: Any) -> Any:  # noqa: ARG002
        """Permute the answers."""
        if not isinstance(data, tuple):
            raise MissingCapabilityError("ShuffleLabels needs features and answers, (z, y)")
        return data[0], rng.permuted(data[1], axis=-1)


@dataclass(frozen=True)
class Pander(Strategy):
    """Report what will look agreeable: the majority label, one's own mean, or one's own fitted values, in every row."""

    def __str__(self) -> str:
        return "pander"

    def lie(self, rng: Generator, model: Any, data: Any) -> Any:  # noqa: ARG002
        """Replace every row by the fit of all."""
        if isinstance(data, tuple):
            z, y = data
            gram = np.swapaxes(z, -1, -2) @ z + 1e-9 * np.eye(z.shape[-1])
            fit = np.linalg.solve(gram, np.swapaxes(z, -1, -2) @ y[..., None])
            return z, (z @ fit)[..., 0]
        if _is_labels(model):
            counts = np.stack([(data == k).sum(axis=-1) for k in range(_labels(model, self))], axis=-1)
            return np.broadcast_to(counts.argmax(axis=-1)[..., None].astype(np.float64), data.shape)
        mean = data.mean(axis=_row_axis(model, data), keepdims=True)
        return np.broadcast_to(_admissible(model, mean), data.shape)


@dataclass(frozen=True)
class Copy(Strategy):
    """Report a peer's data instead of one's own."""

    def __str__(self) -> str:
        return "copy a peer"

    def play(self, rng: Generator, model: Model, data: Any, honest: Array, liar: int) -> Play:  # noqa: ARG002
        """Send the next provider's report once more; it is taken to have as many rows."""
        reported = honest.copy()
        reported[..., liar, :] = honest[..., (liar + 1) % honest.shape[-2], :]
        return Play(reported, (liar,), (_rows(model, data),))


@dataclass(frozen=True)
class Collude(Strategy):
    """Several providers report the same fake: the first one's data, however often they are replicated."""

    members: int = 2
    fake: Strategy = FabricateFromPrior()

    def __str__(self) -> str:
        return f"{self.members} collude: {self.fake.name}"

    def play(self, rng: Generator, model: Model, data: Any, honest: Array, liar: int) -> Play:
        """Give all members the same report."""
        if not 2 <= self.members <= honest.shape[-2]:
            raise ParameterError(f"Collude: {self.members} members cannot be found among {honest.shape[-2]} providers")
        accounts = tuple((liar + k) % honest.shape[-2] for k in range(self.members))
        reported, told = honest.copy(), self.fake.lie(rng, model, data)
        reported[..., list(accounts), :] = _statistics(model, told)[..., None, :]
        return Play(reported, accounts, (_rows(model, told),) * self.members)


@dataclass(frozen=True)
class Split(Strategy):
    """Open several accounts and give each a part of the rows; every account then has its own, smaller cap."""

    accounts: int = 2

    def __str__(self) -> str:
        return f"split over {self.accounts} accounts"

    def play(self, rng: Generator, model: Model, data: Any, honest: Array, liar: int) -> Play:  # noqa: ARG002
        """Append accounts for all parts but the first."""
        edges = np.linspace(0, _rows(model, data), self.accounts + 1).round().astype(int)
        parts = [
            model.statistics(_map(model, data, lambda x, axis: x.take(range(low, high), axis=axis)))  # noqa: B023
            for low, high in pairwise(edges)
        ]
        reported = honest.copy()
        reported[..., liar, :] = parts[0]
        reported = np.concatenate([reported, *(part[..., None, :] for part in parts[1:])], axis=-2)
        first = honest.shape[-2]
        sizes = tuple(int(high - low) for low, high in pairwise(edges))
        return Play(reported, (liar, *range(first, first + self.accounts - 1)), sizes)


@dataclass(frozen=True)
class _Function(Strategy):
    """Somebody's own strategy, ``lie(data, rng) -> data``."""

    function: Callable[[Any, Generator], Any]

    def __str__(self) -> str:
        return getattr(self.function, "__name__", "own strategy").replace("_", " ")

    def lie(self, rng: Generator, model: Any, data: Any) -> Any:  # noqa: ARG002
        """Call the function, on a copy: what it does to its rows must not reach anybody else."""
        own = tuple(np.array(x) for x in data) if isinstance(data, tuple) else np.array(data)
        return self.function(own, rng)


Lie: TypeAlias = Strategy | Callable[[Any, Generator], Any]


def as_strategy(lie: Lie) -> Strategy:
    """Return a strategy for a strategy or for a function."""
    if not (isinstance(lie, Strategy) or callable(lie)):
        raise ParameterError(f"a lie is a strategy or a function lie(data, rng) -> data, not {lie!r}")
    return lie if isinstance(lie, Strategy) else _Function(lie)


def single_provider_lies(model: Model) -> list[Strategy]:
    """Return the known lies of one provider that make sense for a model's data."""
    found: list[Strategy] = [Replicate(), Withhold(), Nothing(), FabricateFromPrior(), Pander()]
    if isinstance(model, SamplesPosterior):
        found.append(FabricateFromPosterior())
    if _is_regression(model):
        return [*found, Perturb(), Shift(), ShuffleLabels()]
    return [*found, Perturb(), Flip() if _is_labels(model) else Shift()]


def _statistics(model: Any, data: Any) -> Array:
    """Statistics of what is reported, even if no state could have produced it."""
    if isinstance(model, HasSummary):
        return np.asarray(model.from_summary(model.summary(data)))
    return np.asarray(model.statistics(data))


def _check_share(strategy: Any) -> None:
    if not 0 <= strategy.share <= 1:
        raise ParameterError(f"{type(strategy).__name__}: share must lie between 0 and 1, not {strategy.share!r}")


def _is_regression(model: Any) -> bool:
    return hasattr(model, "precision")


def _is_labels(model: Any) -> bool:
    return isinstance(model, HasSupport) and model.support.integer and np.isfinite(model.support.high)


def _labels(model: Any, strategy: Strategy) -> int:
    if not _is_labels(model):
        raise MissingCapabilityError(
            f"{type(strategy).__name__} needs labels; {type(model).__name__} has numbers: use Shift"
        )
    return int(model.support.high) + 1


def _admissible(model: Any, x: Array) -> Array:
    """Move values back into the support: counts stay whole, waits stay positive."""
    support = model.support
    x = np.round(x) if support.integer else x
    low = np.nextafter(support.low, np.inf) if support.open else support.low
    return np.clip(x, low, support.high)


def _row_axis(model: Any, data: Any) -> int:
    """Where the rows are: before the columns of multivariate data, else last."""
    return -2 if not isinstance(data, tuple) and np.ndim(getattr(model, "mean", 0.0)) == 1 else -1


def _leading(model: Any, data: Any) -> int:
    """How many axes come before the rows."""
    return int((data[1] if isinstance(data, tuple) else data).ndim + _row_axis(model, data))


def _rows(model: Any, data: Any) -> int:
    return int((data[1] if isinstance(data, tuple) else data).shape[_row_axis(model, data)])


def _map(model: Any, data: Any, change: Callable[[Any, int], Any]) -> Any:
    """Apply a change of rows to a dataset: arrays of rows, or features and answers."""
    if isinstance(data, tuple):
        return change(data[0], -2), change(data[1], -1)
    return change(data, _row_axis(model, data))
