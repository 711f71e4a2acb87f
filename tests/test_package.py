"""The package as a whole: what it exports, how fast it starts."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

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


def test_the_lock_has_every_package_that_the_service_needs_with_its_hash() -> None:
    root = Path(__file__).parent.parent
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["service"]]
    pattern, lock = r"^(\S+)==\S+ \\\n    --hash=sha256:([0-9a-f]{64})$", (root / "requirements.lock").read_text()
    locked = dict(re.findall(pattern, lock, re.MULTILINE))
    names = {re.sub("[-_.]+", "-", name).lower() for name in locked}
    assert {re.split(r"[\[<>=]", each)[0].lower() for each in wanted} <= names
    components = json.loads((root / "sbom.json").read_text())["components"]
    assert {each["name"]: each["hashes"][0]["content"] for each in components} == locked
    for each in components:
        declared = [one.get("expression") or one["license"]["name"] for one in each["licenses"]]
        assert declared, each["name"]
        assert all(declared), each["name"]
