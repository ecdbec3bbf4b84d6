"""What becomes of a batch, and of the server, when the function's process dies, hangs or freezes."""

import asyncio
import contextlib
import gc
import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import psutil
import pytest
from process_kit import (
    FUNCTIONS,
    Runner,
    Started,
    batch,
    begin_hanging,
    each_loop,
    ends,
    failure,
    is_gone,
    outputs,
)

from penstock.adapters.backends import process, spawned
from penstock.errors import BackendCrashed, BackendOutOfMemory, BackendUnavailable
from server import eventually

pytestmark = pytest.mark.usefixtures("patient_processes")


@each_loop
@pytest.mark.parametrize(
    ("function", "given", "message"),
    [
        ("leaving", "3", "slot-0 exited with code 3"),
        ("leaving", "0", "slot-0 exited with code 0"),
        ("async_leaving", "4", "slot-0 exited with code 4"),
        ("exiting", "5", "slot-0 exited with code 5"),
        ("segfault", "", "slot-0 was killed by SIGSEGV"),
    ],
)
def test_a_death_in_the_middle_of_a_batch_is_a_crash_that_names_its_cause(
    run_loop: Runner, function: str, given: str, message: str
) -> None:
    async def body() -> None:
        async with Started(function) as backend:
            pid = backend.pid
            assert await failure(backend, BackendCrashed, given) == message
            assert pid is not None
            assert is_gone(pid)
            assert await failure(backend, BackendUnavailable, given) == message
            with pytest.raises(BackendUnavailable, match=message):
                await backend.probe()
            await backend.start()
            assert backend.pid != pid
            await backend.probe()

    run_loop(body())


def test_a_kill_from_outside_in_the_middle_of_a_batch_is_a_crash(tmp_path: Path) -> None:
    async def body() -> None:
        async with Started("hang") as backend:
            running = await begin_hanging(backend, tmp_path / "begun")
            assert backend.pid is not None
            os.kill(backend.pid, signal.SIGKILL)
            with pytest.raises(BackendCrashed, match="killed by SIGKILL"):
                await running

    asyncio.run(body())


@each_loop
def test_a_hanging_batch_can_be_cancelled_and_its_process_is_killed(run_loop: Runner, tmp_path: Path) -> None:
    async def body() -> None:
        async with Started("hang") as backend:
            running = await begin_hanging(backend, tmp_path / "begun")
            pid = backend.pid
            assert pid is not None
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            assert "must be started anew" in await failure(backend, BackendUnavailable, "next")
            await backend.close()
            assert is_gone(pid)
            assert await failure(backend, BackendUnavailable, "next") == "slot-0 is not running"

    run_loop(body())


def test_the_late_answer_of_a_cancelled_batch_reaches_nobody() -> None:
    async def body() -> None:
        async with Started("echo") as backend:
            running = asyncio.ensure_future(backend.run(batch("old")))
            await asyncio.sleep(0)  # asked, and not yet answered
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            await failure(backend, BackendUnavailable, "new")
            await backend.start()
            assert await outputs(backend, "new") == ["new"]

    asyncio.run(body())


def test_a_memory_balloon_under_a_limit_rejects_the_batch_and_the_next_one_works() -> None:
    async def body() -> None:
        async with Started("balloon", memory_limit=2 << 30) as backend:
            assert await failure(backend, BackendOutOfMemory, str(8 << 30)) == "balloon raised MemoryError"
            assert await outputs(backend, "1000") == ["1000"]

    asyncio.run(body())


def test_a_frozen_process_fails_its_probe_and_a_living_one_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "SILENCE", 0.0)

    async def body() -> None:
        async with Started("echo") as backend:
            await backend.probe()
            monkeypatch.setattr(process, "BEAT_EVERY", 0.1)
            monkeypatch.setattr(process, "LOOK_LIMIT", 0.1)
            assert backend.pid is not None
            os.kill(backend.pid, signal.SIGSTOP)
            eventually(lambda: psutil.Process(backend.pid).status() == psutil.STATUS_STOPPED)
            with contextlib.suppress(BackendUnavailable):
                await backend.probe()  # a heartbeat from before may still have been on its way
            with pytest.raises(BackendUnavailable, match="slot-0 is frozen"):
                await backend.probe()
            await backend.close()
            with pytest.raises(BackendUnavailable, match="not running"):
                await backend.probe()

    asyncio.run(body())


@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_and_a_termination_are_left_to_the_server(kind: signal.Signals) -> None:
    async def body() -> None:
        async with Started("echo") as backend:
            pid = backend.pid
            assert pid is not None
            os.kill(pid, kind)
            assert await outputs(backend, "a") == ["a"]
            await backend.probe()
            assert backend.pid == pid

    asyncio.run(body())


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("write_garbage", "slot-0 wrote into the connection to the server"),
        ("hang_up", "slot-0 closed its connection to the server"),
    ],
)
def test_a_function_that_meddles_with_the_connection_is_killed(
    function: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spawned, "LAST_GRACE", 0.0)

    async def body() -> None:
        async with Started(function) as backend:
            assert (await failure(backend, BackendCrashed, "a")).startswith(message)

    asyncio.run(body())


def test_what_the_function_started_is_killed_along_with_it() -> None:
    async def body() -> None:
        async with Started("leave_one_behind") as backend:
            (pid,) = await outputs(backend, "a")
            pidfd = os.pidfd_open(int(pid))
        assert await asyncio.to_thread(ends, pidfd)

    asyncio.run(body())


@pytest.mark.parametrize("ending", ["closed", "killed", "exits"])
def test_a_daemon_that_the_function_made_ends_with_it_however_it_ends(ending: str) -> None:
    async def body() -> None:
        async with Started("make_a_daemon") as backend:
            (pid,) = await outputs(backend, "")
            daemon = os.pidfd_open(int(pid))
            if ending == "killed":
                assert backend.pid is not None
                os.kill(backend.pid, signal.SIGKILL)
            elif ending == "exits":
                await failure(backend, BackendCrashed, "exit")
            else:
                await backend.close()
            assert await asyncio.to_thread(ends, daemon)

    asyncio.run(body())


def test_orphans_that_end_by_themselves_do_not_pile_up() -> None:
    async def body() -> None:
        async with Started("make_orphans_that_end") as backend:
            assert backend.pid is not None
            keeper = psutil.Process(backend.pid).parent()
            assert keeper is not None
            await outputs(backend, *["a"] * 16)
            eventually(lambda: [child.pid for child in keeper.children(recursive=True)] == [backend.pid])

    asyncio.run(body())


def test_the_process_ends_as_if_nobody_stood_between_also_when_that_one_is_killed() -> None:
    async def body() -> None:
        async with Started("make_a_daemon") as backend:
            assert backend.pid is not None
            process = psutil.Process(backend.pid)
            keeper = process.parent()
            assert keeper is not None
            keeper.kill()
            await asyncio.to_thread(psutil.wait_procs, [process])
            assert not process.is_running()
            assert "killed by SIGKILL" in await failure(backend, BackendUnavailable, "")

    asyncio.run(body())


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@each_loop
def test_restarts_leave_no_descriptors_behind_and_closing_twice_is_fine(run_loop: Runner) -> None:
    async def body() -> None:
        async with Started("leaving") as backend:
            gc.collect()  # what others have left is not to go meanwhile
            before = descriptors()
            for n in range(12):
                if n % 3 == 0:
                    await backend.close()
                    await backend.close()
                elif n % 3 == 1:
                    await failure(backend, BackendCrashed, "1")
                await backend.start()
            assert descriptors() == before

    run_loop(body())


PARENT = """
import asyncio, sys
from penstock.adapters.backends.process import ProcessBackend
from penstock.types import Batch, Reason, Request

async def main(target, fifo):
    backend = ProcessBackend(target)
    await backend.start()
    request = Request("k", "m", fifo.encode(), 0, 9, 9)
    await backend.run(Batch(1, "m", b"", [request], Reason.FULL, 0))

asyncio.run(main(*sys.argv[1:]))
"""


def test_a_daemon_does_not_outlive_a_server_killed_without_warning(tmp_path: Path) -> None:
    fifo = tmp_path / "begun"
    os.mkfifo(fifo)
    quoted = msgspec.json.encode(str(fifo)).decode()
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, f"{FUNCTIONS}:hang_with_a_daemon", quoted]
    ) as server:
        daemon = os.pidfd_open(int(fifo.read_text()))
        server.kill()

    assert ends(daemon)


def test_the_process_does_not_outlive_a_server_killed_without_warning(tmp_path: Path) -> None:
    fifo = tmp_path / "begun"
    os.mkfifo(fifo)
    quoted = msgspec.json.encode(str(fifo)).decode()
    with subprocess.Popen([sys.executable, "-c", PARENT, f"{FUNCTIONS}:hang", quoted]) as server:
        child = os.pidfd_open(int(fifo.read_text()))
        server.kill()

    assert ends(child)


def test_nor_do_its_process_and_the_keeper_when_both_are_stopped(tmp_path: Path) -> None:
    fifo = tmp_path / "begun"
    os.mkfifo(fifo)
    quoted = msgspec.json.encode(str(fifo)).decode()
    with subprocess.Popen([sys.executable, "-c", PARENT, f"{FUNCTIONS}:hang", quoted]) as server:
        fifo.read_text()
        family = psutil.Process(server.pid).children(recursive=True)
        handles = [os.pidfd_open(each.pid) for each in family]
        for each in family:
            each.suspend()
        server.kill()

    assert len(handles) == 2
    assert all(ends(handle) for handle in handles)
