"""The simulator of `penstock sim`: the decisions of `core` in virtual time.

`cli/sim.py` and the benchmarks call it. It imports `core`, `load`, the service model of a simulated GPU and the
vocabulary. There is no event loop, no clock and no configuration here: `roles/simulation.py` turns that into a
scenario.
"""
