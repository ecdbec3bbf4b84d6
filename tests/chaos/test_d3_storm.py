"""Ten times what the GPUs can do, in three tiers by API key, from clients that try again and again.

What a server takes from the machine is what its most connections at once needed, about 2.5 KB each, and it keeps
that. How many a storm has at once is chance: a client that is held up for a second opens 2,400 more. So memory is
compared when a crowd, the same each time and larger than a storm's, has come and gone: what the storm between two
of them has left behind is not there for the second, and comes on top.
"""

import asyncio
from contextlib import ExitStack
from pathlib import Path
from random import Random
from socket import create_connection

import pytest

from history import Ask, History, like, poisson
from open_loop import drive
from scene import report, scene
from server import Server
from tier_keys import NO_QUOTA, TIERS, keys_in_file
from wire import post

WORKERS, SERVICE = 6, 0.1
GPU = "sim:a=100ms,jitter=10%"
SHARES = (0.2, 0.3, 0.5)  # of the load, by tier
# Seconds that clients give it: in the storm, trying again all the while, too few for a queue to fill; afterwards,
# as many as at the defaults.
HURRY, PATIENT = 0.4, 4.0
CALM = 0.5  # of the capacity, afterwards
BEGIN = 1.0  # seconds in which the service time is still being learned, and the storm gathers
CROWD = 6000  # connections at once; a storm has 1,400 where nobody is held up
CONFIG = f"{NO_QUOTA}\n[auth]\nmode = 'keys'\nkeys_file = '{{file}}'\n"


def storm_and_calm(capacity: float, storm: float, calm: float, random: Random) -> list[Ask]:
    dues = [(due, "storm", HURRY) for due in poisson(10 * capacity, storm, random)]
    dues += [(storm + due, "calm", PATIENT) for due in poisson(CALM * capacity, calm, random)]
    return [
        Ask(due, f"{kind}:{number}", timeout, random.choices(TIERS, SHARES)[0])
        for number, (due, kind, timeout) in enumerate(dues)
    ]


def last_trouble(history: History, storm: float) -> float:
    """Seconds after the storm at which somebody was last refused, or failed."""
    bad = [record.ask.due for record in history.of_kind("calm") if not record.ok]
    return max(bad, default=storm) - storm


def crowd(server: Server) -> None:
    """All of them there at the same time, each with a request, and gone again."""
    with ExitStack() as there:
        connections = [there.enter_context(create_connection(server.address)) for _ in range(CROWD)]
        for connection in connections:
            connection.sendall(post(b'{"input": "crowd"}'))
        assert all(connection.recv(65536) for connection in connections)


@pytest.mark.timeout(600)
def test_after_a_storm_of_retries_everybody_is_served_again_and_in_it_the_gpus_are_not_idle(
    tmp_path: Path, chaos_long: bool, chaos_seed: int, request: pytest.FixtureRequest
) -> None:
    random = Random(chaos_seed)
    storm, calm, batch = (60.0, 10.0, 4) if chaos_long else (3.5, 4.0, 1)
    capacity = WORKERS * batch / SERVICE
    schedule = storm_and_calm(capacity, storm, calm, random)
    file = tmp_path / "keys.json"
    keys, config = keys_in_file(file), CONFIG.format(file=file)
    with scene(
        tmp_path, "--max-batch", str(batch),
        long=chaos_long, config=config, target=GPU, workers=WORKERS, warm_up=like(schedule), keys=keys,
    ) as stage:  # fmt: skip
        if chaos_long:
            first = storm_and_calm(capacity, storm, calm, random)
            asyncio.run(drive(stage.server.url, first, chaos_seed, retry=True, keys=keys))
            crowd(stage.server)
            stage.settle()
        history = asyncio.run(drive(stage.server.url, schedule, chaos_seed, retry=True, keys=keys))
        history.expected = str  # the simulated GPU says what it is told
        in_storm = [record for record in history.of_kind("storm") if record.ask.due >= BEGIN]
        if chaos_long:
            crowd(stage.server)
            good = sum(record.ok and history.seconds(record) <= HURRY for record in in_storm)
            goodput, trouble = good / (storm - BEGIN) / capacity, last_trouble(history, storm)
            attempts = len(history.records) / len(schedule)
            figure = (
                f"goodput {goodput:.1%} of capacity, {attempts:.1f} attempts each, last trouble {trouble:.1f} s"
                f" after, memory {stage.growth():.1%}"
            )
            report(request, history.row("D3 10x overload", figure))
        stage.check(history)

    assert {record.status for record in history.records} <= {200, 503, 504}, history.endings()
    assert {record.ask.client for record in in_storm if record.ok} >= {"enterprise"}, history.endings()
    again = [record for record in history.of_kind("calm") if record.ask.due >= storm + calm - 1.0]
    assert again
    assert {record.ask.input for record in again} & history.unserved() == set(), history.endings()
    if chaos_long:
        assert goodput >= 0.9
        assert trouble <= 5.0
