"""What the last bits of a payment depend on, and how far numbers computed elsewhere may differ."""

from __future__ import annotations

import os
import platform
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np
from threadpoolctl import threadpool_info

if TYPE_CHECKING:
    from troth.campaigns.records.ledger import Ledger

SAME = 1e-9
"""How far sums of the same data may differ between engines, and scores between machines."""


@cache
def versions() -> dict[str, str]:
    """Return the versions of the programs that compute payments, and the arithmetic of this processor."""
    programs = {name: version(name) for name in ("troth", "numpy", "scipy")}
    return {"python": platform.python_version(), **programs, "processor": _processor()}


def _processor() -> str:
    """Name the instructions that NumPy and BLAS chose, and the C library: a logarithm may differ in its last bit."""
    vectors = np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])
    kernels = {str(library.get("architecture")) for library in threadpool_info() if library["user_api"] == "blas"}
    libc = os.confstr("CS_GNU_LIBC_VERSION") if "CS_GNU_LIBC_VERSION" in os.confstr_names else None
    return " ".join([platform.machine(), *vectors, *sorted(kernels), libc or "another libc"])


def tolerance(ledger: Ledger) -> float:
    """Return how far numbers of a ledger may be from what is recomputed: 0 if it was computed on such a machine."""
    return 0.0 if all(entry.get("versions") == versions() for entry in ledger.of("round")) else SAME


def close(recomputed: Any, recorded: Any, within: float) -> bool:
    """Whether two entries of a ledger are equal, their fractions up to a tolerance."""
    if isinstance(recomputed, dict) and isinstance(recorded, dict):
        return recomputed.keys() == recorded.keys() and all(
            close(recomputed[key], recorded[key], within) for key in recomputed
        )
    if isinstance(recomputed, float) and isinstance(recorded, float):
        return recomputed == recorded or abs(recomputed - recorded) <= within * max(1.0, abs(recomputed), abs(recorded))
    return bool(recomputed == recorded)
