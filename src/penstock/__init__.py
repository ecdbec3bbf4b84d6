"""Penstock: a batching gateway for GPU inference.

A user's function imports `Output` from here. The rooms below import each other's modules and never this file,
except for the version. docs/architecture.md says what each room is for and what it may import.
"""

from penstock.output import Output as Output

__version__ = "0.1.0"
