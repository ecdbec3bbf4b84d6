"""Thousands of generated messages over WebSockets, good, spoilt and random, and frames that are none: nothing is
the server's fault, nothing hangs, no traceback; what is good is answered, and the server serves on."""

import contextlib
import json
import random
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.frames import Frame, Opcode
from websockets.protocol import Protocol, Side
from websockets.sync.client import ClientConnection, connect

from server import HUNG, PATIENT, Server, running
from test_f1_contract_fuzz import NUMBERS, check_nothing_is_left, make_key

CONFIG = f"""{PATIENT}
[models.text]
target = "FOLDER/numbers.py:numbers"
input = "text"
default = true
[models.any]
target = "FOLDER/numbers.py:numbers"
[auth]
mode = "keys"
keys_file = "FOLDER/penstock-keys.json"
"""
# What only a server's own fault is called. A spoilt timeout may well be too short to keep.
FAULTS = {
    "INTERNAL",
    "BACKEND_FAILED",
    "BACKEND_UNAVAILABLE",
    "BACKEND_OUT_OF_MEMORY",
    "STORE_UNAVAILABLE",
    "SERVICE_DRAINING",
}
ENDINGS = {1002, 1003, 1007, 1008, 1009}  # with which a client is told that it is wrong
REFUSED = 1008
WISH = [
    "GET /v1/stream HTTP/1.1",
    "Host: a",
    "Connection: Upgrade",
    "Upgrade: websocket",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
]
MESSAGES = 50  # in one conversation
FRAMES = 10  # on one connection
LAST = "the last"
LAST_PART = 0x80  # the bit of a frame that ends its message


@dataclass
class Script:
    """What one client says."""

    messages: list[tuple[bytes, bool]] = field(default_factory=list)  # and whether it is in a frame of text
    good: set[str] = field(default_factory=set)  # the ids of asks that must have an output
    taken_back: set[str] = field(default_factory=set)  # of those that may have one


class Maker:
    """Makes what clients say."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def script(self) -> Script:
        chance, script = self._chance, Script()
        for _ in range(MESSAGES):
            name = f"{chance.getrandbits(64):x}"
            said = self._ask(name)
            if chance.random() < 0.5:
                script.messages.append((self.spoilt(said), chance.random() < 0.9))
                continue
            script.messages.append((said, True))
            if chance.random() < 0.1:
                script.messages.append((json.dumps({"cancel": name}).encode(), True))
                script.taken_back.add(name)
            else:
                script.good.add(name)
        return script

    def _ask(self, name: str) -> bytes:
        chance = self._chance
        model = chance.choice(["text", "any", None])
        texts: list[Any] = ["", "a", "größer", "x" * 3000, 'with "quotes"']
        said: dict[str, Any] = {"id": name, "input": chance.choice(texts)}
        if model is not None:
            said["model"] = model
        if model == "any" and chance.random() < 0.5:
            said["input"] = chance.choice([1, [1.5, None], {"a": [True]}, [[]], "x" * 70_000])
        if chance.random() < 0.3:
            said["timeout_ms"] = 50_000
        if chance.random() < 0.2:
            said["client_id"] = "somebody"
        if chance.random() < 0.2:
            said["parameters"] = {"strength": chance.randint(0, 2)}
        return json.dumps(said, ensure_ascii=chance.random() < 0.5).encode()

    def spoilt(self, said: bytes) -> bytes:
        chance = self._chance
        if chance.random() < 0.2:
            return chance.randbytes(chance.randint(0, 60))
        at = chance.randrange(len(said))
        changed = bytes([chance.randrange(256)])
        return chance.choice(
            [said[:at], said[:at] + changed + said[at + 1 :], said[:at] + changed + said[at:]]
        )

    def introduction(self, key: str) -> tuple[bytes, bool]:
        """A first message, and whether it is good."""
        said = json.dumps({"authorization": f"Bearer {key}"}).encode()
        return (said, True) if self._chance.random() < 0.3 else (self.spoilt(said), False)

    def wish(self) -> bytes:
        lines = WISH.copy()
        if self._chance.random() < 0.3:
            at = self._chance.randrange(len(lines))
            lines[at] = self.spoilt(lines[at].encode()).decode("latin-1")
        return "\r\n".join([*lines, "", ""]).encode("latin-1")

    def frames(self) -> bytes:
        """Frames on one connection: good ones, spoilt ones, and what is none."""
        return b"".join(self._frame() for _ in range(FRAMES))

    def _frame(self) -> bytes:
        chance = self._chance
        if chance.random() < 0.1:
            return chance.randbytes(chance.randint(1, 400))
        opcode = chance.choice(
            [Opcode.TEXT, Opcode.TEXT, Opcode.BINARY, Opcode.CONT, Opcode.PING, Opcode.PONG]
        )
        content = self._ask(f"{chance.getrandbits(64):x}") if chance.random() < 0.7 else b""
        if chance.random() < 0.05:
            opcode, content = Opcode.CLOSE, chance.randbytes(chance.randint(0, 20))
        if opcode not in (Opcode.TEXT, Opcode.BINARY, Opcode.CONT):
            content = content[:125]
        made = Frame(opcode, content).serialize(mask=chance.random() < 0.95)
        if chance.random() < 0.2:  # more is to come, or a bit is set that means nothing
            made = bytes([made[0] ^ chance.choice([LAST_PART, LAST_PART, 0x40, 0x20, 0x10])]) + made[1:]
        return self.spoilt(made) if chance.random() < 0.2 else made


@contextlib.contextmanager
def streaming(server: Server, key: str | None) -> Iterator[ClientConnection]:
    fields = {} if key is None else {"Authorization": f"Bearer {key}"}
    url = f"{server.url.replace('http', 'ws', 1)}/v1/stream"
    with connect(url, additional_headers=fields, proxy=None, open_timeout=HUNG, close_timeout=HUNG) as line:
        yield line


def hear_out(line: ClientConnection) -> dict[str, str]:
    """By the id of each answer, the error in it, or "" — until the last ask is answered."""
    heard: dict[str, str] = {}
    while LAST not in heard:
        answer = json.loads(line.recv(HUNG))
        error = answer.get("error", "")
        assert error not in FAULTS, answer
        assert error or answer["output"] == [0.5], answer
        heard[str(answer["id"])] = error
    return heard


def converse(server: Server, key: str, script: Script) -> None:
    with streaming(server, key) as line:
        for said, text in script.messages:
            line.send(said, text=text)
        # Messages are taken in turn, so that whatever is wrong with one before has been told by now.
        line.send(json.dumps({"id": LAST, "input": "a"}))
        heard = hear_out(line)
        while missing := script.good - set(heard):
            answer = json.loads(line.recv(HUNG))
            assert not answer.get("error"), (missing, answer)
            heard[str(answer["id"])] = ""
    assert {name: heard[name] for name in script.good} == dict.fromkeys(script.good, "")
    assert {heard.get(name, "") for name in script.taken_back} <= {"", "CANCELLED"}


def introduce(server: Server, said: bytes, *, good: bool) -> None:
    ended: ConnectionClosed | None = None
    with streaming(server, None) as line:
        try:
            line.send(said, text=True)
            line.send(json.dumps({"id": LAST, "input": "a"}))
            assert hear_out(line)[LAST] == "", said
        except ConnectionClosed as end:
            ended = end
    if ended is not None:
        assert not good, ended
        assert ended.rcvd is not None, said
        assert ended.rcvd.code == REFUSED, (said, ended)


def shout(server: Server, wish: bytes, frames: bytes) -> int:
    """Sends what may be no WebSocket at all. Returns the status of the answer to the wish."""
    with socket.create_connection(server.address, HUNG) as line:
        line.sendall(wish)
        head = b""
        while b"\r\n\r\n" not in head and (data := line.recv(65536)):
            head += data
        status = int(head.split()[1])
        assert status < 500 or status == 505, (wish, head)  # 505: it is no HTTP/1.1
        head, _, heard = head.partition(b"\r\n\r\n")
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            line.sendall(frames)
        with contextlib.suppress(OSError):  # the server may have ended it
            line.shutdown(socket.SHUT_WR)
        with contextlib.suppress(ConnectionResetError):
            while data := line.recv(65536):
                heard += data
    if status == 101:
        check_frames(heard, frames)
    return status


def check_frames(heard: bytes, sent: bytes) -> None:
    client = Protocol(Side.CLIENT, max_size=None)
    client.receive_data(heard)
    assert client.parser_exc is None, sent  # whatever was sent, what comes back are frames
    for frame in client.events_received():
        assert isinstance(frame, Frame)
        if frame.opcode is Opcode.TEXT:
            assert json.loads(bytes(frame.data)).get("error") not in FAULTS, frame
        elif frame.opcode is Opcode.CLOSE and len(frame.data) >= 2 and not echoes(frame, sent):
            assert int.from_bytes(frame.data[:2], "big") in ENDINGS, (frame, sent)


def echoes(frame: Frame, sent: bytes) -> bool:
    """Whether an ending is the answer to the client's own, which has the same code."""
    server = Protocol(Side.SERVER, max_size=None)
    server.receive_data(sent)
    return server.close_rcvd is not None and server.close_rcvd.code == int.from_bytes(frame.data[:2], "big")


@pytest.mark.timeout(1800)
def test_nothing_that_is_said_over_websockets_is_the_server_s_fault(
    tmp_path: Path, chaos_long: bool, chaos_seed: int
) -> None:
    maker = Maker(random.Random(chaos_seed))
    messages = 10_000 if chaos_long else 500
    key = make_key(tmp_path)
    scripts = [maker.script() for _ in range(messages // MESSAGES)]
    firsts = [maker.introduction(key) for _ in range(messages // 20)]
    noises = [(maker.wish(), maker.frames()) for _ in range(messages // FRAMES)]
    (tmp_path / "numbers.py").write_text(NUMBERS)
    with (
        running(config=CONFIG.replace("FOLDER", str(tmp_path))) as server,
        ThreadPoolExecutor(8) as pool,
    ):
        list(pool.map(lambda script: converse(server, key, script), scripts))
        list(pool.map(lambda first: introduce(server, first[0], good=first[1]), firsts))
        statuses = list(pool.map(lambda noise: shout(server, *noise), noises))
        assert statuses.count(101) > len(noises) / 2
        assert server.metric("penstock_refused_requests_total", model="", code="INTERNAL") == 0
        check_nothing_is_left(server, "text", {"X-API-Key": key})
