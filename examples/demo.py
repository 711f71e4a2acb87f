"""Pay the README's example: five clinics report which patients improved, and one of them made it up."""

from __future__ import annotations

import numpy as np

import troth

BUDGET = 1000.0
CLINICS = {
    "Ash": "1101101110 1011110110",
    "Birch": "1011011101 1101101011",
    "Cedar": "1110111010",
    "Dogwood": "0110111011 1111011010 1101110111",
    "Elm (made up)": "0010010000 0001001000",
}


def main() -> None:
    """Print what each clinic earns, and why."""
    model = troth.models.Bernoulli(alpha=1, beta=1)
    reports = np.stack([model.statistics([int(c) for c in rows if c != " "]) for rows in CLINICS.values()])
    rule = troth.SyntheticPeers(draws=1024)
    payments = rule.pay(model, reports, budget=BUDGET, rng=np.random.default_rng(7))
    scores = troth.peer_log_pmi(model, reports)
    nothing = rule.empty_share(model, reports)[0]
    cap = BUDGET / len(CLINICS)
    print(f"Five clinics report which patients improved; the budget is {BUDGET:,.2f}, at most {cap:,.2f} each.")
    print("Nobody knows the true rate; the prior is uniform.\n")
    print(f"  {'clinic':<15} {'rows':>5} {'improved':>9} {'log PMI':>9} {'payment':>10}")
    for name, (ones, zeros), score, amount in zip(CLINICS, reports, scores, payments, strict=True):
        rows, bar = int(ones + zeros), "#" * round(30 * amount / cap)
        print(f"  {name:<15} {rows:>5} {ones / rows:>9.0%} {score:>9.2f} {amount:>10.2f}  {bar}")
    print(f"  {'in all':<15} {'':>25} {payments.sum():>10.2f}")
    print(f"\nSending nothing would have earned {nothing * cap:.2f}, which is {nothing:.0%} of the cap.")
    print("Proved: no lie earns more than the truth in expectation, under the model.")
    print("Assumed: given the true rate, clinics are independent and patients alike.")


if __name__ == "__main__":
    main()
