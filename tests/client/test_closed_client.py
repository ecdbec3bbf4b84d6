"""A client without a loop that is closed, or forgotten, while something is under way: nobody waits for ever."""

import asyncio
import gc
import weakref
from collections.abc import Iterator

import pytest
from scripted_server import Said, Told, good, in_loop, scripted

from penstock.client import Client, NoContact
from penstock.client.own_loop import OwnLoop
from server import HUNG


@in_loop
async def test_a_map_keeps_the_client_that_it_came_from() -> None:
    async with asyncio.timeout(HUNG), scripted() as server:

        def outputs() -> list[int]:
            return [done.output for done in Client(server.url).map(range(100), concurrency=4)]

        assert await asyncio.to_thread(outputs) == list(range(100))


@in_loop
async def test_a_map_that_is_forgotten_on_its_way_keeps_nothing() -> None:
    def begun(url: str) -> "tuple[OwnLoop, weakref.ref[Client]]":
        client = Client(url)
        assert next(client.map(range(100), concurrency=4)).output == 0
        assert client._own is not None
        return client._own, weakref.ref(client)

    async with asyncio.timeout(HUNG), scripted() as server:
        own, client = await asyncio.to_thread(begun, server.url)
        while own._thread.is_alive():  # until what was under way has ended, in its thread
            await asyncio.sleep(0.01)
            gc.collect()
        assert client() is None


@in_loop
async def test_a_map_under_way_is_told_that_its_client_is_closed() -> None:
    gate = asyncio.Event()

    def script(said: Said, number: int) -> Told:
        return Told(body=good(said.input).body, until=gate if said.input else None)

    def endless() -> Iterator[int]:
        number = 0
        while True:
            yield number
            number += 1

    async with asyncio.timeout(HUNG), scripted(script) as server:
        client = Client(server.url)
        mapped = client.map(endless(), concurrency=4)
        assert (await asyncio.to_thread(next, mapped)).output == 0
        waiting = asyncio.create_task(asyncio.to_thread(next, mapped))
        await asyncio.to_thread(client.close)
        with pytest.raises(NoContact, match="CLOSED"):
            await waiting
        assert list(mapped) == []
        mapped.close()


@in_loop
async def test_a_request_under_way_is_told_so_too() -> None:
    gate = asyncio.Event()
    async with (
        asyncio.timeout(HUNG),
        scripted(lambda said, number: Told(body=good(said.input).body, until=gate)) as server,
    ):
        client = Client(server.url)
        waiting = asyncio.create_task(asyncio.to_thread(client.infer, "x"))
        await server.arrived.wait()
        await asyncio.to_thread(client.close)
        with pytest.raises(NoContact, match="CLOSED"):
            await waiting


def test_a_map_that_begins_after_its_client_was_closed_is_told() -> None:
    client = Client("http://127.0.0.1:1")
    mapped = client.map(["a"])
    client.close()
    with pytest.raises(NoContact, match="CLOSED"):
        next(mapped)
    with mapped:
        assert list(mapped) == []


def test_what_is_asked_of_a_loop_that_is_stopped_is_told_and_never_waits() -> None:
    async def nothing() -> None: ...

    own = OwnLoop()
    own.soon(own.stop)  # as the collector may do, in the loop's own thread
    own._thread.join(HUNG)
    assert own.loop.is_closed()
    own.stop()
    with pytest.raises(NoContact, match="CLOSED"):
        own.call(nothing())
    with pytest.raises(NoContact, match="CLOSED"):
        own.soon(print)
