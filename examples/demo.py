"""Price the README's example: five clinics report how many of their patients improved, and one of them made it up."""

from __future__ import annotations

import numpy as np

import troth

CLINICS = {
    "Ash": "1101101110 1011110110",
    "Birch": "1011011101 1101101011",
    "Cedar": "1110111010",
    "Dogwood": "0110111011 1111011010 1101110111",
    "Elm (made up)": "0010010000 0001001000",
}


def main() -> None:
    """Print what each clinic's report and its peers' reports say about each other."""
    model = troth.models.Bernoulli(alpha=1, beta=1)
    reports = np.stack([model.statistics([int(c) for c in rows if c != " "]) for rows in CLINICS.values()])
    scores = troth.peer_log_pmi(model, reports)
    print("Five clinics report which patients improved. Nobody knows the true rate; the prior is uniform.\n")
    print(f"  {'clinic':<15} {'rows':>5} {'improved':>9}   {'log PMI with its peers':>22}")
    for name, (ones, zeros), score in zip(CLINICS, reports, scores, strict=True):
        bar = ("+" if score > 0 else "-") * round(4 * abs(float(score)))
        print(f"  {name:<15} {int(ones + zeros):>5} {ones / (ones + zeros):>9.0%}   {score:>10.3f} nats  {bar}")
    information = troth.mutual_information(model, 20, int(reports.sum()) - 20)
    print(
        f"\nAn honest clinic with 20 rows expects {information}. Assumed: given the true rate, clinics are independent."
    )


if __name__ == "__main__":
    main()
