"""Stores of API keys: a file, or PostgreSQL. Another one, in Redis, is `adapters.redis.records.api_keys`."""
