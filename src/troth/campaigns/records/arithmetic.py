"""The software and hardware that the last bits of a payment depend on, and tolerances for other machines."""

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

TOLERANCE = 1e-9
"""How much sums of the same data may differ between engines, and scores between machines."""


@cache
def versions() -> dict[str, str]:
    """Return the versions of the packages that compute payments, and a description of this processor."""
    packages = {name: version(name) for name in ("troth", "numpy", "scipy")}
    return {"python": platform.python_version(), **packages, "processor": _processor()}


def _processor() -> str:
    """Describe the instructions that NumPy and BLAS use, and the C library: the last bit of a logarithm may differ."""
    vectors = np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])
    kernels = {str(library.get("architecture")) for library in threadpool_info() if library["user_api"] == "blas"}
    libc = os.confstr("CS_GNU_LIBC_VERSION") if "CS_GNU_LIBC_VERSION" in os.confstr_names else None
    return " ".join([platform.machine(), *vectors, *sorted(kernels), libc or "another libc"])


def tolerance(ledger: Ledger) -> float:
    """Return how much recomputed numbers may differ from a ledger: 0 if software and processor are the same."""
    return 0.0 if all(entry.get("versions") == versions() for entry in ledger.of("round")) else TOLERANCE


def close(recomputed: Any, recorded: Any, within: float) -> bool:
    """Whether two entries of a ledger are equal, floats up to a tolerance."""
    if isinstance(recomputed, dict) and isinstance(recorded, dict):
        return recomputed.keys() == recorded.keys() and all(
            close(recomputed[key], recorded[key], within) for key in recomputed
        )
    if isinstance(recomputed, float) and isinstance(recorded, float):
        scale = max(1.0, abs(recomputed), abs(recorded))
        return recomputed == recorded or abs(recomputed - recorded) <= within * scale
    return bool(recomputed == recorded)
