"""The load generator of `penstock bench`: it sends requests over HTTP on a fixed schedule, and reports the figures.

It knows a server by its address only, so of other rooms it imports `load`, the connections of `client` and the
vocabulary. `cli/bench.py` calls it, and the benchmarks use its parts. The commands of the simulator read their
`--tiers` with it.
"""
