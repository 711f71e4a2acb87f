"""Fitting day types: their number, their frequencies, and each provider's distribution on each type."""
