"""Many inputs: in order or as they come, failures apart, and a server that cannot keep up."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator

import pytest
from scripted_server import Said, Told, bad, good, in_loop, scripted

from penstock.client import AsyncClient, Client, Retries, SomeFailed
from penstock.client.progress import NoProgress, progress_for
from server import HUNG

QUICK = Retries(first_wait=0.001)


def refuse_odd(said: Said, number: int) -> Told:
    return bad(422, "UNACCEPTABLE") if said.input % 2 else good(said.input * 10)


@in_loop
async def test_outputs_come_in_the_order_of_the_inputs() -> None:
    first = asyncio.Event()

    def script(said: Said, number: int) -> Told:
        if said.input == 7:
            first.set()
        return Told(body=good(said.input).body, until=first if said.input == 0 else None)

    async with scripted(script) as server, AsyncClient(server.url) as client:
        assert [done.output async for done in client.map(range(8), concurrency=8)] == list(range(8))


@in_loop
async def test_as_completed_nobody_waits_for_the_first() -> None:
    last = asyncio.Event()

    def script(said: Said, number: int) -> Told:
        return Told(body=good(said.input).body, until=last if said.input == 0 else None)

    async with scripted(script) as server, AsyncClient(server.url) as client:
        seen = []
        async for done in client.map(range(8), concurrency=4, ordered=False):
            seen.append(done.index)
            if len(seen) == 7:
                last.set()
        assert seen[-1] == 0
        assert sorted(seen) == list(range(8))


@in_loop
async def test_failures_are_kept_apart_with_their_inputs() -> None:
    async with scripted(refuse_odd) as server, AsyncClient(server.url) as client:
        mapped = client.map([0, 1, 2, 3, 4])
        assert [(done.index, done.output) async for done in mapped] == [(0, 0), (2, 20), (4, 40)]
        assert [(each.index, each.input, each.error.code) for each in mapped.failures] == [
            (1, 1, "UNACCEPTABLE"),
            (3, 3, "UNACCEPTABLE"),
        ]


@in_loop
async def test_outputs_as_a_list_are_all_or_an_error_that_names_the_first() -> None:
    async with scripted(refuse_odd) as server, AsyncClient(server.url) as client:
        assert await client.map([4, 0, 2], ordered=False).outputs() == [40, 0, 20]
        with pytest.raises(
            SomeFailed, match="1 of 3 inputs failed; the first is input 1: UNACCEPTABLE"
        ) as failed:
            await client.map([0, 1, 2]).outputs()
        assert [each.input for each in failed.value.failures] == [1]


@in_loop
async def test_no_more_are_under_way_than_wanted() -> None:
    async with scripted() as server, AsyncClient(server.url) as client:
        assert len(await client.map(range(200), concurrency=5).outputs()) == 200
        assert server.most_at_once <= 5
        assert server.connections <= 5


@in_loop
async def test_inputs_are_read_as_they_are_needed() -> None:
    read = 0

    def inputs() -> Iterator[int]:
        nonlocal read
        while read < 10_000:
            read += 1
            yield read

    async with scripted() as server, AsyncClient(server.url) as client:
        async with client.map(inputs(), concurrency=2) as mapped:
            async for done in mapped:
                if done.index == 9:
                    break
        assert read < 40
        assert len(server.said) < 40


@in_loop
async def test_inputs_may_come_in_their_own_time() -> None:
    queue: asyncio.Queue[int | None] = asyncio.Queue()

    async def inputs() -> AsyncIterator[int]:
        while (value := await queue.get()) is not None:
            yield value

    async with scripted() as server, AsyncClient(server.url) as client:
        mapped = client.map(inputs(), ordered=False)
        for number in range(3):
            queue.put_nowait(number)
            assert (await anext(mapped)).output == number
        queue.put_nowait(None)
        with pytest.raises(StopAsyncIteration):
            await anext(mapped)


@in_loop
async def test_inputs_that_raise_end_the_map_with_what_they_raised() -> None:
    def inputs() -> Iterator[int]:
        yield 1
        raise OSError("the disk is gone")

    async def in_their_own_time() -> AsyncIterator[int]:
        yield 1
        raise OSError("the network is gone")

    async with scripted() as server, AsyncClient(server.url) as client:
        with pytest.raises(OSError, match="the disk is gone"):
            await client.map(inputs()).outputs()
        with pytest.raises(OSError, match="the network is gone"):
            await client.map(in_their_own_time()).outputs()


@in_loop
async def test_refusals_slow_a_map_down_and_fail_nothing() -> None:
    refused: set[int] = set()

    def script(said: Said, number: int) -> Told:
        if said.input not in refused:
            refused.add(said.input)
            return bad(503 if said.input % 2 else 429, "SERVICE_OVERLOADED", 2.0)
        return good(said.input)

    rules = Retries(attempts=1)  # a refusal is no attempt
    async with scripted(script) as server, AsyncClient(server.url, retries=rules) as client:
        mapped = client.map(range(40), concurrency=8)
        assert [done.output async for done in mapped] == list(range(40))
        assert mapped.retried == 40


@in_loop
async def test_an_input_that_is_refused_for_longer_than_the_patience_has_failed() -> None:
    async with (
        scripted(lambda said, number: bad(503, "SERVICE_OVERLOADED", 1.0)) as server,
        AsyncClient(server.url) as client,
    ):
        mapped = client.map(["x"], patience=0.0)
        assert [done async for done in mapped] == []
        assert [each.error.code for each in mapped.failures] == ["SERVICE_OVERLOADED"]


@in_loop
async def test_a_broken_connection_is_tried_again_with_a_key_and_the_others_go_on() -> None:
    broken: set[int] = set()

    def script(said: Said, number: int) -> Told:
        if said.input % 5 == 0 and said.input not in broken:
            broken.add(said.input)
            return Told(hang_up=True)
        return good(said.input)

    async with scripted(script) as server, AsyncClient(server.url, retries=QUICK) as client:
        assert await client.map(range(20), concurrency=4).outputs() == list(range(20))
        keyed = [said.input for said in server.said if "idempotency-key" in said.fields]
        assert set(keyed) <= broken  # a connection that had been idle may break twice
        assert keyed


@in_loop
async def test_an_input_that_cannot_be_encoded_fails_alone() -> None:
    async with scripted() as server, AsyncClient(server.url) as client:
        mapped = client.map(["a", object(), "b"])

        assert [done.output async for done in mapped] == ["a", "b"]
        assert [(each.index, each.error.code) for each in mapped.failures] == [(1, "CANNOT_BE_SENT")]


@in_loop
async def test_no_inputs_are_no_answers() -> None:
    async with AsyncClient("http://127.0.0.1:1") as client:
        assert await client.map([]).outputs() == []


def test_without_a_terminal_there_is_no_bar(capsys: pytest.CaptureFixture[str]) -> None:
    assert isinstance(progress_for(None, 10), NoProgress)


def test_the_bar_tells_how_many_and_how_many_failed(capsys: pytest.CaptureFixture[str]) -> None:
    async def scene() -> None:
        async with scripted(refuse_odd) as server, AsyncClient(server.url) as client:
            async for _ in client.map(range(5), progress=True):
                pass

    asyncio.run(scene())
    assert "5/5" in (shown := capsys.readouterr().err)
    assert "2 failed" in shown


class InThread:
    """The same for programs without a loop: the server runs in the test's loop, and the client in a thread."""

    def __init__(self, url: str) -> None:
        self.url = url

    def ordered(self) -> list[int]:
        with Client(self.url) as client:
            return [done.output for done in client.map(range(100), concurrency=7)]

    def infer(self) -> object:
        with Client(self.url) as client:
            return client.infer("x").output

    def failures(self) -> tuple[list[int], list[int]]:
        with Client(self.url) as client:
            mapped = client.map(range(6), ordered=False)
            return sorted(done.output for done in mapped), sorted(each.input for each in mapped.failures)

    def closed_early(self) -> int:
        with Client(self.url) as client:
            with client.map(range(10_000), concurrency=2) as mapped:
                for done in mapped:
                    if done.index == 5:
                        break
            return len(list(mapped))

    def raising(self) -> None:
        def inputs() -> Iterator[int]:
            yield 1
            raise OSError("the disk is gone")

        with Client(self.url) as client, pytest.raises(OSError, match="the disk is gone"):
            client.map(inputs()).outputs()


@in_loop
async def test_without_a_loop_it_is_the_same() -> None:
    async with scripted() as server:
        user = InThread(server.url)
        assert await asyncio.to_thread(user.infer) == "x"
        assert await asyncio.to_thread(user.ordered) == list(range(100))
        assert server.most_at_once <= 7
        assert await asyncio.to_thread(user.closed_early) == 0
        assert len(server.said) < 1000
        await asyncio.to_thread(user.raising)


@in_loop
async def test_without_a_loop_no_input_waits_for_a_slow_next_one() -> None:
    arrived = [threading.Event() for _ in range(3)]

    def script(said: Said, number: int) -> Told:
        arrived[said.input].set()
        return good(said.input)

    def inputs() -> Iterator[int]:
        for number, event in enumerate(arrived):
            yield number
            assert event.wait(HUNG)

    def mapped(url: str) -> list[int]:
        with Client(url) as client:
            return client.map(inputs(), output=int).outputs()

    async with scripted(script) as server:
        assert await asyncio.to_thread(mapped, server.url) == [0, 1, 2]


@in_loop
async def test_without_a_loop_failures_are_apart_too() -> None:
    async with scripted(refuse_odd) as server:
        assert await asyncio.to_thread(InThread(server.url).failures) == ([0, 20, 40], [1, 3, 5])


@in_loop
async def test_any_number_of_threads_may_share_a_client() -> None:
    async with scripted() as server:
        with Client(server.url) as client:
            tasks = [asyncio.to_thread(client.infer, number) for number in range(20)]
            assert [answer.output for answer in await asyncio.gather(*tasks)] == list(range(20))
            await asyncio.to_thread(client.close)


@in_loop
async def test_a_client_works_in_a_forked_process_too() -> None:
    async with scripted() as server:
        code = (
            "import os, sys\n"
            "from penstock.client import Client\n"
            f"client = Client({server.url!r})\n"
            "assert client.infer('parent').output == 'parent'\n"
            "child = os.fork()\n"
            "if not child:\n"
            "    os._exit(0 if client.infer('child').output == 'child' else 1)\n"
            "assert os.waitpid(child, 0)[1] == 0\n"
            "assert client.infer('again').output == 'again'\n"
        )
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", code)
        assert await process.wait() == 0
        assert [said.input for said in server.said] == ["parent", "child", "again"]


def test_it_is_imported_without_the_server_and_what_that_needs() -> None:
    code = (
        "import sys, penstock.client\n"
        "rooms = {name.split('.')[1] for name in sys.modules if name.startswith('penstock.')}\n"
        "assert rooms <= {'client', 'errors', 'output'}, rooms\n"
        "others = {'aiohttp', 'rich', 'typer', 'starlette', 'h2', 'uvloop'} & set(sys.modules)\n"
        "assert not others, others\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
