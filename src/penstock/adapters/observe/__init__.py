"""Observers that count and note what happened to requests and batches: the metrics, the request log, and requests
that have ended of late. `roles/observers.py` makes them. Counters are plain integers; Prometheus' text is made only
when it is asked for."""
