"""Whole requests, made beforehand for wrk to send: what clients behind a proxy send (`realistic`), and what a
generator repeats (`plain`). Every benchmark of throughput asks with one or the other.

Behind a proxy no two requests are the same: each has a request id, a trace, an address and a length of its own, and
the proxy (Envoy, here) writes all names in lower case. A server that remembers whole heads gains nothing from that.
The requests are the same bytes in every run and for every server, but for the host, the path and the shape of the
body, which belong to each server's own API.
"""

from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from urllib.parse import urlsplit
from uuid import UUID

from benchmarks import wrk
from benchmarks.echo import SIZE, text_of

REALISTIC, SAME = "realistic", "same"
KINDS = (REALISTIC, SAME)
DIFFERENT = 6_000  # requests that are sent in turn
MOST_BYTES = 32 * 2**20  # of all requests that are sent in turn: there are fewer large ones
SHORTER = 100  # characters by which a text is shorter than the longest, at most
ABOUT = {
    REALISTIC: f"{DIFFERENT:,} different heads in turn, as behind a proxy",
    SAME: "the same head in every request",
}


def prepared(
    kind: str, url: str, body: Callable[[str], bytes], credentials: Sequence[str] = (), size: int = SIZE
) -> Callable[[wrk.Load], wrk.Measurement]:
    """A load on this URL with requests of this kind, to be run as often as need be.

    `body` wraps a text as the server's API wants it; `credentials` go into the Authorization header, in turn;
    `size` is the length of the text.
    """
    if kind == REALISTIC:
        count = max(1, min(DIFFERENT, MOST_BYTES // size))
        return partial(wrk.replay, url, realistic(url, body, credentials, count, size))
    if credentials:
        return partial(wrk.replay, url, plain(url, body(text_of(size)), credentials))
    return partial(wrk.measure, url, body(text_of(size)))


def realistic(
    url: str,
    body: Callable[[str], bytes],
    credentials: Sequence[str] = (),
    count: int = DIFFERENT,
    size: int = SIZE,
) -> list[bytes]:
    """Requests that differ as a proxy's do: in their heads, and a little in their length."""
    to, random, requests, text = urlsplit(url), Random(0), [], text_of(size)
    for index in range(count):
        content = body(text[: max(1, size - random.randrange(SHORTER + 1))])
        fields = {
            "host": to.netloc,
            "user-agent": "python-httpx/0.28.1",
            "accept": "*/*",
            "content-type": "application/json",
            **({"authorization": credentials[index % len(credentials)]} if credentials else {}),
            "content-length": str(len(content)),
            "x-forwarded-for": f"10.{random.randrange(256)}.{random.randrange(256)}.{random.randrange(256)}",
            "x-forwarded-proto": "https",
            "x-request-id": str(UUID(bytes=random.randbytes(16), version=4)),
            "traceparent": f"00-{random.randbytes(16).hex()}-{random.randbytes(8).hex()}-01",
        }
        requests.append(_joined(to.path, fields, content))
    return requests


def plain(url: str, body: bytes, credentials: Sequence[str]) -> list[bytes]:
    """One request for each credential, and nothing else that differs."""
    to = urlsplit(url)
    fields = {"Host": to.netloc, "Content-Type": "application/json", "Content-Length": str(len(body))}
    return [_joined(to.path, {**fields, "Authorization": each}, body) for each in credentials]


def _joined(path: str, fields: dict[str, str], body: bytes) -> bytes:
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"POST {path} HTTP/1.1\r\n{lines}\r\n".encode() + body
