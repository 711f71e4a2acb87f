"""Exact expectations under the prior predictive: E[Λ(t)], from which every mutual information follows."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from scipy.special import gammaln
from scipy.stats import betabinom

from troth.model import Array

Exact: TypeAlias = Array | None

LARGEST_SUM = 2_000_000
"""Terms beyond which a full sum is left to simulation."""


def expected_log_evidence_of_counts(prior: Array, design: Array) -> Exact:
    """E[Σ_k lnΓ(α_k + t_k)] − lnΓ(Σα + n): each count is Beta-binomial, so one sum per category is exact."""
    rows = int(np.asarray(design)[..., 0].item())
    if rows > LARGEST_SUM:
        return None
    counts = np.arange(rows + 1)
    total = prior.sum()
    expectation = -gammaln(total + rows)
    for alpha in prior:
        weights = betabinom.pmf(counts, rows, alpha, total - alpha)
        expectation += float(weights @ gammaln(alpha + counts)) / float(weights.sum())
    return np.asarray(expectation)
