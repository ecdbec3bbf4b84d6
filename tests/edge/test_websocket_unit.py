"""A WebSocket on the edge, without sockets and in virtual time: the wish for it, frames, turns, limits, the end."""

import asyncio
import gc
import weakref

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websocket_kit import (
    GOOD_BYE,
    PING,
    PONG,
    WISH,
    EchoTalk,
    TalkingApp,
    ending,
    frame,
    more,
    talking,
    text,
)
from websockets.frames import Opcode

from edge_kit import Client, EchoApp, edge_with, get, in_virtual_time, settle
from penstock.edge.answer import Answer
from penstock.edge.bounds import MOST_THROWN_AWAY, State
from penstock.edge.websocket_reading import FIRST_MESSAGE, MOST_WORK
from penstock.errors import UpgradeRequired
from penstock.testing import run_virtual

READ = 256_000  # bytes that one read brings at most


# ---- the wish ------------------------------------------------------------------------------------------------


@in_virtual_time
async def test_a_wish_that_is_granted_makes_the_connection_a_websocket() -> None:
    client, talk, edge = talking()
    assert client.received.startswith(b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\n")
    client.send(text(b"one"), text(b"two"))
    await settle()
    assert client.texts() == talk.heard == [b"one", b"two"]
    assert (len(edge.connections), client.is_read()) == (1, True)
    client.leave()
    assert (len(edge.connections), talk.times_left) == (0, 1)


@in_virtual_time
async def test_after_a_wish_that_is_not_granted_nothing_more_is_read() -> None:
    app = EchoApp()
    client = Client(edge_with(app))
    client.send(get("/1", *WISH))
    assert client.heard().statuses == [200]
    assert b"connection: close" in client.received
    client.send(get("/2"))
    await settle()
    assert app.urls == [b"/1"]
    assert app.asked[0].headers[b"upgrade"] == b"websocket"


@in_virtual_time
async def test_what_comes_with_a_wish_is_no_request() -> None:
    app = TalkingApp()
    client = Client(edge_with(app))
    client.send(get("/1", *WISH) + get("/2"))
    assert client.heard().statuses == [400]
    assert (app.asked, app.talk.heard) == ([], [])


@in_virtual_time
async def test_what_comes_before_a_wish_is_answered_makes_it_impossible() -> None:
    app = EchoApp(at_once=False)
    client = Client(edge_with(app))
    client.send(get("/1", *WISH))
    client.send(text())
    with pytest.raises(UpgradeRequired):
        app.asked[0].connection.switch(Answer(101, [], b""), EchoTalk())


@in_virtual_time
async def test_a_wish_behind_other_requests_has_its_turn_after_them() -> None:
    client = Client(edge_with(TalkingApp()))
    client.send(get("/1") + get("/2", *WISH))
    await settle()
    assert client.received.count(b"HTTP/1.1 200") == 1
    assert client.received.partition(b"/1")[2].partition(b"HTTP/1.1 ")[2].startswith(b"101")


@pytest.mark.parametrize(
    "wish",
    [
        get("/1", "Connection: Upgrade", "Upgrade: h2c"),
        get("/1", *WISH, version="1.0"),
        get("/1", *WISH, "Connection: keep-alive", method="OPTIONS"),
        get("/1", *WISH, "Content-Length: 4") + b"body",
        get("/1", "Upgrade: websocket"),
    ],
    ids=["h2c", "HTTP/1.0", "a method", "a body", "no Connection"],
)
@in_virtual_time
async def test_any_other_wish_is_passed_over(wish: bytes) -> None:
    app = EchoApp()
    client = Client(edge_with(app))
    client.send(wish)
    assert client.heard().statuses == [200]
    assert app.urls == [b"/1"]


# ---- messages ------------------------------------------------------------------------------------------------


@in_virtual_time
async def test_a_message_in_parts_is_told_once_it_is_whole() -> None:
    client, talk, _ = talking()
    client.send(text(b"o", fin=False), PING, more(b"n", fin=False))
    assert talk.heard == []
    client.send(more(b"e"))
    await settle()
    assert (talk.heard, client.texts()) == ([b"one"], [b"one"])
    assert [each.opcode for each in client.frames()] == [Opcode.PONG, Opcode.TEXT]


@in_virtual_time
async def test_a_ping_is_answered() -> None:
    client, _, _ = talking()
    client.send(frame(Opcode.PING, b"still there?"))
    await settle()
    assert [(each.opcode, each.data) for each in client.frames()] == [(Opcode.PONG, b"still there?")]


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (frame(Opcode.TEXT, b"bare", mask=False), 1002),
        (b"\xc1\x80" + bytes(4), 1002),  # a reserved bit
        (b"\x83\x80" + bytes(4), 1002),  # an opcode that means nothing
        (more(b"of nothing"), 1002),
        (text(b"a", fin=False) + text(b"b"), 1002),
        (frame(Opcode.PING, b"x" * 125)[:1] + b"\xfe\x00\x7e" + bytes(4 + 126), 1002),  # a long ping
        (text(b"x" * 1001), 1009),
        (text(b"x" * 600, fin=False) + more(b"x" * 600), 1009),
        (b"\x81\xff" + (2**62).to_bytes(8, "big") + bytes(4), 1009),
        (ending(999), 1002),
        (frame(Opcode.CLOSE, b"\x03\xe8\xff"), 1007),
    ],
)
@in_virtual_time
async def test_what_is_no_websocket_ends_the_connection_and_the_client_is_told(
    sent: bytes, code: int
) -> None:
    talk = EchoTalk(at_once=False)
    client, _, edge = talking(talk, max_body=1000)
    client.send(text(b"before"), sent, text(b"after"))
    await settle()
    told = client.ending()
    assert told is not None
    assert told[0] == code
    assert (talk.heard, talk.times_left > 0) == ([b"before"], True)
    client.leave()
    assert (edge.held.total, edge.unsent.total, len(edge.connections)) == (0, 0, 0)


@in_virtual_time
async def test_a_client_that_ends_it_is_agreed_with() -> None:
    client, talk, edge = talking()
    client.send(text(), ending(1000, b"enough"))
    await settle()
    assert (client.texts(), client.ending(), client.closed) == ([b"hello"], (1000, "enough"), True)
    assert (talk.times_left > 0, len(edge.connections)) == (True, 0)


@in_virtual_time
async def test_whoever_goes_on_after_the_end_is_not_heard_and_cut_off_in_the_end() -> None:
    client, talk, _ = talking(max_body=1000)
    client.send(text(b"x" * 2000))
    for _ in range(100):
        client.send(text(b"y" * 900))
    assert talk.heard == []
    assert client.unread > 0, f"no more than {MOST_THROWN_AWAY} bytes are thrown away"
    await asyncio.sleep(5)
    assert client.aborted


# ---- turns ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "small", [text(b""), PING, PONG, text(b"x")], ids=["empty", "pings", "pongs", "small"]
)
@in_virtual_time
async def test_of_a_read_full_of_small_frames_a_turn_handles_a_few(small: bytes) -> None:
    client, talk, edge = talking()
    client.send(small * (READ // len(small)))
    assert len(talk.heard) <= MOST_WORK
    assert not client.is_read()
    assert len(edge.turns) == 1
    turns = 0
    while not client.is_read():
        await asyncio.sleep(0.1)
        turns += 1
        assert turns < 10_000
    assert edge.held.total == 0


@in_virtual_time
async def test_frames_that_bring_nothing_look_like_waste() -> None:
    client, _, _ = talking()
    client.send(PING * (READ // len(PING)))
    assert client.connection.go_on()
    client, _, _ = talking()
    client.send(text(b"x" * 100) * (READ // len(text(b"x" * 100))))
    assert not client.connection.go_on()


@in_virtual_time
async def test_while_the_talk_takes_nothing_nothing_is_read() -> None:
    client, talk, _ = talking()
    talk.is_ready = False
    client.send(text(b"one") + text(b"two"), text(b"three"))
    assert (talk.heard, client.is_read()) == ([], False)
    assert client.connection.state == State.BUSY, "its client is not to blame"
    talk.is_ready = True
    client.connection.go_on()
    await settle()
    assert talk.heard == [b"one", b"two", b"three"]
    assert client.is_read()


# ---- limits --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "begun", [text(b"x" * 500)[:100], text(b"x", fin=False), text(b"x", fin=False) + PING]
)
@in_virtual_time
async def test_a_message_that_does_not_come_in_time_ends_the_connection(begun: bytes) -> None:
    client, _, _ = talking(body_seconds=4.0)
    client.send(text(), begun)
    await asyncio.sleep(3)
    assert not client.ending()
    await asyncio.sleep(3)
    told = client.ending()
    assert told is not None
    assert told[0] == 1008
    assert "limits.body_timeout" in told[1]


@in_virtual_time
async def test_a_client_that_is_always_in_the_middle_of_a_message_has_time_for_each() -> None:
    client, talk, _ = talking(body_seconds=2.0)
    whole = text(b"x" * 100)
    client.send(whole[:50])
    for _ in range(20):
        await asyncio.sleep(1)
        client.send(whole[50:] + whole[:50])
    assert len(talk.heard) == 20
    assert not client.ending()


@in_virtual_time
async def test_a_message_in_pieces_is_counted_with_those_of_all_others() -> None:
    client, _, edge = talking()
    client.send(text(b"x" * 50_000)[:-1])
    await settle()
    assert edge.held.total == 49_999
    client.send(text(b"x" * 50_000)[-1:])
    assert edge.held.total == 0


@in_virtual_time
async def test_when_too_much_has_not_come_in_full_a_message_gives_way() -> None:
    client, _, edge = talking(max_unfinished=20_000)
    client.send(text(b"x" * 50_000)[:-1])
    await settle()
    assert client.ending() == (1013, "the server holds too many messages that have not come in full")
    assert (edge.held.total, edge.held.crowded_out) == (0, 1)


@in_virtual_time
async def test_a_stranger_has_little_time_and_little_room_to_say_who_asks() -> None:
    client, _, _ = talking(EchoTalk(is_introduced=False), head_seconds=3.0)
    client.send(PING)
    await asyncio.sleep(5)
    told = client.ending()
    assert told is not None
    assert told[0] == 1008
    client, _, _ = talking(EchoTalk(is_introduced=False))
    client.send(text(b"x" * (2 * FIRST_MESSAGE))[:-1])
    await settle()
    told = client.ending()
    assert told is not None
    assert told[0] == 1009


@in_virtual_time
async def test_a_quiet_client_is_asked_whether_it_is_there_and_must_answer() -> None:
    client, _, edge = talking(ping_seconds=20.0)
    for _ in range(5):
        await asyncio.sleep(21)
        client.send(PONG)
    assert {each.opcode for each in client.frames()} == {Opcode.PING}
    assert len(edge.connections) == 1
    await asyncio.sleep(45)
    assert client.aborted
    assert not edge.connections


@in_virtual_time
async def test_a_connection_on_which_nothing_is_asked_ends() -> None:
    client, _, _ = talking(ping_seconds=20.0, quiet_seconds=100.0)
    for _ in range(12):
        await asyncio.sleep(10)
        if client.ending():
            break
        client.send(PONG)
    assert client.ending() == (1001, "nothing was asked for 100 s: limits.stream_idle_timeout")


@in_virtual_time
async def test_while_an_answer_is_owed_no_time_runs() -> None:
    client, talk, _ = talking(EchoTalk(at_once=False), ping_seconds=2.0, quiet_seconds=3.0)
    client.send(text())
    await asyncio.sleep(100)
    assert client.frames() == []
    talk.answer()
    await settle()
    assert client.texts() == [b"hello"]


@in_virtual_time
async def test_a_client_that_does_not_read_is_not_read_from_and_cut_off() -> None:
    client, _, edge = talking(send_seconds=10.0)
    client.slow = True
    client.send(text(b"x" * 1000))
    await settle()
    assert (client.is_read(), edge.unsent.total > 0) == (False, True)
    client.send(text(b"y"))
    client.read_all()
    await settle()
    assert (client.is_read(), edge.unsent.total, len(client.texts())) == (True, 0, 2)
    client.slow = True
    client.send(text(b"z"))
    await asyncio.sleep(12)
    assert client.aborted
    assert edge.unsent.total == 0


@in_virtual_time
async def test_answers_for_a_client_that_does_not_read_give_way_when_there_are_too_many() -> None:
    client, talk, edge = talking(EchoTalk(at_once=False), max_unsent=5_000)
    client.send(*[text(b"x" * 1000)] * 10)
    client.slow = True
    for _ in range(10):
        talk.answer()
        await settle()
        if client.aborted:
            break
    assert client.aborted
    assert (edge.unsent.crowded_out, edge.unsent.total) == (1, 0)


# ---- the end -------------------------------------------------------------------------------------------------


@in_virtual_time
async def test_a_server_that_stops_says_good_bye_and_still_answers() -> None:
    client, talk, edge = talking(EchoTalk(at_once=False))
    client.send(text(b"one"), text(b"two"))
    edge.retire()
    await settle()
    assert client.texts() == [GOOD_BYE]
    talk.answer()
    await settle()
    assert not client.ending()
    talk.answer()
    await settle()
    assert client.texts() == [GOOD_BYE, b"one", b"two"]
    assert client.ending() == (1001, "this server is shutting down: connect again")
    client.send(ending(1001))
    await settle()
    assert client.closed


@in_virtual_time
async def test_a_quiet_connection_ends_when_the_server_has_nothing_left_to_do() -> None:
    client, _, edge = talking()
    edge.retire()
    await settle()
    assert (client.texts(), client.ending()) == ([GOOD_BYE], None)
    edge.finish()
    assert client.ending() == (1001, "this server is shutting down: connect again")


@in_virtual_time
async def test_whoever_gets_in_while_the_server_stops_is_told_too() -> None:
    edge = edge_with(TalkingApp())
    client = Client(edge)
    client.send(get("/1", *WISH)[:-2])
    edge.retire()
    client.send(b"\r\n")
    await settle()
    assert client.received.startswith(b"HTTP/1.1 101 ")
    assert GOOD_BYE in client.received


@pytest.mark.parametrize(
    "sent", [b"", text(), text(b"half", fin=False), text()[:3], b"\xff\xff", ending(), PING * 1000]
)
@in_virtual_time
async def test_nothing_keeps_a_websocket_that_is_over(sent: bytes) -> None:
    gc.disable()
    try:
        client, talk, _ = talking()
        alive = weakref.ref(client.connection._machine)
        client.send(sent)
        await settle()
        if not client.closed:
            client.leave()
        await settle()
        assert talk.times_left
        del client
        talk.__dict__.pop("wire")
        await settle()
        assert alive() is None
    finally:
        gc.enable()


# ---- however the bytes come ----------------------------------------------------------------------------------

FRAMES = st.one_of(
    st.builds(text, st.binary(max_size=300), fin=st.booleans()),
    st.builds(more, st.binary(max_size=300), fin=st.booleans()),
    st.sampled_from([PING, PONG, ending(), ending(4000, b"why"), text(b"x" * 3000), b"\x81\x05hello"]),
    st.binary(max_size=20),
)


async def told(parts: list[bytes]) -> tuple[list[bytes], bytes]:
    client, talk, edge = talking(max_body=2000)
    for part in parts:
        client.send(part)
        await asyncio.sleep(0.1)  # nine of them are sooner than a message must be there
    received = client.received
    if not client.closed:
        client.leave()
    await settle()
    assert (edge.held.total, edge.unsent.total, len(edge.connections), len(edge.deaf)) == (0, 0, 0, 0)
    return talk.heard, received


@given(st.lists(FRAMES, max_size=12), st.data())
def test_frames_mean_the_same_however_they_are_cut(sent: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(sent)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    parts = [stream[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]

    async def body() -> None:
        heard, _ = await told([stream])
        assert (await told(parts))[0] == heard

    run_virtual(body())
