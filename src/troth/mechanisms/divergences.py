"""Divergences f for rules that compare matched with mismatched peers, as functions of log PMI.

With u = 1/PMI the score is f′(u) for mismatched peers minus f*(f′(u)) for matched ones. By a lemma of Nguyen,
Wainwright and Jordan its expectation is highest for the truth. PMI must enter inverted (erratum E7). PMI = 0 is the
limit u → ∞, which honest providers can reach on independent days (erratum E6): every function here is exact at ±∞.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import betainc

from troth.core.errors import ParameterError, TrothError
from troth.core.settings import Section, numbers
from troth.mechanisms.options import Choice, Number, Option
from troth.mechanisms.score_range import ROUNDING_NATS, ScoreRange

if TYPE_CHECKING:
    from troth.core.contract import Array


class Divergence:
    """A convex function f: the two terms of its score, their a-priori range, and the score of an empty report.

    ``matched(s)`` is −f*(f′(e^−s)) and falls to the low end as s → −∞; ``mismatched(s)`` is f′(e^−s).
    """

    name: str
    low: float
    high: float
    strictly_convex: bool

    def matched(self, log_pmi: Array) -> Array:
        """−f*(f′(1/PMI)), for own data and peers of the same day."""
        raise NotImplementedError

    def mismatched(self, log_pmi: Array) -> Array:
        """f′(1/PMI), for own data and peers of another day."""
        raise NotImplementedError

    @property
    def meaning(self) -> str:
        """What a score with this divergence means, for the providers it pays."""
        return (
            "Data score high when they fit the real peers better than peers who have nothing to do with them. "
            f"f is the {self.name.replace('_', ' ')} divergence."
        )

    @property
    def scale(self) -> ScoreRange:
        """The range of scores."""
        return ScoreRange(self.low, self.high)

    @property
    def empty_score(self) -> float:
        """f(1), the score of an empty report; an honest report expects f(1) plus its f-information (erratum E8)."""
        empty = np.zeros(1)
        return float((self.mismatched(empty) + self.matched(empty))[0])

    @property
    def empty_share(self) -> float:
        """The share of the cap that an empty report earns: at least half, for every bounded f."""
        return (self.empty_score - self.low) / (self.high - self.low)


@dataclass(frozen=True)
class Logistic(Divergence):
    """f(u) = ln(1 + eᵘ): f′ is the logistic function, the paper's choice.

    Examples
    --------
    >>> Logistic().mismatched(np.array([-np.inf, 0.0, np.inf])).round(4)
    array([1.    , 0.7311, 0.5   ])
    """

    name = "logistic"
    low = 0.5
    high = 1 + float(np.log(2))
    strictly_convex = True

    def matched(self, log_pmi: Array) -> Array:
        """Log1p(e^−u) + u/(1 + eᵘ)."""
        u = _inverse_pmi(log_pmi)
        decay = np.exp(-u)
        return np.asarray(np.log1p(decay) + u * decay / (1 + decay))

    def mismatched(self, log_pmi: Array) -> Array:
        """1/(1 + e^−u)."""
        return 1 / (1 + np.exp(-_inverse_pmi(log_pmi)))


@dataclass(frozen=True)
class LeCam(Divergence):
    """f(u) = (u − 1)²/(u + 1), Le Cam's (triangular) divergence; with w = tanh(s/2) its terms are polynomials.

    Examples
    --------
    >>> LeCam().matched(np.array([-np.inf, 0.0, np.inf]))
    array([-3.,  0.,  1.])
    """

    name = "le_cam"
    low = -6.0
    high = 2.0
    strictly_convex = True

    def matched(self, log_pmi: Array) -> Array:
        """2w − w²."""
        w = np.tanh(0.5 * np.asarray(log_pmi))
        return np.asarray(2 * w - w * w)

    def mismatched(self, log_pmi: Array) -> Array:
        """−(2w + w²)."""
        w = np.tanh(0.5 * np.asarray(log_pmi))
        return np.asarray(-(2 * w + w * w))


@dataclass(frozen=True)
class TotalVariation(Divergence):
    """f(u) = ½|u − 1|: pays only for the sign of log PMI; the empty share is one half. Not strictly convex.

    Examples
    --------
    >>> TotalVariation().empty_share
    0.5
    """

    name = "total_variation"
    low = -1.0
    high = 1.0
    strictly_convex = False

    def matched(self, log_pmi: Array) -> Array:
        """½ sign(s), which is 0 for rounding errors."""
        return 0.5 * np.sign(np.where(np.abs(log_pmi) > ROUNDING_NATS, log_pmi, 0.0))

    def mismatched(self, log_pmi: Array) -> Array:
        """−½ sign(s), which is 0 for rounding errors."""
        return -self.matched(log_pmi)


@dataclass(frozen=True)
class Power(Divergence):
    """f′(u) = uᵏ/(1 + uᵏ), k > 1: the larger k, the closer to a threshold at PMI = 1.

    f*∘f′ is the integral of v f″(v) up to u: with y = f′ an incomplete Beta function, c·I_y(1 + 1/k, 1 − 1/k) with
    c = (π/k)/sin(π/k).

    Examples
    --------
    >>> Power(2).matched(np.array([np.inf, 0.0, -np.inf])).round(4)
    array([-0.    , -0.2854, -1.5708])
    """

    k: float = 2.0

    name = "power"
    high = 1.0
    strictly_convex = True

    def __post_init__(self) -> None:
        if not (np.isfinite(self.k) and self.k > 1):
            raise ParameterError(f"Power: k must be above 1 for a bounded score, not {self.k!r}")

    @property
    def low(self) -> float:  # type: ignore[override]
        """−c, where PMI with matched peers is 0 and with mismatched ones unbounded."""
        return -float(np.pi / self.k / np.sin(np.pi / self.k))

    def matched(self, log_pmi: Array) -> Array:
        """−c·I_y(1 + 1/k, 1 − 1/k)."""
        return np.asarray(self.low * betainc(1 + 1 / self.k, 1 - 1 / self.k, self.mismatched(log_pmi)))

    def mismatched(self, log_pmi: Array) -> Array:
        """Y = 1/(1 + e^{ks})."""
        return 0.5 * (1 - np.tanh(0.5 * self.k * np.asarray(log_pmi)))


def _inverse_pmi(log_pmi: Array) -> Array:
    """1/PMI, clipped at 745, beyond which e^−u underflows to 0."""
    return np.exp(np.clip(-np.asarray(log_pmi, dtype=np.float64), -800.0, 6.6134))


def score_formula(compared: str) -> str:
    """Return the formula of the score with these mismatched peers, in LaTeX."""
    mismatched, matched = (
        rf"f'\left(\frac{{1}}{{\text{{PMI}}(\text{{own}}, \text{{{peers}}})}}\right)" for peers in (compared, "peers")
    )
    return rf"\allowbreak {mismatched} \allowbreak - f^*\left({matched}\right)"


logistic = Logistic()
le_cam = LeCam()
total_variation = TotalVariation()
power = Power

ALL: dict[str, Divergence] = {d.name: d for d in (logistic, le_cam, total_variation, Power())}


@dataclass(frozen=True)
class DivergenceOption(Choice):
    """A divergence by name, with the exponent of `Power`."""

    @property
    def settings(self) -> tuple[Option, ...]:
        """The name, and the exponent of `Power`."""
        return (self, Number("power", in_form=False, in_file=False))

    def problem(self, value: Any) -> str:
        return "" if isinstance(value, Divergence) else f"must be one of troth.divergences, not {value!r}"

    def read(self, section: Section) -> Divergence:
        name, power = super().read(section), section.take("power")
        if power is None:
            return ALL[name]
        if name != "power":
            raise section.error_at("power", 'can be set only with divergence = "power"')
        try:
            return Power(float(numbers(power)))
        except (TrothError, TypeError, ValueError) as error:
            raise section.error_at("power", str(error)) from None

    def write(self, value: Divergence) -> dict[str, Any] | None:
        if isinstance(value, Power):
            return {"divergence": "power", "power": value.k}
        return {"divergence": value.name} if ALL.get(value.name) == value else None


DIVERGENCE = DivergenceOption(
    "divergence",
    "logistic",
    "or le_cam, total_variation, power",
    label="Divergence",
    choices={name: name.replace("_", " ") for name in ALL},
)
"""The option of rules that compare matched with mismatched peers."""
