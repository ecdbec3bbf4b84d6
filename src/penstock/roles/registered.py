"""How the whole installation stands, by the word of those in the registry (SPEC G3, I1)."""

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.adapters.redis.registry import Registry


def worker_rows(registry: Registry) -> Sequence[Mapping[str, Any]]:
    return [
        {
            "worker": slot,
            "host": process.get("host", ""),
            "pid": process.get("pid"),
            **said,
            "last_seen": round(registry.ages.get(name, 0.0), 3),
        }
        for name, process in sorted(registry.members["workers"].items())
        for slot, said in sorted(process.get("slots", {}).items())
    ]


def health_of(registry: Registry) -> dict[str, Any]:
    models: dict[str, dict[str, Any]] = {}
    for batcher in registry.members["batchers"].values():
        for name, said in batcher.get("models", {}).items():
            model = models.setdefault(
                name, {"queue_depth": 0, "requests_per_second": 0.0, "capacity_rps": 0.0}
            )
            model["queue_depth"] += said["queue_depth"]
            model["requests_per_second"] = round(
                model["requests_per_second"] + said["requests_per_second"], 3
            )
            model["capacity_rps"] = max(model["capacity_rps"], said["capacity_rps"])
    rows = worker_rows(registry)
    for name, model in models.items():
        own = [row for row in rows if row.get("model") == name]
        model["workers"] = len(own)
        model["workers_healthy"] = sum(row.get("status") == "healthy" for row in own)
        capacity = model["capacity_rps"]
        model["gpu_utilization"] = round(model["requests_per_second"] / capacity, 4) if capacity else 0.0
    return {
        "gpu_utilization": max((model["gpu_utilization"] for model in models.values()), default=0.0),
        "queue_depth": sum(model["queue_depth"] for model in models.values()),
        "requests_per_second": round(sum(model["requests_per_second"] for model in models.values()), 3),
        "models": models,
        "gateways": len(registry.members["gateways"]),
        "batchers": len(registry.members["batchers"]),
        "redis": {"reachable": registry.reachable, "memory": round(registry.memory_ratio, 4)},
    }
