"""Somebody who looks at the live page while something is measured (`observed`): a real Chromium, or, where there is
none, a client that follows the stream which the page would follow."""

import asyncio
import http.client
import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, AsyncExitStack, contextmanager, suppress
from urllib.parse import urlsplit

from benchmarks.browser import CHROMIUM, browsing
from benchmarks.page import SHOWN
from benchmarks.serving import DidNotServe

LIVE = "!!document.querySelector('.link.live')"

Looks = Callable[[str], AbstractContextManager[None]]  # from an admin plane's address on, until it is left


def has_browser() -> bool:
    return shutil.which(CHROMIUM[0]) is not None


@contextmanager
def in_browser(admin: str) -> Iterator[None]:
    """The page is open, and has shown figures before this begins."""
    with asyncio.Runner() as runner:
        opened = AsyncExitStack()
        try:
            page = runner.run(opened.enter_async_context(browsing(f"{admin}/")))
            runner.run(page.evaluate(SHOWN))
            yield
            if not runner.run(page.evaluate(LIVE)):
                raise DidNotServe("the page lost its server under the load")
        finally:
            runner.run(opened.aclose())


@contextmanager
def at_stream(admin: str) -> Iterator[None]:
    """The stream is read, and has said something before this begins."""
    address = urlsplit(admin)
    connection = http.client.HTTPConnection(address.netloc)
    connection.request("GET", "/internal/stream")
    line, answer = connection.sock, connection.getresponse()
    if answer.status != http.HTTPStatus.OK:
        raise DidNotServe(f"{admin}/internal/stream answers {answer.status}")
    answer.readline()
    reading = threading.Thread(target=_read_on, args=(answer,))
    reading.start()
    try:
        yield
        if _has_ended(line):
            raise DidNotServe("the stream ended under the load")
    finally:
        with suppress(OSError):  # it has ended
            line.shutdown(socket.SHUT_RDWR)
        reading.join()
        connection.close()


def _has_ended(line: socket.socket) -> bool:
    """Whether the server has hung up, though nobody may have read so far yet."""
    try:
        return line.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
    except BlockingIOError:
        return False
    except OSError:  # closed, after the end was read
        return True


def _read_on(answer: http.client.HTTPResponse) -> None:
    with suppress(OSError, ValueError, http.client.HTTPException):  # it was left
        while answer.read1():
            pass
