"""What a new campaign file offers in its comments."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from troth.campaigns.starter.examples import Terms, example_text
from troth.campaigns.terms import Campaign
from troth.models import FAMILIES

OWN_LIKELIHOOD = {"Normal", "MultivariateNormal", "LinearRegression", "Finite", "LatentClass", "ProviderNormal"}


def text_of(family: str) -> str:
    return example_text(family, "LineUp", Terms())


def uncommented(text: str, start: str) -> str:
    """Return the file with the comment that begins with ``start`` as a setting, up to the next empty line."""
    before, marker, after = text.partition(f"# {start}")
    assert marker
    table, _, rest = after.partition("\n\n")
    return f"{before}{start}{table.replace(chr(10) + '# ', chr(10))}\n\n{rest}"


@pytest.mark.parametrize("family", sorted(OWN_LIKELIHOOD))
def test_the_table_of_a_provider_lists_what_may_differ(family: str) -> None:
    terms: Any = tomllib.loads(uncommented(text_of(family), "[model.providers."))
    (table,) = terms["model"]["providers"].values()
    assert table.items() <= terms["model"].items()
    assert Campaign.from_dict(terms).provider_models


@pytest.mark.parametrize("family", sorted(FAMILIES.keys() - OWN_LIKELIHOOD))
def test_where_nothing_may_differ_there_is_no_table(family: str) -> None:
    assert "model.providers" not in text_of(family)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_values_are_possible(family: str) -> None:
    line = next(line for line in text_of(family).splitlines() if line.startswith(("values =", "# values =")))
    low, high = tomllib.loads(line.removeprefix("# "))["values"]
    support = FAMILIES[family].example_model().reduction.support
    assert support.low <= low < high <= support.high
