"""What a payment rule declares: its options, its requirements, its proved properties, and its explanations.

A rule overrides the defaults here. All other code asks the rule.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np

from troth.core.claims import Claim
from troth.core.contract import Bounds, Model, Models
from troth.core.errors import ParameterError
from troth.core.formats import number
from troth.mechanisms.breakdown import Figures, Step, step_on_scale
from troth.mechanisms.disclosure import Span, share_on_scale
from troth.mechanisms.registry import RULES
from troth.mechanisms.score_range import ScoreRange

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from troth.core.settings import Section
    from troth.mechanisms.options import Option

_SIMILAR = 0.005  # shares that differ by less are described as equal
NO_LIE_GAINS = "under the model no report has a higher expected payment than the truth"


class PriceScale(NamedTuple):
    """The scale on which a rule pays the log score: its low end, its width, and the unit of prices on it."""

    low: float
    width: float
    unit: str


class RuleDescription:
    """Everything that a rule declares, with defaults that claim and require nothing."""

    purpose: ClassVar[str] = ""
    """What the rule is for, in a few words, as shown in forms."""

    not_offered: ClassVar[str] = ""
    """Why campaigns cannot use the rule; empty if they can."""

    individually_rational: bool = True
    """Whether payments are never negative and never above the cap."""

    days: int = 1
    """The number of days that a payment depends on."""

    exchangeable: bool = False
    """Whether numbers of rows or features are declared to vary unpredictably from day to day."""

    pays_alone: bool = False
    """Whether a day with a single report is paid, as for an empty report, because other days are compared with it."""

    needs_seed: bool = False
    """Whether the rule draws random numbers. A campaign must then commit to a seed."""

    needs_rows: str = ""
    """Why the rule needs a limit on the rows of a report; empty if it needs none."""

    needs_finite_data: bool = False
    """Whether the rule requires finitely many possible datasets."""

    peer_draws: int = 1
    """The maximum number of times that peers are drawn in a round."""

    constant_empty_share: bool = False
    """Whether the empty share does not depend on peers' reports. Bonds may then be scaled by it."""

    @property
    def empty_share_holds(self) -> str:
        """When an empty report earns the empty share, as text; empty if this depends on the round's peers."""
        return "whatever peers report" if self.constant_empty_share else ""

    fixed_empty_share: float | None = None
    """The empty share, if the options alone determine it."""

    pools_peers: bool = False
    """Whether a payment depends only on the peers' pooled data. An audit may then pool them."""

    panels: int = 1
    """The number of panels into which peers are split. Each pays a part of a share."""

    truthful_by: ClassVar[str] = ""
    """The theorem by which no lie gains in any campaign; empty if there is none."""

    truthful_if: ClassVar[str] = ""
    """What the theorem assumes besides the model."""

    symmetric: bool = False
    """Whether permuting providers permutes payments bit for bit."""

    strict: bool = False
    """Whether a report earns strictly less if it predicts the peers' data differently from the truth."""

    strict_when: str = ""
    """When the rule is strict; empty if always."""

    free_lies: str = ""
    """Lies that are known to cost nothing; empty if there are none."""

    term_labels: ClassVar[Mapping[str, str]] = {}
    """The labels of a breakdown's terms, by key."""

    log_pmi_first: bool = True
    """Whether a share depends on log PMI itself, not only on its order; explanations then start with log PMI."""

    summed_terms: ClassVar[tuple[str, ...]] = ()
    """The terms that add up to the score, if it is a sum."""

    score_formula: str = ""
    """The formula of the score, in LaTeX."""

    score_meaning: str = ""
    """The score explained in sentences."""

    task_meaning: str = "The better your answer fits your peers' answers, the higher your share."
    """What the share of a task means, for the worker who earned it."""

    def __post_init__(self) -> None:
        for name, option in self.options().items():
            if problem := option.problem(getattr(self, name)):
                raise self.option_error(name, problem)

    def option_error(self, option: str, problem: str) -> ParameterError:
        """Return an error about the value of an option, possibly in combination with others."""
        return ParameterError(f"{type(self).__name__}: {option} {problem}", parameter=option, problem=problem)

    @property
    def name(self) -> str:
        """The name that people see."""
        return type(self).__name__

    @property
    def scale(self) -> ScoreRange:
        """The scale of scores."""
        return ScoreRange(0.0, 1.0)

    @classmethod
    def options(cls) -> dict[str, Option]:
        """Return the options by field name."""
        fields: tuple[Any, ...] = dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else ()
        return {f.name: f.metadata["option"] for f in fields if "option" in f.metadata}

    @classmethod
    def settings(cls) -> dict[str, Option]:
        """Return the keys of a ``[mechanism]`` table that set the options."""
        return {setting.key: setting for option in cls.options().values() for setting in option.settings}

    @classmethod
    def from_settings(cls, section: Section) -> Self:
        """Make a rule from the options in a ``[mechanism]`` table."""
        options = cls.options()
        try:
            return cls(**{name: option.read(section) for name, option in options.items()})
        except ParameterError as error:
            if error.parameter not in options or not error.problem:
                raise
            raise section.error_at(options[error.parameter].key, error.problem) from None

    def refuses(self, model: Model) -> tuple[str, str] | None:
        """Return the option that rules out a model and what to choose instead; None if the rule can pay the model."""
        return None

    def to_settings(self) -> dict[str, Any] | None:
        """Return the ``[mechanism]`` table of this rule, or None if it has none."""
        if RULES.get(type(self).__name__) is not type(self):
            return None
        settings: dict[str, Any] = {"rule": type(self).__name__}
        for name, option in self.options().items():
            written = option.write(getattr(self, name))
            if written is None:
                return None
            settings |= written
        return settings

    def steps(self, figures: Figures, /) -> tuple[Step, ...]:
        """Return the steps from log PMI to a share, as explained to its provider."""
        if figures.score is None and figures.note:
            return (Step("Nothing is scored", meaning="The share was fixed without a score."),)
        if figures.score is None:
            return (Step("The share", meaning="The rule does not show how it computes this share."),)
        terms = tuple((self.term_labels.get(key, key), value) for key, value in figures.terms.items())
        complete = all(key in figures.terms for key in self.summed_terms)
        calculation = " + ".join(number(figures.terms[key]) for key in self.summed_terms) if complete else ""
        score = Step(
            "The score", self.score_formula, terms, "score", number(figures.score), calculation, self.score_meaning
        )
        if self.share_shown(dataclasses.replace(figures, note="")) is None:
            return score, Step("The share", meaning="The rule does not show how it computes the share from the score.")
        return score, step_on_scale(figures)

    def share_shown(self, figures: Figures, /) -> Span | None:
        """Return the possible shares given `disclosed` figures; None if the figures do not determine the share.

        Providers compare it with their payment. A note means that the share does not follow from the figures. If a
        rule's share is not the position of its score on the scale, override this and `steps`, or the rule cannot pay.
        """
        span = None if figures.note else share_on_scale(figures)
        return span.within(0.0, 1.0) if span is not None and self.individually_rational else span

    def task_reason(self, share: float, empty: float, peers: int, /) -> str:
        """Explain why a report on a task has its share, without revealing what peers reported."""
        if not peers:
            return "nobody else worked on it, so it earns the empty share"
        if abs(share - empty) < _SIMILAR:
            return "your answer neither fits nor contradicts your peers' answers"
        return f"your answer {'fits' if share > empty else 'does not fit'} your peers' answers"

    def claims(self, model: Models, rows: Sequence[int], values: Bounds | None = None) -> list[Claim]:
        """Return the claims about the rule itself in a campaign: proved, refuted or undecided."""
        return [self.truthful(model, rows, values), *self.more_claims(), *self.feasible(), self.symmetry(model)]

    def more_claims(self) -> list[Claim]:
        """Return the claims that are specific to this rule."""
        return []

    def truthful(self, model: Models, rows: Sequence[int], values: Bounds | None = None) -> Claim:
        """Claim that no lie gains more than a margin, as a share of the cap; 0 if no lie gains at all."""
        if self.truthful_by:
            return Claim("truthful", "proved", NO_LIE_GAINS + self.truthful_if, self.truthful_by, 0.0)
        text = f"nothing is known about {self.name}; for few datasets, troth.best_response decides it"
        return Claim("truthful", "undecided", text, "")

    def feasible(self) -> list[Claim]:
        """Claim that payments are never negative, and that their sum never exceeds the budget."""
        if not self.individually_rational:
            text = f"{self.name} does not promise shares between 0 and 1"
            return [Claim(name, "undecided", text, "") for name in ("individually rational", "budget feasible")]
        basis = "shares lie in [0, 1], or the round stops"
        promises = {
            "individually rational": "no payment is negative, for any reports",
            "budget feasible": "the sum of payments never exceeds the budget",
        }
        return [Claim(name, "proved", text, basis, rests_on="nothing") for name, text in promises.items()]

    def symmetry(self, model: Models) -> Claim:
        """Claim that payments do not depend on the order of providers."""
        if not self.symmetric:
            return Claim("symmetric", "undecided", f"nothing is known about {self.name}", "")
        different = not isinstance(model, Model) and len(set(model)) > 1
        permuted = "providers of the same model and weight" if different else "providers of equal weight"
        text = f"permuting {permuted}, with their groups, permutes payments bit for bit"
        return Claim("symmetric", "proved", text, "E13; sums over peers are exact", 0.0, rests_on="nothing")

    def price_scale(self, exactly_truthful: bool) -> PriceScale | None:
        """Return the scale on which the price of a lie is stated, or None if it can only be measured."""
        return PriceScale(-np.inf, 1.0, "nats of log score")
