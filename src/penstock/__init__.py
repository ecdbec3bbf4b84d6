"""Penstock: a batching gateway for GPU inference."""

from penstock.output import Output as Output

__version__ = "0.1.0"
