"""What Redis keeps for the whole installation: tasks, idempotency keys, dead letters, quotas, answers, API keys.
`roles/redis.py` uses `records.py`, which makes all of them but the API keys."""
