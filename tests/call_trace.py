"""A plugin of pytest that writes which functions of the package a run has called: `-p call_trace`, to $TROTH_CALLS."""

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


def _note(frame: FrameType, *_: Any) -> None:
    _called.add(frame.f_code)


def pytest_configure() -> None:
    """Begin before any thread or test has."""
    threading.settrace(_note)
    sys.settrace(_note)


def pytest_unconfigure() -> None:
    """End, and write the file of each function and its name there."""
    sys.settrace(None)
    calls = sorted((code.co_filename, code.co_qualname) for code in _called if "/troth/" in code.co_filename)
    Path(os.environ["TROTH_CALLS"]).write_text(json.dumps(calls))
