"""A tenant leaves tasks and dead letters in Redis until nothing fits any more."""

import asyncio
import json

from aim import Aim, Attack, Withstands
from arena import Arena
from places import ATTACKER, VICTIM, Place
from server import call, eventually
from stage import Stage

# So small that the attack reaches its share within seconds, and that the verdict on memory tells it from no bound.
STORE = Stage("up", keys=True, config="[limits]\nmax_task_bytes = '32MiB'\n[redis]\nmax_dead_letters = 5\n")
BODY = json.dumps({"input": "x" * 2**18}).encode()
BETWEEN = 0.015  # seconds: the machine has two cores, and the victim is judged by its latency
LETTERS = 5


async def send(aim: Aim) -> None:
    async def leave() -> None:
        streams = await aim.open()
        while True:
            await aim.ask(streams, aim.post(BODY, "Prefer: respond-async"))
            await asyncio.sleep(BETWEEN)

    await aim.crowd(1, leave)


SHARE = int(0.4 * 32 * 2**20)  # limits.tenant_share of max_task_bytes
TASKS = Attack(
    "tasks left in Redis",
    "A tenant has large tasks made and fetches none.",
    send,
    STORE,
    seconds=4.0,
    keeps=SHARE,
    until="429",
)


def test_tasks_that_nobody_fetches_cost_their_tenant_alone(withstands: Withstands) -> None:
    verdict = withstands(TASKS)
    assert 0 < verdict.tally["202"] * 2**18 < SHARE
    assert verdict.tally["429"] > 0


def test_dead_letters_of_one_tenant_push_out_nobody_elses(arena: Arena) -> None:
    """By what is kept and not by the victim's latency: what poison does to a batch is another attack's question."""
    place = arena.place(STORE)
    for tenant, number in ((VICTIM, 1), (ATTACKER, LETTERS + 2)):
        head = {"content-type": "application/json", "authorization": f"Bearer {place.keys[tenant]}"}
        dead = 0
        while dead < number:  # one that ran out of time on a busy machine is no letter
            dead += call(place.url, "POST", "/v1/inference", b'{"input": "raise:"}', head).status == 502
    # They are written down a moment after their answers: of five two are a share.
    eventually(lambda: whose(place) == [ATTACKER, ATTACKER, VICTIM])
    assert place.serves()


def whose(place: Place) -> list[str]:
    return [letter["tenant"] for letter in call(place.admin_url, "GET", "/internal/dlq").json()]
