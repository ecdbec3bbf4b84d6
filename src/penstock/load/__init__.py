"""What the simulator (`sim/`) and the load generator (`bench/`) share: when requests arrive, and how results are
reported. So their figures can be compared.

`penstock sim`, `bench`, `map`, `plan` and `tune` use it, and the benchmarks. It imports the vocabulary alone, sends
nothing and reads no clock. Only `recorded` touches anything outside: it reads the file of a trace.
"""
