"""Run every benchmark, or those named: ``python -m benchmarks core``."""

from __future__ import annotations

import sys

from benchmarks import core

BENCHMARKS = {"core": core.main}

for name in sys.argv[1:] or BENCHMARKS:
    BENCHMARKS[name]()
