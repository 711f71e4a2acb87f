"""The package as a whole: what it exports, how fast it starts."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import troth
from troth import mechanisms, models
from troth.mechanisms import Rule


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
    requirements = [*project["dependencies"], *project["optional-dependencies"]["service"]]
    pattern, lock = r"^(\S+)==\S+ \\\n    --hash=sha256:([0-9a-f]{64})$", (root / "requirements.lock").read_text()
    locked = dict(re.findall(pattern, lock, re.MULTILINE))
    names = {re.sub("[-_.]+", "-", name).lower() for name in locked}
    assert {re.split(r"[\[<>=]", requirement)[0].lower() for requirement in requirements} <= names
    components = json.loads((root / "sbom.json").read_text())["components"]
    assert {component["name"]: component["hashes"][0]["content"] for component in components} == locked
    for each in components:
        declared = [entry.get("expression") or entry["license"]["name"] for entry in each["licenses"]]
        assert declared, each["name"]
        assert all(declared), each["name"]


def named_in_code(source: str, names: set[str]) -> set[str]:
    """Return which names the code uses or spells out, without docstrings, whose examples use families and rules."""
    tree = ast.parse(source)
    docstrings = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    words: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            words.add(node.id)
        elif isinstance(node, ast.Attribute):
            words.add(node.attr)
        elif isinstance(node, ast.alias):
            words.update(node.name.split("."))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            words.update(re.findall(r"\w+", node.value))
    return words & names


def test_no_module_outside_models_and_mechanisms_names_a_family_or_a_rule() -> None:
    root = Path(troth.__file__).parent
    rules = {
        value.__name__ for value in vars(mechanisms).values() if isinstance(value, type) and issubclass(value, Rule)
    }
    names = {*models.FAMILIES, *rules, "Candidates"} - {"Rule"}
    assert {"Normal", "LineUp", "Bonded"} < names
    assert named_in_code("from troth.models import Normal as N\nx = 'LineUp'\n", names) == {"Normal", "LineUp"}
    allowed = {"__init__.py", "campaigns/starter/demo.py"}  # the lazy exports, and the demonstration
    for path in root.rglob("*.py"):
        place = path.relative_to(root).as_posix()
        if not place.startswith(("models/", "mechanisms/")) and place not in allowed:
            assert named_in_code(path.read_text("utf-8"), names) == set(), place
    for path in (*root.rglob("*.html"), *root.rglob("*.jinja"), *root.rglob("page.js"), *root.rglob("troth.js")):
        words = set(re.findall(r"\w+", path.read_text("utf-8"))) - {"Candidates"}  # a heading of the page
        assert words & names == set(), path
