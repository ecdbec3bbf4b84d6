"""When the store of an installation stood still through no fault of an attack.

A gateway must tell its clients within 100 ms that Redis is silent. A machine that gives Redis no processor or no
disk for that long makes it silent too, and then the gateway is right. An attack is to blame only if Redis was busy.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psutil
from redis import Redis
from redis.exceptions import RedisError

from history import STANDSTILL
from server import HUNG

EVERY = 0.01  # seconds between two questions
BUSY = 0.25  # part of a silence in which Redis computed: then it was busy, and did not stand still


@contextmanager
def standing_still(url: str) -> Iterator[list[tuple[float, float]]]:
    """The times at which it did, by `time.monotonic`; filled in while the block runs. Without a store: never."""
    found: list[tuple[float, float]] = []
    begun, over = threading.Event(), threading.Event()
    thread = threading.Thread(target=_watch, args=(url, begun, over, found))
    if url:
        thread.start()
        assert begun.wait(HUNG), "the store does not answer"
    try:
        yield found
    finally:
        over.set()
        if url:
            thread.join(HUNG)


def _watch(url: str, begun: threading.Event, over: threading.Event, found: list[tuple[float, float]]) -> None:
    with Redis.from_url(url) as client:
        process = psutil.Process(client.info("server")["process_id"])
        begun.set()
        while not over.wait(EVERY):
            began, spent = time.monotonic(), _computed(process)
            try:
                client.ping()
            except RedisError:
                continue  # a connection that was cut tells nothing of how long Redis takes
            ended = time.monotonic()
            if stood_still(ended - began, _computed(process) - spent):
                found.append((began, ended))


def stood_still(silent: float, computed: float) -> bool:
    """Whether a silence of so many seconds, in which Redis computed for so many, was not its own doing."""
    return silent > STANDSTILL and computed < BUSY * silent


def _computed(process: psutil.Process) -> float:
    """Seconds of a processor."""
    times = process.cpu_times()
    return float(times.user + times.system)
