"""The probes are answered whoever else is there, and no web page uses the admin plane."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from urllib.parse import urlsplit

import pytest

from penstock.server.admin_plane import MOST_CONNECTIONS, MOST_FROM_ONE
from server import CHANGING, PATIENT, Server, call, running


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running("sim:1ms", config=f"{PATIENT}[server]\nadmin_hosts = ['metrics.example']\n") as server:
        yield server


def address(server: Server) -> tuple[str, int]:
    parts = urlsplit(server.admin_url)
    assert parts.hostname is not None
    assert parts.port is not None
    return parts.hostname, parts.port


def connect(stack: ExitStack, whence: str, server: Server) -> socket.socket:
    return stack.enter_context(socket.create_connection(address(server), 60, source_address=(whence, 0)))


def closed(connection: socket.socket) -> bool:
    """Whether the other side has ended it, which it does or has done."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def test_silent_connections_make_room_the_oldest_first_and_the_probes_are_answered(server: Server) -> None:
    with ExitStack() as stack:
        silent = [connect(stack, "127.0.0.1", server) for _ in range(MOST_FROM_ONE + 50)]
        for path in ("/livez", "/readyz"):
            assert server.admin(path).status == 200
        assert closed(silent[0])


def test_however_many_addresses_they_come_from(server: Server) -> None:
    with ExitStack() as stack:
        for number in range(MOST_CONNECTIONS + 50):
            connect(stack, f"127.0.1.{1 + number % 16}", server)
        for path in ("/livez", "/readyz", "/metrics"):
            assert server.admin(path).status == 200


@pytest.mark.parametrize("host", ["rebound.example", "rebound.example:9000", "127.0.0.1.rebound.example", ""])
def test_a_name_that_is_not_its_own_is_refused_but_for_probes(server: Server, host: str) -> None:
    for path in ("/metrics", "/internal/health", "/internal/dlq"):
        refused = server.admin(path, headers={"host": host})
        assert (refused.status, refused.json()["error"]) == (403, "FORBIDDEN")
        assert "server.admin_hosts" in refused.json()["message"]
    assert server.admin("/livez", headers={"host": host}).status == 200


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:9000", "127.0.0.1", "[::1]:9000", "metrics.example:80"]
)
def test_its_own_names_are_good_with_any_port(server: Server, host: str) -> None:
    assert server.admin("/metrics", headers={"host": host}).status == 200


def test_pages_of_other_origins_are_refused(server: Server) -> None:
    for origin in ("http://elsewhere.example", "null", "http://127.0.0.1:1"):
        assert server.admin("/internal/health", headers={"origin": origin}).status == 403
    own = f"http://{urlsplit(server.admin_url).netloc}"
    assert server.admin("/internal/health", headers={"origin": own}).status == 200


def test_a_change_needs_a_header_that_no_form_can_send(server: Server) -> None:
    form = {"content-type": "application/x-www-form-urlencoded"}
    for method in ("DELETE", "POST"):
        refused = server.admin("/internal/dlq", method, form)
        assert (refused.status, "X-Penstock: 1" in refused.json()["message"]) == (403, True)
    assert server.admin("/internal/dlq", "DELETE").json() == {"purged": 0}
    assert server.admin("/internal/dlq/nothing/retry", "POST").status == 404


def test_with_a_token_names_do_not_matter_and_the_token_is_enough_for_a_change() -> None:
    with running("sim:1ms", config=f"{PATIENT}[server]\nadmin_token = 'secret'\n") as server:
        asked = {"host": "penstock.cluster.example", "authorization": "Bearer secret"}
        assert server.admin("/metrics", headers=asked).status == 200
        assert server.admin("/internal/dlq", "DELETE", asked).json() == {"purged": 0}
        assert server.admin("/internal/dlq", "DELETE", CHANGING).status == 401
        assert (
            server.admin("/internal/dlq", headers={**asked, "origin": "http://elsewhere.example"}).status
            == 403
        )
        assert server.admin("/livez").status == 200


def test_what_is_not_there_or_too_much_is_said_in_json(server: Server) -> None:
    assert server.admin("/nothing").status == 404
    large = call(server.admin_url, "POST", "/internal/dlq/a/retry", b"x" * 2**17, CHANGING)
    assert (large.status, large.json()["error"]) == (413, "TOO_LARGE")
    assert call(server.admin_url, "HEAD", "/livez").status == 200
