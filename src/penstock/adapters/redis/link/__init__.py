"""The connections of one process to Redis, and what to do when Redis is away.

The files of `redis/bus` and `redis/records` send every command through `connect.Store`, of which a process has one
(`roles/redis.py`). Nothing here knows what the commands are for.
"""
