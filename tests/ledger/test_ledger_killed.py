"""The server itself is killed: what was out of its memory is in the ledger once, whoever comes after it."""

import asyncio
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from ledger_kit import EVERYTHING, recording

from penstock.adapters.ledger.open import open_store
from redis_servers import becomes

PROGRAM = Path(__file__).with_name("recording_process.py")


def _kill_after(rows: int, url: str, spool: Path) -> int:
    """Kill -9 a recording process when so many rows are safe; how many it last said were."""
    with subprocess.Popen(
        [sys.executable, PROGRAM, url, spool], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        safe = 0
        while safe < rows:
            line = process.stdout.readline()
            assert line, "it ended by itself"
            safe = int(line.split()[0])
        process.kill()
        rest = process.stdout.read().splitlines(keepends=True)
    whole = [line for line in rest if line.endswith("\n")]
    return int(whole[-1].split()[0]) if whole else safe


def _delivered(url: str, spool: Path) -> list[str]:
    """The ids in the ledger, once a server that starts has delivered what it found in the spool."""
    store = open_store(url)

    async def body() -> None:
        async with recording(store, spool) as recorder:
            await becomes(lambda: recorder.state.waiting == 0)

    asyncio.run(body())
    with closing(store):
        return [past.id for past in store.query(None, None, None, EVERYTHING)]


@pytest.mark.parametrize("database", ["there", "away"])
def test_rows_that_had_left_the_memory_of_a_killed_server_are_in_the_ledger_once(
    tmp_path: Path, database: str
) -> None:
    url, spool = f"sqlite:///{tmp_path / 'ledger.db'}", tmp_path / "spool"
    given = url if database == "there" else f"sqlite:///{tmp_path}/missing/ledger.db"
    safe = _kill_after(2000, given, spool)
    found = _delivered(url, spool)
    assert len(found) == len(set(found))
    assert {f"k{number}" for number in range(safe)} <= set(found)


def test_several_killed_servers_are_made_good_by_one_that_starts(tmp_path: Path) -> None:
    spool, url = tmp_path / "spool", f"sqlite:///{tmp_path / 'ledger.db'}"
    away = f"sqlite:///{tmp_path}/missing/ledger.db"
    safe = [_kill_after(400, away, spool) for _ in range(2)]
    found = _delivered(url, spool)
    assert len(found) >= sum(safe)
    assert all(found.count(f"k{number}") == 2 for number in range(0, min(safe), 50))
    assert list(spool.iterdir()) == []
