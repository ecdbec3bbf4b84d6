"""A tenant makes tasks and idempotency keys until those of the others are forgotten, or the memory is full."""

import asyncio
import json
from itertools import count

from aim import Aim, Attack, Withstands
from arena import Arena
from places import VICTIM, Place
from server import Answer, call, eventually
from stage import FUNCTION, Stage

# So small that the attack reaches its share within seconds, and that the verdict on memory tells it from no bound.
SMALL = "[limits]\nmax_task_bytes = '8MiB'\n[idempotency]\nmax_bytes = '4MiB'\n"
SHARED = Stage(keys=True, target=FUNCTION.replace("batchstring", "noted"), config=SMALL)
NOTE = "x" * 16_000  # the longest parameters are of 16 KiB
BETWEEN = 0.003


async def send(aim: Aim) -> None:
    numbers = count()

    async def leave() -> None:
        streams = await aim.open()
        for number in numbers:
            body = json.dumps({"input": "x", "parameters": {"note": f"{number} {NOTE}"}}).encode()
            task = json.dumps({"input": "x" * 50_000}).encode()
            await aim.ask(streams, aim.post(body, f"Idempotency-Key: {number}"))
            await aim.ask(streams, aim.post(task, "Prefer: respond-async"))
            await asyncio.sleep(BETWEEN)

    await aim.crowd(2, leave)


FLOOD = Attack(
    "tasks and keys without end",
    "A tenant makes tasks that it does not fetch, and sends a new Idempotency-Key with long parameters each time.",
    send,
    SHARED,
    seconds=4.0,
    until="429",
)


def ask(place: Place, method: str, path: str, body: object = None, **more: str) -> Answer:
    head = {"authorization": f"Bearer {place.keys[VICTIM]}", "content-type": "application/json", **more}
    data = None if body is None else json.dumps(body).encode()
    return call(place.url, method, path, data, head)


def test_what_the_others_keep_is_kept_and_memory_stays_bounded(arena: Arena, withstands: Withstands) -> None:
    place = arena.place(SHARED)
    task = ask(place, "POST", "/v1/inference", {"input": "good:mine"}, prefer="respond-async").json()[
        "task_id"
    ]
    eventually(lambda: ask(place, "GET", f"/v1/result/{task}").json()["status"] == "SUCCESS")
    key = {"idempotency-key": "mine"}
    first = ask(place, "POST", "/v1/inference", {"input": "good:keyed"}, **key)
    assert first.status == 200
    verdict = withstands(FLOOD)
    assert verdict.tally["429"] > 0
    assert ask(place, "GET", f"/v1/result/{task}").json()["status"] == "SUCCESS"
    again = ask(place, "POST", "/v1/inference", {"input": "good:keyed"}, **key)
    assert (again.status, again.headers["idempotency-replayed"]) == (200, "true")
