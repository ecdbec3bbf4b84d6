"""The client over WebSocket, with a real server."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from scripted_server import in_loop, scripted

from penstock.client import AsyncClient, Busy, Client, Late, NoContact, Refused, Retries
from penstock.client.stream_road import MOST_EACH, StreamRoad
from server import HUNG, PATIENT, PENSTOCK, Server, eventually, held, running

NEVER = Retries(attempts=1)
CONFIG = """
[models.echo]
target = "{file}:echo"
max_batch = 32
default = true
# One request a minute, so that the second is refused.
[tiers]
default = "plenty"
[tiers.levels.plenty]
rank = 0
[tiers.levels.narrow]
rank = 1
requests_per_minute = 1
burst = 1
[tenants.acme]
tier = "narrow"
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    file = tmp_path_factory.mktemp("functions") / "functions.py"
    file.write_text("def echo(inputs):\n    return inputs\n")
    # Patient: on a busy machine a thousand at once take longer than the default limits let them wait.
    with running(config=PATIENT + CONFIG.format(file=file)) as serving:
        yield serving


@in_loop
async def test_many_share_one_connection_and_come_back_in_order(server: Server) -> None:
    async with AsyncClient(server.url, transport="websocket") as client:
        assert await client.map(range(1000), concurrency=200).outputs() == list(range(1000))
        assert (await client.infer({"text": "hé"}, output=dict[str, str])).output == {"text": "hé"}
        road = client._road
        assert isinstance(road, StreamRoad)
        assert len(road._sockets) == 1


@in_loop
async def test_what_one_connection_does_not_hold_goes_over_another(server: Server) -> None:
    async with AsyncClient(server.url, transport="websocket") as client:
        count = MOST_EACH + 50
        answers = await asyncio.gather(*(client.infer(number) for number in range(count)))
        assert [answer.output for answer in answers] == list(range(count))
        road = client._road
        assert isinstance(road, StreamRoad)
        assert len(road._sockets) == 2


def test_without_a_loop_it_is_the_same(server: Server) -> None:
    with Client(server.url, transport="websocket") as client:
        assert client.infer("x").output == "x"
        assert client.map(["a", "b"]).outputs() == ["a", "b"]


def test_errors_are_of_the_same_kinds(server: Server) -> None:
    with Client(server.url, transport="websocket", retries=NEVER) as client:
        with pytest.raises(Refused, match="NOT_FOUND") as refused:
            client.infer("x", model="nobody")
        assert refused.value.status == 404
        client.infer("x")  # the connection is as good as before
    with Client(server.url, transport="websocket", retries=NEVER, client_id="acme") as narrow:
        narrow.infer("x")
        with pytest.raises(Busy, match="QUOTA_EXCEEDED") as busy:
            narrow.infer("x")
        assert busy.value.retry_after is not None
        assert busy.value.retry_after > 1.0


def test_bytes_are_for_the_usual_transport(server: Server) -> None:
    with (
        Client(server.url, transport="websocket") as client,
        pytest.raises(TypeError, match="usual transport"),
    ):
        client.infer(b"\x00")


def test_who_leaves_takes_the_request_back_and_a_lost_server_is_told(tmp_path: Path) -> None:
    with running(held(tmp_path), "--max-batch", "1", config=PATIENT) as server:

        async def scene() -> None:
            async with AsyncClient(server.url, transport="websocket", retries=NEVER) as client:
                with pytest.raises(Late):
                    await client.infer("first", timeout=0.2)
                # The worker has the first; the second waits, is given up, and never goes to the worker.
                second = asyncio.create_task(client.infer("second"))
                await asyncio.to_thread(eventually, lambda: server.health()["queue_depth"] == 1)
                second.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await second
                await asyncio.to_thread(eventually, lambda: server.health()["queue_depth"] == 0)
                third = asyncio.create_task(client.infer("third"))
                await asyncio.to_thread(eventually, lambda: server.health()["queue_depth"] == 1)
                server.process.kill()
                await asyncio.to_thread(server.process.wait, HUNG)
                with pytest.raises(NoContact, match="BROKEN_OFF") as lost:
                    await third
                assert lost.value.maybe_run
                with pytest.raises(NoContact, match="NO_CONNECTION"):
                    await client.infer("fourth")

        asyncio.run(scene())


def test_a_wrong_key_is_told(tmp_path: Path) -> None:
    keys = tmp_path / "keys.json"
    command = [str(PENSTOCK), "keys", "create", "--tenant", "acme", "--tier", "paid", "--keys", str(keys)]
    made = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=HUNG
    ).stdout
    key = next(word for word in made.split() if word.startswith("pk_"))
    with running("sim:1ms", config=f"[auth]\nmode = 'keys'\nkeys_file = '{keys}'\n") as server:
        with Client(server.url, transport="websocket", key=key) as client:
            assert client.infer("x").output == "x"
        wrong = Client(server.url, transport="websocket", key="pk_wrong")
        with wrong, pytest.raises(Refused) as refused:
            wrong.infer("x")
        assert (refused.value.status, refused.value.code) == (401, "UNAUTHORIZED")


@in_loop
async def test_a_server_that_speaks_no_websocket_is_told() -> None:
    async with scripted() as server, AsyncClient(server.url, transport="websocket", retries=NEVER) as client:
        with pytest.raises((NoContact, Refused)):
            await client.infer("x", timeout=5.0)


def test_without_its_library_one_line_says_what_to_install() -> None:
    code = (
        "import sys\nsys.modules['websockets'] = None\nsys.modules['websockets.client'] = None\n"
        "from penstock.client import Client\n"
        "try:\n    Client(transport='websocket')\n"
        "except Exception as error:\n    print(type(error).__name__, error)\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert ran.stdout == "UserMistake transport='websocket' needs the extra ws: pip install 'penstock[ws]'\n"
