"""Strategies of providers, one small class each.

A `RowLie` changes rows and can be audited. A `SummaryLie` changes a summary and can be replayed on past days, whose
rows may be gone. Most are both. `Copy`, `Collude` and `Split` play a full round. A function ``lie(data, rng) -> data``
is a strategy too.
"""

from troth.audits.strategies.accounts import Collude, Copy, Split
from troth.audits.strategies.amounts import Nothing, Replicate, SendPart, Withhold
from troth.audits.strategies.fabrications import (
    CopyPublic,
    FabricateFromPast,
    FabricateFromPosterior,
    FabricateFromPrior,
    SendStale,
)
from troth.audits.strategies.labelled_rows import CopyPublicLabels, LabelWithOwnModel, SendEasyRows, SwapFeatures
from troth.audits.strategies.searched import Distort, Searched
from troth.audits.strategies.strategy import Knowledge, Lie, Play, RowLie, Strategy, SummaryLie, Truthful, as_strategy
from troth.audits.strategies.values import (
    Flip,
    Perturb,
    ReportTypical,
    ScaleAnswers,
    Shift,
    ShrinkToMean,
    ShuffleLabels,
)
from troth.core.contract import Model
from troth.core.reductions import Reduction

__all__ = [
    "KNOWN_LIES",
    "Collude",
    "Copy",
    "CopyPublic",
    "CopyPublicLabels",
    "Distort",
    "FabricateFromPast",
    "FabricateFromPosterior",
    "FabricateFromPrior",
    "Flip",
    "Knowledge",
    "LabelWithOwnModel",
    "Lie",
    "Nothing",
    "Perturb",
    "Play",
    "Replicate",
    "ReportTypical",
    "RowLie",
    "ScaleAnswers",
    "Searched",
    "SendEasyRows",
    "SendPart",
    "SendStale",
    "Shift",
    "ShrinkToMean",
    "ShuffleLabels",
    "Split",
    "Strategy",
    "SummaryLie",
    "SwapFeatures",
    "Truthful",
    "Withhold",
    "as_strategy",
    "lies_for_model",
    "lies_for_reduction",
    "lies_left_out",
]

KNOWN_LIES: tuple[Strategy, ...] = (
    Replicate(),
    Withhold(),
    Nothing(),
    ShrinkToMean(0.5),
    ShrinkToMean(1.0),
    ShrinkToMean(-0.5),
    FabricateFromPast(),
    FabricateFromPast(anybody=True),
    SendStale(1),
    SendStale(7),
    FabricateFromPrior(),
    ReportTypical(),
    FabricateFromPosterior(),
    Perturb(),
    Flip(),
    Shift(),
    ShuffleLabels(),
    ScaleAnswers(),
    LabelWithOwnModel(),
    CopyPublicLabels(),
    SendEasyRows(),
    SwapFeatures(),
    *(Distort(shift=by) for by in (-1.0, -0.25, 0.25)),
    *(Distort(scale=by) for by in (0.9, 1.1, -1.0)),
    Searched(),
    Searched(days=30),
)
"""The known lies of a single provider."""


def lies_for_model(model: Model) -> list[Strategy]:
    """Return the known lies of a single provider that make sense for a model's rows.

    Examples
    --------
    >>> import troth
    >>> [lie.name for lie in lies_for_model(troth.models.Bernoulli(1, 1))][-2:]
    ['perturb by 0.5', 'flip 10%']
    """
    return [lie for lie in KNOWN_LIES if isinstance(lie, RowLie) and lie.suits_model(model)]


def lies_for_reduction(reduction: Reduction) -> list[SummaryLie]:
    """Return the known lies of a single provider that make sense for summaries of a reduction.

    Examples
    --------
    >>> from troth.core.reductions import Counts
    >>> [lie.name for lie in lies_for_reduction(Counts(2))][:4]
    ['replicate 2 times', 'withhold 50%', 'report nothing', 'shrink 50% to the mean']
    """
    return [lie for lie in KNOWN_LIES if isinstance(lie, SummaryLie) and lie.suits_reduction(reduction)]


def lies_left_out(model: Model, reduction: Reduction) -> list[Strategy]:
    """Return the known lies that make sense for a model's rows but cannot be applied to summaries of its reduction.

    Examples
    --------
    >>> import troth
    >>> model = troth.models.Bernoulli(1, 1)
    >>> [lie.name for lie in lies_left_out(model, model.reduction)]
    ['fabricate from the prior', 'report what is typical', 'fabricate from own posterior', 'perturb by 0.5']
    """
    replayed = lies_for_reduction(reduction)
    sensible = [lie for lie in KNOWN_LIES if not isinstance(lie, RowLie) or lie.suits_model(model)]
    return [lie for lie in sensible if lie not in replayed]
