"""`Client.map`: the answers to many inputs, as an iterator. `sync_client.py` makes it.

Inputs are read in the thread that asks for the answers, since what they come from (a file, a database) may
belong to that thread. The requests are under way in the client's own loop. Inputs go there, and answers come
back, in lists.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from queue import SimpleQueue
from typing import Generic, Self, TypeVar

from penstock.client.course import Course, Done, Ended, NotDone
from penstock.client.errors import NoContact
from penstock.client.own_loop import OwnLoop, closed
from penstock.client.progress import progress_for
from penstock.client.workload import Workload

I = TypeVar("I")  # noqa: E741 - the type of the inputs
T = TypeVar("T")

AT_ONCE = 64  # inputs that go over together
LONGEST_STAY = 0.005  # seconds that an input waits for those that go over with it

# Begins a workload, which calls the function that it is given at the end of each input.
Start = Callable[[Callable[[Ended[I, T]], None]], Workload[I, T]]


class Mapped(Generic[I, T]):
    """The good answers, one after the other. `failures` has the inputs that have none.

    Nothing is sent before the first answer is asked for. What is under way is given up if the caller stops
    early and closes it, by `with` or `close`. NoContact is raised if the client is closed before all have come.
    """

    def __init__(
        self,
        inputs: Iterable[I],
        client: object,
        own: OwnLoop,
        start: Start[I, T],
        concurrency: int,
        *,
        ordered: bool,
        progress: bool | None,
        total: int | None,
    ) -> None:
        """`client`: whose loop this is. It is kept, because its loop ends when nobody has it any more."""
        self._course: Course[I, T] = Course(concurrency, ordered=ordered)
        self._client = client
        self._own = own
        self._start = start
        self._source = iter(inputs)
        self._workload: Workload[I, T] | None = None
        self._closed = False
        self._unsent: deque[tuple[int, I]] = deque()
        self._fetched = False  # whether the loop will fetch what is unsent by itself
        self._back: SimpleQueue[list[Ended[I, T]] | None] = SimpleQueue()  # None: the loop has ended
        self._ended: list[Ended[I, T]] = []  # in the loop's thread: what goes back next
        self._progress = progress_for(progress, total)

    @property
    def failures(self) -> list[NotDone[I]]:
        """The inputs that have failed so far."""
        return self._course.failures

    @property
    def retried(self) -> int:
        """How many requests were sent again."""
        return 0 if self._workload is None else self._workload.retried

    def __iter__(self) -> Iterator[Done[I, T]]:
        return self

    def __next__(self) -> Done[I, T]:
        course = self._course
        if self._closed:
            raise StopIteration
        try:
            if self._workload is None:
                self._own.tell_end(self._back)
                self._workload = self._own.call(self._begin())
            while True:
                self._hand_out()
                self._progress.show(course)
                if course.has_ready:
                    return course.take()
                if course.is_over:
                    break
                come = self._back.get()
                if come is None:
                    raise closed()
                for ended in come:
                    course.came(ended)
        except BaseException:
            self.close()
            raise
        self.close()
        raise StopIteration

    def outputs(self) -> list[T]:
        """Returns all outputs, in the order of the inputs. Raises SomeFailed if any input has none."""
        with self:
            found = [(done.index, done.output) for done in self]
        self._course.check()
        return [output for _, output in sorted(found, key=lambda each: each[0])]

    def close(self) -> None:
        """Gives up what is under way."""
        if not self._closed:
            self._closed = True
            self._progress.close()
            self._own.tell_no_end(self._back)
            if self._workload is not None:
                try:
                    self._own.call(self._workload.close())
                except NoContact:  # the client is closed, and what was under way has ended with it
                    pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _hand_out(self) -> None:
        """Hands out inputs as far as there is room. Answers that have come are not kept waiting by slow inputs."""
        course = self._course
        while course.wants > 0:
            try:
                value = next(self._source)
            except StopIteration:
                course.exhausted = True
                break
            self._unsent.append((course.hand_out(), value))
            if len(self._unsent) >= AT_ONCE:
                self._send()
            elif not self._fetched:  # the next input may be long in coming
                self._fetched = True
                self._own.soon(self._fetch_soon)
            if course.has_ready or not self._back.empty():
                break
        # A few inputs wait for company, if the server has enough to do without them.
        if self._unsent and (course.exhausted or not course.has_ready):
            self._send()

    def _send(self) -> None:
        self._own.soon(self._push)

    async def _begin(self) -> Workload[I, T]:
        return self._start(self._came)

    def _fetch_soon(self) -> None:
        """In the loop's thread."""
        self._own.loop.call_later(LONGEST_STAY, self._fetch)

    def _fetch(self) -> None:
        """In the loop's thread. What comes after the first line is fetched once more."""
        self._fetched = False
        self._push()

    def _push(self) -> None:
        """In the loop's thread."""
        unsent = self._unsent
        while unsent and self._workload is not None and not self._closed:
            self._workload.push(*unsent.popleft())

    def _came(self, ended: Ended[I, T]) -> None:
        """Called in the loop's thread when an input has ended. All that end in one turn of the loop go back
        together."""
        if not self._ended:
            self._own.loop.call_soon(self._give_back)
        self._ended.append(ended)

    def _give_back(self) -> None:
        ended, self._ended = self._ended, []
        self._back.put(ended)
