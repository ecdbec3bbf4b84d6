"""Observers that count and note what happened to requests and batches: the metrics, the request log, and requests
that have ended of late. Also how long the event loop pauses.

`roles/observers.py` makes them for each process; gateways, batchers and slots call them through
`ports.observers`. They are called on the hot path, so they only count: Prometheus' text is made when somebody asks.
Besides ports, the vocabulary, the structs of `overview` and the helper `written_aside` nothing of ours is imported.
"""
