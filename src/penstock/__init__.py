"""Penstock: a batching gateway for GPU inference."""

__version__ = "0.1.0"
