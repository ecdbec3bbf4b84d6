"""The connections of one process to Redis, and what to do when Redis is away. `redis/bus` and `redis/records` use
it."""
