"""Plays the schedule that a server gets in the simulator: what its decisions alone are worth. Benchmarks of latency
print that beside what they measured."""

from dataclasses import replace

from benchmarks.floors import Service
from benchmarks.generator import Measured, Traffic, measured
from penstock.core.rules import BatchingRules
from penstock.load.traffic import Traffic as Schedule
from penstock.load.traffic import make_schedule
from penstock.service_model import ServiceModel
from penstock.sim.kernel import Scenario
from penstock.sim.study import study


def simulate(service: Service, policy: str, traffic: Traffic) -> Measured:
    scenario = Scenario(
        service=ServiceModel(a=service.a, b=service.b),
        workers=service.workers,
        rules=BatchingRules(max_batch=service.max_batch, policy=policy),
    )
    if traffic.timeout_ms is not None:
        limit = traffic.timeout_ms / 1e3
        scenario = replace(scenario, queue_limit=limit, request_limit=limit)
    schedule = make_schedule(
        Schedule(traffic.rate, traffic.seconds, traffic.warmup, traffic.arrivals, traffic.trace, traffic.seed)
    )
    return measured(study(scenario, schedule, traffic.warmup, (), None).summary.as_dict())
