"""The store of `penstock up` is killed, cannot start, or loses its data; a function prints lines without end."""

import json
import os
import signal
import socket
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from up_kit import Up, up

from penstock.installation import own_store
from server import PATIENT, eventually

# `print` is a line of a megabyte; `daemon` leaves a process behind.
FUNCTION = """\
import os
import subprocess
import sys

DAEMON = "import subprocess; print(subprocess.Popen(['sleep', '3600'], start_new_session=True, stdout=-3).pid)"


def batchstring(inputs):
    if "print" in inputs:
        os.write(1, b"x" * (1 << 20))
    if "daemon" in inputs:
        return [subprocess.check_output([sys.executable, "-c", DAEMON], text=True) for _ in inputs]
    return [each.upper() for each in inputs]
"""


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("store")
    (folder / "app.py").write_text(FUNCTION)
    (folder / "patient.toml").write_text(PATIENT)
    return folder


@pytest.fixture(scope="module")
def whole(app: Path) -> Iterator[Up]:
    options = ("--config", str(app / "patient.toml"))
    with up(f"{app / 'app.py'}:batchstring", *options) as running:
        yield running
        assert running.end() == 0, running.lines
        assert not [line for line in running.lines if "Traceback" in line or "never retrieved" in line]


def port(whole: Up) -> int:
    return int(whole.says("  redis ").rpartition(":")[2])


def store(whole: Up) -> psutil.Process:
    """Once there is one."""
    found: list[psutil.Process] = []

    def there() -> bool:
        children = psutil.Process(whole.process.pid).children()
        found[:] = [child for child in children if child.name().startswith(("valkey", "redis"))]
        return bool(found)

    eventually(there)
    return found[0]


def said(whole: Up, text: str) -> int:
    return sum(text in line for line in whole.lines)


def ask(whole: Up, text: str) -> tuple[int, str]:
    answer = whole.ask("gateway-1", "POST", "/v1/inference", json.dumps({"input": text}).encode())
    return answer.status, answer.json().get("output", "")


def serves(whole: Up) -> bool:
    return ask(whole, "again") == (200, "AGAIN")


def kill_and_wait(whole: Up) -> None:
    before = said(whole, "is back")
    store(whole).kill()
    eventually(lambda: said(whole, "is back") > before)
    eventually(lambda: serves(whole))


def test_a_store_that_is_killed_comes_back_with_its_data_and_everybody_is_answered(whole: Up) -> None:
    headers = {"prefer": "respond-async", "x-request-id": "kept"}
    assert whole.ask("gateway-1", "POST", "/v1/inference", b'{"input": "kept"}', **headers).status == 202
    assert whole.ask("gateway-1", "GET", "/v1/result/kept?wait_ms=20000").json()["output"] == "KEPT"
    with ThreadPoolExecutor(8) as pool:
        waiting = [pool.submit(ask, whole, f"n{number}") for number in range(100)]
        kill_and_wait(whole)
        answers = [each.result() for each in waiting]
    assert {status for status, _ in answers} <= {200, 503}
    assert {text for status, text in answers if status == 200} <= {f"N{number}" for number in range(100)}
    assert whole.ask("gateway-1", "GET", "/v1/result/kept").json()["output"] == "KEPT"
    assert "redis      | ended with SIGKILL; started again with its data" in whole.says("ended with SIGKILL")
    assert whole.says("redis      | is back with its data")


def test_a_port_that_was_taken_meanwhile_is_told_and_waited_for(whole: Up) -> None:
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)

        def taken() -> bool:
            store(whole).kill()
            end = time.monotonic() + 0.05  # before it is started again; else it is killed anew
            while time.monotonic() < end:
                try:
                    other.bind(("127.0.0.1", port(whole)))
                except OSError:
                    continue
                other.listen()
                return True
            return False

        eventually(taken)
        whole.says(f"redis      | cannot start: another process has taken its port {port(whole)}")
        before = said(whole, "is back")
    eventually(lambda: said(whole, "is back") > before)
    eventually(lambda: serves(whole))


def test_a_store_that_is_killed_again_and_again_keeps_its_data(whole: Up) -> None:
    """More often than the attempts after which a log counts as unreadable."""
    headers = {"prefer": "respond-async", "x-request-id": "often"}
    assert whole.ask("gateway-1", "POST", "/v1/inference", b'{"input": "often"}', **headers).status == 202
    assert whole.ask("gateway-1", "GET", "/v1/result/often?wait_ms=20000").json()["output"] == "OFTEN"
    for _ in range(own_store.ATTEMPTS + 1):
        kill_and_wait(whole)
    assert whole.ask("gateway-1", "GET", "/v1/result/often").json()["output"] == "OFTEN"


def test_a_store_that_cannot_read_its_data_starts_empty_and_says_so(whole: Up) -> None:
    (base,) = Path(store(whole).cwd(), "appendonlydir").glob("*.base.*")
    base.write_bytes(b"this is no data of anybody's")
    before = said(whole, "did not start (")
    kill_and_wait(whole)
    assert said(whole, "did not start (") == before + own_store.ATTEMPTS - 1
    aside = whole.says("redis      | cannot read its data (").partition("the data is in ")[2].split()[0]
    assert base.name in {each.name for each in Path(aside).iterdir()}


def test_a_worker_that_printed_a_line_without_end_is_still_supervised(whole: Up) -> None:
    for _ in range(4):
        assert ask(whole, "print") == (200, "PRINT")
    before = whole.part("worker-1")
    before.kill()
    whole.says("worker-1   | ended with SIGKILL; started again")
    eventually(lambda: serves(whole))
    assert max(map(len, whole.lines)) < 100_000


def test_killed_without_warning_it_leaves_no_process_of_anybody_and_the_next_one_clears_up(
    app: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with up(f"{app / 'app.py'}:batchstring") as running:
        daemon = psutil.Process(int(ask(running, "daemon")[1]))
        family = [*running.family(), daemon]
        running.end(signal.SIGKILL)
        _, alive = psutil.wait_procs(family, 60)
        assert not alive
    (root,) = tmp_path.glob(f"penstock-{os.getuid()}")
    (left,) = root.iterdir()
    assert left.stat().st_mode & 0o077 == 0
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    own_store._home().release()
    assert list(root.iterdir()) == []
