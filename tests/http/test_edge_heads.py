"""A head that was read before is not read again, and nobody can tell (SPEC A1, A7)."""

import re

from edge_kit import Asked, Client, EchoApp, edge_with, in_virtual_time, settle
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.http import heads
from penstock.http.edge import Edge
from penstock.http.heads import Heads
from penstock.testing import run_virtual
from wire import post

DATE = re.compile(rb"date: .*\r\n")


class Forgetful(Heads):
    """Learns nothing: every head is read by llhttp."""

    def learn(self, *asked: object) -> None: ...


def forgetful_edge(app: EchoApp) -> Edge:
    edge = edge_with(app)
    edge.heads = Forgetful()
    return edge


async def heard(
    edge: Edge, app: EchoApp, messages: list[bytes]
) -> tuple[list[object], list[bytes], bytes, bool]:
    """What the app was handed and what the client got, for these reads on one new connection."""
    app.asked.clear()
    app.refused.clear()
    client = Client(edge)
    for message in messages:
        client.send(message)
        await settle()
    handed: list[object] = [(asked.method, asked.url, _but_length(asked), asked.body) for asked in app.asked]
    return handed, [str(exc).encode() for exc in app.refused], DATE.sub(b"", client.received), client.closed


def _but_length(asked: Asked) -> dict[bytes, bytes]:
    return {name: value for name, value in asked.headers.items() if name != b"content-length"}


@in_virtual_time
async def test_a_head_is_learned_once_and_serves_bodies_of_any_length() -> None:
    app = EchoApp()
    edge = edge_with(app)
    client = Client(edge)
    client.send(post(b"one"), post(b""), post(b"three more"))
    assert [asked.body for asked in app.asked] == [b"one", b"", b"three more"]
    assert len(edge.heads) == 1
    other = Client(edge)
    other.send(post(b"x" * 1000))
    assert app.asked[-1].body == b"x" * 1000
    assert len(edge.heads) == 1


@in_virtual_time
async def test_a_known_head_lets_no_body_pass_that_is_too_large() -> None:
    app = EchoApp()
    edge = edge_with(app, max_body=10)
    Client(edge).send(post(b"0123456789"))
    client = Client(edge)
    client.send(post(b"0123456789a"))
    assert client.heard().statuses == [413]
    assert len(app.asked) == 1


@in_virtual_time
async def test_users_that_differ_after_the_length_and_clients_that_ask_to_be_kept_are_known_too() -> None:
    app = EchoApp()
    edge = edge_with(app)
    client = Client(edge)
    for _ in range(2):
        for user in (b"a", b"b"):
            tail = b"Authorization: %b\r\nConnection: keep-alive\r\n\r\nbody" % user
            client.send(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n" + tail)
    assert [asked.headers[b"authorization"] for asked in app.asked] == [b"a", b"b", b"a", b"b"]
    assert len(edge.heads) == 2


@in_virtual_time
async def test_heads_that_differ_in_each_request_are_not_kept() -> None:
    edge = edge_with(EchoApp())
    client = Client(edge)
    for number in range(5):
        client.send(post(b"body", f"x-request-id: {number}"))
    assert len(edge.heads) == 0


@in_virtual_time
async def test_no_more_heads_are_kept_than_there_is_room_for() -> None:
    edge = edge_with(EchoApp())
    client = Client(edge)
    for number in range(heads.MOST + 3):
        client.send(post(b"body", f"x-user: {number}"))
    assert len(edge.heads) == 3


LENGTHS = st.sampled_from(["4", "04", "+4", "3", "5", "44", "", "4, 4", "0"])
LINES = st.sampled_from(
    ["Host: a", "Host: b", "Content-Length: {}", "content-length: {}", "X: Content-Length: 4", " folded", "X-A: é",
     "Expect: 100-continue", "Transfer-Encoding: chunked", "Connection: close", "Connection: keep-alive",
     "Upgrade: h2c", "Content-Length : {}", "Content-Length:{}", "X-Request-Id: 1"]
)  # fmt: skip
VERSIONS = st.sampled_from(["HTTP/1.1", "HTTP/1.1", "HTTP/1.1", "HTTP/1.0"])
METHODS = st.sampled_from(["POST", "POST", "POST", "GET", "HEAD", "PUT"])
BREAKS = st.sampled_from(["\r\n", "\r\n", "\r\n", "\n"])
BODIES = st.sampled_from([b"", b"body", b"4\r\nbody\r\n0\r\n\r\n", b"POST / HTTP/1.1\r\n\r\n", b"\r\n\r\n"])


EMPTY = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"


@st.composite
def messages(draw: st.DrawFn) -> bytes:
    length, newline = draw(LENGTHS), draw(BREAKS)
    lines = ["Host: a", *draw(st.lists(LINES, max_size=3)), "Content-Length: {}"]
    head = [
        f"{draw(METHODS)} /{draw(st.sampled_from('ab'))} {draw(VERSIONS)}",
        *lines[draw(st.integers(0, 1)) :],
    ]
    return newline.join([*head, "", ""]).replace("{}", length).encode() + draw(BODIES)


@given(st.lists(messages(), min_size=1, max_size=4), st.integers(0, 200))
@example([post(b"body"), post(b"body")], 0)
@example([post(b"body"), post(b"longer body", "x-user: a"), post(b"body", "x-user: b")], 0)
@example([EMPTY, EMPTY.replace(b"0\r\n\r\n", b"42Z")], 0)  # a length that would fit, had the head an end
def test_what_is_known_is_understood_as_if_it_were_new(asked: list[bytes], cut: int) -> None:
    """The same reads on connections of an edge that has met them before, and of one that learns nothing."""
    # One read may hold a part of a request, or the end of one and the beginning of the next.
    joined = b"".join(asked)
    reads = [each for each in asked for _ in range(3)]  # from the third on a connection knows it by heart
    reads += [*asked, joined[:cut], joined[cut:]] if cut else asked

    async def body() -> None:
        app = EchoApp()
        edge = edge_with(app)
        for message in asked:
            await heard(edge, app, [message])
        assert await heard(edge, app, reads) == await heard(forgetful_edge(app), app, reads)

    run_virtual(body())
