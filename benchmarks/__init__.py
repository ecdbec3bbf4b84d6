"""Measurements of Penstock, each one command, with the rival or the limit in the same run.

    python -m benchmarks.added_latency --seconds 10
    python -m benchmarks.all

Nothing in `src/` imports this room. What a benchmark measures is started as a user would start it, by `penstock`;
the load comes from `penstock.bench` or from wrk. README.md lists the commands.
"""
