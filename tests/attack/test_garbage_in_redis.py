"""Another program shares the Redis: it writes garbage into every key that the installation reads.

Three kinds of key cannot be replaced without a loss. Whoever overwrites a shard's stream or a mailbox has destroyed
the requests or the answers in it, and their askers are told at their deadline. Whoever overwrites the line of free
slots holds everybody up for a second, until the slots have said again that they are free. So garbage is added to
those, and every other key is overwritten too.
"""

import asyncio
import json
import random
from collections.abc import Iterator
from typing import Any

from redis.asyncio import Redis

from aim import Aim, Attack
from arena import Arena
from server import call, eventually
from stage import INSTALLED

NAMESPACE = "penstock"
MODEL = "batchstring"
PAUSE = 0.02  # seconds between two keys
Command = tuple[Any, ...]


def key(tag: str, rest: str = "") -> str:
    return f"{{{NAMESPACE}:{tag}}}{rest}"


def added(name: str, junk: bytes) -> Iterator[Command]:
    """More of what lies there, and nothing of it ours."""
    yield ("XADD", name, "*", "e", junk)
    yield ("XADD", name, "*", "m", junk)
    yield ("XADD", name, "*", "e", b"\x02" + junk)
    yield ("XADD", name, "*", "m", b"\x01" + junk)
    yield ("XADD", name, "*", junk, "")


def overwritten(name: str, junk: bytes) -> Iterator[Command]:
    """Another type than any of ours, and a string where one is read."""
    for write in (("SET", name, junk), ("RPUSH", name, junk), ("SET", name, "-1")):
        yield ("DEL", name)
        yield write


def commands(names: list[str], rng: random.Random) -> Iterator[Command]:
    junk = rng.randbytes(rng.choice((0, 1, 20, 300)))
    nested = json.dumps({"slots": {"x": rng.choice((None, 1, [], "x"))}, "models": rng.choice((1, None))})
    for shard in rng.sample(range(16), 4):
        yield from added(key(f"s{shard}", ":requests"), junk)
        yield from overwritten(key(f"s{shard}", ":lease"), junk)
        yield from overwritten(key(f"s{shard}", ":fence"), junk)
    for name in names:
        yield from added(key(f"box:{name}"), junk)
    for kind in ("gateways", "batchers", "workers"):
        for field in (*names, junk):
            yield ("HSET", key("reg", f":{kind}"), field, junk)
            yield ("HSET", key("reg", f":{kind}"), field, f"9 {nested}")
    for value in (junk, b"[]", b'{"max_batch": "x"}', b'{"policy": 7}', b'{"max_batch": -1}'):
        yield ("HSET", key("reg", ":models"), MODEL, value)
        yield ("HSET", key("reg", ":models"), junk, value)
    yield ("HSET", key("reg", ":pulse"), "last", rng.choice((b"nan", b"inf", junk)), "since", b"nan")
    yield ("ZADD", key(f"m:{MODEL}", ":idle"), 0, junk, 0, f"{names[-1]}/{MODEL}/99", 0, "nobody/x/1")
    for part in ("0", "1"):
        for tenant in (":victim", ":attacker", "turn"):
            yield ("HSET", key("quota", f":{part}"), tenant, junk)
    yield from overwritten(key("quota", ":short"), junk)
    yield ("HSET", key("keys"), junk, junk)
    yield from overwritten(key("keys", ":stamp"), junk)
    yield from overwritten(key("dlq"), junk)
    yield from overwritten(key("aside"), junk)
    for kind in ("pulse", "models", "gateways", "batchers", "workers"):
        yield from overwritten(key("reg", f":{kind}"), junk)
    for part in ("0", "1"):
        yield from overwritten(key("quota", f":{part}"), junk)


async def send(aim: Aim) -> None:
    rng = random.Random(14)
    client: Any = Redis.from_url(aim.redis_url)
    async with client:
        boxes: list[bytes] = await client.keys(key("box:*"))
        names = sorted(box.decode().removeprefix(key("box:")[:-1]).removesuffix("}") for box in boxes)
        while True:
            for command in commands(names, rng):
                try:
                    await client.execute_command(*command)
                    aim.tally["written"] += 1
                except Exception:
                    aim.tally["refused by Redis"] += 1  # of a type that somebody has put right meanwhile
                await asyncio.sleep(PAUSE)


GARBAGE = Attack(
    "garbage in Redis",
    "Another program writes garbage into every key that the installation reads.",
    send,
    INSTALLED,
    seconds=5.0,
    long_seconds=60.0,
)


def test_garbage_in_redis_is_set_aside_and_costs_nobody_an_answer(arena: Arena) -> None:
    """A shard whose lease was overwritten is read again with the next heartbeat, so latency cannot judge here. A
    request that is lost ends at its deadline, as a failure."""
    verdict = arena.judge(GARBAGE)
    assert not verdict.faults_but_latency, f"{verdict.faults_but_latency}\n{verdict}"
    place = arena.place(INSTALLED)
    processes = call(place.admin_url, "GET", "/internal/health").json()["processes"]
    assert {each["role"] for each in processes} == {"gateway", "batcher", "worker"}
    for process in processes:
        assert call(process["admin"], "GET", "/livez").body == b"ok"
    eventually(lambda: bool(call(place.admin_url, "GET", "/internal/aside").json()))
