"""Audits: what would a lie earn? Simulated for every model, and enumerated for small ones."""

from troth.audits import baselines, strategies
from troth.audits.exact import BestResponse, best_response
from troth.audits.findings import Audit, Comparison, Finding
from troth.audits.simulate import audit, compare

__all__ = [
    "Audit",
    "BestResponse",
    "Comparison",
    "Finding",
    "audit",
    "baselines",
    "best_response",
    "compare",
    "strategies",
]
