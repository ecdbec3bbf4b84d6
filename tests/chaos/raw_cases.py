"""Requests that no client library would send: ambiguous framing, broken syntax, halves; and seeded mutations.

An inner request that a front proxy would take for part of a body carries SMUGGLED as its input: if it is ever
executed, framing was read in two ways.
"""

import random
from collections.abc import Iterator

from wire import post

GOOD = b'{"input": "good"}'
START = b"POST /v1/inference HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\n"
GET = b"GET /openapi.json HTTP/1.1\r\n"
INNER = post(b'{"input": "SMUGGLED"}')

# Each says, one way or another, both "chunked" and a length, or either of them in a way some would not understand.
TRANSFER = (
    b"Transfer-Encoding: chunked\r\n",
    b"Transfer-Encoding : chunked\r\n",
    b"Transfer-Encoding:\tchunked\r\n",
    b"Transfer-Encoding: xchunked\r\n",
    b"Transfer-Encoding: chunked, identity\r\n",
    b"Transfer-Encoding: identity, chunked\r\n",
    b"Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n",
    b"Transfer-Encoding: x\r\nTransfer-Encoding: chunked\r\n",
    b"Transfer-Encoding: \x0bchunked\r\n",
    b"Transfer-Encoding: chunked\x00\r\n",
    b"Transfer-Encoding:\r\n chunked\r\n",
    b" Transfer-Encoding: chunked\r\n",
    b"X: y\nTransfer-Encoding: chunked\r\n",
    b"X: y\rTransfer-Encoding: chunked\r\n",
    b"Transfer_Encoding: chunked\r\n",
    b"TRANSFER-ENCODING: CHUNKED\r\n",
)
LENGTHS = (
    b"Content-Length: 4\r\nContent-Length: 9\r\n",
    b"Content-Length: 4, 9\r\n",
    b"Content-Length: +4\r\n",
    b"Content-Length: -4\r\n",
    b"Content-Length: 0x4\r\n",
    b"Content-Length: 4 4\r\n",
    b"Content-Length: 4\r\n 4\r\n",
    b"Content-Length : 4\r\n",
    b"Content-Length: 99999999999999999999999999\r\n",
    b"Content-Length: \xb2\r\n",
    b"Content-Length:\r\n",
)
BROKEN = (
    b"\r\n\r\n\r\n",
    b"\x00" * 64,
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 32,  # TLS
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 64,  # HTTP/2, and then nonsense
    b"P",
    b"",
    b"GET\r\n\r\n",
    b"GET /openapi.json\r\n\r\n",  # HTTP/0.9
    b"GET /openapi.json HTTP/1.0\r\n\r\n",
    b"GET /openapi.json HTTP/9.9\r\nHost: test\r\n\r\n",
    b"GET  /openapi.json  HTTP/1.1\r\nHost: test\r\n\r\n",
    b"GET /open api.json HTTP/1.1\r\nHost: test\r\n\r\n",
    b"GET /\xff\xfe HTTP/1.1\r\nHost: test\r\n\r\n",
    b"GET * HTTP/1.1\r\nHost: test\r\n\r\n",
    b"GET http://elsewhere/openapi.json HTTP/1.1\r\nHost: test\r\n\r\n",
    b"CONNECT elsewhere:443 HTTP/1.1\r\nHost: elsewhere\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\nHost: test\r\n\r\n",
    b"G\x00T / HTTP/1.1\r\nHost: test\r\n\r\n",
    GET + b"\r\n",  # no Host
    GET + b"Host: a\r\nHost: b\r\n\r\n",
    GET + b"Host: \x00\r\n\r\n",
    GET + b"Host: test:notaport\r\n\r\n",
    GET + b"Host: " + b"h" * 10_000 + b"\r\n\r\n",
    GET + b"Host: test\r\nno colon\r\n\r\n",
    GET + b"Host: test\r\n: no name\r\n\r\n",
    GET + b"Host: test\r\nX: " + b"x" * 600_000 + b"\r\n\r\n",
    GET + b"Host: test\r\n" + b"".join(b"X%d: y\r\n" % n for n in range(5_000)) + b"\r\n",
    b"GET /" + b"p" * 100_000 + b" HTTP/1.1\r\nHost: test\r\n\r\n",
    b"GET /openapi.json HTTP/1.1\nHost: test\n\n",  # bare LF
    b"GET /openapi.json HTTP/1.1\rHost: test\r\r",  # bare CR
    GET + b"Host: test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\r\n",
    GET + b"Host: test\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\n\r\n",
    GET + b"Host: test\r\n",  # half a head
    post(GOOD, length=500),  # half a body
    post(GOOD) * 5,  # pipelined
    post(GOOD, "Expect: 100-continue"),
    post(GOOD, "Expect: a miracle"),
    post(GOOD, "X-Request-Id: \xff\r\nX-Request-Id: b".encode().decode()),
    START + b"Transfer-Encoding: chunked\r\n\r\nZZ\r\n",
    START + b"Transfer-Encoding: chunked\r\n\r\n-5\r\nhello\r\n0\r\n\r\n",
    START + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhelloXX0\r\n\r\n",
    START + b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffff1\r\nx",
    START + b"Transfer-Encoding: chunked\r\n\r\n" + b"5;" + b"e" * 100_000 + b"\r\nhello\r\n0\r\n\r\n",
    START + b"Transfer-Encoding: chunked\r\n\r\n0\r\n" + b"T: t\r\n" * 5_000 + b"\r\n",
)


def smuggling() -> Iterator[bytes]:
    """CL.TE, TE.CL, TE.TE and their relatives."""
    ended = b"0\r\n\r\n" + INNER
    hidden = b"%x\r\n%s\r\n0\r\n\r\n" % (len(INNER), INNER)
    for transfer in TRANSFER:
        yield START + b"Content-Length: %d\r\n" % len(ended) + transfer + b"\r\n" + ended
        yield START + transfer + b"Content-Length: %d\r\n" % len(ended) + b"\r\n" + ended
        yield START + b"Content-Length: %d\r\n" % len(hidden) + transfer + b"\r\n" + hidden
    for length in LENGTHS:
        yield START + length + b"\r\n" + b"good" + INNER
        yield START + b"Transfer-Encoding: chunked\r\n" + length + b"\r\n" + hidden
    yield GET + b"Host: test\r\nX: a\r\n\tfolded\r\nContent-Length: %d\r\n\r\n" % len(INNER) + INNER


def mutations(chance: random.Random) -> Iterator[bytes]:
    """Good requests with a few bytes changed, lost, doubled or moved; without end."""
    chunked = START + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(GOOD), GOOD)
    bases = [
        post(GOOD),
        chunked,
        GET + b"Host: test\r\n\r\n",
        post(GOOD, "Prefer: respond-async"),
        post(GOOD) * 2,
    ]
    spice = [
        b"\r",
        b"\n",
        b"\r\n",
        b"\x00",
        b":",
        b" ",
        b"\t",
        b"\xff",
        b"0",
        b"9",
        b'"',
        b"\\",
        b"{",
        b"%",
        b";",
    ]
    while True:
        data = bytearray(chance.choice(bases))
        for _ in range(chance.randint(1, 4)):
            at = chance.randrange(len(data) + 1)
            match chance.randrange(5):
                case 0:
                    data[at:at] = chance.choice(spice)
                case 1:
                    del data[at : at + chance.randint(1, 20)]
                case 2:
                    data[at:at] = data[at : at + chance.randint(1, 40)]
                case 3 if at < len(data):
                    data[at] = chance.randrange(256)
                case _:
                    del data[max(at, 1) :]
        yield bytes(data)


def raw_cases(number: int, chance: random.Random) -> list[bytes]:
    """Of all kinds; the whole of the written ones where the number allows it."""
    written = [*smuggling(), *BROKEN]
    chance.shuffle(written)
    mutated = mutations(chance)
    cases = written[: max(1, number * 3 // 4)]
    return cases + [next(mutated) for _ in range(number - len(cases))]
