"""Labels and counts explained by features: logistic, softmax and Poisson regression."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from troth.models.family import Example, Matrix, Vector
from troth.models.parameters import Integer, Precision, parameter, vector
from troth.models.shared.answered_rows import CountedAnswers, LabelAnswers, YesNoAnswers
from troth.models.shared.generalised_regression import GeneralisedRegression


@dataclass(frozen=True)
class LogisticRegression(YesNoAnswers, GeneralisedRegression):
    """Labels 0 and 1 with P(y = 1) = 1/(1 + e^(−z·θ)), θ ~ N(mean, precision⁻¹).

    The log-likelihood is expanded at a public point θ₀: the statistic is (H by rows, g, 0, n) with H = ZᵀW(θ₀)Z,
    W = μ(1 − μ), and g = Zᵀ(y − μ(θ₀)) + H(θ₀ − mean). Λ is that of a linear regression with unit noise, which is exact
    in the limit of many rows with coefficients near θ₀.

    Examples
    --------
    >>> model = LogisticRegression(mean=[0, 0], precision=1)
    >>> model.statistics(([[1, 2], [1, -2]], [1, 0]))
    array([0.5, 0. , 0. , 2. , 0. , 2. , 0. , 2. ])
    """

    description: ClassVar[str] = "yes or no, explained by numbers"
    example: ClassVar[Example] = Example("who is readmitted", ("age", "stay"), "hospital", target="readmitted")


@dataclass(frozen=True)
class SoftmaxRegression(LabelAnswers, GeneralisedRegression):
    """Labels 0 … classes−1 with P(y = c) ∝ e^(z·θ_c), θ = (θ_0, θ_1, …) ~ N(mean, precision⁻¹).

    Like `LogisticRegression`, with W = diag(μ) − μμᵀ. Every class has its own coefficients, so that a prior can treat
    all classes alike; data do not identify a shift that all classes share.

    Examples
    --------
    >>> model = SoftmaxRegression(mean=[0, 0, 0], precision=1, classes=3)
    >>> model.statistics(([[3], [3]], [1, 0]))[9:12]
    array([ 1.,  1., -2.])
    """

    mean: Vector = field(
        metadata=parameter("prior mean of the coefficients, class by class", vector, [0.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    )
    classes: int = field(metadata=parameter("number of labels", Integer(2), 3))

    description: ClassVar[str] = "one of several labels, explained by numbers"
    example: ClassVar[Example] = Example("which crop grows", ("rain", "height"), "farm", target="crop", seed=20201207)


@dataclass(frozen=True)
class PoissonRegression(CountedAnswers, GeneralisedRegression):
    """Counts with mean e^(z·θ), θ ~ N(mean, precision⁻¹).

    Like `LogisticRegression`, with W = μ, which grows without bound: the expansion is accurate only where z·(θ − point)
    is well below 1. So the prior must be narrow and the point near θ: take the point from public or past rows, with
    `expanded_at_mode`. Under a wide prior, honest reports may be paid nothing.

    Examples
    --------
    >>> model = PoissonRegression(mean=[0], precision=1)
    >>> model.statistics(([[1], [1]], [3, 1]))
    array([2., 2., 0., 2.])
    """

    precision: Matrix | Vector | float = field(
        metadata=parameter("prior precision of the coefficients: a number, a diagonal or a matrix", Precision(), 25.0)
    )

    description: ClassVar[str] = "a count explained by numbers"
    example: ClassVar[Example] = Example("how many calls come", ("hour", "rain"), "station", target="calls")
