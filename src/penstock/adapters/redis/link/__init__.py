"""The connections of one process to Redis, and what to do when it is away."""
