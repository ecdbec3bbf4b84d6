"""HTTP/2 frames as bytes, for what no library would send."""

from hpack import Encoder

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RESET, SETTINGS, PING, WINDOW, CONTINUATION = 0, 1, 2, 3, 4, 6, 8, 9
END_STREAM, END_HEADERS, PADDED = 0x1, 0x4, 0x8


def frame(kind: int, flags: int, stream: int, body: bytes = b"") -> bytes:
    return len(body).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + body


OPENING = PREFACE + frame(SETTINGS, 0, 0)


def head(
    stream: int,
    *,
    key: str | None = None,
    last: bool = False,
    path: str = "/v1/inference",
    method: str = "POST",
    kind: str = "application/json",
) -> bytes:
    """A request; without `last` its body follows. Nothing of it goes into the table of compressed names."""
    said = [(":method", method), (":scheme", "https"), (":authority", "test"), (":path", path)]
    said += [("content-type", kind)]
    if key:
        said += [("authorization", f"Bearer {key}")]
    packed = Encoder().encode([(name, value, True) for name, value in said])
    return frame(HEADERS, END_HEADERS | (END_STREAM if last else 0), stream, packed)
