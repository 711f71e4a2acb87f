"""The package as a whole: what it exports, how fast it starts."""

from __future__ import annotations

import subprocess
import sys

import pytest

import troth


@pytest.mark.parametrize("name", troth.__all__)
def test_every_public_name_is_there_and_documented(name: str) -> None:
    value = getattr(troth, name)
    assert name == "__version__" or value.__doc__


def test_unknown_names_are_attribute_errors() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = troth.nonsense
    assert "log_pmi" in dir(troth)


def test_importing_troth_imports_neither_numpy_nor_scipy() -> None:
    code = "import sys, troth; sys.exit('numpy' in sys.modules or 'scipy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
