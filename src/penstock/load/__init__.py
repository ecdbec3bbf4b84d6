"""Arrivals, traffic and the report: what the simulator and the load generator share."""
