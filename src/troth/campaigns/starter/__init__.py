"""A first campaign: guessed from a table, written as an example, or the demonstration."""
