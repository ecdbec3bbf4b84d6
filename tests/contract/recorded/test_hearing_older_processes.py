"""A process understands what one of an older release says, as it was recorded."""

import asyncio

from msgspec import json, msgpack
from recorded_kit import PARENT, READERS, agrees, plain, recorded, said_in_registry

from penstock.adapters.redis.bus.mailbox import Post
from penstock.adapters.redis.bus.registry import Registry
from penstock.adapters.redis.link.connect import RedisSettings, Store
from penstock.adapters.redis.records.dead_letters import RedisLetters
from penstock.adapters.redis.records.tasks import RedisTasks
from penstock.cluster.announcements import model_of
from penstock.types import Outcome, TaskStatus
from penstock.words.announcements import read_announcement
from penstock.words.envelopes import decode_envelope
from penstock.words.heartbeats import (
    GatewayHeartbeat,
)
from penstock.words.messages import (
    decode,
)
from penstock.words.slot_name import SlotName
from redis_servers import opened


def test_every_kind_of_word_was_recorded() -> None:
    tags = {chr(body[3]) for body in recorded("message")}
    assert tags == set("dafxtqog")
    assert [body for body in recorded("envelope") if decode_envelope(body).withdrawn]
    assert [body for body in recorded("envelope") if decode_envelope(body).requests[:1]]
    for kind in ("gateways", "batchers", "workers", "models"):
        assert [*said_in_registry(kind)]


def test_an_older_envelope_is_understood() -> None:
    for body in recorded("envelope"):
        read = decode_envelope(body)
        assert agrees(msgpack.decode(body[1:]), plain(read))
        assert all(request.tracestate is None for request in read.requests)
    requests = [request for body in recorded("envelope") for request in decode_envelope(body).requests]
    assert {request.traceparent for request in requests} == {None, PARENT}
    assert {request.task for request in requests} == {True, False}


def test_an_older_message_is_understood() -> None:
    for body in recorded("message"):
        assert agrees(msgpack.decode(body[1:]), plain(decode(body)))


def test_an_older_heartbeat_is_understood() -> None:
    for kind, read in READERS.items():
        for _, text in said_in_registry(kind):
            assert agrees(json.decode(text), plain(read(text)))


def test_an_older_announcement_is_understood() -> None:
    for _, text in said_in_registry("models"):
        said = read_announcement(text)
        assert agrees(json.decode(text), plain(said))
        assert (model_of(said).max_batch, model_of(said).version) == (8, "7")


def test_what_older_processes_have_left_in_redis_is_understood(redis_settings: RedisSettings) -> None:
    async def body() -> None:
        store = await opened(redis_settings)
        run, keys = store.commands.execute_command, store.keys
        for kind in READERS:
            for name, text in said_in_registry(kind):
                await run("HSET", keys.registry(kind), name, b"99999999999999 " + text)
        for name, text in said_in_registry("models"):
            await run("HSET", keys.registry("models"), name, text)
        registry = Registry(store, "gateways", "newer", lambda: GatewayHeartbeat(host="h"))
        await registry.beat()
        assert len(registry.members["batchers"]) == 1
        assert len(registry.members["gateways"]) == 3  # two, and this one
        slots = [slot for said in registry.members["workers"].values() for slot in said.slots]
        assert len(slots) >= 2
        assert all(SlotName.parse(slot) for slot in slots)
        assert [*registry.models] == ["answer"]
        await tasks_are_read(store)
        await letters_are_read(store)
        assert not store.aside.counts
        await store.close()

    asyncio.run(body())


async def tasks_are_read(store: Store) -> None:
    ended = {}
    for key, fields in recorded("task"):
        name = key.decode().partition(":task:")[2]
        flat = [part for pair in fields.items() for part in pair]
        await store.commands.execute_command("HSET", store.keys.task(name), *flat)
        tenant, _, task_id = name.partition("/")
        ended[task_id] = await RedisTasks(store, "newer", Post(store), 60.0).find(task_id, tenant)
    assert {ended[name].status for name in ("task-task", "task-poison")} == {
        TaskStatus.SUCCESS, TaskStatus.FAILED,
    }  # fmt: skip
    answer = ended["task-task"].answer
    assert answer is not None
    assert answer.execution is not None
    assert (answer.outcome, answer.output, answer.execution.version) == (Outcome.SUCCESS, b'"task"', "7")


async def letters_are_read(store: Store) -> None:
    letters = [*recorded("dead letter")]
    for _, fields in letters:
        flat = [part for pair in fields.items() for part in pair]
        await store.commands.execute_command("XADD", store.keys.dlq, "*", *flat)
    read = [*await store.commands.execute_command("XRANGE", store.keys.dlq, "-", "+")]
    assert len(read) == len(letters)
    kept = [await RedisLetters(store).show(entry.decode()) for entry, _ in read]
    assert {letter.model for letter in kept} == {"answer"}
    assert all(letter.history for letter in kept)
