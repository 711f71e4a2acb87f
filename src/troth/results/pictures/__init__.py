"""SVG pictures of payments and the reasons for them, for the page, notebooks, files and the service."""

from troth.results.pictures.beliefs import draw_belief
from troth.results.pictures.lies import draw_lies
from troth.results.pictures.payments import Bar, draw_bars, draw_payments, draw_round
from troth.results.pictures.scales import draw_budget, draw_line, draw_score
from troth.results.pictures.svg import Picture

__all__ = [
    "Bar",
    "Picture",
    "draw_bars",
    "draw_belief",
    "draw_budget",
    "draw_lies",
    "draw_line",
    "draw_payments",
    "draw_round",
    "draw_score",
]
