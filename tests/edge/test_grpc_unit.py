"""Streams of gRPC: how much of them is taken, and how long a client may be silent; without sockets, in virtual
time."""

import asyncio
import struct
from dataclasses import dataclass
from typing import Any

import pytest
from h2.errors import ErrorCodes
from http2_kit import Line

from edge_kit import EchoApp, in_virtual_time, settle
from http2_client import Heard
from penstock.edge.answer import Answer
from penstock.edge.body import Whole
from penstock.edge.bounds import State
from penstock.edge.caller import Caller, Parts
from penstock.edge.edge import EdgeLimits
from penstock.edge.fields import Headers
from penstock.edge.grpc import GrpcConnection, GrpcEdge
from penstock.edge.grpc_states import MOST_IN_FLIGHT, MOST_LASTING
from penstock.edge.grpc_stream import MOST_IN_A_TURN
from penstock.edge.http2_sending import CONNECTION_WINDOW, STREAM_WINDOW
from penstock.errors import Draining, PenstockError, Unauthorized

MIB = 2**20
GRPC = (("content-type", "application/grpc"), ("te", "trailers"))
STREAM, CALL = "/stream", "/call"


class GrpcApp(EchoApp):
    """Ends a call that is refused with the error's code."""

    def refuse(self, caller: Caller, exc: Exception, url: bytes, headers: Headers) -> None:
        self.refused.append(exc)
        assert isinstance(exc, PenstockError), exc
        caller.respond(Answer(exc.status, [("grpc-status", "2"), ("grpc-message", exc.code)], b""))


class GrpcLine(Line):
    """A client of gRPC."""

    def begin(self, path: str = STREAM, said: bytes = b"") -> int:
        """Begin a call, and do not end it."""
        number = self.ask("POST", path, headers=GRPC, whole=False)
        if said:
            self.send(number, said, last=False)
        self.talk()
        return number

    def say(self, number: int, said: bytes) -> None:
        self.send(number, said, last=False)
        self.talk()

    def pour(self, number: int, said: bytes) -> int:
        """Send as much as the windows allow. Returns how many bytes are left."""
        while said and (room := self.machine.local_flow_control_window(number)):
            size = min(room, self.machine.max_outbound_frame_size, len(said))
            self.say(number, said[:size])
            said = said[size:]
        return len(said)


def line_to(app: EchoApp, *, keys: bool = False, reads: bool = True, **limits: Any) -> GrpcLine:
    loop = asyncio.get_running_loop()
    methods = [STREAM.encode(), CALL.encode()]
    edge = GrpcEdge(
        app, EdgeLimits(**limits), loop, loop.time, keys=keys, methods=methods, streams=methods[:1]
    )
    return GrpcLine(edge, GrpcConnection, reads=reads)


def framed(message: bytes) -> bytes:
    return b"\0" + len(message).to_bytes(4, "big") + message


def ended(heard: Heard) -> "str | None":
    """The code with which a call has ended; None: it goes on."""
    return heard.headers.get("grpc-message", heard.headers.get("grpc-status")) if heard.ended else None


# ---- how much is taken -------------------------------------------------------------------------------------


@in_virtual_time
async def test_a_message_larger_than_the_window_of_its_stream_is_taken() -> None:
    line = line_to(app := GrpcApp(at_once=False), max_body=4 * MIB)
    number = line.begin()
    message = bytes(range(256)) * (3 * MIB // 256)
    assert line.pour(number, framed(message)) == 0
    assert [asked.body for asked in app.asked] == [message]


@in_virtual_time
async def test_many_messages_larger_than_the_window_come_in_at_once_on_one_connection() -> None:
    line = line_to(app := GrpcApp(at_once=False), max_body=4 * MIB)
    said = {line.begin(): framed(bytes(2 * MIB)) for _ in range(8)}
    assert len(said) * STREAM_WINDOW > CONNECTION_WINDOW
    while any(said.values()):
        before = sum(map(len, said.values()))
        for number, rest in said.items():
            size = min(line.machine.local_flow_control_window(number), len(rest), 100_000)
            if size:
                line.say(number, rest[:size])
                said[number] = rest[size:]
        assert sum(map(len, said.values())) < before
    assert len(app.asked) == len(said)


@in_virtual_time
async def test_while_too_many_messages_have_no_answer_the_window_of_their_stream_stays_shut() -> None:
    """The others on the connection go on, however many such streams there are."""
    line = line_to(app := GrpcApp(at_once=False))
    full = [line.begin() for _ in range(5)]
    for number in full:
        assert line.pour(number, framed(bytes(100_000)) * (MOST_IN_FLIGHT + 20)) > 0
    assert len(app.asked) == 5 * MOST_IN_FLIGHT
    assert line.edge.held.total <= 5 * (STREAM_WINDOW + MIB)
    other = line.begin(said=framed(b"other"))
    assert app.asked[-1].body == b"other"
    app.asked[-1].answer(b"heard")
    await settle()
    assert line.answer(other).body == framed(b"heard")


@in_virtual_time
async def test_a_window_that_stayed_shut_opens_when_answers_are_sent() -> None:
    line = line_to(app := GrpcApp(at_once=False), max_body=2 * MIB)
    number = line.begin()
    line.say(number, framed(b"little") * MOST_IN_FLIGHT)
    large = framed(bytes(2 * MIB))
    left = line.pour(number, large)
    assert left > 0
    app.asked[0].answer(b"heard")
    await settle()
    line.talk()
    assert line.pour(number, large[-left:]) == 0
    assert len(app.asked[-1].body) == 2 * MIB


@in_virtual_time
async def test_a_call_may_have_one_message_of_the_largest_size() -> None:
    line = line_to(app := GrpcApp(), max_body=1000)
    largest = line.ask("POST", CALL, framed(bytes(1000)), GRPC)
    assert ended(line.answer(largest)) == "0"
    declared = line.ask("POST", CALL, framed(bytes(1000)), (*GRPC, ("content-length", "1005")))
    assert ended(line.answer(declared)) == "0"
    beyond = line.ask("POST", CALL, framed(bytes(1001)), GRPC)
    assert ended(line.answer(beyond)) == "TOO_LARGE"
    assert [len(asked.body) for asked in app.asked] == [1000, 1000]


# ---- how long a client may be silent -----------------------------------------------------------------------


@in_virtual_time
async def test_half_a_message_has_the_time_of_a_body() -> None:
    line = line_to(app := GrpcApp(at_once=False), body_seconds=5.0)
    number = line.begin(said=framed(b"first") + framed(b"second")[:7])
    await asyncio.sleep(4.0)
    line.say(number, framed(b"second")[7:] + framed(b"third")[:7])  # another has begun
    await asyncio.sleep(4.0)
    assert ended(line.answer(number)) is None
    assert len(app.asked) == 2
    await asyncio.sleep(3.0)
    assert ended(line.answer(number)) == "BODY_TOO_SLOW"
    assert [asked.times_left for asked in app.asked] == [1, 1]


@in_virtual_time
async def test_a_stream_whose_answers_take_long_has_no_time_limit() -> None:
    line = line_to(app := GrpcApp(at_once=False), quiet_seconds=100.0, head_seconds=5.0)
    number = line.begin(said=framed(b"slow"))
    await asyncio.sleep(1000.0)
    app.asked[0].answer(b"heard")
    await settle()
    assert line.answer(number).body == framed(b"heard")
    assert ended(line.answer(number)) is None


@in_virtual_time
async def test_a_quiet_client_is_pinged_and_its_stream_ends_in_time() -> None:
    line = line_to(GrpcApp(), ping_seconds=20.0, quiet_seconds=100.0)
    number = line.begin(said=framed(b"one"))
    for _ in range(99):
        await asyncio.sleep(1.0)
        assert ended(line.answer(number)) is None
        assert not line.closed
    await asyncio.sleep(25.0)
    line.talk()
    assert ended(line.answer(number)) == "BODY_TOO_SLOW"
    assert not line.closed


@in_virtual_time
async def test_a_quiet_client_that_answers_no_ping_is_cut_off() -> None:
    line = line_to(GrpcApp(), ping_seconds=20.0, quiet_seconds=600.0)
    for _ in range(3):
        line.begin(said=framed(b"one"))
    await asyncio.sleep(45.0)
    assert line.wire.aborted
    assert not line.edge.connections


@in_virtual_time
async def test_a_client_that_asks_now_and_then_keeps_its_stream() -> None:
    line = line_to(app := GrpcApp(), quiet_seconds=100.0)
    number = line.begin()
    for _ in range(5):
        line.say(number, framed(b"again"))
        for _ in range(90):
            await asyncio.sleep(1.0)
            line.talk()
    assert ended(line.answer(number)) is None
    assert len(app.asked) == 5


# ---- who asks ----------------------------------------------------------------------------------------------


def nobody(headers: Headers) -> str:
    raise Unauthorized("no key")


@in_virtual_time
async def test_where_keys_are_asked_for_a_stream_without_one_ends_at_its_head() -> None:
    line = line_to(GrpcApp(tenant=nobody), keys=True)
    assert ended(line.answer(line.begin())) == "UNAUTHORIZED"


@in_virtual_time
async def test_a_client_that_has_not_proved_who_asks_has_the_time_of_a_head_for_its_first_message() -> None:
    line = line_to(app := GrpcApp(), keys=True, head_seconds=5.0)
    silent, speaks = line.begin(), line.begin(said=framed(b"one"))
    await asyncio.sleep(4.0)
    line.say(speaks, framed(b"two"))
    await asyncio.sleep(3.0)
    assert ended(line.answer(silent)) == "HEAD_TOO_SLOW"
    assert ended(line.answer(speaks)) is None
    assert len(app.asked) == 2


@in_virtual_time
async def test_a_client_that_has_proved_who_asks_may_be_quiet() -> None:
    line = line_to(GrpcApp(tenant=lambda headers: "acme"), keys=True, head_seconds=5.0, quiet_seconds=100.0)
    number = line.begin()
    for _ in range(90):
        await asyncio.sleep(1.0)
        assert ended(line.answer(number)) is None


@in_virtual_time
async def test_it_may_take_until_the_first_answer_to_find_out_who_asks() -> None:
    """Until then one message is taken; what comes behind it counts as a stranger's."""
    known: list[str] = []
    app = GrpcApp(at_once=False, tenant=lambda headers: known[0] if known else "")
    line = line_to(app, keys=True, head_seconds=5.0)
    number = line.begin(said=framed(b"one") + framed(b"two") + framed(bytes(10_000)))
    assert [asked.body for asked in app.asked] == [b"one"]
    (stream,) = line.wire.connection._streams.values()
    assert (stream.holder, stream.held > 10_000) == ("", True)
    known.append("acme")
    app.asked[0].answer(b"heard")
    await settle()
    assert (stream.holder, stream.held) == ("acme", 0)
    assert len(app.asked) == 3
    line.say(number, framed(bytes(10_000))[:9_000])
    assert (stream.holder, stream.held) == ("acme", 9_000)


@in_virtual_time
async def test_what_is_kept_of_a_stream_counts_as_its_tenant_s() -> None:
    """So a tenant may hold more than strangers together, whose part is a quarter."""
    line = line_to(GrpcApp(tenant=lambda headers: "acme"), keys=True, max_unfinished=MIB)
    number = line.begin()
    assert line.pour(number, framed(bytes(MIB // 2))[:-1]) == 0
    assert line.edge.held.total > MIB // 4
    assert ended(line.answer(number)) is None


@in_virtual_time
async def test_answers_that_wait_count_as_those_of_whoever_asks_failures_too() -> None:
    line = line_to(app := GrpcApp(at_once=False, tenant=lambda headers: "acme"), keys=True, reads=False)
    line.begin(said=framed(b"one"))
    app.asked[0].answer(bytes(200_000))  # as a failure comes: without a tenant
    await settle()
    line.talk()
    (stream,) = line.wire.connection._streams.values()
    assert (stream.waiting.holder, stream.waiting.held > 200_000) == ("acme", True)


@in_virtual_time
async def test_of_many_messages_that_come_in_one_read_few_are_taken_in_a_turn() -> None:
    line = line_to(app := GrpcApp(at_once=False), body_seconds=5.0)
    number = line.begin()
    line.send(number, framed(b"little") * 40)
    line.wire.send(line.outgoing())
    taken = [len(app.asked)]
    (stream,) = line.wire.connection._streams.values()
    assert stream.state == State.BUSY, "what is left waits for us, and not for the client"
    while line.edge.turns:
        line.edge.turns.take()
        taken.append(len(app.asked))
    assert taken == [1, 1 + MOST_IN_A_TURN, 1 + 2 * MOST_IN_A_TURN, 40]
    for asked in app.asked:
        asked.answer(b"heard")
    await settle()
    assert line.answer(number).body == framed(b"heard") * 40
    assert ended(line.answer(number)) == "0"


# ---- answers without an end --------------------------------------------------------------------------------


class LastingApp(GrpcApp):
    """Answers with messages, until it is told that its client has left: then with a last one."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[Parts] = []

    def handle(self, caller: Caller, method: bytes, url: bytes, headers: Headers, body: Whole) -> None:
        asked = Lasting(self, caller)
        caller.leaving = asked
        try:
            begun = caller.begin(Answer(200, [], b""))
        except PenstockError as exc:
            self.refuse(caller, exc, url, headers)
            return
        assert begun is not None
        self.parts.append(begun)
        begun.send(b"first")


@dataclass
class Lasting:
    app: LastingApp
    caller: Caller

    def left(self) -> None:
        asyncio.get_running_loop().call_soon(self.app.parts.pop().end, b"last")


@in_virtual_time
async def test_an_answer_without_an_end_lasts_as_long_as_its_client_answers_pings() -> None:
    line = line_to(app := LastingApp(), ping_seconds=20.0, quiet_seconds=100.0, head_seconds=5.0, keys=True)
    number = line.ask("POST", STREAM, framed(b"watch"), GRPC)  # the client has said all
    for _ in range(300):
        await asyncio.sleep(1.0)
        line.talk()
        assert ended(line.answer(number)) is None
    app.parts[0].send(b"second")
    await settle()
    assert line.answer(number).body == framed(b"first") + framed(b"second")
    await asyncio.sleep(50.0)  # nobody answers pings now
    assert line.wire.aborted
    assert not line.edge.connections


@in_virtual_time
async def test_when_the_server_stops_an_answer_without_an_end_has_a_last_word() -> None:
    line = line_to(LastingApp())
    number = line.ask("POST", STREAM, framed(b"watch"), GRPC)
    line.talk()
    await settle()
    line.edge.retire()
    await settle()
    line.talk()
    heard = line.answer(number)
    assert heard.body == framed(b"first") + framed(b"last")
    assert ended(heard) == "SERVICE_DRAINING"


@in_virtual_time
async def test_no_answer_without_an_end_begins_once_the_server_stops_or_its_client_has_left() -> None:
    line = line_to(app := GrpcApp(at_once=False))
    numbers = [line.begin(said=framed(b"watch")) for _ in range(2)]
    line.machine.reset_stream(numbers[0])
    line.talk()
    assert app.asked[0].connection.begin(Answer(200, [], b"")) is None
    line.edge.retire()
    with pytest.raises(Draining):
        app.asked[1].connection.begin(Answer(200, [], b""))


@in_virtual_time
async def test_a_call_has_one_answer_without_an_end_and_a_connection_few() -> None:
    line = line_to(app := LastingApp())
    twice = line.begin(said=framed(b"watch") + framed(b"watch"))
    await settle()
    line.talk()
    assert ended(line.answer(twice)) == "MALFORMED_REQUEST"
    assert not app.parts
    numbers = [line.begin(said=framed(b"watch")) for _ in range(MOST_LASTING + 1)]
    await settle()
    line.talk()
    codes = [ended(line.answer(number)) for number in numbers]
    assert codes == [None] * MOST_LASTING + ["SERVICE_OVERLOADED"]
    app.parts[0].end(b"")
    await settle()
    again = line.begin(said=framed(b"watch"))
    await settle()
    line.talk()
    assert ended(line.answer(again)) is None


# ---- a client that parts -----------------------------------------------------------------------------------


def farewell(code: int = 0) -> bytes:
    """GOAWAY, of which the client's own machine knows nothing: it still hears what is answered."""
    return bytes.fromhex("000008 07 00 00000000") + struct.pack(">II", 0, code)


@in_virtual_time
async def test_after_its_farewell_a_client_still_gets_its_answers_and_then_the_connection_ends() -> None:
    line = line_to(app := GrpcApp(at_once=False))
    call, streamed = line.ask("POST", CALL, framed(b"call"), GRPC), line.begin(said=framed(b"one"))
    line.wire.send(farewell())
    line.say(streamed, framed(b"two"))
    assert [asked.body for asked in app.asked] == [b"call", b"one", b"two"]
    assert [asked.times_left for asked in app.asked] == [0, 0, 0]
    for asked in app.asked:
        asked.answer(b"heard")
    await settle()
    assert line.answer(call).body == framed(b"heard")
    assert line.answer(streamed).body == framed(b"heard") * 2
    assert not line.closed
    line.machine.end_stream(streamed)
    assert ended(line.answer(streamed)) == "0"
    assert line.wire.closed
    assert line.goaways == [0]


@in_virtual_time
async def test_a_farewell_with_nothing_under_way_ends_the_connection() -> None:
    line = line_to(GrpcApp())
    assert ended(line.answer(line.ask("POST", CALL, framed(b"a"), GRPC))) == "0"
    line.wire.send(farewell())
    assert line.closed


@in_virtual_time
async def test_what_begins_after_a_farewell_is_refused_alone() -> None:
    line = line_to(app := GrpcApp(at_once=False))
    line.ask("POST", CALL, framed(b"before"), GRPC)
    line.talk()
    line.wire.send(farewell())
    late = line.ask("POST", CALL, framed(b"after"), GRPC)
    assert line.answer(late).reset == int(ErrorCodes.REFUSED_STREAM)
    assert [(asked.body, asked.times_left) for asked in app.asked] == [(b"before", 0)]
    line.wire.leave()
    assert app.asked[0].times_left == 1


@in_virtual_time
async def test_a_farewell_with_an_error_takes_all_streams_along() -> None:
    line = line_to(app := GrpcApp(at_once=False))
    line.ask("POST", CALL, framed(b"a"), GRPC)
    line.talk()
    line.wire.send(farewell(int(ErrorCodes.INTERNAL_ERROR)))
    assert line.closed
    assert app.asked[0].times_left == 1


# ---- a server that stops -----------------------------------------------------------------------------------


@in_virtual_time
async def test_a_server_that_stops_begins_no_stream_of_messages() -> None:
    line = line_to(app := GrpcApp(at_once=False))
    line.begin(said=framed(b"before"))
    line.edge.retire()
    late = line.begin(said=framed(b"after"))
    assert ended(line.answer(late)) == "SERVICE_DRAINING"
    assert [asked.body for asked in app.asked] == [b"before"]


@in_virtual_time
async def test_while_a_server_stops_no_more_is_taken_than_the_window_of_a_stream() -> None:
    """Its last answers may take as long as they like."""
    line = line_to(app := GrpcApp(at_once=False))
    number = line.begin(said=framed(b"before"))
    line.edge.retire()
    assert line.pour(number, framed(bytes(1000)) * 3000) > MIB
    assert line.edge.held.total <= STREAM_WINDOW
    app.asked[0].answer(b"heard")
    await settle()
    assert line.answer(number).body == framed(b"heard")
    assert ended(line.answer(number)) == "SERVICE_DRAINING"
    assert line.edge.held.total == 0
