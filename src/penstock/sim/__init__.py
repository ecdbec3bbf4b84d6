"""The simulator of `penstock sim`: the decisions of `core` in virtual time. It knows no event loop and no clock.
`cli/sim.py` calls it, and so do the benchmarks."""
