"""Where API keys are kept: a file, or PostgreSQL. (Those in Redis are `adapters.redis.records.api_keys`.)"""
