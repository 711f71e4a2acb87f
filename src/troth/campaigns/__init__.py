"""Campaigns: a campaign file and tables of data in; payments, a ledger and a page out."""
