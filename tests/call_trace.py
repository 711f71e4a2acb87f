"""A pytest plugin, `-p call_trace`, that writes the functions of the package that a run called to $TROTH_CALLS."""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import CodeType, FrameType

_called: set[CodeType] = set()


def _record(frame: FrameType, *_: Any) -> None:
    _called.add(frame.f_code)


def pytest_configure() -> None:
    """Start tracing before any thread or test starts."""
    threading.settrace(_record)
    sys.settrace(_record)


def pytest_unconfigure() -> None:
    """Stop tracing, and write the file and qualified name of each function."""
    sys.settrace(None)
    calls = sorted((code.co_filename, code.co_qualname) for code in _called if "/troth/" in code.co_filename)
    Path(os.environ["TROTH_CALLS"]).write_text(json.dumps(calls))
