"""Clients that ask again and again, for tests in which workers come and go: no request of theirs may fail.

with crowd(url, 6) as asked:
    ...                     # until what is waited for has come
assert asked.statuses == {200}
"""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field

from server import call

JSON = {"content-type": "application/json"}


@dataclass
class Asked:
    """What the clients got."""

    answers: list[tuple[int, bytes]] = field(default_factory=list)

    @property
    def statuses(self) -> set[int]:
        return {status for status, _ in self.answers}


@contextmanager
def crowd(url: str, clients: int, pause: float = 0.0) -> Iterator[Asked]:
    """So many clients, each with one request at a time, until the block ends. `pause`: seconds between an answer
    and the next request."""
    asked, over = Asked(), threading.Event()

    def ask_again_and_again() -> None:
        while not over.wait(pause):
            answer = call(url, "POST", "/v1/inference", b'{"input": "a"}', JSON)
            asked.answers.append((answer.status, answer.body))

    with ThreadPoolExecutor(clients) as pool:
        asking = [pool.submit(ask_again_and_again) for _ in range(clients)]
        try:
            yield asked
        finally:
            over.set()
    for each in asking:
        each.result()
