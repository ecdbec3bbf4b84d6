"""A receiver that is away, hangs, refuses or is slow harms no request; what it does not take is counted."""

import asyncio
import logging
import socket
import threading
from collections.abc import Awaitable, Callable

import pytest
from tracing_kit import keeping

from penstock.adapters.tracing import exporter as exporter_module
from penstock.adapters.tracing.exporter import Exporter, Gathering, NotTaken, Wall
from penstock.adapters.tracing.otlp import request_head
from penstock.adapters.tracing.receiver import Receiver, ReceiverSettings
from penstock.errors import UserMistake
from server import Server, eventually, running

CONFIG = """
[tracing]
endpoint = "{url}"
delay = "60s"
together = 4
max_queue = 8
[models.sim]
target = "sim:1ms"
"""


def spans(server: Server, state: str) -> float:
    return server.metric("penstock_trace_spans_total", state=state)


def all_are_answered(server: Server, number: int) -> None:
    for _ in range(number):
        assert server.post("/v1/inference", {"input": "a"}).status == 200


def test_while_the_receiver_is_away_requests_are_answered_and_spans_are_dropped_and_counted() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # nobody listens there
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        with running(config=CONFIG.format(url=url)) as server:
            all_are_answered(server, 20)
            eventually(lambda: spans(server, "dropped") > 0)
            assert spans(server, "sent") == 0
            assert server.metric("penstock_trace_waiting_spans") <= 8 + 4
            assert server.stop() == 0
            said = server.stderr()
    assert said.count("traces cannot be sent") == 1
    assert "spans were not sent" in said


def test_a_receiver_that_never_answers_holds_up_neither_requests_nor_the_end() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with running(config=CONFIG.format(url=url)) as server:
            all_are_answered(server, 20)
            eventually(lambda: spans(server, "dropped") > 0)
            assert server.stop() == 0


def test_a_receiver_that_comes_back_gets_what_waited() -> None:
    with keeping() as receiver:
        receiver.statuses = [503, 429]
        with running(config=CONFIG.format(url=receiver.url)) as server:
            all_are_answered(server, 1)
            eventually(lambda: spans(server, "sent") == 4)
            assert "traces are sent again" in server.stderr()
            assert spans(server, "dropped") == 0
    assert sorted(span.name for span in receiver.spans()) == [
        "POST /v1/inference", "process sim", "run sim", "wait sim",
    ]  # fmt: skip


def test_what_the_receiver_refuses_is_not_sent_again() -> None:
    with keeping() as receiver:
        receiver.statuses = [401]
        with running(config=CONFIG.format(url=receiver.url)) as server:
            all_are_answered(server, 1)
            eventually(lambda: spans(server, "dropped") == 4)
            assert "answered 401" in server.stderr()
            all_are_answered(server, 1)
            eventually(lambda: spans(server, "sent") == 4)
            assert spans(server, "dropped") == 4


def test_spans_that_a_receiver_takes_in_part_are_counted_for_what_they_are() -> None:
    with keeping() as receiver:
        receiver.said = b"\x0a\x02\x08\x03"  # partial_success: rejected_spans: 3
        with running(config=CONFIG.format(url=receiver.url)) as server:
            all_are_answered(server, 1)
            eventually(lambda: (spans(server, "sent"), spans(server, "dropped")) == (1, 3))


# ---- the exporter by itself ----------------------------------------------------------------------------------


class Noted:
    """A record of one span."""

    spans = 1

    def __init__(self, span: bytes) -> None:
        self._span = span

    def write(self, wall: Wall) -> list[bytes]:
        return [self._span]


class Gate:
    """A `Post` that takes nothing until it is opened."""

    def __init__(self) -> None:
        self.opened, self.called = threading.Event(), threading.Event()
        self.taken: list[list[bytes]] = []
        self.fails: list[Exception] = []
        self.closed = False

    def send(self, spans: list[bytes]) -> int:
        self.called.set()
        assert self.opened.wait(60)
        if self.fails:
            raise self.fails.pop(0)
        self.taken.append(spans)
        return 0

    def close(self) -> None:
        self.closed = True


def exporting(body: Callable[[Exporter, Gate], Awaitable[None]], gathering: Gathering) -> None:
    async def run() -> None:
        loop = asyncio.get_running_loop()
        gate = Gate()
        await body(Exporter(gate, loop, loop.time, gathering), gate)

    asyncio.run(run())


def test_what_is_gathered_goes_together_when_it_is_enough_and_the_rest_at_the_end() -> None:
    async def body(exporter: Exporter, gate: Gate) -> None:
        gate.opened.set()
        for number in range(5):
            exporter.add(Noted(b"%d" % number))
        assert exporter.waiting >= 1
        await exporter.close()
        assert gate.taken == [[b"0", b"1"], [b"2", b"3"], [b"4"]]
        assert (exporter.sent, exporter.dropped, exporter.waiting) == (5, 0, 0)
        assert gate.closed

    exporting(body, Gathering(most_waiting=100, together=2, delay=60))


def test_what_is_more_than_may_wait_is_dropped_and_what_waited_is_sent() -> None:
    async def body(exporter: Exporter, gate: Gate) -> None:
        for number in range(10):
            exporter.add(Noted(b"%d" % number))
        assert (exporter.dropped, exporter.waiting) == (6, 4)
        gate.opened.set()
        await exporter.close()
        assert gate.taken == [[b"0", b"1"], [b"2", b"3"]]
        assert (exporter.sent, exporter.dropped, exporter.waiting) == (4, 6, 0)

    exporting(body, Gathering(most_waiting=4, together=2, delay=60))


def test_at_the_end_a_receiver_that_does_not_take_spans_is_not_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(exporter_module, "FIRST_WAIT", 3600.0)

    async def body(exporter: Exporter, gate: Gate) -> None:
        gate.fails = [NotTaken("not now", 0.0)]
        exporter.add(Noted(b"x"))
        await asyncio.to_thread(gate.called.wait, 60)
        gate.opened.set()
        await exporter.close()
        assert (exporter.sent, exporter.dropped, exporter.waiting) == (0, 1, 0)

    exporting(body, Gathering(together=1, delay=60))


def test_an_error_in_the_thread_loses_the_spans_in_hand_and_no_others(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def body(exporter: Exporter, gate: Gate) -> None:
        gate.opened.set()
        gate.fails = [ZeroDivisionError()]
        with caplog.at_level(logging.ERROR):
            exporter.add(Noted(b"1"))
            exporter.add(Noted(b"2"))
            await exporter.close()
        assert (exporter.sent, exporter.dropped, exporter.waiting) == (1, 1, 0)
        assert "the sending of traces has ended and is started again" in caplog.text

    exporting(body, Gathering(together=1, delay=60))


# ---- the receiver by itself ----------------------------------------------------------------------------------

HEAD = request_head({"service.name": "penstock"}, "penstock", "1")


def test_a_connection_that_the_receiver_has_closed_is_opened_again() -> None:
    with keeping() as kept:
        receiver = Receiver(ReceiverSettings(f"{kept.url}/v1/traces"), HEAD, "penstock/1")
        kept.closes = True
        for _ in range(3):
            assert receiver.send([]) == 0
        assert [head["path"] for head in kept.heads] == ["/v1/traces"] * 3
        receiver.close()


def test_a_certificate_that_cannot_be_read_is_a_mistake_of_the_operator() -> None:
    with pytest.raises(UserMistake, match=r"tracing\.ca_file"):
        Receiver(
            ReceiverSettings("https://localhost:4318/v1/traces", ca_file="nowhere.pem"), HEAD, "penstock"
        )
