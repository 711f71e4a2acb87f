"""Records: the ledger and the service's signed statements, and how to verify them."""
