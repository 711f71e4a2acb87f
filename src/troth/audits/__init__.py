"""Audits: what would a lie earn? Simulated for every model, enumerated where all can be enumerated."""

from troth.audits import baselines, strategies
from troth.audits.comparison import Comparison, compare
from troth.audits.exact import BestResponse, best_response
from troth.audits.findings import Audit, Finding
from troth.audits.simulate import audit

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
