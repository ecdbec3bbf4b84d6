"""`penstock up` sees a part die, and the others take over at once what it had in hand.

The lease is an hour here, so that nobody can tell it by the silence of the dead.
"""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from up_kit import Up, up

from server import eventually

# A batch waits for a file, but not the second time.
FUNCTION = """\
import time
from pathlib import Path

import psutil

HERE = Path(__file__).parent


def batchstring(inputs):
    for each in inputs:
        first = HERE / f"{each}.pid"
        if each.startswith("held") and not first.exists():
            first.write_text(str(psutil.Process().parents()[1].pid))  # its keeper stands between
            time.sleep(3600)
    return [each.upper() for each in inputs]
"""
# Long limits: on a slow machine the dead are started anew in their own time.
CONFIG = """\
[redis]
lease = "1h"
[timeouts]
queue = "60s"
processing = "60s"
request = "60s"
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("deaths")
    (folder / "app.py").write_text(FUNCTION)
    (folder / "penstock.toml").write_text(CONFIG)
    return folder


@pytest.fixture(scope="module")
def whole(folder: Path) -> Iterator[Up]:
    options = ("--config", str(folder / "penstock.toml"), "--max-batch", "1")
    with up(f"{folder / 'app.py'}:batchstring", *options, batchers=2, workers=2) as running:
        yield running
        assert running.end() == 0, running.lines


def asked(whole: Up, text: str) -> tuple[int, str]:
    answer = whole.ask("gateway-1", "POST", "/v1/inference", json.dumps({"input": text}).encode())
    return answer.status, answer.json().get("output", "")


def test_the_batch_of_a_worker_that_was_killed_is_run_by_another_at_once(whole: Up, folder: Path) -> None:
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(asked, whole, "held")
        running = folder / "held.pid"
        eventually(lambda: running.exists() and bool(running.read_text()))
        for name in ("worker-1", "worker-2"):
            if whole.part(name).pid == int(running.read_text()):
                whole.part(name).kill()
        assert waiting.result() == (200, "HELD")


def test_the_shards_of_a_batcher_that_was_killed_are_read_by_another_at_once(whole: Up) -> None:
    """One request after the other: they take the shards in turn, and all are served."""
    whole.part("batcher-1").kill()
    for number in range(32):
        assert asked(whole, f"a{number}") == (200, f"A{number}")
