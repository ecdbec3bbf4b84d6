"""What somebody else wrote into our keys: set aside, and nobody stumbles over it."""

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Any

import msgspec
import pytest
from redis_kit import ask, opened, running, until

from penstock.adapters.in_hand import NOT_READ
from penstock.adapters.redis.bus.intake import Intake
from penstock.adapters.redis.bus.leases import Leases
from penstock.adapters.redis.bus.mailbox import Post
from penstock.adapters.redis.bus.registry import Registry
from penstock.adapters.redis.link import aside as aside_module
from penstock.adapters.redis.link.connect import RedisSettings, Store
from penstock.adapters.redis.link.names import Keys
from penstock.adapters.redis.records.answer_cache import RedisAnswers
from penstock.adapters.redis.records.api_keys import RedisKeys
from penstock.adapters.redis.records.quotas import SharedLimiter
from penstock.adapters.redis.records.tasks import RedisTasks
from penstock.auth.keys import make_key
from penstock.errors import NotFound, StoreDown
from penstock.quota import Limits
from penstock.runtime.collapse.passenger import Passenger
from penstock.types import Failure
from penstock.words.announcements import ModelAnnouncement, read_announcement
from penstock.words.basics import VERSION, Garbled
from penstock.words.envelopes import encode_envelope
from penstock.words.heartbeats import (
    KINDS,
    BatcherHeartbeat,
    GatewayHeartbeat,
    SlotReport,
    WorkerHeartbeat,
    read_batcher,
    read_gateway,
    read_worker,
)
from penstock.words.slot_name import SlotName

Body = Callable[[Store], Awaitable[None]]


def over(settings: RedisSettings, body: Body) -> None:
    async def scene() -> None:
        async with opened(settings) as store:
            await body(store)

    asyncio.run(scene())


def every_key(keys: Keys) -> dict[str, str]:
    """One of each kind, and the type that it has."""
    return {
        keys.shard(0): "stream", keys.lease(0): "string", keys.fence(0): "string", keys.idle("m}x"): "zset",
        keys.box("g1"): "stream", keys.registry("workers"): "hash", keys.registry("pulse"): "hash",
        keys.task("a/b}c"): "hash", keys.watch("a/b"): "set", keys.answer(3).decode() + "x": "string",
        keys.ended(1): "stream", keys.crowded_out(1): "string", keys.dlq: "stream", keys.aside: "stream",
    }  # fmt: skip


def test_the_type_of_every_key_is_known_by_its_name() -> None:
    keys = Keys("some:where")
    assert {name: keys.type_of(name) for name in every_key(keys)} == every_key(keys)
    for stranger in ("{some:where:keys}", "{some:where:keys}:revoked", "{other:s0}:lease", "x", ""):
        assert keys.type_of(stranger) is None


USES: dict[str, tuple[Any, ...]] = {
    "stream": ("XADD", "*", "e", "x"), "string": ("GET",), "zset": ("ZCARD",), "hash": ("HGETALL",),
    "set": ("SMEMBERS",),
}  # fmt: skip


def test_a_key_of_the_wrong_type_is_kept_aside_and_the_command_is_done_all_the_same(
    redis_settings: RedisSettings,
) -> None:
    async def body(store: Store) -> None:
        run = store.commands.execute_command
        for number, (name, kind) in enumerate(every_key(store.keys).items()):
            await run("RPUSH", name, "mine")
            word, *rest = USES[kind]
            if number % 2:
                await run(word, name, *rest)
            else:  # in a pipeline, among others
                answers = await store.each([(word, name, *rest), (word, name, *rest)])
                assert not [answer for answer in answers if isinstance(answer, Exception)]
            assert await run("LRANGE", f"{name}:aside", 0, -1) == [b"mine"]
            assert await run("PTTL", f"{name}:aside") > 0
        assert store.aside.counts == {"key of the wrong type": len(every_key(store.keys))}

    over(redis_settings, body)


def test_what_is_set_aside_is_bounded_and_said_once(
    redis_settings: RedisSettings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(aside_module, "MOST_KEPT", 100)

    async def body(store: Store) -> None:
        await store.commands.execute_command("SET", store.keys.aside, "garbage too")
        async with running(store.aside.run()):
            for number in range(50):
                for _ in range(10):
                    store.aside.add("message", "g1", f"reason {number}", bytes(10_000))
                await asyncio.sleep(0.01)

            async def listed() -> bool:
                rows = await store.aside.list(1000)
                return bool(rows) and rows[0]["why"] == "reason 49"

            await until(listed)
        rows = await store.aside.list(1000)
        assert len(rows) <= 300  # streams are trimmed by whole nodes
        assert rows[0]["size"] == 10_000
        assert await store.commands.execute_command("PTTL", store.keys.aside) > 0
        assert store.aside.counts["message"] == 500

    over(redis_settings, body)
    assert len([record for record in caplog.records if "set aside: message" in record.getMessage()]) == 1


class Bench:
    """An intake that notes what it is told."""

    def __init__(self, store: Store) -> None:
        self.owned = range(16)
        self.intake = Intake(store, "me", monotonic, self, lambda: {"me"}, Passenger)
        self.intake.subscribe(self._take, lambda request: None)
        self.intake.on_refused = self._refused
        self.intake.on_unreadable = self._unreadable
        self.taken: list[str] = []
        self.refused: list[str] = []
        self.unreadable: list[str] = []

    def _take(self, request: Passenger) -> None:
        if request.input == b"poison":
            raise IndexError(request.key)
        self.taken.append(request.key)
        self.intake.settled([request])

    def _refused(self, request: Passenger, failure: Failure) -> None:
        self.refused.append(request.key)
        self.intake.settled([request])

    def _unreadable(self, box: str, keys: Any, failure: Failure) -> None:
        assert (box, failure) == ("gateway", NOT_READ)
        self.unreadable += keys


def test_an_entry_that_cannot_be_read_or_taken_costs_its_neighbours_nothing(
    redis_settings: RedisSettings,
) -> None:
    async def body(store: Store) -> None:
        stream, bench = store.keys.shard(5), Bench(store)
        good, poison, strange = ask(), ask(b"poison"), ask()
        mixed = msgspec.msgpack.decode(encode_envelope("gateway", [strange, good], [], monotonic())[1:])
        mixed[2][0][5] = "gold"  # a tier of another version
        nan = msgspec.msgpack.decode(encode_envelope("gateway", [ask()], [], monotonic())[1:])
        nan[2][0][11] = float("nan")  # a deadline that nothing can be compared with
        last = ask()
        for body in (
            b"", b"garbage", b"\x02" + encode_envelope("gateway", [ask()], [], 0.0)[1:],
            VERSION + msgspec.msgpack.encode(mixed), VERSION + msgspec.msgpack.encode(nan),
            encode_envelope("gateway", [poison, last], [], monotonic()),
        ):  # fmt: skip
            await store.commands.execute_command("XADD", stream, "*", "e", body)
        await store.commands.execute_command("XADD", stream, "*", b"\xff", "no envelope at all")
        async with running(bench.intake.run()):
            await until(lambda: bench.taken == [good.key, last.key])
            await until(lambda: not bench.intake.in_hand)
            assert bench.refused == [poison.key]
            assert strange.key in bench.unreadable
            assert len(bench.unreadable) == 3

            async def acknowledged() -> bool:
                return int(await store.commands.execute_command("XLEN", stream)) == 0

            await until(acknowledged)
        assert store.aside.counts == {"envelope": 6, "request": 1}

    over(redis_settings, body)


@pytest.mark.parametrize(
    "value", ["garbage", "", "somebody:x", "dead-batcher:7", "me:9999999999999999999999", "-1", "me:0"]
)
def test_a_lease_that_nobody_holds_is_taken(redis_settings: RedisSettings, value: str) -> None:
    """One without an end is nobody's, whatever it says."""

    async def body(store: Store) -> None:
        for shard in (3, 4):
            await store.commands.execute_command("SET", store.keys.lease(shard), value)
            await store.commands.execute_command("SET", store.keys.fence(shard), value)
        leases = Leases(store, "me", lambda: {"me"})
        await leases.step()
        assert leases.owned == frozenset(range(16))
        await store.commands.execute_command("SET", store.keys.lease(3), value)
        await leases.step()
        assert leases.owned == frozenset(range(16))
        assert store.aside.counts["lease"] >= 2

    over(redis_settings, body)


GARBAGE = (
    b"", b"garbage", b"123", b"99999999999999 not json", b"1 []", b'1 {"host": 1}', b'1 {"pid": "x"}', b"\xff\xfe",
    b'1 {"slots": 1, "models": 1}', b'1 {"slots": {"x": null}, "models": {"m": {"queue_depth": "x"}}}',
    b'1 {"slots": {"x": {"pressure": "high"}}, "models": {"m": {"queue_depth": -1}}}',
    b'1 {}', b'1 {"host": "h", "format": 2}',
)  # fmt: skip


def test_garbage_in_the_registry_counts_as_nobody_and_hides_nobody(redis_settings: RedisSettings) -> None:
    async def body(store: Store) -> None:
        run, keys = store.commands.execute_command, store.keys
        mine = Registry(store, "gateways", "g1", lambda: GatewayHeartbeat(host="h"))
        slots = {SlotName("w1", "m", 0).text: SlotReport(model="m")}
        other = Registry(store, "workers", "w1", lambda: WorkerHeartbeat(host="h", slots=slots))
        batcher = Registry(store, "batchers", "b1", lambda: BatcherHeartbeat(host="h", shards=16))
        said = ModelAnnouncement(max_batch=4)
        await other.announce_model("m", said)
        for each in (other, batcher, mine):
            await each.beat()
        known, batchers = {**mine.members["workers"]}, {**mine.members["batchers"]}
        assert (known, batchers) == (
            {"w1": WorkerHeartbeat(host="h", slots=slots)}, {"b1": BatcherHeartbeat(host="h", shards=16)},
        )  # fmt: skip
        for value in GARBAGE:
            for kind in KINDS:
                for name in ("w1", "b1", "nobody", b"\xff"):
                    await run("HSET", keys.registry(kind), name, value)
            await run("HSET", keys.registry("models"), "m", value, b"\xff", value)
            await run("HSET", keys.registry("pulse"), "last", "nan", "since", "nan")
            await mine.beat()
            assert mine.members["workers"] == known, value
            assert mine.members["batchers"] == batchers, value
            assert [*mine.members["gateways"]] == ["g1"], value
            assert mine.models["m"] == said
        await run("DEL", keys.registry("workers"))
        await run("SET", keys.registry("workers"), "garbage")
        await mine.beat()
        assert mine.members["workers"] == known
        await other.beat()
        assert read_announcement(await run("HGET", keys.registry("models"), "m")) == said
        assert store.aside.counts["registry"] > len(GARBAGE)

    over(redis_settings, body)


@pytest.mark.parametrize("text", [value.partition(b" ")[2] for value in GARBAGE])
def test_what_no_member_says_is_not_read(text: bytes) -> None:
    for read in (read_gateway, read_worker, read_batcher):
        with pytest.raises(Garbled):
            read(text)


def test_a_quota_that_cannot_be_read_begins_anew_and_the_others_go_on(redis_settings: RedisSettings) -> None:
    async def body(store: Store) -> None:
        run = store.commands.execute_command
        limiter = SharedLimiter(store, "g1", monotonic, lambda: 1)
        limits = Limits(requests_per_minute=600, burst=600)
        garbage = [
            b"", b"\xc1", b"\x01", msgspec.msgpack.encode(["x", [1], 0, 0, 0, 0]),
            msgspec.msgpack.encode(["", [], float("nan"), 0, 0, 0]),
            msgspec.msgpack.encode(["", ["g2", {}, [], None, 1], 0, 0, 0, 0]),
            msgspec.msgpack.encode(["", [], 1e14, 0, 0, 0]),
        ]  # fmt: skip
        for number, value in enumerate(garbage):
            for part in ("0", "1"):
                await run("HSET", f"{{{store.keys.namespace}:quota}}:{part}", f":bad{number}", value)
        names = [*(f"bad{number}" for number in range(len(garbage))), "good"]
        accounts = {name: limiter.account(name, limits) for name in names}
        for account in accounts.values():
            assert account.take(monotonic()) is None
        await limiter.settle()
        for name, account in accounts.items():
            assert account.take(monotonic()) is None, name
        assert store.aside.counts["quota"] == len(garbage)

    over(redis_settings, body)


def test_a_task_whose_record_is_broken_is_not_found_and_its_key_is_free_again(
    redis_settings: RedisSettings,
) -> None:
    async def body(store: Store) -> None:
        tasks = RedisTasks(store, "g1", Post(store), 60.0)
        for fields in ({"x": "y"}, {"status": "SUCCESS", "tenant": "t"}, {"status": "GONE", "tenant": "t"}):
            flat = [part for pair in fields.items() for part in pair]
            await store.commands.execute_command("HSET", store.keys.task("t/id"), *flat)
            with pytest.raises(NotFound):
                await tasks.find("id", "t")
            assert not await store.commands.execute_command("EXISTS", store.keys.task("t/id"))
        assert store.aside.counts["task"] == 3

    over(redis_settings, body)


def test_an_api_key_that_cannot_be_read_hides_no_other_and_stays_as_it_was_known(
    redis_settings: RedisSettings,
) -> None:
    async def body(store: Store) -> None:
        run, place = store.commands.execute_command, f"{{{store.keys.namespace}:keys}}"
        keys = RedisKeys(store)
        (_, first), (_, second) = make_key("a", "paid", 1.0), make_key("b", "paid", 1.0)
        await keys.add(first)
        assert [record.id for record in await keys.load()] == [first.id]
        await run("HSET", place, first.id, b"\xff garbage", "stranger", "{}")
        await keys.add(second)
        assert {record.id for record in await keys.load()} == {first.id, second.id}
        await run("HSET", f"{place}:revoked", first.id, "no time")
        assert {record.id: record.state(2.0) for record in await keys.load()}[first.id] == "revoked"
        assert {record.id for record in await RedisKeys(store).load()} == {second.id}
        await run("DEL", place)
        await run("SET", place, "garbage")
        with pytest.raises(StoreDown, match="cannot be read as API keys"):
            await keys.load()
        assert await run("GET", place) == b"garbage"

    over(redis_settings, body)


def test_a_cached_answer_that_is_not_ours_is_nobodys(redis_settings: RedisSettings) -> None:
    async def body(store: Store) -> None:
        answers = RedisAnswers(store)
        await answers.keep([(b"one", b"value", 60.0), (b"two", b"value", 60.0)])
        place = store.keys.answer(0 if not store.clustered else b"one"[0] % store.settings.shards)
        await store.commands.execute_command("SET", place + b"one", "garbage")
        assert await answers.fetch([b"one", b"two"]) == [None, b"value"]

    over(redis_settings, body)
