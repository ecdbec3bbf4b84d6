"""The simulator of `penstock sim`: the decisions of `core` in virtual time.

The files `cli/sim*.py`, `advice` and the benchmarks call it. It imports `core`, `load`, the service model of a
simulated GPU and the vocabulary. There is no event loop, no clock and no configuration here: `roles/simulation.py`
makes a scenario of a configuration. Results are returned as tables, and printed by `cli`.
"""
