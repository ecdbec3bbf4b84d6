"""Whatever keeps an installation from starting is one line and exit code 2; a store that is away is waited for."""

import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import Typed, typed
from up_kit import Started, started

from own_ports import free_ports
from redis_servers import redis_server

__all__ = ["typed"]

ROLES = {"gateway": ("gateway", "--port", "0"), "batcher": ("batcher",), "worker": ("worker", "sim:1ms")}


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "app.py").write_text("def batchstring(inputs):\n    return inputs\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def taken_port() -> Iterator[int]:
    """The one before it is free."""
    with socket.socket() as holder:
        port = free_ports(2) + 1
        holder.bind(("127.0.0.1", port))
        holder.listen()
        yield port


@pytest.mark.parametrize(
    ("words", "mentions"),
    [
        (["up"], "penstock up app.py:batchstring --gateways 2"),
        (["gateway"], "penstock gateway --redis"),
        (["batcher"], "penstock batcher --redis"),
        (["worker"], "penstock worker app.py:batchstring --redis"),
        (["workers"], "--admin"),
        (["dlq"], "purge"),
        (["dlq", "retry"], "/v1/result/REQUEST_ID"),
    ],
)
def test_every_command_explains_itself(typed: Typed, words: list[str], mentions: str) -> None:
    code, out, err = typed(*words, "--help")
    assert (code, err) == (0, "")
    assert mentions in " ".join(out.split())


@pytest.mark.usefixtures("workplace")
@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["up", "ap.py:batchstring"], "no such file ap.py; did you mean app.py?"),
        (["up", "app.py:batchstrng"], "app.py has no function 'batchstrng'; did you mean 'batchstring'?"),
        (["up"], "nothing to run: give a TARGET, or describe a model in penstock.toml"),
        (
            ["up", "app.py:batchstring", "--policy", "pace"],
            "--policy: models.batchstring.policy must be one of",
        ),
        (["up", "app.py:batchstring", "--gateways", "0"], "--gateways must be at least 1"),
        (["up", "app.py:batchstring", "--config", "nowhere.toml"], "nowhere.toml: there is no such file"),
        (["worker"], "nothing to run: give a TARGET, or describe a model in penstock.toml"),
        (["worker", "ap.py:batchstring", "--admin-port", "0"], "no such file ap.py; did you mean app.py?"),
        (["gateway", "--redis", "http://localhost", "--admin-port", "0"], "redis"),
        (["dlq", "retry"], "say which letter to retry: penstock dlq retry ID, or --all"),
        (["workers", "--admin", "http://127.0.0.1:1"], "no admin plane at http://127.0.0.1:1"),
    ],
)
def test_a_slip_is_told_before_anything_is_started(typed: Typed, words: list[str], told: str) -> None:
    code, out, err = typed(*words)
    assert (code, out) == (2, "")
    (line,) = err.splitlines()
    assert line.startswith("penstock: ")
    assert told in line


@pytest.mark.usefixtures("workplace")
@pytest.mark.parametrize(
    ("flag", "told"),
    [
        ("--port", "--port or --host"),
        ("--admin-port", "--admin-port"),
        ("--grpc-port", "--grpc-port or --host"),
    ],
)
def test_a_port_in_use_is_told_with_the_option_that_changes_it(
    typed: Typed, taken_port: int, flag: str, told: str
) -> None:
    """It is the second gateway's."""
    others = {"--port", "--admin-port"} - {flag}
    free = [word for other in sorted(others) for word in (other, str(free_ports(6)))]
    code, _, err = typed("up", "app.py:batchstring", "-g", "2", flag, str(taken_port - 1), *free)
    assert code == 2
    (line,) = err.splitlines()
    assert (
        f"cannot listen on 127.0.0.1:{taken_port}: Address already in use; choose another with {told}" in line
    )


@pytest.mark.parametrize("role", ROLES)
def test_a_wrong_password_is_one_line(role: str, tmp_path: Path) -> None:
    with redis_server("valkey", "--requirepass", "secret") as server:
        url = server.url.replace("//", "//:wrong@")
        with started(
            Started, *ROLES[role], "--admin-port", "0", "--redis", url, directory=tmp_path
        ) as process:
            assert process.process.wait(60) == 2
    (line,) = [line for line in process.lines if not line.startswith("{")]
    assert line.startswith("penstock: ")
    assert "does not know this user or password" in line
    assert "wrong" not in line


def test_a_mistake_that_every_part_meets_is_told_once(tmp_path: Path) -> None:
    first = free_ports(5)
    with redis_server("valkey", "--requirepass", "secret") as server:
        words = ("up", "sim:1ms", "-w", "2", "--port", str(first), "--admin-port", str(first + 1))
        with started(Started, *words, "--redis", server.url, directory=tmp_path) as process:
            assert process.process.wait(60) == 2
    first_line = "  starting 4 processes …"
    (line,) = [line for line in process.lines if line != first_line]  # the two streams are read side by side
    assert first_line in process.lines
    assert line.startswith(f"penstock: {server.url} does not know this user or password")


def test_user_code_that_cannot_be_loaded_is_told_with_its_line(tmp_path: Path) -> None:
    first = free_ports(4)
    (tmp_path / "raises.py").write_text("def batchstring(inputs): ...\n\n1 / 0\n")
    words = ("up", "raises.py:batchstring", "--port", str(first), "--admin-port", str(first + 1))
    with started(Started, *words, directory=tmp_path) as process:
        assert process.process.wait(60) == 2
    assert [line for line in process.lines if line.startswith("penstock: ")] == [
        "penstock: cannot import raises.py: ZeroDivisionError: division by zero (line 3)"
    ]
    assert not [line for line in process.lines if "Traceback" in line or "never retrieved" in line]


def test_a_store_that_is_not_there_yet_is_waited_for(tmp_path: Path) -> None:
    with redis_server("valkey") as server:
        server.kill()
        words = ("gateway", "--port", "0", "--admin-port", "0", "--redis", server.url)
        with started(Started, *words, directory=tmp_path) as gateway:
            assert server.url in gateway.says("waiting for Redis")
            server.start()
            assert gateway.admin
            assert gateway.end(signal.SIGTERM) == 0


def test_a_signal_ends_what_waits_for_its_store(tmp_path: Path) -> None:
    words = ("batcher", "--admin-port", "0", "--redis", "redis://127.0.0.1:1")
    with started(Started, *words, directory=tmp_path) as batcher:
        batcher.says("waiting for Redis")
        assert batcher.end(signal.SIGINT) == 0
        assert not [line for line in batcher.lines if "Traceback" in line]
