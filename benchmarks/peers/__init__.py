"""Overhead: how many requests per second each server carries to an echo function and back.

    python -m benchmarks.peers

The function does nothing, so what is measured is everything around it: HTTP, the queue, forming the batch, the way
to the function's process and back. Bare Granian is the limit; the other servers are the rivals.
"""
