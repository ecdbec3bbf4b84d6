"""Configuration: `penstock.toml`, the environment and the command line, built once into frozen sections.

The commands call `load`; `roles`, `cluster`, `from_config` and `server` are handed the finished `Config`. Nothing
here runs anything. Of other rooms only the vocabulary is imported, and the names of the policies from `core`.
"""

from penstock.config.changes import Changes, changes
from penstock.config.config import Config, Setting
from penstock.config.consistency import doubts
from penstock.config.load import find_file, load, name_after
from penstock.config.sections import (
    Api,
    Auth,
    Autoscaler,
    Doors,
    GrpcEndpoint,
    HttpEndpoint,
    Idempotency,
    Jwt,
    Ledger,
    Level,
    Limits,
    Model,
    Redis,
    Retries,
    Server,
    Tenant,
    Tiers,
    Timeouts,
    Tls,
    Trace,
    Tracing,
)

__all__ = [
    "Api",
    "Auth",
    "Autoscaler",
    "Changes",
    "Config",
    "Doors",
    "GrpcEndpoint",
    "HttpEndpoint",
    "Idempotency",
    "Jwt",
    "Ledger",
    "Level",
    "Limits",
    "Model",
    "Redis",
    "Retries",
    "Server",
    "Setting",
    "Tenant",
    "Tiers",
    "Timeouts",
    "Tls",
    "Trace",
    "Tracing",
    "changes",
    "doubts",
    "find_file",
    "load",
    "name_after",
]
