"""How alike a provider's data are under two day types: cosines between distributions of its reports."""

from __future__ import annotations

from math import comb
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import gammaln

from troth.core.contract import Array
from troth.models.numerics.dispersed import LABELS, as_probabilities, count_log_likelihood, log_rising, real_weight
from troth.models.numerics.extremes import unordered_datasets

if TYPE_CHECKING:
    from troth.models.latent_class import LatentClass

_MOST_REPORTS = 200_000


def day_type_cosines(model: LatentClass, rows: int) -> tuple[Array, Array]:
    """Return cosines ``[type, type]`` between the distributions of a report, and the logs of their lengths.

    The distribution of any function of the report, and any part of its values, will do for a proof that they are
    linearly independent: labels are all listed, or those of a smaller report are if they are too many; counts are cut
    off.

    Examples
    --------
    >>> from troth.models import LatentClass
    >>> day_type_cosines(LatentClass([0.5, 0.5], "real", [0.0, 2.0], 0.0, 1.0), 1)[0].round(4)
    array([[1.    , 0.3679],
           [0.3679, 1.    ]])
    """
    means = np.array(model.means, dtype=np.float64) - model.centre
    if model.outcome == "real":
        weight = float(real_weight(np.asarray(float(rows)), np.asarray(model.dispersion), np.asarray(model.spread)))
        return np.exp(-0.25 * weight * (means[:, None] - means[None]) ** 2), np.zeros(len(means))
    if model.outcome in LABELS:
        codes = as_probabilities(model.outcome, means).shape[1]
        while comb(rows + codes - 1, rows) > _MOST_REPORTS:
            rows //= 2
        counts = unordered_datasets(rows, codes)
        log = model.from_summary(counts) + (gammaln(rows + 1) - gammaln(counts + 1).sum(axis=1))[:, None]
    else:
        most = min(float(rows * means.max() * 4 + 100), float(_MOST_REPORTS))
        totals = np.arange(most)
        sums = np.stack([np.full(len(totals), float(rows)), totals], axis=-1)
        log = count_log_likelihood(sums, means, np.asarray(model.dispersion)) - gammaln(totals + 1)[:, None]
        if model.dispersion:
            log = log + log_rising(np.asarray(1 / model.dispersion), totals)[:, None]
        log = log + totals[:, None] * np.log(rows)
    peak = log.max(axis=0)
    chances = np.exp(log - peak)
    lengths = np.linalg.norm(chances, axis=0)
    chances /= lengths
    return np.clip(chances.T @ chances, 0.0, 1.0), peak + np.log(lengths)
