"""A family that is registered at run time: campaigns, commands and forms know it, and no module names it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import troth
from campaigns.shop import campaign_for, run
from rayleigh import Rayleigh, registered
from troth import models
from troth.campaigns.starter.examples import init
from troth.core.contract import HasFiniteStates
from troth.models.parameters import parameter, positive
from troth.results.beliefs import beliefs_of
from troth.service.pages import terms_form


@pytest.fixture(autouse=True)
def family() -> Iterator[type[Rayleigh]]:
    with registered() as family:
        yield family


def test_it_obeys_the_laws() -> None:
    assert troth.check_model(Rayleigh(3, 2), rng=np.random.default_rng(1))
    assert Rayleigh(3, 2, "foot").statistics([1.0]) == pytest.approx([1, 0.3048**2 / 2])


def test_an_example_is_written_paid_and_verified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(monkeypatch, "init", tmp_path / "x", "--family", "rayleigh") == 0
    path = tmp_path / "x" / "campaign.toml"
    text = path.read_text()
    assert "how high are the waves?" in text
    assert "shape = 3.0               # pseudo-count of waves" in text
    assert troth.Campaign.load(path).model == Rayleigh(3, 2)
    assert run(monkeypatch, "pay", path) == 0
    assert run(monkeypatch, "verify", tmp_path / "x" / "ledger.jsonl") == 0
    assert run(monkeypatch, "explain", tmp_path / "x" / "ledger.jsonl", "buoy A") == 0
    assert "calmness of height" in (tmp_path / "x" / "report.html").read_text()


def test_a_campaign_is_written_for_data(tmp_path: Path) -> None:
    (tmp_path / "waves.csv").write_text("who,height\na,1.5\na,2\nb,1\nb,2.5\n")
    path = campaign_for(tmp_path / "x", "Rayleigh", data=tmp_path / "waves.csv", provider="who")
    assert troth.Campaign.load(path).model == Rayleigh(1.0, (2.25 + 4 + 1 + 6.25) / 8)
    text = path.read_text()
    assert "Guessed from these data" in text
    assert "# What heights are measured in." in text
    assert "confusion matrix" not in text  # which another family learns
    campaign = campaign_for(tmp_path / "y", data=tmp_path / "waves.csv", provider="who")
    assert type(troth.Campaign.load(campaign).model) is models.VaryingNormal


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ("shape = -1", r"\[model\]: Rayleigh: shape must be above 0, not -1.0"),
        ('shape = "3"', r"\[model\] shape: must be a number, or a list of numbers, not '3'"),
        ("shape = 3\nunit = 'yard'", r"\[model\]: Rayleigh: there is no unit 'yard'; there are metre, foot"),
        ("shape = 3\ncalm = 1", r"\[model.prior\] calm: there is no such setting"),
        ("", r"\[model\]: Rayleigh needs shape; put it under \[model.prior\]"),
    ],
)
def test_mistakes_in_its_campaign_file_are_named(changed: str, message: str, tmp_path: Path) -> None:
    path = init(tmp_path / "x", "Rayleigh")
    path.write_text(path.read_text().replace("shape = 3.0 ", f"{changed}\n#"))
    with pytest.raises(troth.ParameterError, match=message):
        troth.Campaign.load(path)


def test_the_form_asks_for_its_parameters() -> None:
    typed = terms_form.blank("Rayleigh")
    assert (typed["prior_shape"], typed["prior_rate"], typed["known_unit"]) == ("3", "2", "metre")
    assert (typed["columns"], typed["target"], typed["categories"]) == ("height", "", "")
    assert not terms_form.reads_labels("Rayleigh")
    terms = terms_form.terms_of({**typed, "name": "waves", "prior_rate": "0.5", "known_unit": "foot"})
    assert troth.Campaign.from_dict(terms).model == Rayleigh(3, 0.5, "foot")
    with pytest.raises(troth.TrothError, match=r"\[model.prior\] rate: must be one number"):
        terms_form.terms_of({**typed, "name": "waves", "prior_rate": "1, 2"})


def test_beliefs_are_named_by_the_family(tmp_path: Path) -> None:
    campaign = troth.Campaign.load(init(tmp_path / "x", "Rayleigh"))
    assert [belief.name for belief in beliefs_of(campaign, [])] == ["calmness of height"]


def test_a_family_that_does_not_describe_itself_is_refused() -> None:
    @dataclass(frozen=True)
    class Silent(models.Family):
        shape: float

    @dataclass(frozen=True)
    class Bare(Silent):
        description: ClassVar[str] = "numbers"

    @dataclass(frozen=True)
    class Vague(models.Family):
        shape: float = field(metadata=parameter("a shape", positive))

        description: ClassVar[str] = "numbers"

    @dataclass(frozen=True)
    class Mute(models.Family):
        description: ClassVar[str] = "numbers"

    class Undecorated(models.Bernoulli):
        gamma: float = field(metadata=parameter("a shape", positive, 1.0))

    class Annotated(models.Bernoulli):
        gamma: float

    @dataclass(frozen=True)
    class Improbable(models.Family):
        description: ClassVar[str] = "numbers"
        summary = models.Normal.summary

    @dataclass(frozen=True)
    class Meaningless(models.Bernoulli):
        gamma: float = field(default=1.0, metadata=parameter("", positive, 1.0))

    @dataclass(frozen=True, kw_only=True)
    class Hidden(models.Bernoulli):
        gamma: float = field(metadata=parameter("a shape", positive, 1.0, hidden=True))

    @dataclass(frozen=True)
    class Unkind(models.Bernoulli):
        gamma: float = field(default=1.0, metadata=parameter("a shape", "positive", 1.0))  # type: ignore[arg-type]

    @dataclass(frozen=True)
    class Negative(models.Bernoulli):
        gamma: float = field(default=1.0, metadata=parameter("a shape", positive, -1.0))

    @dataclass(frozen=True)
    class Shifted(models.Bernoulli):
        levels: float = field(default=1.0, metadata=parameter("a key of [model]", positive, 1.0))

    @dataclass(frozen=True)
    class Shadowed(models.Bernoulli):
        space: float = field(default=1.0, metadata=parameter("a property of families", positive, 1.0))  # type: ignore[assignment]

    class Irreducible(models.Bernoulli):
        reduction = models.Poisson(1, 1).support  # type: ignore[assignment]

    refused: list[tuple[Any, str]] = [
        (Mute, "define summary or statistics, which turn rows into numbers"),
        (Improbable, "define log_evidence, the log evidence of statistics"),
        (Undecorated, r"write @dataclass\(frozen=True\) above the class"),
        (Annotated, r"write @dataclass\(frozen=True\) above the class"),
        (Meaningless, "say what gamma means"),
        (Hidden, "give gamma a default, because users are not asked for it"),
        (Unkind, "the kind of gamma must be one of troth.models.parameters, such as positive, not 'positive'"),
        (Negative, "gamma must be above 0, not -1.0"),
        (Shifted, "'levels' is taken; give the parameter another name"),
        (Shadowed, "'space' is taken; give the parameter another name"),
        (Irreducible, "its reduction must have all methods .* it lacks columns, width, .*convert"),
        (Silent, "what data it is for"),
        (Bare, "declare shape"),
        (Vague, "example of"),
        (int, "not a subclass of Family"),
        (type("Normal", (models.Poisson,), {}), "Normal is taken by troth.models.normal.Normal"),
    ]
    before = dict(models.FAMILIES)
    for family, message in refused:
        with pytest.raises(troth.ParameterError, match=message):
            models.register(family)
    assert before == models.FAMILIES


def test_every_family_makes_its_example() -> None:
    for name, family in models.FAMILIES.items():
        model: Any = family.example_model()
        assert models.from_dict(json.loads(json.dumps(model.to_dict()))) == model, name
        for hyper_parameter in family.parameters():
            if hyper_parameter.example is not None:
                parsed = hyper_parameter.kind.parse(hyper_parameter.text)
                assert parsed == hyper_parameter.example, (name, hyper_parameter.name)
            assert hyper_parameter.meaning, (name, hyper_parameter.name)
        columns = [*family.example.columns, family.example.target]
        if not isinstance(model, HasFiniteStates):
            names = model.parameter_names(columns, family.example.labels)
            theta = model.draw_parameters(np.random.default_rng(1))
            assert len(names) == theta.shape[-1] if family.explains_target else names, name
