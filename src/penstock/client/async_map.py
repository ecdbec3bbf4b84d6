"""`AsyncClient.map`: the answers to many inputs, as an iterator. `async_client.py` makes it."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Iterable, Iterator
from contextlib import aclosing
from typing import Generic, Self, TypeVar

from penstock.client.course import Course, Done, Ended, NotDone
from penstock.client.progress import Progress, progress_for
from penstock.client.workload import Workload

I = TypeVar("I")  # noqa: E741 - the type of the inputs
T = TypeVar("T")

# Begins a workload, which calls the function that it is given at the end of each input.
Start = Callable[[Callable[[Ended[I, T]], None]], Workload[I, T]]


class AsyncMapped(Generic[I, T]):
    """The good answers, one after the other. `failures` has the inputs that have none.

    Nothing is sent before the first answer is asked for. What is under way is given up if the caller stops
    early and closes it, by `async with` or `aclose`.
    """

    def __init__(
        self,
        inputs: Iterable[I] | AsyncIterable[I],
        start: Start[I, T],
        concurrency: int,
        *,
        ordered: bool,
        progress: bool | None,
        total: int | None,
        on_failure: Callable[[NotDone[I]], None] | None = None,
    ) -> None:
        self._course: Course[I, T] = Course(concurrency, ordered=ordered, on_failure=on_failure)
        self._start = start
        self._source: Iterator[I] | None = iter(inputs) if isinstance(inputs, Iterable) else None
        self._flow: AsyncIterable[I] | None = inputs if isinstance(inputs, AsyncIterable) else None
        self._workload: Workload[I, T] | None = None
        self._feeding: asyncio.Task[None] | None = None  # hands out inputs that come in their own time
        self._closed = False  # whether nothing more is sent or given
        self._changed = asyncio.Event()  # something has ended
        self._room = asyncio.Event()  # more inputs may be handed out
        self._progress: Progress = progress_for(progress, total)

    @property
    def failures(self) -> list[NotDone[I]]:
        """The inputs that have failed so far."""
        return self._course.failures

    @property
    def retried(self) -> int:
        """How many requests were sent again."""
        return 0 if self._workload is None else self._workload.retried

    def __aiter__(self) -> AsyncIterator[Done[I, T]]:
        return self

    async def __anext__(self) -> Done[I, T]:
        course = self._course
        if self._closed:
            raise StopAsyncIteration
        if self._workload is None:
            self._begin()
        try:
            while True:
                self._hand_out()
                self._progress.show(course)
                if course.has_ready:
                    done = course.take()
                    self._room.set()
                    return done
                if course.is_over:
                    await self.aclose()
                    raise StopAsyncIteration
                self._changed.clear()
                await self._changed.wait()
                if self._feeding is not None and self._feeding.done():
                    self._feeding.result()  # raises what the inputs raised
        except StopAsyncIteration:
            raise
        except BaseException:
            await self.aclose()
            raise

    async def outputs(self) -> list[T]:
        """Returns all outputs, in the order of the inputs. Raises SomeFailed if any input has none."""
        async with self:
            found = [(done.index, done.output) async for done in self]
        self._course.check()
        return [output for _, output in sorted(found, key=lambda each: each[0])]

    async def aclose(self) -> None:
        """Gives up what is under way."""
        self._closed = True
        self._progress.close()
        feeding, self._feeding = self._feeding, None
        if feeding is not None:
            feeding.cancel()
            await asyncio.gather(feeding, return_exceptions=True)
        if self._workload is not None:
            await self._workload.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def _begin(self) -> None:
        self._workload = self._start(self._ended)
        if self._source is None:
            self._feeding = asyncio.get_running_loop().create_task(self._feed())
            self._feeding.add_done_callback(lambda _: self._changed.set())

    def _ended(self, ended: Ended[I, T]) -> None:
        self._course.came(ended)
        self._changed.set()
        self._room.set()

    def _hand_out(self) -> None:
        """Hands out inputs as far as there is room."""
        course, workload = self._course, self._workload
        if self._source is None or workload is None:
            return
        for _ in range(course.wants):
            try:
                value = next(self._source)
            except StopIteration:
                course.exhausted = True
                return
            workload.push(course.hand_out(), value)

    async def _feed(self) -> None:
        """Hands out inputs that come in their own time."""
        assert self._flow is not None
        assert self._workload is not None
        async with aclosing(_generator(self._flow)) as flow:
            while True:
                while self._course.wants <= 0:
                    self._room.clear()
                    await self._room.wait()
                try:
                    value = await anext(flow)
                except StopAsyncIteration:
                    break
                self._workload.push(self._course.hand_out(), value)
        self._course.exhausted = True


async def _generator(flow: AsyncIterable[I]) -> AsyncGenerator[I, None]:
    async for value in flow:
        yield value
