"""What the simulator (`sim/`) and the load generator (`bench/`) share: when requests arrive, and how results are
reported."""
