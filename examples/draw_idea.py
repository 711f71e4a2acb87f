"""A clinic's exact expected payment for every possible report: the picture in the README and on the home page."""

from __future__ import annotations

import sys
from functools import cache
from math import inf
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

import troth

ROWS, PEER_ROWS = 20, 100
TRUTHS = (4, 10, 17)
MODEL = troth.models.Bernoulli(alpha=1, beta=1)
RULE = troth.LineUp(decoys=inf)  # the expected share, which is the same for every number of decoys
REPORTS = np.stack([np.arange(ROWS + 1.0), ROWS - np.arange(ROWS + 1.0)], axis=-1)
PEERS = np.stack([np.arange(PEER_ROWS + 1.0), PEER_ROWS - np.arange(PEER_ROWS + 1.0)], axis=-1)
THEMES = {
    "light": {"text": "#1f2328", "faint": "#8c959f", "curves": ("#7a3e9d", "#c4540a", "#0b6e8a")},
    "dark": {"text": "#e6edf3", "faint": "#7d8590", "curves": ("#c79be8", "#f0995c", "#67c3dd")},
}


def predict_peers(own: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the probability of each possible report of the peers, given a clinic's own data."""
    orders = gammaln(PEER_ROWS + 1) - gammaln(PEERS + 1).sum(axis=-1)
    probabilities = np.exp(orders + MODEL.log_evidence(own + PEERS) - MODEL.log_evidence(own))
    return np.asarray(probabilities, dtype=np.float64)


@cache
def shares_by_peers() -> NDArray[np.float64]:
    """Return the share of the cap for each report of the clinic (row) and of its peers (column)."""
    pairs = np.stack(np.broadcast_arrays(REPORTS[:, None], PEERS), axis=-2)
    return np.asarray(RULE.explain(MODEL, pairs).share[..., 0], dtype=np.float64)


def expected_shares(truth: int) -> NDArray[np.float64]:
    """Return the expected share of the cap for each number of ones that a clinic with ``truth`` ones could report.

    The expectation is exact: over the decoys of the default rule and over all reports of the peers.
    """
    return np.asarray(shares_by_peers() @ predict_peers(REPORTS[truth]), dtype=np.float64)


def draw(path: Path, theme: str) -> None:
    """Draw the picture for light or dark pages."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams.update({"svg.hashsalt": "troth", "font.size": 12, "font.family": "DejaVu Sans"})
    from matplotlib import pyplot as plt

    colours = THEMES[theme]
    text, faint = str(colours["text"]), str(colours["faint"])
    figure, axes = plt.subplots(figsize=(6.8, 4.1))
    empty = 100 * RULE.line_empty_share
    axes.axhline(empty, color=faint, linestyle=(0, (5, 4)), linewidth=1.3)
    label = "an empty report"
    axes.annotate(label, (ROWS / 2, empty), (0, 5), textcoords="offset points", ha="center", color=faint, fontsize=10)
    for truth, colour in zip(TRUTHS, colours["curves"], strict=True):
        shares = 100 * expected_shares(truth)
        axes.plot(np.arange(ROWS + 1), shares, color=colour, linewidth=2.2)
        axes.plot(truth, shares[truth], "o", color=colour, markersize=9)
        axes.annotate(
            f"the truth: {truth}",
            (truth, shares[truth]),
            (0, 11),
            textcoords="offset points",
            ha="center",
            color=colour,
        )
    axes.set_xlabel(f"what the clinic reports: improved patients out of {ROWS}", color=text)
    axes.set_ylabel("expected payment, % of the cap", color=text)
    axes.set_xlim(-0.4, ROWS + 0.4)
    axes.set_ylim(0, 101)
    axes.set_xticks(range(0, ROWS + 1, 2))
    axes.tick_params(colors=text)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(faint)
    figure.tight_layout()
    figure.savefig(path, transparent=True, metadata={"Date": None})
    plt.close(figure)


def main() -> None:
    """Draw both pictures, by default in docs/images."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[1] / "docs" / "images")
    for theme in THEMES:
        draw(folder / f"idea-{theme}.svg", theme)
    for truth in TRUTHS:
        shares = expected_shares(truth)
        best = int(shares.argmax())
        print(f"the truth is {truth:>2} of {ROWS}: the best report is {best:>2}, paid {shares[best]:.1%} of the cap")


if __name__ == "__main__":
    main()
