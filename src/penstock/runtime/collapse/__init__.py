"""Identical requests to a deterministic model: executed once, answered each."""
