"""Batches to workers, answers to gateways, by mailbox."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager

import pytest
from redis_kit import ask, named, opened, running, until

from penstock.adapters.redis.bus.mailbox import Mailbox, Post
from penstock.adapters.redis.link.connect import RedisSettings, Store
from penstock.adapters.redis.records import task_endings
from penstock.adapters.redis.records.task_endings import RedisEndings
from penstock.adapters.redis.records.tasks import RedisTasks
from penstock.cluster.dispatch import Dispatcher
from penstock.cluster.worker_post import WorkerPost
from penstock.core.queued import Sealed
from penstock.ports.tasks import Ended
from penstock.runtime.collapse.passenger import Passenger
from penstock.types import Execution, Failure, Outcome, Reason, Reply, Result, TaskStatus, WorkerId
from penstock.words.messages import Answers, Dispatch, Failed, Finished, Message, Notice, Tried, decode
from redis_servers import KINDS, Server, patient, redis_server

LATE = Failure("DEADLINE_EXCEEDED", "too late")
FULL = Failure("SERVICE_OVERLOADED", "full", retry_after=2.0)


class Office:
    """Mailboxes by name, and what arrived in each."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.post = Post(store)
        self.endings = RedisEndings(store, self.post)
        self.arrived: dict[str, list[Message]] = {}

    def dispatcher(self) -> Dispatcher:
        return Dispatcher(self.post, self.endings, "batcher", time.monotonic)

    def worker(self) -> WorkerPost:
        return WorkerPost(self.post, self.endings)

    @asynccontextmanager
    async def open(self, *owners: str) -> AsyncIterator[None]:
        boxes = [Mailbox(self.store, owner) for owner in owners]
        for box in boxes:
            await box.create()
        async with running(*(box.run(self._listener(box.owner)) for box in boxes)):
            yield

    def _listener(self, owner: str) -> Callable[[bytes], None]:
        messages = self.arrived.setdefault(owner, [])
        return lambda body: messages.append(decode(body))

    async def first(self, owner: str) -> Message:
        await until(lambda: bool(self.arrived[owner]))
        return self.arrived[owner][0]


@asynccontextmanager
async def office(settings: RedisSettings, *owners: str) -> AsyncIterator[Office]:
    async with opened(settings) as store:
        made = Office(store)
        async with made.open(*owners):
            yield made


def held(gateway: str = "g1", *, task: bool = False, text: bytes = b'"x"') -> Passenger:
    """A request as a batcher has it in hand."""
    request = ask(text, task=task)
    request.gateway = gateway
    return request


def batch(*requests: Passenger) -> Sealed:
    return Sealed(9, "model", b"{}", list(requests), Reason.FULL, 0.0)


async def create_task(office: Office, request: Passenger) -> RedisTasks:
    tasks = RedisTasks(office.store, "g2", office.post, ttl=60.0)
    await tasks.create(request, limit=10.0)
    return tasks


def test_a_batch_arrives_at_its_worker_with_all_that_answering_it_needs(
    redis_settings: RedisSettings,
) -> None:
    async def body() -> None:
        async with office(redis_settings, "worker") as post:
            dispatcher = post.dispatcher()
            requests = [held("g1", text=b'"a"'), held("g2", text=b'"b"'), held("g1", task=True)]
            dispatcher.send("worker", "worker/0", batch(*requests))
            async with running(dispatcher.run()):
                got = await post.first("worker")
            assert isinstance(got, Dispatch)
            assert (got.batch_id, got.batcher, got.slot, got.model, got.parameters) == (
                9, "batcher", "worker/0", "model", b"{}",
            )  # fmt: skip
            assert [(m.key, m.gateway, m.input, m.task) for m in got.members] == [
                (requests[0].key, "g1", b'"a"', ""),
                (requests[1].key, "g2", b'"b"', ""),
                (requests[2].key, "g1", b'"x"', named(requests[2])),
            ]

    asyncio.run(body())


def test_messages_to_one_mailbox_keep_their_order(redis_settings: RedisSettings) -> None:
    async def body() -> None:
        async with office(redis_settings, "worker") as post:
            dispatcher = post.dispatcher()
            async with running(dispatcher.run()):
                for number in range(100):
                    dispatcher.send("worker", str(number), batch(held()))
                    if number % 10 == 0:
                        await asyncio.sleep(0)
                await until(lambda: len(post.arrived["worker"]) == 100)
            slots = [got.slot for got in post.arrived["worker"] if isinstance(got, Dispatch)]
            assert slots == [str(number) for number in range(100)]

    asyncio.run(body())


def test_failures_reach_each_gateway_in_one_message_and_successes_not_again(
    redis_settings: RedisSettings,
) -> None:
    async def body() -> None:
        async with office(redis_settings, "g1", "g2") as post:
            dispatcher = post.dispatcher()
            late, later, full, well = held("g1"), held("g1"), held("g1"), held("g1")
            elsewhere = held("g2")
            async with running(dispatcher.run()):
                dispatcher.answer(
                    [
                        Reply(late, Outcome.EXPIRED, failure=LATE),
                        Reply(full, Outcome.FAILED, failure=FULL),
                        Reply(well, Outcome.SUCCESS),
                        Reply(elsewhere, Outcome.EXPIRED, failure=LATE),
                        Reply(later, Outcome.EXPIRED, failure=LATE),
                    ]
                )
                first, second = await post.first("g1"), await post.first("g2")
            assert isinstance(first, Failed)
            assert isinstance(second, Failed)
            assert [(each.keys, each.outcome, each.failure) for each in first.endings] == [
                ([late.key, later.key], Outcome.EXPIRED, LATE),
                ([full.key], Outcome.FAILED, FULL),
            ]
            assert [each.keys for each in second.endings] == [[elsewhere.key]]
            assert len(post.arrived["g1"]) == 1

    asyncio.run(body())


def test_outputs_go_straight_to_the_gateways_and_the_batcher_hears_that_it_is_done(
    redis_settings: RedisSettings,
) -> None:
    async def body() -> None:
        async with office(redis_settings, "worker", "batcher", "g1", "g2") as post:
            dispatcher = post.dispatcher()
            a, b, c = held("g1"), held("g2"), held("g1")
            async with running(dispatcher.run()):
                dispatcher.send("worker", "worker/0", batch(a, b, c))
                got = await post.first("worker")
            assert isinstance(got, Dispatch)
            worker, result = post.worker(), Result([b"1", b"2", b"3"], "v7")
            ran = Execution(WorkerId("worker/0"), 9, 3, 5.0, 0.25, sealed=4.5, sent=5.0)
            await worker.answer(got, result, ran)
            await worker.finished(got, result, 0.25)
            told = "full", 0.5, list[Tried]()
            assert await post.first("g1") == Answers(
                [a.key, c.key], [b"1", b"3"], "worker/0", 9, 3, 0.25, "v7", *told
            )
            assert await post.first("g2") == Answers([b.key], [b"2"], "worker/0", 9, 3, 0.25, "v7", *told)
            assert await post.first("batcher") == Finished("worker/0", 9, 3, 0.25, "v7")

    asyncio.run(body())


def test_a_failed_batch_is_told_to_the_batcher_alone(redis_settings: RedisSettings) -> None:
    async def body() -> None:
        async with office(redis_settings, "batcher") as post:
            message = Dispatch(9, "batcher", "worker/0", "model", b"", [])
            failure = Failure("BACKEND_CRASHED", "it died", "why", splittable=True)
            await post.worker().finished(message, failure, 0.5)
            got = await post.first("batcher")
            assert isinstance(got, Finished)
            assert got.failure == failure
            assert got.count == 0

    asyncio.run(body())


def test_the_result_of_a_task_is_stored_and_whoever_waits_for_it_is_told(
    redis_settings: RedisSettings,
) -> None:
    async def body() -> None:
        async with office(redis_settings, "worker", "g2") as post:
            dispatcher = post.dispatcher()
            request = held("g1", task=True)
            tasks = await create_task(post, request)
            async with running(dispatcher.run()):
                dispatcher.send("worker", "worker/0", batch(request))
                got = await post.first("worker")

                async def processing() -> bool:
                    record = await tasks.find(request.request_id, "")
                    return record.status is TaskStatus.PROCESSING

                await until(processing)
            waiting = asyncio.ensure_future(tasks.wait(request.request_id, "", 60.0))

            async def watched() -> bool:
                key = post.store.keys.watch(named(request))
                return bool(await post.store.commands.execute_command("EXISTS", key))

            await until(watched)
            assert isinstance(got, Dispatch)
            await post.worker().answer(got, Result([b'"y"']), Execution(WorkerId("worker/0"), 9, 1, 1.0, 0.1))
            notice = await post.first("g2")
            assert notice == Notice(named(request), TaskStatus.SUCCESS)
            assert isinstance(notice, Notice)
            tasks.notice(notice)
            record = await waiting
            assert record.answer is not None
            assert (record.status, record.answer.output) == (TaskStatus.SUCCESS, b'"y"')

    asyncio.run(body())


def test_a_task_that_the_batcher_gave_up_is_over_in_its_record(redis_settings: RedisSettings) -> None:
    async def body() -> None:
        async with office(redis_settings) as post:
            dispatcher = post.dispatcher()
            request = held("g1", task=True)
            tasks = await create_task(post, request)
            async with running(dispatcher.run()):
                dispatcher.answer([Reply(request, Outcome.EXPIRED, failure=LATE)])
                await dispatcher.flush()
            record = await tasks.find(request.request_id, "")
            assert record.answer is not None
            assert (record.status, record.answer.failure) == (TaskStatus.EXPIRED, LATE)

    asyncio.run(body())


def test_a_receiver_that_is_gone_is_reported_and_holds_up_nobody(redis_settings: RedisSettings) -> None:
    async def body() -> None:
        async with office(redis_settings, "worker") as post:
            dispatcher = post.dispatcher()
            gone: list[str] = []
            dispatcher.on_undelivered = gone.append
            async with running(dispatcher.run()):
                dispatcher.send("dead", "dead/0", batch(held()))
                dispatcher.send("worker", "worker/0", batch(held()))
                await post.first("worker")
                await until(lambda: gone == ["dead"])
            message = Dispatch(9, "dead", "worker/0", "model", b"", [])
            await post.worker().finished(message, Result([]), 0.1)

    asyncio.run(body())


@pytest.fixture(params=KINDS)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """One that the test may hurt."""
    with redis_server(request.param, "--appendonly", "yes", "--appendfsync", "always") as server:
        yield server


def test_connections_killed_at_any_time_lose_no_message(server: Server) -> None:
    async def body() -> None:
        async with office(patient(server.url), "worker", "g1") as post:
            dispatcher, worker = (
                post.dispatcher(),
                post.worker(),
            )
            async with running(dispatcher.run()):
                for number in range(20):
                    request = held("g1")
                    dispatcher.send("worker", str(number), batch(request))
                    message = Dispatch(number, "b", "s", "model", b"", [])
                    await asyncio.sleep(0)
                    server.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
                    dispatcher.answer([Reply(request, Outcome.EXPIRED, failure=LATE)])
                    await worker.finished(message, Result([]), 0.1)
                await until(lambda: len({*slots(post)}) == 20)
                await until(lambda: len(post.arrived["g1"]) >= 20)

    def slots(post: Office) -> list[str]:
        return [got.slot for got in post.arrived["worker"] if isinstance(got, Dispatch)]

    asyncio.run(body())


def test_answers_wait_out_a_restart_of_redis(server: Server) -> None:
    async def body() -> None:
        async with office(patient(server.url), "g1", "batcher") as post:
            dispatcher = post.dispatcher()
            async with running(dispatcher.run()):
                await asyncio.to_thread(server.kill)
                request = held("g1")
                dispatcher.answer([Reply(request, Outcome.EXPIRED, failure=LATE)])
                await asyncio.to_thread(server.start)
                got = await post.first("g1")
            assert isinstance(got, Failed)
            assert got.endings[0].keys == [request.key]

    asyncio.run(body())


def test_endings_that_redis_was_away_for_too_long_to_store_are_given_back(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_endings, "_GIVE_UP_AFTER", 0.1)

    async def body() -> None:
        async with office(patient(server.url)) as post:
            endings = [Ended("/t", Outcome.SUCCESS, b"1")]
            assert await post.endings.settle(endings) == []
            await asyncio.to_thread(server.kill)
            assert await post.endings.settle(endings) == endings

    asyncio.run(body())
