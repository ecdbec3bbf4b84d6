"""The connections of one process to Redis, and what to do when Redis is away.

The files of `redis/bus` and `redis/records` send every command through `connect.Store`, which `roles/redis.py`
makes. Nothing here knows what the commands are for.
"""
