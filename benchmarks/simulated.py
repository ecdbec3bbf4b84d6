"""The simulator on the very schedule the server gets: what its decisions are worth if nothing else took time."""

from array import array
from collections.abc import Sequence
from dataclasses import replace
from random import Random

from benchmarks.floors import Service
from benchmarks.generator import Measured, Traffic
from penstock.core.batcher import BatchingRules
from penstock.service_model import ServiceModel
from penstock.sim import arrivals
from penstock.sim.kernel import Kernel, Run, Scenario
from penstock.sim.report import spread


def schedule(traffic: Traffic) -> "array[float]":
    """The times `penstock bench` sends at, warm-up included."""
    span = traffic.warmup + traffic.seconds
    if traffic.trace is not None:
        return arrivals.trace(traffic.trace, traffic.rate, span).times
    if traffic.arrivals == "uniform":
        return arrivals.uniform(traffic.rate, span)
    return arrivals.poisson(traffic.rate, span, Random(traffic.seed))


def simulate(service: Service, policy: str, traffic: Traffic) -> Measured:
    scenario = Scenario(
        service=ServiceModel(a=service.a, b=service.b),
        workers=service.workers,
        rules=BatchingRules(max_batch=service.max_batch, policy=policy),
    )
    if traffic.timeout_ms is not None:
        limit = traffic.timeout_ms / 1e3
        scenario = replace(scenario, queue_limit=limit, request_limit=limit)
    times = schedule(traffic)
    run = Kernel(scenario).run(times)
    return settled(run, service, traffic, times)


def settled(run: Run, service: Service, traffic: Traffic, times: Sequence[float]) -> Measured:
    """The figures of those that arrived after the warm-up, as the load generator counts them."""
    latencies = [
        latency
        for latency, finished in zip(run.latencies, run.finished_at, strict=True)
        if finished - latency >= traffic.warmup
    ]
    sent = sum(time >= traffic.warmup for time in times)
    measured = min(traffic.seconds, times[-1] - traffic.warmup) if times else traffic.seconds
    figures = spread(latencies)
    return Measured(
        mean=figures.mean,
        p50=figures.p50,
        p95=figures.p95,
        p99=figures.p99,
        goodput=len(latencies) / measured,
        batch=run.batched / run.batches if run.batches else None,
        busy=run.busy_seconds / (service.workers * run.ended) if run.ended else None,
        sent=sent,
        ok=len(latencies),
        errors=sent - len(latencies),
    )
