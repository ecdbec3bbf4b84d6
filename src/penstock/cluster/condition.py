"""How the whole installation stands, by the word of those in the registry."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from penstock.ports.registry import KINDS, Registry
from penstock.runtime.condition import DEGRADED, UNHEALTHY, condition, worst

OFFLINE = {"status": "offline", "state": "offline"}
DEPTHS = ("warning_depth", "critical_depth")  # at which the lowest tier, and all but the best, are refused


def worker_rows(registry: Registry) -> Sequence[Mapping[str, Any]]:
    return [
        {
            "worker": slot,
            "host": process.get("host", ""),
            "pid": process.get("pid"),
            **said,
            **(OFFLINE if registry.is_silent(name) else {}),
            "last_seen": round(registry.ages.get(name, 0.0), 3),
        }
        for name, process in sorted(registry.members["workers"].items())
        for slot, said in sorted(process.get("slots", {}).items())
    ]


def all_worker_rows(registry: Registry) -> Sequence[Mapping[str, Any]]:
    """And those that went without a word, for as long as Redis remembers them."""
    lost = [
        {
            "worker": slot,
            "host": process.get("host", ""),
            "pid": process.get("pid"),
            **said,
            **OFFLINE,
            "last_seen": round(age, 3),
        }
        for _, (age, process) in sorted(registry.lost["workers"].items())
        for slot, said in sorted(process.get("slots", {}).items())
    ]
    return [*worker_rows(registry), *lost]


def condition_of(registry: Registry) -> str:
    """Of the installation. A model that no known worker serves makes it degraded: the others are served."""
    if not registry.members["batchers"]:
        return UNHEALTHY
    models = health_of(registry)["models"].values()
    if not any(model["workers_healthy"] for model in models):
        return UNHEALTHY
    return worst(model["status"] if model["workers"] else DEGRADED for model in models)


def has_worker(registry: Registry, model: str) -> bool:
    """Whether one is known that can serve it now."""
    return any(row.get("model") == model and row.get("status") == "healthy" for row in worker_rows(registry))


def still_loading(registry: Registry) -> list[str]:
    """The models, while none of them can be served yet and some worker loads. One model that is served is enough to
    send traffic here: who asks for another one is told that it loads."""
    rows = worker_rows(registry)
    if any(row.get("status") == "healthy" for row in rows):
        return []
    return sorted({str(row.get("model")) for row in rows if row.get("status") == "loading"})


def process_rows(registry: Registry) -> list[dict[str, Any]]:
    """Every process that is there, and where its admin plane is."""
    return [
        {
            "name": name,
            "role": kind.removesuffix("s"),
            "host": process.get("host", ""),
            "pid": process.get("pid"),
            "admin": process.get("admin", ""),
            "last_seen": round(registry.ages.get(name, 0.0), 3),
        }
        for kind in KINDS
        for name, process in sorted(registry.members[kind].items())
    ]


def _add_capacity(model: dict[str, Any], said: Mapping[str, Any], healthy: int) -> None:
    """Of one batcher: what it has learned of a worker, times the workers that are healthy by what is known here.
    Its own count came with its last heartbeat, and that would be one heartbeat too late."""
    of_batcher = said.get("workers_healthy")
    if not of_batcher or None in [said.get(each) for each in ("capacity_rps", *DEPTHS)]:
        return  # nothing is known yet, or it is of another version
    change = healthy / of_batcher
    model["capacity_rps"] = max(model["capacity_rps"], round(said["capacity_rps"] * change, 3))
    for depth in DEPTHS:  # of its part of the queue
        model[depth] = round((model[depth] or 0.0) + said[depth] * change, 1)


def health_of(registry: Registry) -> dict[str, Any]:
    rows = all_worker_rows(registry)
    healthy = Counter(row.get("model") for row in rows if row.get("status") == "healthy")
    models: dict[str, dict[str, Any]] = {}
    for batcher in registry.members["batchers"].values():
        for name, said in batcher.get("models", {}).items():
            model = models.setdefault(
                name,
                {"queue_depth": 0, "requests_per_second": 0.0, "capacity_rps": 0.0, **dict.fromkeys(DEPTHS)},
            )
            model["queue_depth"] += said["queue_depth"]
            model["requests_per_second"] = round(
                model["requests_per_second"] + said["requests_per_second"], 3
            )
            _add_capacity(model, said, healthy[name])
    for name, model in models.items():
        model["workers"] = sum(row.get("model") == name for row in rows)
        model["workers_healthy"] = healthy[name]
        model["status"] = condition(model["workers"], healthy[name])
        capacity = model["capacity_rps"]
        model["gpu_utilization"] = round(model["requests_per_second"] / capacity, 4) if capacity else 0.0
    return {
        "gpu_utilization": max((model["gpu_utilization"] for model in models.values()), default=0.0),
        "queue_depth": sum(model["queue_depth"] for model in models.values()),
        "requests_per_second": round(sum(model["requests_per_second"] for model in models.values()), 3),
        "models": models,
        "gateways": len(registry.members["gateways"]),
        "batchers": len(registry.members["batchers"]),
        "processes": process_rows(registry),
        "redis": {"reachable": registry.reachable, "memory": round(registry.memory_ratio, 4)},
    }
