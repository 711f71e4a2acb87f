"""The contract, log PMI, exact sums, reductions over rows, and what every model must obey."""
