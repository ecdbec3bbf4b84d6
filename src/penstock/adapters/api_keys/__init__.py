"""Stores of API keys: a file, or PostgreSQL. The store in Redis is `adapters/redis/records/api_keys.py`.
`roles/key_store.py` chooses one."""
