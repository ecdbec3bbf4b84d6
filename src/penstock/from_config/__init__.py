"""Turns the configuration into what `core` and `runtime` go by: tiers, limits, rules, costs and sharing.

`roles` calls these functions for a process that does everything itself and for the simulator, `cluster` for
processes over a bus, and `cli` in a few commands, so that all mean the same by a setting. Only `config`, `core`,
`runtime`, `ports` and the vocabulary are imported; nothing here is kept, started or read from a file.
"""
