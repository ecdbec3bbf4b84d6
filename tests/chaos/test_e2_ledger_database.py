"""The ledger's PostgreSQL killed, stopped and full under a load: no answer and no row is missing."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import pytest

from history import History, asks, like, poisson
from open_loop import drive
from penstock.adapters.ledger.open import open_store
from postgres_server import PostgresServer, postgres_server
from scene import Scene, report, scene
from server import eventually

RATE = 60.0  # a second
DISK = 96 * 2**20
EVERYTHING = 10**9
PATIENCE = 60.0


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with postgres_server(DISK) as server:
        yield server


class Faults:
    """Each returns when the database is well again."""

    def __init__(self, postgres: PostgresServer, stage: Scene) -> None:
        self._postgres, self._stage = postgres, stage

    def killed(self) -> None:
        self._postgres.kill()
        self._until(lambda ledger: ledger["status"] == "away")
        self._postgres.start()

    def stopped(self) -> None:
        """Noticed after ten seconds, which only the long form has."""
        self._postgres.freeze()
        if self._stage.long:
            self._until(lambda ledger: ledger["status"] == "away")
        else:
            self._until(lambda ledger: ledger["waiting_bytes"] > 0)
        self._postgres.thaw()

    def full(self) -> None:
        self._postgres.fill_disk()
        self._until(lambda ledger: ledger["status"] == "away")
        self._postgres.empty_disk()

    def over(self) -> None:
        """All that waited has been written."""
        self._until(lambda ledger: ledger["status"] == "ok" and ledger["waiting"] == 0)

    def _until(self, holds: Callable[[dict[str, Any]], bool]) -> None:
        eventually(lambda: holds(self._stage.server.health()["ledger"]), PATIENCE)


@pytest.mark.timeout(600)
def test_a_database_killed_stopped_and_full_costs_no_answer_and_no_row(
    postgres: PostgresServer,
    tmp_path: Path,
    chaos_long: bool,
    chaos_seed: int,
    request: pytest.FixtureRequest,
) -> None:
    random, url = Random(chaos_seed), postgres.fresh()
    times, seconds = (3, 15.0) if chaos_long else (1, 2.0)
    warm_up = like(asks(poisson(RATE, seconds, random))) if chaos_long else []
    histories: list[History] = []

    async def hurt(stage: Scene, fault: Callable[[], None]) -> None:
        schedule = asks(poisson(RATE, seconds, random), timeout=None)
        load = drive(stage.server.url, schedule, chaos_seed)
        history, _ = await asyncio.gather(load, asyncio.to_thread(fault))
        histories.append(history)

    config = f'[ledger]\nurl = "{url}"\n'
    with scene(tmp_path, long=chaos_long, config=config, warm_up=warm_up, spare=4) as stage:
        faults = Faults(postgres, stage)
        for _ in range(times):
            for fault in (faults.killed, faults.stopped, faults.full):
                faults.over()  # the last one, whose traces must not pass for this one's
                asyncio.run(hurt(stage, fault))
        faults.over()
        ledger = stage.server.health()["ledger"]
        stage.check(*histories)

    bad = [record for history in histories for record in history.records if not record.ok]
    assert bad == [], [history.endings() for history in histories]
    assert (ledger["lost"], ledger["rejected"]) == (0, 0)
    expected = Counter(record.id for history in histories for record in history.records)
    expected.update(f"r{number}" for number in range(len(warm_up)))
    with closing(open_store(url, read_only=True)) as store:
        rows = store.query(None, None, None, EVERYTHING)
    found = Counter(row.request_id for row in rows)
    assert expected - found == Counter(), "rows are missing"
    assert (found - expected).total() == 1, "rows are doubled"  # but for the scene's own first request
    assert len({row.id for row in rows}) == len(rows)
    if chaos_long:
        sent = sum(len(history.records) for history in histories)
        report(request, f"E2 | seed {chaos_seed} | sent {sent} | ok {sent} | rows missing 0, doubled 0")
