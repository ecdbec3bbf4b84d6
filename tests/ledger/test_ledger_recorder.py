"""The recorder: one row for each reply, handed on in chunks, bounded in memory."""

import asyncio
import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest
from ledger_kit import PATIENCE, Refusing, missing_and_doubled, recording, replies, reply, row

from penstock.adapters.ledger.chunk import Chunk
from penstock.adapters.ledger.open import LedgerSettings, open_recorder
from penstock.adapters.ledger.recorder import CHUNK_BYTES, Recorder
from penstock.adapters.ledger.rows import to_lines
from penstock.adapters.ledger.spool import Spool
from penstock.adapters.ledger.sqlite import SqliteStore
from penstock.adapters.ledger.writer import FORGET_AT_ONCE, LedgerState, OnFate, Writer
from penstock.ports import Observer, RequestObserver
from penstock.runtime.observers import Observers
from penstock.types import Batch, Failure, Reason, Refusal, Reply, WorkerId
from redis_servers import becomes


def test_a_reply_becomes_a_row_with_wall_times_its_tier_and_its_ending(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "ledger.db")

    async def body() -> None:
        async with recording(store, tmp_path / "spool") as recorder:
            now = time.monotonic()
            late = Failure("DEADLINE_EXCEEDED", "too late")
            recorder.answered(
                [reply(1, now, tier=1), reply(2, now, failure=late), reply(3, now, tier=7)], now
            )

    before = time.time()
    asyncio.run(body())
    with closing(store):
        rows = {entry.id: entry for entry in store.query(None, None, None, 9)}
    assert [rows[key].status for key in ("k1", "k2", "k3")] == ["SUCCESS", "DEADLINE_EXCEEDED", "SUCCESS"]
    assert [rows[key].tier for key in ("k1", "k2", "k3")] == ["paid", "free", "7"]
    one = rows["k1"]
    assert (one.request_id, one.tenant, one.model) == ("r1", "acme", "embed")
    assert before - PATIENCE < one.completed < time.time() + PATIENCE
    assert one.latency_ms == pytest.approx(250, abs=0.01)


def test_rows_are_handed_on_when_they_are_many_and_by_time(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "ledger.db")
    many = CHUNK_BYTES // 70  # the shortest row there can be has more bytes than that
    few = many // 4

    async def body() -> None:
        async with recording(store, tmp_path / "spool") as recorder:
            recorder.answered(replies(range(few)), time.monotonic())
            assert recorder.recorded == 0
            recorder.answered(replies(range(few, few + many)), time.monotonic())
            assert recorder.recorded == few + many
            recorder.answered(replies([few + many]), time.monotonic())
            assert recorder.recorded == few + many
            await becomes(lambda: recorder.recorded == few + many + 1)
            await becomes(lambda: recorder.state.written == few + many + 1)

    asyncio.run(body())
    with closing(store):
        assert missing_and_doubled(store, range(few + many + 1)) == (0, 0)


def test_refusals_and_dispatches_make_no_rows(tmp_path: Path) -> None:
    async def body() -> None:
        async with recording(Refusing(), tmp_path / "spool") as recorder:
            recorder.refused(Refusal("embed", "SERVICE_OVERLOADED", "r1", "acme", 1.0))
            recorder.flush()
            assert recorder.recorded == 0

    asyncio.run(body())


def test_while_the_disk_hangs_memory_is_bounded_and_what_is_lost_is_counted(tmp_path: Path) -> None:
    async def body() -> None:
        writer = Writer(
            Spool(tmp_path, 2**20, sync=False), Refusing(), None, time.time
        )  # and nothing runs it
        recorder = Recorder(writer, [], asyncio.get_running_loop(), time.monotonic, max_rows=20)
        for first in range(0, 50, 10):
            recorder.answered(replies(range(first, first + 10)), time.monotonic())
            recorder.flush()
        assert (recorder.recorded, recorder.lost) == (20, 30)

    asyncio.run(body())


def test_a_server_that_ends_while_the_database_is_away_leaves_all_rows_to_the_next(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "ledger.db")

    async def body() -> None:
        async with recording(Refusing(), tmp_path / "spool") as recorder:
            recorder.answered(replies(range(100)), time.monotonic())
        async with recording(store, tmp_path / "spool") as recorder:
            recorder.answered(replies(range(100, 110)), time.monotonic())

    asyncio.run(body())
    with closing(store):
        assert missing_and_doubled(store, range(110)) == (0, 0)


def test_rows_that_others_may_have_too_are_said_to_be_safe_once_on_disk_and_are_written_once(
    tmp_path: Path,
) -> None:
    store = SqliteStore(tmp_path / "ledger.db")
    fates: list[bool] = []

    async def body() -> None:
        async with recording(Refusing(), tmp_path / "spool") as recorder:
            recorder.told([row(1), row(2)], fates.append)
            await becomes(lambda: fates == [True])
        async with recording(store, tmp_path / "spool") as recorder:  # which finds what that one left
            recorder.told([row(2), row(3)], fates.append)
            await becomes(lambda: recorder.state.waiting == 0 and fates == [True, True])
            assert recorder.state.written == 3

    asyncio.run(body())
    with closing(store):
        assert missing_and_doubled(store, [1, 2, 3]) == (0, 0)


def test_rows_are_counted_as_written_before_they_wait_no_more(tmp_path: Path) -> None:
    class Watched(Spool):
        def delivered(self, chunk: Chunk) -> None:
            super().delivered(chunk)
            seen.append(writer.state)

    seen: list[LedgerState] = []
    store = SqliteStore(tmp_path / "ledger.db")
    writer = Writer(Watched(tmp_path / "spool", 2**20, sync=False), store, None, time.time)
    writer.start()
    writer.hand(to_lines([row(1), row(2)]), 2)
    writer.close(PATIENCE)
    assert [(state.written, state.waiting) for state in seen] == [(2, 0)]


def test_rows_on_their_way_to_the_disk_are_counted_once(tmp_path: Path) -> None:
    async def body() -> None:
        class Watched(Spool):
            def add(
                self, lines: bytes, rows: int, *, shared: bool = False, on_fate: OnFate | None = None
            ) -> None:
                super().add(lines, rows, shared=shared, on_fate=on_fate)
                seen.append(recorder.state.waiting)

        seen: list[int] = []
        writer = Writer(Watched(tmp_path, 2**20, sync=False), Refusing(), None, time.time)
        recorder = Recorder(writer, [], asyncio.get_running_loop(), time.monotonic)
        recorder.start()
        recorder.answered(replies(range(10)), time.monotonic())
        await recorder.close(PATIENCE)
        assert seen == [10]

    asyncio.run(body())


def test_rows_that_could_be_told_again_are_given_back_when_there_is_no_room(tmp_path: Path) -> None:
    async def body() -> None:
        writer = Writer(Spool(tmp_path, 2**20, sync=False), Refusing(), None, time.time)  # which nobody runs
        recorder = Recorder(writer, [], asyncio.get_running_loop(), time.monotonic, max_rows=1)
        fate: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        recorder.told([row(1), row(2)], fate.set_result)
        assert not await fate
        assert (recorder.recorded, recorder.lost) == (0, 0)

    asyncio.run(body())


def test_the_state_says_what_waits_and_why(tmp_path: Path) -> None:
    async def body() -> None:
        async with recording(Refusing(), tmp_path / "spool") as recorder:
            recorder.answered(replies(range(10)), time.monotonic())
            recorder.flush()
            await becomes(lambda: recorder.state.away != "")
            state = recorder.state
            assert (state.waiting, state.written, state.lost, state.away) == (10, 0, 0, "refused")

    asyncio.run(body())


def test_rows_beyond_their_age_are_forgotten_in_steps_while_others_are_written(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "ledger.db")
    old = FORGET_AT_ONCE + 500
    store.write("s", 1, to_lines([row(number, completed=1000.0) for number in range(old)]))
    store.close()

    async def body() -> None:
        async with recording(store, tmp_path / "spool", retention=3600.0) as recorder:
            recorder.answered(replies([old]), time.monotonic())
            await becomes(lambda: recorder.state.forgotten == old)

    asyncio.run(body())
    with closing(store):
        assert missing_and_doubled(store, [old]) == (0, 0)


def test_a_chunk_the_database_will_never_take_does_not_keep_the_others(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "ledger.db")
    with closing(sqlite3.connect(tmp_path / "ledger.db")) as database:
        store.write("s", 1, to_lines([row(0)]))
        database.execute(
            "CREATE TRIGGER no BEFORE INSERT ON penstock_ledger_pages WHEN instr(new.rows, '\"k1\"')"
            " BEGIN SELECT RAISE(ABORT, 'not this one'); END"
        )
    store.close()

    async def body() -> None:
        async with recording(store, tmp_path / "spool") as recorder:
            for number in (1, 2):
                recorder.answered(replies([number]), time.monotonic())
                recorder.flush()
            await becomes(lambda: recorder.state.written == 1)
            assert recorder.state.rejected == 1

    asyncio.run(body())
    with closing(store):
        assert missing_and_doubled(store, [0, 2]) == (0, 0)


def test_a_recorder_that_was_never_started_closes_and_leaves_nothing_behind(tmp_path: Path) -> None:
    async def body() -> None:
        settings = LedgerSettings(f"sqlite:///{tmp_path / 'ledger.db'}", tmp_path / "spool")
        recorder = open_recorder(settings, ["free"], asyncio.get_running_loop(), time.monotonic)
        await recorder.close(1.0)

    asyncio.run(body())
    assert list((tmp_path / "spool").iterdir()) == []


def test_all_observers_are_told_the_same_of_what_they_listen_to() -> None:
    first, second = Listener(), Listener()
    all_of_them = Observers(first, None, second, RequestObserver())
    answered, refusal = replies([1]), Refusal("embed", "NOT_FOUND", "r1", "", 1.0)
    all_of_them.answered(answered, 1.0)
    all_of_them.refused(refusal)
    batch = Batch(1, "embed", b"", [answered[0].request], Reason.FULL, 1.0)
    all_of_them.sent(batch, WorkerId("w"))
    assert first.heard == second.heard == [(answered, 1.0), refusal, batch]


def test_an_observer_that_fails_is_said_in_the_log_and_keeps_nobody_from_being_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Broken(Observer):
        def refused(self, refusal: Refusal) -> None:
            raise ZeroDivisionError

    listener, refusal = Listener(), Refusal("embed", "NOT_FOUND", "r1", "", 1.0)
    Observers(Broken(), listener).refused(refusal)
    assert listener.heard == [refusal]
    assert "an observer failed" in caplog.text


class Listener(Observer):
    def __init__(self) -> None:
        self.heard: list[object] = []

    def answered(self, replies: Sequence[Reply], now: float) -> None:
        self.heard.append((replies, now))

    def sent(self, batch: Batch, worker: WorkerId) -> None:
        self.heard.append(batch)

    def refused(self, refusal: Refusal) -> None:
        self.heard.append(refusal)
