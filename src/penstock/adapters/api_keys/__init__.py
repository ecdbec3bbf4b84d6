"""Stores of API keys in a file or in PostgreSQL. The store in Redis is `adapters/redis/records/api_keys.py`.

All three implement `auth.records.KeyStore`. The roles with clients choose one, to read keys (`roles/embedded.py`,
`roles/gateway.py`), and so does `penstock keys`, to change them (`roles/key_store.py`). Besides `auth`, the
vocabulary and the helper `private` nothing of ours is imported.
"""
