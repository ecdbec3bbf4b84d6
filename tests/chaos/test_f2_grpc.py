"""Floods of frames at the port for gRPC: the connection ends with the code that says why, and others are served."""

import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from h2.errors import ErrorCodes
from hpack import Encoder

from grpc_calls import STREAM, address_of, asked, channel_to, infer, stream
from server import HUNG, PATIENT, Server, running

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes.fromhex("000000 04 00 00000000")
DATA, HEADERS, RESET, SETTINGS, PING, GOAWAY, WINDOW, CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
END_HEADERS = 4
FIELDS = [
    (":method", "POST"),
    (":scheme", "http"),
    (":path", STREAM),
    (":authority", "a"),
    ("content-type", "application/grpc"),
]
BLOCK = Encoder().encode(FIELDS, huffman=False)


def frame(kind: int, flags: int, number: int, content: bytes = b"") -> bytes:
    return struct.pack(">I", len(content))[1:] + bytes((kind, flags)) + struct.pack(">I", number) + content


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running("sim:1ms", "--grpc-port", "0", config=PATIENT) as server:
        yield server


def heard(server: Server, said: bytes) -> bytes:
    """What the server answers until it closes."""
    host, _, port = address_of(server).rpartition(":")
    answer = b""
    with socket.create_connection((host, int(port)), HUNG) as line:
        try:
            line.sendall(PREFACE + said)
            while piece := line.recv(65536):
                answer += piece
        except (ConnectionResetError, BrokenPipeError):
            pass  # it has closed with bytes of ours unread; what it said before may have come
    return answer


FLOODS = {
    "resets": b"".join(
        frame(HEADERS, END_HEADERS, 2 * n + 1, BLOCK) + frame(RESET, 0, 2 * n + 1, bytes(4))
        for n in range(5000)
    ),
    "pings": frame(PING, 0, 0, bytes(8)) * 20_000,
    "settings": frame(SETTINGS, 0, 0) * 20_000,
    "windows": frame(WINDOW, 0, 0, struct.pack(">I", 1)) * 20_000,
    "empty pieces": frame(HEADERS, END_HEADERS, 1, BLOCK) + frame(DATA, 0, 1) * 20_000,
    "tiny pieces": frame(HEADERS, END_HEADERS, 1, BLOCK) + frame(DATA, 0, 1, b"\0") * 20_000,
    "a head without an end": frame(HEADERS, 0, 1, BLOCK) + frame(CONTINUATION, 0, 1, b"") * 20_000,
    "a huge head": frame(HEADERS, 0, 1, BLOCK) + frame(CONTINUATION, 0, 1, bytes(16_000)) * 6,
}


@pytest.mark.parametrize("flood", FLOODS)
def test_a_flood_ends_its_connection_and_nobody_else_s(flood: str, server: Server) -> None:
    answer = heard(server, FLOODS[flood])
    calm = frame(GOAWAY, 0, 0, bytes(8))[:9]
    # A reset of the line may overtake the last words; where they came, they say why.
    if calm[:8] in answer:
        at = answer.rindex(calm[:8])
        assert answer[at + 13 : at + 17] == struct.pack(">I", ErrorCodes.ENHANCE_YOUR_CALM)
    with channel_to(server) as channel:
        assert infer(channel, text="still here").text == "still here"
    assert "Traceback" not in server.stderr()


def test_a_client_that_reads_no_answers_has_no_more_than_its_share(server: Server, tmp_path: Path) -> None:
    """Its window stays shut, so its messages are not taken; others are served meanwhile."""
    host, _, port = address_of(server).rpartition(":")
    message = asked(text="x" * 1000).SerializeToString()
    framed = b"\0" + len(message).to_bytes(4, "big") + message
    with socket.create_connection((host, int(port)), HUNG) as line:
        line.settimeout(1.0)
        line.sendall(PREFACE + frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 0)))  # it takes nothing
        line.sendall(frame(HEADERS, END_HEADERS, 1, BLOCK))
        for _ in range(1000):  # less than the window, and four times what may be in flight
            line.sendall(frame(DATA, 0, 1, framed))
        with channel_to(server) as channel:
            answers = list(stream(channel)((asked(text="b") for _ in range(50)), timeout=HUNG))
        assert len(answers) == 50
        assert server.health()["waiting_clients"] == 0
        assert server.metric("penstock_requests_total", model="sim", outcome="SUCCESS") < 50 + 300 + len(
            FLOODS
        )
