"""What the simulator (`sim/`) and the load generator (`bench/`) share: when requests arrive, and how results are
reported. So their figures can be compared.

`penstock sim`, `penstock bench` and the benchmarks use it. It imports the vocabulary alone, sends nothing and reads
no clock.
"""
