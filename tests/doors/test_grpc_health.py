"""`Watch` of gRPC's protocol for health checks, as grpcio's own client of it speaks it."""

import asyncio
import json
import signal
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub

from grpc_calls import INFERENCE, NATIVE, OPTIONS, address_of, channel_to, infer
from penstock.doors.door import Visit
from penstock.doors.grpc.health import LOOK, MOST_WATCHERS, SERVICE, Watch
from penstock.edge.answer import Answer
from penstock.errors import Overloaded
from penstock.testing import run_virtual
from server import HUNG, PATIENT, Server, running

SERVING, NOT_SERVING, UNKNOWN = (
    HealthCheckResponse.SERVING,
    HealthCheckResponse.NOT_SERVING,
    HealthCheckResponse.SERVICE_UNKNOWN,
)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running("sim:1ms", "--grpc-port", "0", config=PATIENT) as server:
        yield server


def watch(channel: grpc.Channel, service: str = "") -> Any:
    return HealthStub(channel).Watch(HealthCheckRequest(service=service), timeout=HUNG)


def test_whoever_watches_is_told_at_once_and_at_last_that_the_server_stops() -> None:
    with running("sim:1ms", "--grpc-port", "0", config=PATIENT) as server, channel_to(server) as channel:
        known = [watch(channel, service) for service in ("", INFERENCE, NATIVE, SERVICE)]
        unknown = watch(channel, "made.up.Service")
        assert [next(each).status for each in known] == [SERVING] * 4
        assert next(unknown).status == UNKNOWN
        leaves = watch(channel)
        assert next(leaves).status == SERVING
        leaves.cancel()
        server.process.send_signal(signal.SIGTERM)
        assert [next(each).status for each in known] == [NOT_SERVING] * 4
        for each in (*known, unknown):
            with pytest.raises(grpc.RpcError) as ended:
                next(each)
            assert ended.value.code() is grpc.StatusCode.UNAVAILABLE
        assert server.process.wait(HUNG) == 0


@pytest.mark.parametrize(("service", "serves"), [(NATIVE, True), ("made.up.Service", False)])
def test_a_client_that_checks_health_calls_only_who_serves(
    server: Server, service: str, serves: bool
) -> None:
    balanced = {"healthCheckConfig": {"serviceName": service}, "loadBalancingConfig": [{"round_robin": {}}]}
    options = [*OPTIONS, ("grpc.service_config", json.dumps(balanced))]
    with grpc.insecure_channel(address_of(server), options) as channel:
        if serves:
            assert infer(channel, text="a").text == "a"
            return
        with pytest.raises(grpc.RpcError) as refused:
            infer(channel, text="a")
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE


# ---- without a server --------------------------------------------------------------------------------------


class Heard:
    """What one watcher is told. Implements `edge.caller.Parts`."""

    def __init__(self) -> None:
        self.statuses: list[int] = []
        self.is_over = False

    def send(self, part: bytes) -> None:
        self.statuses.append(HealthCheckResponse.FromString(part).status)

    def end(self, part: bytes) -> None:
        self.is_over = True
        if part:
            self.send(part)

    async def taken(self) -> None: ...

    def cut(self) -> None: ...


def visit(heard: Heard, service: str = "") -> Visit:
    said = HealthCheckRequest(service=service).SerializeToString()
    return Visit("POST", Watch.path, "", None, said, begin=lambda answer: heard)


def door(not_ready: Callable[[], str]) -> Watch:
    inside: Any = type("", (), {"not_ready": staticmethod(not_ready)})
    return Watch(inside, [SERVICE])


def ignored(answer: Answer) -> None:
    raise AssertionError("it is answered in parts")


def test_each_change_is_told_once_to_all_who_watch() -> None:
    async def body() -> None:
        why, heard = ["loading"], [Heard() for _ in range(3)]
        watching = door(lambda: why[0])
        tasks = [
            asyncio.create_task(watching.tell(visit(each, service), ignored))
            for each, service in zip(heard, ("", SERVICE, "made.up.Service"), strict=True)
        ]
        for why[0] in ("loading", "", "", "no healthy worker", "draining", ""):
            await asyncio.sleep(2 * LOOK)
        changes = [NOT_SERVING, SERVING, NOT_SERVING, SERVING]
        assert [each.statuses for each in heard] == [changes, changes, [UNKNOWN]]
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        assert [each.statuses for each in heard] == [
            [*changes, NOT_SERVING],
            [*changes, NOT_SERVING],
            [UNKNOWN],
        ]
        assert all(each.is_over for each in heard)

    run_virtual(body())


def test_there_may_be_so_many_who_watch_and_one_more_when_one_has_left() -> None:
    async def body() -> None:
        watching = door(lambda: "")
        tasks = [asyncio.create_task(watching.tell(visit(Heard()), ignored)) for _ in range(MOST_WATCHERS)]
        await asyncio.sleep(0)
        with pytest.raises(Overloaded):
            await watching.tell(visit(Heard()), ignored)
        tasks.pop().cancel()
        await asyncio.sleep(0)
        tasks.append(asyncio.create_task(watching.tell(visit(heard := Heard()), ignored)))
        await asyncio.sleep(0)
        assert heard.statuses == [SERVING]
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)

    run_virtual(body())
