"""The ledger: one row for each request that ended, in SQLite or PostgreSQL, off the hot path.

    recorder (event loop) ──► writer, spool (a thread, files) ──► store: sqlite or postgres (a thread)

`roles/ledger.py` opens one for each process that answers clients, if `[ledger]` names a database (`open.py`), and
reads one for `penstock requests` and `penstock explain`. Imported are ports and the vocabulary, the helpers of
`adapters/`, and for PostgreSQL asyncpg.
"""
