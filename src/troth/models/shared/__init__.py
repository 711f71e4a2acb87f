"""What several families share: regressions, candidates, finitely many states, providers that differ."""
