"""Stores of API keys in a file or in PostgreSQL. The store in Redis is `adapters/redis/records/api_keys.py`.

All three implement `auth.records.KeyStore`. `roles/key_store.py` chooses one: for a gateway, which only reads keys,
and for `penstock keys`, which changes them. Besides `auth`, the vocabulary and `ports` nothing of ours is imported.
"""
