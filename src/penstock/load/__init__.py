"""What the simulator and the load generator share: when requests arrive, and how results are reported."""
