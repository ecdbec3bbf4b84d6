"""Ordinary heads are read by one pattern, and nobody can tell."""

import ast
import re
from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st

import penstock
from edge_kit import Asked, Client, EchoApp, edge_with, in_virtual_time, settle
from penstock.edge.bounds import MOST_HEADERS
from penstock.edge.fields import FIELDS, SPECIAL, TOLD
from penstock.edge.http1 import Connection
from penstock.testing import run_virtual
from wire import post

DATE = re.compile(rb"date: .*\r\n")


class Plodding(Connection):
    """Every head is read by llhttp."""

    __slots__ = ()

    def data_received(self, data: bytes) -> None:
        if self._parser is None:
            super().data_received(data)
        else:
            self._take(data)


async def heard(
    messages: list[bytes], make: type[Connection] = Connection
) -> tuple[list[object], list[bytes], bytes, bool]:
    """What the app was handed and what the client got, for these reads on one new connection."""
    app = EchoApp()
    client = Client(edge_with(app), make)
    for message in messages:
        client.send(message)
        await settle()
    handed: list[object] = [(asked.method, asked.url, _told(asked), asked.body) for asked in app.asked]
    return handed, [str(exc).encode() for exc in app.refused], DATE.sub(b"", client.received), client.closed


def _told(asked: Asked) -> dict[bytes, bytes]:
    """What matters of a head, but for the length: the body has it."""
    return {
        name: value
        for name, value in asked.headers.items()
        if name in {*TOLD, *SPECIAL} - {b"content-length", b"connection"}
    }


class Counting(Connection):
    """Notes what goes the long way."""

    __slots__ = ()
    long_way = 0

    def _take(self, data: bytes | memoryview) -> None:
        type(self).long_way += 1
        super()._take(data)


@in_virtual_time
async def test_an_ordinary_head_is_read_by_the_pattern_whatever_is_new_in_it() -> None:
    app = EchoApp()
    client = Client(edge_with(app), Counting)
    Counting.long_way = 0
    trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    for number in range(3):
        lines = [
            f"X-Request-ID: {number}", f"traceparent: {trace}", f"x-forwarded-for: 10.0.0.{number}",
            "tracestate: a=1, b=2", "Authorization: Bearer key", "Connection: keep-alive", "x-other: 1",
        ]  # fmt: skip
        client.send(post(b"x" * (10 + number), *lines))
    assert Counting.long_way == 0
    assert [asked.body for asked in app.asked] == [b"x" * 10, b"x" * 11, b"x" * 12]
    assert [asked.headers[b"x-request-id"] for asked in app.asked] == [b"0", b"1", b"2"]
    assert app.asked[-1].headers[b"traceparent"] == trace.encode()
    assert app.asked[-1].headers[b"tracestate"] == b"a=1, b=2"
    assert app.asked[-1].headers[b"authorization"] == b"Bearer key"


@in_virtual_time
async def test_the_same_head_again_serves_bodies_of_any_length() -> None:
    app = EchoApp()
    client = Client(edge_with(app), Counting)
    Counting.long_way = 0
    for size in (3, 0, 1000):
        client.send(post(b"x" * size))
    assert [len(asked.body) for asked in app.asked] == [3, 0, 1000]
    assert Counting.long_way == 0


@in_virtual_time
async def test_an_ordinary_head_lets_no_body_pass_that_is_too_large() -> None:
    app = EchoApp()
    client = Client(edge_with(app, max_body=10))
    client.send(post(b"0123456789"))
    client.send(post(b"0123456789a"))
    assert client.heard().statuses == [200, 413]
    assert len(app.asked) == 1


@in_virtual_time
async def test_more_headers_than_are_allowed_are_refused() -> None:
    client = Client(edge_with(EchoApp()))
    client.send(post(b"body", *(f"x-{n}: 1" for n in range(MOST_HEADERS))))
    assert client.heard().statuses == [431]


def test_every_header_that_is_looked_at_is_told_by_the_pattern_or_makes_a_head_special() -> None:
    """One that is forgotten would be ignored in nearly every request."""
    house = Path(penstock.__file__).parent
    # What is looked at for gRPC comes as HTTP/2, of which every field is read.
    files = [
        file
        for room in ("auth", "doors", "edge")
        for file in house.glob(f"{room}/**/*.py")
        if "grpc" not in str(file.relative_to(house))
    ]
    looked_at = {name for file in files for name in headers_looked_at(ast.parse(file.read_text()))}
    assert looked_at > {b"host", b"prefer", b"idempotency-key", b"x-api-key", b"origin"}
    assert looked_at <= {*TOLD, *SPECIAL}
    assert {*TOLD, *SPECIAL} == {*FIELDS}


def test_a_header_that_a_door_looks_at_is_found_however_that_is_written() -> None:
    for source in (
        "headers[b'a']", "visit.headers.get(b'a', b'')", "b'a' in headers", "b'a' not in self._head",
        "NAME = b'a'\nheaders.get(NAME)", "NAME = b'a'\nNAME in headers", "headers.pop(b'a')",
    ):  # fmt: skip
        assert headers_looked_at(ast.parse(source)) == {b"a"}, source


def headers_looked_at(tree: ast.AST) -> set[bytes]:
    """Names by which a mapping of headers is asked. A name that is not written out in the same file is an error."""
    constants = {
        target.id: node.value.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    asked_by = list[ast.expr]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and _is_headers(node.value) and isinstance(node.ctx, ast.Load):
            if not isinstance(node.slice, ast.Slice):
                asked_by.append(node.slice)
        elif isinstance(node, ast.Compare) and _is_headers(node.comparators[0]):
            asked_by.append(node.left)
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in ("get", "pop")
            and _is_headers(node.func.value)
        ):
            asked_by.append(node.args[0])
    found = set[bytes]()
    for name in asked_by:
        value = constants.get(name.id) if isinstance(name, ast.Name) else getattr(name, "value", None)
        if isinstance(value, bytes):
            found.add(value)
        elif not isinstance(value, int):  # by a number: the head of a frame, which is no mapping
            # The edge takes every header as it comes, under the name of `name`.
            assert ast.unparse(name) == "name", f"which header is {ast.unparse(name)}?"
    return found


def _is_headers(node: ast.expr) -> bool:
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    return name.lstrip("_") in ("headers", "head") and not name.isupper()


LENGTHS = st.sampled_from(["4", "04", "+4", "3", "5", "44", "", "4, 4", "0"])
LINES = st.sampled_from(
    ["Host: a", "Host: b", "Host: a,b", "Host:",
     "Content-Length: {}", "content-length: {}", "Content-Length : {}", "Content-Length:{}", "Content-Length:  {}",
     "Content-Type: application/json", "content-type: application/json ", "Content-Type: text/plain",
     "Expect: 100-continue", "Transfer-Encoding: chunked", "Connection: close", "Connection: keep-alive",
     "Upgrade: h2c", "Prefer: respond-async", "Idempotency-Key: a", "Origin: http://a",
     "X-Request-Id: 1", "x-request-id: 2", "X-Request-Id: é", "Traceparent: 00-1",
     "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
     "tracestate: a=1", "Tracestate: a=1, b=2", "tracestate: a=1 ", "tracestate:  a=1", "tracestate: a  b",
     "tracestate:", "Authorization: Bearer a", "authorization: Basic b", "X-Api-Key: k", "x-api-key:\tk ",
     "Accept: */*", "accept-encoding: a", "Accept-: x", "accept-a.b: x", "User-Agent: x", "X-Forwarded-For: a",
     "X: Content-Length: 4", " folded", "X-A: é", "X\x01: a", "X: \x7f", "X: \x01", "X y: a", ": a", "X:"]
)  # fmt: skip
VERSIONS = st.sampled_from(["HTTP/1.1", "HTTP/1.1", "HTTP/1.1", "HTTP/1.0"])
METHODS = st.sampled_from(["POST", "POST", "POST", "GET", "HEAD", "PUT"])
BREAKS = st.sampled_from(["\r\n", "\r\n", "\r\n", "\n"])
BODIES = st.sampled_from([b"", b"body", b"4\r\nbody\r\n0\r\n\r\n", b"POST / HTTP/1.1\r\n\r\n", b"\r\n\r\n"])


EMPTY = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"


@st.composite
def messages(draw: st.DrawFn) -> bytes:
    length, newline = draw(LENGTHS), draw(BREAKS)
    lines = [
        "Host: a",
        *draw(st.lists(LINES, max_size=4)),
        "content-type: application/json",
        "Content-Length: {}",
    ]
    head = [
        f"{draw(METHODS)} /{draw(st.sampled_from('ab'))} {draw(VERSIONS)}",
        *lines[draw(st.integers(0, 1)) :],
    ]
    return newline.join([*head, "", ""]).replace("{}", length).encode() + draw(BODIES)


@given(st.lists(messages(), min_size=1, max_size=4), st.integers(0, 200))
@example([post(b"body"), post(b"body")], 0)
@example([post(b"body"), post(b"longer body", "x-user: a"), post(b"body", "x-user: b")], 0)
@example([EMPTY, EMPTY.replace(b"0\r\n\r\n", b"42Z")], 0)  # a length that would fit, had the head an end
def test_the_pattern_understands_what_llhttp_understands(asked: list[bytes], cut: int) -> None:
    # One read may hold a part of a request, or the end of one and the beginning of the next.
    joined = b"".join(asked)
    reads = [each for each in asked for _ in range(2)]  # the second time a connection may know it by heart
    reads += [*asked, joined[:cut], joined[cut:]] if cut else asked

    async def body() -> None:
        assert await heard(reads) == await heard(reads, Plodding)

    run_virtual(body())
