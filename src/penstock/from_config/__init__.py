"""Turns the configuration into what `core` and `runtime` go by: tiers, limits, rules, costs and sharing. `roles`
calls these functions for one process, and `cluster` for several."""
