"""What Redis keeps for the whole installation: tasks, idempotency keys, dead letters, quotas, answers, API keys.

`roles/redis.py` makes `records.RedisRecords`, which hands out all of them but the API keys to the gateways,
batchers and workers of `cluster`. Changes that must be made as one are Lua scripts, in files of their own. Every
file speaks to Redis through `redis/link`; of `redis/bus` only the mailboxes are known, by which gateways are told
that a task is over.
"""
