"""The load generator of `penstock bench`: it sends requests over HTTP on a fixed schedule, and reports the figures.

It knows a server by its address only, so of other rooms it imports `load` and the vocabulary. `cli/bench.py` calls
it, and the benchmarks use its parts.
"""
