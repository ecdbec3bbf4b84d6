"""A WebSocket that is not open yet, or no more: whoever has something to say waits, or is told."""

import asyncio
import threading
from collections.abc import Iterator

import pytest
from scripted_server import in_loop
from scripted_stream import Stream, streaming

from penstock.client import AsyncClient, Client, NoContact, Retries, stream_road
from penstock.client.stream_road import Socket, StreamRoad
from server import HUNG

NEVER = Retries(attempts=1)


def talking(server: Stream) -> AsyncClient:
    return AsyncClient(server.url, transport="websocket", retries=NEVER)


def road_of(client: AsyncClient) -> StreamRoad:
    assert isinstance(client._road, StreamRoad)
    return client._road


async def begun(client: AsyncClient, *inputs: object) -> "list[asyncio.Task[object]]":
    """Requests, each of which has got as far as it gets now."""

    async def ask(value: object) -> object:
        return (await client.infer(value)).output

    tasks = [asyncio.get_running_loop().create_task(ask(value)) for value in inputs]
    await asyncio.sleep(0)
    return tasks


@in_loop
async def test_requests_that_come_while_the_connection_is_being_opened_are_sent_when_it_is() -> None:
    async with asyncio.timeout(HUNG), streaming(shakes=False) as server, talking(server) as client:
        first = await begun(client, "first")
        await server.asked.wait()
        others = await begun(client, "second", "third")
        server.shakes.set()
        assert await asyncio.gather(*first, *others) == ["first", "second", "third"]
        assert server.connections == 1


@in_loop
async def test_a_map_goes_on_after_a_slow_handshake() -> None:
    async with asyncio.timeout(HUNG), streaming(shakes=False) as server:
        loop, asked = asyncio.get_running_loop(), threading.Event()

        def inputs() -> Iterator[int]:
            for number in range(300):
                if number == 100:  # the first 64 went over together
                    assert asked.wait(HUNG)
                yield number
            loop.call_soon_threadsafe(server.shakes.set)

        def mapped() -> list[int]:
            with Client(server.url, transport="websocket") as client:
                return client.map(inputs(), output=int).outputs()

        mapping = asyncio.create_task(asyncio.to_thread(mapped))
        await server.asked.wait()
        asked.set()
        assert await mapping == list(range(300))


@in_loop
async def test_a_server_that_takes_connections_and_says_nothing_is_told_each_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A short time, so that the test need not wait.
    monkeypatch.setattr(stream_road, "CONNECT_SECONDS", 0.05)
    async with asyncio.timeout(HUNG), streaming(shakes=False) as server, talking(server) as client:
        for connections in (1, 2):
            requests = await begun(client, *range(50))
            failed = await asyncio.gather(*requests, return_exceptions=True)
            codes = {each.code for each in failed if isinstance(each, NoContact)}
            assert (len(failed), codes) == (50, {"NO_CONNECTION"})
            assert not any(each.maybe_run for each in failed if isinstance(each, NoContact))
            assert server.connections == connections  # all of them waited for the same one
            assert road_of(client)._sockets == []
        server.shakes.set()
        assert (await client.infer("x")).output == "x"


@in_loop
async def test_who_gives_up_while_it_is_being_opened_does_not_end_it_for_the_others() -> None:
    async with asyncio.timeout(HUNG), streaming(shakes=False) as server, talking(server) as client:
        first, second = await begun(client, "first", "second")
        await server.asked.wait()
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        server.shakes.set()
        assert await second == "second"
        assert (server.inputs, server.connections) == (["second"], 1)


@in_loop
async def test_a_client_that_is_closed_meanwhile_tells_those_who_wait() -> None:
    async with asyncio.timeout(HUNG), streaming(shakes=False) as server:
        client = talking(server)
        requests = await begun(client, "first", "second")
        await server.asked.wait()
        await client.close()
        failed = await asyncio.gather(*requests, return_exceptions=True)
        assert [each.code for each in failed if isinstance(each, NoContact)] == ["CLOSED", "CLOSED"]
        with pytest.raises(NoContact, match="CLOSED"):
            await client.ask("third", None, None, object).once(road_of(client), None)
        assert server.connections == 1


@in_loop
async def test_a_connection_that_is_taken_back_at_once_is_told_and_not_opened_for_ever() -> None:
    async with (
        asyncio.timeout(HUNG),
        streaming(greeting=b'{"goodbye":"restart"}') as server,
        talking(server) as client,
    ):
        with pytest.raises(NoContact, match="NO_CONNECTION") as told:
            await client.infer("x")
        assert (told.value.again, told.value.maybe_run) == (True, False)
        assert (server.connections, server.inputs) == (1, [])


@in_loop
async def test_a_server_that_says_it_closes_and_does_not_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_road, "CLOSE_SECONDS", 0.05)  # a short time, so that the test need not wait
    async with asyncio.timeout(HUNG), streaming(leaves=True) as server, talking(server) as client:
        with pytest.raises(NoContact, match="BROKEN_OFF") as told:
            await client.infer("x")
        assert told.value.maybe_run


@in_loop
async def test_what_is_said_on_a_connection_that_is_not_open_is_an_error() -> None:
    socket = Socket("ws://127.0.0.1/v1/stream", {}, asyncio.get_running_loop())
    with pytest.raises(NoContact) as told:
        socket.say(b"{}")
    assert (told.value.again, told.value.maybe_run, socket.has_room) == (True, False, False)
