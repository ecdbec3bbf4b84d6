"""Asks the other gateways, through their mailboxes: what became of a request that one of them answered, and which
were their slowest. A gateway does so for its admin plane, where people ask rarely.

What a gateway knew is lost when it ends.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from typing import Any, TypeVar

import msgspec

from penstock.errors import StoreDown
from penstock.ports.bus import Post
from penstock.words.messages import Question, Told, encode

LIMIT = 1.0  # seconds that the other gateways have to answer

# A request, as the admin plane shows it. Between gateways it is JSON, which is passed on unread: nothing here goes
# by what is in it.
Row = Mapping[str, Any]
T = TypeVar("T")


class _Open:
    """One question that is being asked."""

    def __init__(self, boxes: set[str], *, of_one: bool) -> None:
        self.silent = boxes  # the gateways that have not answered yet
        self.of_one = of_one  # whether one gateway that knows something is enough
        self.found: list[bytes] = []  # the answers that have come
        self.answered = asyncio.Event()


class Inquiries:
    def __init__(
        self,
        me: str,
        post: Post,
        gateways: Callable[[], Iterable[str]],
        describe: Callable[[str], Row | None],
        slowest: Callable[[int, str], Sequence[Row]],
    ) -> None:
        """`gateways`: returns the names of all known gateways. `describe`: says what this gateway knows of a
        request. `slowest`: its slowest requests, of one model or (where that is empty) of all."""
        self._me, self._post, self._gateways = me, post, gateways
        self._describe, self._slowest = describe, slowest
        self._open: dict[str, list[_Open]] = {}  # what is being asked, by `Question.request_id`
        self._answering: set[asyncio.Task[bool]] = set()  # answers that are being sent
        self._numbers = count(1)  # for questions that are about no request

    async def ask(self, request_id: str) -> Row | None:
        """Ask the other gateways for a request. Returns None if none of those that answer in time knows it."""
        found = await self._ask(Question(self._me, request_id), of_one=True)
        return next(iter(_read(found, dict[str, Any])), None)

    async def ask_slowest(self, most: int, model: str) -> list[Row]:
        """Ask the other gateways for their slowest requests. Returns those of the gateways that answer in time."""
        # No request has such an id, so an older gateway answers that it knows none.
        question = Question(self._me, f"slowest {next(self._numbers)}", most, model)
        return [row for rows in _read(await self._ask(question), list[dict[str, Any]]) for row in rows]

    async def _ask(self, question: Question, *, of_one: bool = False) -> Sequence[bytes]:
        boxes = set(self._gateways()) - {self._me}
        if not boxes:
            return []
        asking = _Open(boxes, of_one=of_one)
        asked = self._open.setdefault(question.request_id, [])
        asked.append(asking)
        message = encode(question)
        try:
            async with asyncio.timeout(LIMIT):
                await self._post.send_all([(box, message) for box in sorted(boxes)], give_up_after=LIMIT)
                await asking.answered.wait()
        except (TimeoutError, StoreDown):
            pass  # what was found so far, and what this gateway knows itself, is said
        finally:
            asked.remove(asking)
            if not asked:
                self._open.pop(question.request_id, None)
        return asking.found

    def asked(self, question: Question) -> None:
        """Answer the question of another gateway."""
        found: Row | Sequence[Row] | None
        if question.slowest:
            found = self._slowest(question.slowest, question.model)
        else:
            found = self._describe(question.request_id)
        said = b"" if found is None else msgspec.json.encode(found)
        told = encode(Told(self._me, question.request_id, said))
        task = asyncio.create_task(self._post.send(question.gateway, told, give_up_after=LIMIT))
        self._answering.add(task)
        task.add_done_callback(self._answered)

    def _answered(self, task: "asyncio.Task[bool]") -> None:
        self._answering.discard(task)
        if not task.cancelled():
            task.exception()  # an answer that could not be sent is forgotten: the other gateway has stopped waiting

    def told(self, told: Told) -> None:
        """Take in the answer of another gateway."""
        for asking in self._open.get(told.request_id, ()):
            asking.silent.discard(told.gateway)
            if told.found:
                asking.found.append(told.found)
            if not asking.silent or (told.found and asking.of_one):
                asking.answered.set()


def _read(answers: Sequence[bytes], kind: type[T]) -> list[T]:
    """Returns the answers that can be read."""
    read = []
    for answer in answers:
        try:
            read.append(msgspec.json.decode(answer, type=kind))
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
    return read
