"""The ledger: one row for each request that ended, in SQLite or PostgreSQL, off the hot path.

    recorder (event loop) ──► writer, spool (a thread, files) ──► store: sqlite or postgres (a thread)

`open.py` makes it, for `roles/ledger.py`.
"""
