"""Base classes of families: regressions, candidates, finitely many states, providers that differ."""
