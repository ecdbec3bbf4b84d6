"""Half of the clients leave while their requests wait."""

import asyncio
import time
from pathlib import Path
from random import Random

import pytest

from history import Ask, History, like
from open_loop import drive
from scene import Scene, report, scene
from server import eventually

BATCH, DELAY = 8, 0.3
PATIENCE = 55.0  # seconds: the queue must hold everybody, so that only leaving takes anyone out of it
DEPARTURE = 1.0  # seconds after the start
NOTICED = 1.0  # seconds in which a departure must be seen


def crowd(clients: int, seed: int) -> list[Ask]:
    """Everyone asks at once, the queue grows long, and a second later half of them hang up together."""
    random = Random(seed)
    leaving = set(random.sample(range(clients), clients // 2))
    dues = [random.uniform(0.0, 0.5) for _ in range(clients)]
    return [
        Ask(due, f"good:{n}", PATIENCE, leaves_after=DEPARTURE - due if n in leaving else None)
        for n, due in enumerate(dues)
    ]


class Exodus:
    def __init__(self, stage: Scene, schedule: list[Ask], seed: int) -> None:
        self._stage = stage
        self._schedule = schedule
        self._seed = seed
        self.noticed_after = 0.0

    async def run(self) -> History:
        departure = asyncio.Event()
        watch = asyncio.create_task(self._watch(departure))
        history = await drive(self._stage.server.url, self._schedule, self._seed, {DEPARTURE: departure.set})
        await watch
        return history

    async def _watch(self, departure: asyncio.Event) -> None:
        """From their departure until the server counts no more clients than can still be there."""
        await departure.wait()
        left = time.monotonic()
        remaining = sum(ask.leaves_after is None for ask in self._schedule)
        await asyncio.to_thread(
            eventually, lambda: self._stage.server.health()["waiting_clients"] <= remaining, 60.0
        )
        self.noticed_after = time.monotonic() - left


@pytest.mark.timeout(300)
def test_requests_whose_clients_have_left_cost_no_gpu_time_and_the_others_are_served(
    tmp_path: Path, chaos_long: bool, chaos_seed: int, request: pytest.FixtureRequest
) -> None:
    clients = 1000 if chaos_long else 200
    schedule = crowd(clients, chaos_seed)
    with scene(
        tmp_path, "--max-batch", str(BATCH), long=chaos_long, delay=DELAY, warm_up=like(schedule)
    ) as stage:
        exodus = Exodus(stage, schedule, chaos_seed)
        history = asyncio.run(exodus.run())
        stage.check(history)
        begun = stage.journal.first_begun()

    stayed = [record for record in history.records if record.ask.leaves_after is None]
    assert [record for record in stayed if not record.ok] == [], history.endings()
    left = [record for record in history.records if record.left]
    undispatched = [record for record in left if begun.get(record.ask.input, record.done + 1) > record.done]
    wasted = [record for record in undispatched if record.ask.input in begun]
    assert len(undispatched) > clients // 4
    assert len(wasted) < len(undispatched) / 2
    if chaos_long:
        spared = 1.0 - len(wasted) / len(undispatched)
        figure = f"noticed after {exodus.noticed_after:.2f} s, {spared:.1%} of the undispatched cost no GPU"
        report(request, history.row("D1 half of the clients leave", figure))
        assert exodus.noticed_after <= NOTICED
        assert spared >= 0.99
