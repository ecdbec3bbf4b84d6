"""The ledger: one row for each request that ended, in SQLite or PostgreSQL, off the hot path."""
