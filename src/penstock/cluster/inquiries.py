"""Finds out what became of a request that another gateway answered: all gateways are asked, through their
mailboxes. A gateway does so for its admin plane, when a person looks for a request, which is rare.

What a gateway knew is lost when it ends.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping

import msgspec

from penstock.ports.bus import Post
from penstock.words.messages import Question, Told, encode

LIMIT = 1.0  # seconds that the other gateways have to answer


class _Open:
    """One question that is being asked."""

    def __init__(self, boxes: set[str]) -> None:
        self.silent = boxes  # the gateways that have not answered yet
        self.answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()


class Inquiries:
    def __init__(
        self,
        me: str,
        post: Post,
        gateways: Callable[[], Iterable[str]],
        describe: Callable[[str], Mapping[str, object] | None],
    ) -> None:
        """`gateways`: returns the names of all known gateways. `describe`: says what this gateway knows of a
        request."""
        self._me, self._post, self._gateways, self._describe = me, post, gateways, describe
        self._open: dict[str, list[_Open]] = {}
        self._answering: set[asyncio.Task[bool]] = set()

    async def ask(self, request_id: str) -> Mapping[str, object] | None:
        """Ask the other gateways. Returns None if none of those that answer in time knows the request."""
        boxes = set(self._gateways()) - {self._me}
        if not boxes:
            return None
        asking = _Open(boxes)
        self._open.setdefault(request_id, []).append(asking)
        question = encode(Question(self._me, request_id))
        try:
            async with asyncio.timeout(LIMIT):
                await self._post.send_all([(box, question) for box in sorted(boxes)], give_up_after=LIMIT)
                answer = await asking.answer
        except TimeoutError:
            return None
        finally:
            self._open[request_id].remove(asking)
            if not self._open[request_id]:
                del self._open[request_id]
        try:
            return msgspec.json.decode(answer, type=dict[str, object]) if answer else None
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None

    def asked(self, question: Question) -> None:
        """Answer the question of another gateway."""
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
            if not asking.answer.done() and (told.found or not asking.silent):
                asking.answer.set_result(told.found)
