"""Handshakes that come at the same moment: answered one after the other, a few in each turn of the loop."""

import asyncio
import socket
import ssl
from contextlib import ExitStack
from pathlib import Path

import pytest
import uvloop
from test_handshakes import edge_behind

from certificates import Authority
from penstock.edge import lobby
from penstock.edge.opening import Opening
from penstock.edge.tls import ServerTls, TlsSettings
from penstock.edge.turns import Turns
from redis_servers import becomes

CLIENTS = 30


def hello() -> bytes:
    said = ssl.MemoryBIO()
    shaking = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), said, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        shaking.do_handshake()
    return said.read()


def answered(client: socket.socket) -> bool:
    try:
        return bool(client.recv(1, socket.MSG_PEEK))
    except BlockingIOError:
        return False


@pytest.mark.parametrize("begun", [0, 1], ids=["at once", "all but the last byte before"])
def test_a_turn_of_the_loop_answers_as_many_hellos_as_it_has_time_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begun: int
) -> None:
    monkeypatch.setattr(lobby, "HELLOS", 0.0)  # the least: one in each turn, however fast the machine is
    pair, words = Authority().issue(tmp_path, "server"), hello()
    tls = ServerTls(TlsSettings(pair.certificate, pair.key))

    async def body() -> None:
        async with edge_behind(tls) as (edge, port):
            with ExitStack() as there:
                clients = [
                    there.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(CLIENTS)
                ]
                await becomes(lambda: len(edge.connections) == CLIENTS)
                if begun:
                    for client in clients:
                        client.sendall(words[:-1])
                    await becomes(lambda: sum(heard(each) for each in edge.connections) == CLIENTS)
                for client in clients:
                    client.setblocking(False)
                    client.sendall(words[-1:] if begun else words)
                done = most = 0
                async with asyncio.timeout(60.0):
                    while done < CLIENTS:
                        await asyncio.sleep(0)
                        now = sum(map(answered, clients))
                        most, done = max(most, now - done), now
                assert most == 1

    uvloop.run(body())


def heard(each: object) -> bool:
    """Whether what it said is with TLS, which waits for more."""
    assert isinstance(each, Opening)
    return each._tls is not None and not each._said


def test_a_turn_goes_on_until_its_share_of_time_is_spent() -> None:
    async def body() -> None:
        loop = asyncio.get_running_loop()
        turns, order = Turns(loop, share=1e9), list[int]()

        class Worker:
            def __init__(self, number: int) -> None:
                self.number = number

            def go_on(self) -> bool:
                order.append(self.number)
                return False

        for number in range(5):
            turns.wait(Worker(number))
        await asyncio.sleep(0)
        assert order == [0, 1, 2, 3, 4]

    uvloop.run(body())


def test_whoever_leaves_while_it_waits_in_line_is_signed_for_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair, words = Authority().issue(tmp_path, "server"), hello()
    tls = ServerTls(TlsSettings(pair.certificate, pair.key))
    begun: list[Opening] = []
    monkeypatch.setattr(Opening, "_begin", lambda each, _: begun.append(each))

    async def body() -> None:
        async with edge_behind(tls) as (edge, port):
            with socket.create_connection(("127.0.0.1", port)) as client:
                await becomes(lambda: len(edge.connections) == 1)
                client.sendall(words)
            await becomes(lambda: tls.failed_handshakes == 1)
            assert (begun, edge.connections) == ([], set())

    uvloop.run(body())
