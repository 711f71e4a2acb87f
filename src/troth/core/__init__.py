"""The contract of a model, log PMI, exact sums, reductions of rows, and the laws that every model must obey."""
