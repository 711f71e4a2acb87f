"""What is on record: the ledger, what is signed, and how both are verified."""
