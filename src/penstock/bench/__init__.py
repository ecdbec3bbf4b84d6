"""The load generator of `penstock bench`: an open loop over HTTP, its figures and its report.

It knows a server by its address only. `cli/bench.py` calls it, and the benchmarks use its parts.
"""
