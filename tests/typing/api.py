"""The public names as a user would type them. Nothing here runs: mypy reads it."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from random import Random
from typing import Any, assert_type

from penstock.client import Answer as ClientAnswer
from penstock.client import AsyncClient, Busy, Client, Done, InferenceError, Retries
from penstock.config import Config, Model, load
from penstock.core.rules import BatchingRules
from penstock.errors import BackendCrashed, BackendError, BatchRejected, Overloaded, UserMistake
from penstock.load.arrivals import poisson
from penstock.load.report import Summary, spread
from penstock.ports import Asker, Backend, Broker, Clock, Gateway, Observer, ResultBus
from penstock.service_model import ServiceModel, parse_service
from penstock.sim.kernel import Kernel, Run, Scenario
from penstock.testing import Answer, MockBackend, Recorder, VirtualClock, VirtualLoop, run_virtual
from penstock.types import Accepted, Ask, Batch, Execution, Failure, Outcome, Reason, Reply, Result, WorkerId


class MyBackend:
    """A backend of one's own needs no base class."""

    async def start(self) -> None: ...

    async def run(self, batch: Batch) -> Result:
        if batch.size > 8:
            raise BatchRejected("too many", details="eight at most")
        return Result([request.input for request in batch.requests], version="2", pressure=0.5)

    async def probe(self) -> float:
        raise BackendCrashed("gone")

    async def close(self) -> None: ...


class MyAsker:
    def reply(self, reply: Reply) -> None:
        assert_type(reply.output, bytes)


class MyObserver(Observer):
    def answered(self, replies: Sequence[Reply], now: float) -> None:
        assert_type(replies[0].outcome, Outcome)

    def sent(self, batch: Batch, worker: WorkerId) -> None:
        assert_type(batch.reason, Reason)

    def ended(self, batch: Batch, execution: Execution, failure: Failure | None) -> None:
        assert_type(execution.ended, float)


backend: Backend = MyBackend()
double: Backend = MockBackend([Answer(0.1), Answer(error=BackendCrashed("gone"))])
scripted: Backend = MockBackend(lambda batch: Answer(0.01 * batch.size))
observer: Observer = MyObserver()
asker: Asker = MyAsker()
clock: Clock = VirtualClock()
loop = VirtualLoop(VirtualClock(1000.0))


async def two() -> int:
    return 2


assert_type(run_virtual(two()), int)


async def answered(gateway: Gateway) -> Reply:
    recorder = Recorder()
    gateway.submit(Ask(b'"hello"'), recorder)
    return await recorder.answer


rules = BatchingRules(max_batch=32, policy="paced", max_wait=0.05)
scenario = Scenario(parse_service("a=50ms,b=0.5ms,jitter=5%"), workers=6, rules=rules, request_limit=0.2)
run = Kernel(scenario).run(poisson(1000.0, 60.0, Random(1)), warmup=2.0)
assert_type(run, Run)
assert_type(spread(run.latencies).p99, float | None)
assert_type(scenario.service, ServiceModel)


def sent(at: float, worker: WorkerId, batch: Batch) -> None: ...


Kernel(scenario, on_dispatch=sent, on_reply=lambda at, reply: None)

config = load(Path("penstock.toml"), {"PENSTOCK_SERVER_PORT": "8000"}, {"model.max_batch": 32})
assert_type(config, Config)
assert_type(config.models["m"], Model)


def names(summary: Summary, broker: Broker[Accepted], bus: ResultBus, request: Accepted) -> dict[str, object]:
    broker.publish(request)
    bus.deliver([Reply(request, Outcome.SUCCESS, b"1")])
    return summary.as_dict()


def when_to_come_back(error: Overloaded) -> float | None:
    return error.retry_after


ask = Ask(b'"hello"', model="m", client_id="acme", timeout=0.2)
mistakes: list[type[Exception]] = [UserMistake, BackendError]


def asked(client: Client) -> None:
    assert_type(client.infer("hello"), ClientAnswer[Any])
    assert_type(client.infer("hello", output=list[float]).output, list[float])
    assert_type(client.infer(b"bytes", timeout=2.0, once=False, output=str).metadata.batch_size, int)
    for done in client.map(["a", "b"], output=str):
        assert_type(done, Done[str, str])
        assert_type(done.input, str)
        assert_type(done.output, str)
    mapped = client.map((number for number in range(3)), concurrency=8, ordered=False, progress=True)
    assert_type(mapped.failures[0].input, int)
    assert_type(mapped.failures[0].error, InferenceError)
    assert_type(client.map(["a"], output=dict[str, int]).outputs(), list[dict[str, int]])


async def asked_in_a_loop(texts: AsyncIterator[str]) -> None:
    async with AsyncClient(key="pk_1", retries=Retries(attempts=2)) as client:
        assert_type(await client.infer("hello", output=int), ClientAnswer[int])
        async for done in client.map(texts, output=int):
            assert_type(done, Done[str, int])
        assert_type(await client.map([1, 2], output=str).outputs(), list[str])


def when_to_ask_again(error: Busy) -> float | None:
    return error.retry_after
