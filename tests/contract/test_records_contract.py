"""What is kept for the whole installation, in memory and over a Redis: tasks, their ends, and dead letters."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import asdict

import pytest
from houses import ask, named
from meeting import Meeting, Play

from penstock.core.dead_letters import letter_of
from penstock.errors import Conflict, NotFound
from penstock.ports.tasks import Ended, EndedTask, Withdrawal
from penstock.runtime.collapse.passenger import Passenger
from penstock.types import Attempt, DeadLetter, Failure, GivenUp, Outcome, TaskStatus
from penstock.words.messages import Message, Notice, decode
from redis_servers import becomes, running

BROKEN = Failure("BACKEND_FAILED", "it broke", "because")


class Kit:
    """Two gateways and one who knows how things end."""

    def __init__(self, meeting: Meeting) -> None:
        self.meeting = meeting
        self.here, self.there = (meeting.records.tasks(name) for name in ("here", "there"))
        self.endings = meeting.records.endings

    async def new(self, tenant: str = "") -> Passenger:
        request = ask(tenant=tenant, task=True)
        await self.here.create(request, limit=10.0)
        return request

    async def succeed(self, request: Passenger, output: bytes = b"1") -> None:
        await self.endings.settle([Ended(named(request), Outcome.SUCCESS, output)])

    async def fail(self, request: Passenger) -> None:
        await self.endings.settle([Ended(named(request), Outcome.FAILED, failure=BROKEN)])


def test_a_task_is_read_at_any_gateway_from_its_beginning_to_its_end(play: Play) -> None:
    async def scene(meeting: Meeting) -> None:
        tasks = Kit(meeting)
        request = await tasks.new()
        record = await tasks.there.find(request.request_id, "")
        assert (record.status, record.answer, record.key) == (TaskStatus.PENDING, None, request.key)
        await tasks.endings.processing([named(request)])
        processing = await tasks.there.find(request.request_id, "")
        assert processing.status is TaskStatus.PROCESSING
        await tasks.succeed(request, b'{"y": 1}')
        over = await tasks.there.find(request.request_id, "")
        assert over.answer is not None
        assert (over.status, over.answer.output) == (TaskStatus.SUCCESS, b'{"y": 1}')
        assert over.answer.failure is None
        assert record.changed_at <= processing.changed_at <= over.changed_at

    play(scene)


def test_an_id_that_is_taken_is_a_conflict(play: Play) -> None:
    async def scene(meeting: Meeting) -> None:
        tasks = Kit(meeting)
        request = await tasks.new()
        with pytest.raises(Conflict):
            await tasks.there.create(request, limit=10.0)
        await tasks.here.forget(request.request_id, request.tenant)
        await tasks.there.create(request, limit=10.0)

    play(scene)


def test_a_letter_that_is_retried_replaces_a_task_that_is_over_once(play: Play) -> None:
    async def scene(meeting: Meeting) -> None:
        tasks = Kit(meeting)
        request = await tasks.new()
        with pytest.raises(Conflict):  # it is not over
            await tasks.there.create(request, limit=10.0, letter="1-1")
        await tasks.fail(request)
        with pytest.raises(Conflict):  # no letter is retried
            await tasks.there.create(request, limit=10.0)
        await tasks.there.create(request, limit=10.0, letter="1-1")
        assert (await tasks.here.find(request.request_id, "")).status is TaskStatus.PENDING
        await tasks.fail(request)
        with pytest.raises(Conflict):  # this one has been
            await tasks.here.create(request, limit=10.0, letter="1-1")
        await tasks.here.create(request, limit=10.0, letter="2-1")

    play(scene)


def test_to_another_tenant_a_task_does_not_exist(play: Play) -> None:
    async def scene(meeting: Meeting) -> None:
        tasks = Kit(meeting)
        request = await tasks.new(tenant="anna")
        for attempt in (
            tasks.here.find(request.request_id, "bert"),
            tasks.here.wait(request.request_id, "bert", 5.0),
            tasks.here.cancel(request.request_id, "bert"),
            tasks.here.find("never was", "anna"),
            tasks.here.cancel("never was", "anna"),
        ):
            with pytest.raises(NotFound):
                await attempt
        assert (await tasks.here.find(request.request_id, "anna")).status is TaskStatus.PENDING

    play(scene)


def test_the_first_ending_is_the_ending(play: Play) -> None:
    async def scene(meeting: Meeting) -> None:
        tasks = Kit(meeting)
        request = await tasks.new()
        await tasks.fail(request)
        await tasks.succeed(request)
        await tasks.endings.processing([named(request)])
        assert await tasks.here.cancel(request.request_id, "") is None
        record = await tasks.here.find(request.request_id, "")
        assert record.answer is not None
        assert (record.status, record.answer.failure) == (TaskStatus.FAILED, BROKEN)

    play(scene)


def test_an_ending_for_a_task_that_nobody_knows_makes_none(play: Play) -> None:
    async def scene(meeting: Meeting) -> None:
        tasks = Kit(meeting)
        await tasks.endings.settle([Ended("never was", Outcome.SUCCESS, b"1")])
        with pytest.raises(NotFound):
            await tasks.here.find("never was", "")

    play(scene)


def test_cancelling_names_the_shard_that_must_hear_of_it(play: Play) -> None:
    async def scene(meeting: Meeting) -> None:
        tasks = Kit(meeting)
        request = await tasks.new()
        request.shard = 5
        await tasks.here.placed(request)
        assert await tasks.there.cancel(request.request_id, "") == Withdrawal(5, request.key)
        record = await tasks.here.find(request.request_id, "")
        assert record.answer is not None
        assert record.answer.failure == Failure("CANCELLED", "cancelled by its asker")
        assert await tasks.there.cancel(request.request_id, "") is None  # it is over
        await tasks.succeed(request)  # a worker had it already
        assert (await tasks.here.find(request.request_id, "")).status is TaskStatus.CANCELLED
        unsent = await tasks.new()
        assert await tasks.there.cancel(unsent.request_id, "") is None  # there is nothing to withdraw

    play(scene)


def test_every_gateway_that_waits_is_told_and_so_is_one_that_wants_a_notice(play: Play) -> None:
    async def scene(meeting: Meeting) -> None:
        tasks, heard = Kit(meeting), dict[str, list[Message]](here=[], there=[])
        gateways = {"here": tasks.here, "there": tasks.there}

        def hear(owner: str, payload: bytes) -> None:
            message = decode(payload)
            assert isinstance(message, Notice)
            heard[owner].append(message)
            gateways[owner].notice(message)

        boxes = [meeting.bus.mailbox(owner) for owner in heard]
        for box in boxes:
            await box.create()
        async with running(*(box.run(lambda payload, of=box.owner: hear(of, payload)) for box in boxes)):  # type: ignore[misc]
            request = ask(task=True)
            await tasks.here.create(request, limit=10.0, watch=True)
            waiting = [
                asyncio.create_task(each.wait(request.request_id, "", 60.0)) for each in gateways.values()
            ]
            await asyncio.sleep(0.05)
            await tasks.succeed(request)
            assert {(await each).status for each in waiting} == {TaskStatus.SUCCESS}
            await becomes(lambda: all(heard.values()))
        assert heard["there"][0] == Notice(named(request), TaskStatus.SUCCESS)

    play(scene)


def test_waiting_ends_at_once_when_it_is_over_and_in_time_when_it_is_not(play: Play) -> None:
    async def scene(meeting: Meeting) -> None:
        tasks = Kit(meeting)
        request = await tasks.new()
        assert (await tasks.here.wait(request.request_id, "", 0.0)).status is TaskStatus.PENDING
        assert (await tasks.here.wait(request.request_id, "", 0.02)).status is TaskStatus.PENDING
        await tasks.succeed(request)
        assert (await tasks.here.wait(request.request_id, "", 100.0)).status is TaskStatus.SUCCESS

    play(scene)


class Ledger:
    """What one gateway wrote down, as far as it is allowed to."""

    def __init__(self, meeting: Meeting) -> None:
        self.rows: list[EndedTask] = []
        self.chosen = True
        self.refusals = 0  # that are still to come
        self.reader = meeting.records.ended_tasks(lambda: self.chosen, self._record, lambda lost: None)

    async def _record(self, tasks: Sequence[EndedTask]) -> bool:
        if self.refusals:
            self.refusals -= 1
            return False
        self.rows += tasks
        return True


async def written(tasks: Kit, ledger: Ledger) -> Passenger:
    """A task whose end the ledger has: it may take a moment until the first end is listened for."""
    while True:
        request = await tasks.new("acme")
        await tasks.succeed(request)
        for _ in range(20):
            if any(row.key == request.key for row in ledger.rows):
                return request
            await asyncio.sleep(0.05)


def test_every_end_is_told_to_the_ledger_once_however_often_it_is_settled(play: Play) -> None:
    async def scene(meeting: Meeting) -> None:
        tasks, ledger = Kit(meeting), Ledger(meeting)
        async with running(ledger.reader.run()):
            first = await written(tasks, ledger)
            good, bad = await tasks.new("acme"), await tasks.new("acme")
            ledger.refusals = 1
            for _ in range(2):
                await tasks.succeed(good)
                await tasks.fail(bad)
            await becomes(lambda: {good.key, bad.key} <= {row.key for row in ledger.rows})
        found = {row.key: row for row in ledger.rows}
        assert len(found) == len(ledger.rows)
        assert [found[each.key].status for each in (first, good, bad)] == ["SUCCESS", "SUCCESS", BROKEN.code]
        row = found[good.key]
        assert (row.task_id, row.tenant, row.model) == (good.request_id, "acme", "model")
        assert 0 < row.created <= row.completed

    play(scene)


def test_only_who_is_chosen_reads_and_another_begins_with_what_is_left(play: Play) -> None:
    async def scene(meeting: Meeting) -> None:
        tasks, first, second = Kit(meeting), Ledger(meeting), Ledger(meeting)
        second.chosen = False
        async with running(first.reader.run(), second.reader.run()):
            await written(tasks, first)
            assert not second.rows
            first.chosen, second.chosen = False, True
            first.reader.look_again()
            second.reader.look_again()
            await written(tasks, second)

    play(scene)


def given_up(text: bytes = b'"x"') -> DeadLetter:
    request = ask(text, tenant="anna")
    request.tier, request.parameters, request.cost = 2, b"{}", 7.0
    history = (Attempt(time.monotonic(), "BACKEND_FAILED", "no", "", "w/0", 4, splittable=True),)
    reply = GivenUp(request, Outcome.FAILED, failure=BROKEN, executions=3, history=history)
    return letter_of(reply, time.time() - time.monotonic())


def test_a_letter_holds_all_that_is_needed_to_understand_and_repeat_it(play: Play) -> None:
    async def scene(meeting: Meeting) -> None:
        letters, sent = meeting.records.letters, given_up()
        assert await letters.add([sent]) == 0
        [listed] = await letters.list()
        letter = await letters.show(listed.id)
        assert asdict(letter) == asdict(listed)
        for name in (
            "key",
            "request_id",
            "model",
            "tenant",
            "tier",
            "input",
            "parameters",
            "cost",
            "history",
            "id",
        ):
            assert getattr(letter, name) == getattr(sent, name)
        assert (letter.code, letter.message, letter.details) == (BROKEN.code, BROKEN.message, BROKEN.details)
        assert abs(letter.when - time.time()) < 60

    play(scene)


def test_letters_are_listed_newest_first_page_by_page(play: Play) -> None:
    async def scene(meeting: Meeting) -> None:
        letters = meeting.records.letters
        sent = [given_up() for _ in range(5)]
        for letter in sent:
            await letters.add([letter])
        newest = await letters.list(2)
        rest = await letters.list(10, before=newest[-1].id)
        assert [each.key for each in (*newest, *rest)] == [each.key for each in reversed(sent)]
        assert await letters.list(10, before=rest[-1].id) == []

    play(scene)


def test_a_removed_letter_is_gone_and_cannot_be_removed_again(play: Play) -> None:
    async def scene(meeting: Meeting) -> None:
        letters = meeting.records.letters
        await letters.add([given_up(), given_up()])
        removed, kept = await letters.list()
        await letters.remove(removed.id)
        for attempt in (letters.remove(removed.id), letters.show(removed.id), letters.show("9-9")):
            with pytest.raises(NotFound):
                await attempt
        assert [each.id for each in await letters.list()] == [kept.id]
        assert await letters.purge() == 1
        assert await letters.list() == []

    play(scene)


def test_a_letter_goes_when_its_time_is_over(play: Play) -> None:
    async def scene(meeting: Meeting) -> None:
        letters = meeting.records.letters
        await letters.add([given_up()])
        left: list[DeadLetter] = [given_up()]

        async def look() -> None:
            while left:
                left[:] = await letters.list()

        async with running(look()):
            await becomes(lambda: not left)

    play(scene, ttl=0.05)
