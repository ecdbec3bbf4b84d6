"""Turns the configuration into what `core`, `runtime` and `cluster` go by: tiers, limits, rules, costs and
sharing."""
