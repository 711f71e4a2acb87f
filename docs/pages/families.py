"""The table of families: what each is for, and its parameters in a campaign file."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from troth.models import FAMILIES

if TYPE_CHECKING:
    from troth.models.parameters import Parameter


def table() -> str:
    """Return every family with its hyper-parameters as a Markdown table."""
    lines = ["| family | parameter | what it is | example |", "|---|---|---|---|"]
    for name, family in FAMILIES.items():
        lines.append(f"| {{py:obj}}`{name} <troth.models.{name}>` | | **{family.description}** | |")
        lines += [
            f"| | `{parameter.name}` | {_meaning(parameter)} | {_example(parameter)} |"
            for parameter in family.parameters()
        ]
    return "\n".join(lines)


def _meaning(parameter: Parameter) -> str:
    return parameter.meaning + ("" if parameter.required else " (optional)")


def _example(parameter: Parameter) -> str:
    value = parameter.default if parameter.example is None else parameter.example
    return "" if value is None else f"`{json.dumps(value)}`"
