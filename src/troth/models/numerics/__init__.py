"""Numerical methods for several families: stable differences, extremes, integrals and collision probabilities."""
