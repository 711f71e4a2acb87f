"""Fits of families to past days: by default a prior of maximum marginal likelihood, or a family's own method."""
