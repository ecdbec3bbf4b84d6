"""What Redis keeps for the whole installation: tasks, idempotency keys, dead letters, quotas, answers, API keys."""
