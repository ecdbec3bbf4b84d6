"""`Client`: asks a server from a program without an event loop. It runs an `AsyncClient` in a loop of its own, in a
thread that starts with the first request. Users' programs import it from `penstock.client`, and nothing else here
does."""

import os
import ssl
import weakref
from collections.abc import Callable, Iterable, Mapping, Sized
from pathlib import Path
from threading import Lock
from typing import Any, Self, TypeVar, overload

from penstock.client.answer import Answer
from penstock.client.async_client import PATIENCE, USUAL, AsyncClient, Transport
from penstock.client.course import Ended
from penstock.client.own_loop import OwnLoop
from penstock.client.retries import Retries
from penstock.client.sync_map import Mapped
from penstock.client.workload import Workload

I = TypeVar("I")  # noqa: E741 - the type of the inputs
T = TypeVar("T")


class Client:
    """Asks one server. Any number of threads may use it at once."""

    def __init__(
        self,
        url: str = USUAL,
        *,
        key: str | None = None,
        model: str | None = None,
        client_id: str | None = None,
        timeout: float | None = None,
        retries: Retries | None = None,
        connections: int = 1024,
        ca_file: str | Path | None = None,
        certificate: str | tuple[str, str] | None = None,
        tls: ssl.SSLContext | None = None,
        headers: Mapping[str, str] | None = None,
        transport: Transport = "http",
    ) -> None:
        """`key`: an API key or token; without one, that of the variable PENSTOCK_API_KEY. `model`: for
        requests that name none. `timeout`: seconds that a request may take, retries included; None leaves it
        to the server. `connections`: the most that are open at once. `ca_file`, `certificate`: PEM files, for
        the server's certificate and the client's own; or `tls` for all of that. `transport`:
        `websocket` sends all over one connection, or a few."""

        def make() -> AsyncClient:
            return AsyncClient(
                url,
                key=key,
                model=model,
                client_id=client_id,
                timeout=timeout,
                retries=retries,
                connections=connections,
                ca_file=ca_file,
                certificate=certificate,
                tls=tls,
                headers=headers,
                transport=transport,
            )

        self._make = make
        self._client = make()
        self._own: OwnLoop | None = None  # None until the first request
        self._process = 0  # the process in which the loop runs: a thread does not live on in a fork
        self._lock = Lock()
        self._end: weakref.finalize[..., Client] | None = None  # stops the thread when nobody has the client
        self._closed = False

    @overload
    def infer(
        self,
        input: object,
        *,
        model: str | None = None,
        parameters: Mapping[str, Any] | None = None,
        timeout: float | None = None,
        idempotency_key: str | None = None,
        once: bool = True,
    ) -> Answer[Any]: ...
    @overload
    def infer(
        self,
        input: object,
        *,
        model: str | None = None,
        parameters: Mapping[str, Any] | None = None,
        timeout: float | None = None,
        idempotency_key: str | None = None,
        once: bool = True,
        output: type[T],
    ) -> Answer[T]: ...
    def infer(
        self,
        input: object,  # noqa: A002 - as in the body of a request
        *,
        model: str | None = None,
        parameters: Mapping[str, Any] | None = None,
        timeout: float | None = None,
        idempotency_key: str | None = None,
        once: bool = True,
        output: Any = Any,
    ) -> Answer[Any]:
        """Returns the answer to one input. Raises InferenceError.

        `output`: the type that the output must have, such as `list[float]`. `once`: each request has an
        Idempotency-Key of its own, so that a retry after a broken connection is not executed again. Without it only
        retries have one, and the server need not remember each request.
        """
        own = self._open()
        return own.call(
            self._client.infer(
                input,
                model=model,
                parameters=parameters,
                timeout=timeout,
                idempotency_key=idempotency_key,
                once=once,
                output=output,
            )
        )

    @overload
    def map(
        self,
        inputs: Iterable[I],
        *,
        concurrency: int = 256,
        ordered: bool = True,
        progress: bool | None = None,
        total: int | None = None,
        model: str | None = None,
        parameters: Mapping[str, Any] | None = None,
        timeout: float | None = None,
        patience: float = PATIENCE,
    ) -> Mapped[I, Any]: ...
    @overload
    def map(
        self,
        inputs: Iterable[I],
        *,
        concurrency: int = 256,
        ordered: bool = True,
        progress: bool | None = None,
        total: int | None = None,
        model: str | None = None,
        parameters: Mapping[str, Any] | None = None,
        timeout: float | None = None,
        patience: float = PATIENCE,
        output: type[T],
    ) -> Mapped[I, T]: ...
    def map(
        self,
        inputs: Iterable[I],
        *,
        concurrency: int = 256,
        ordered: bool = True,
        progress: bool | None = None,
        total: int | None = None,
        model: str | None = None,
        parameters: Mapping[str, Any] | None = None,
        timeout: float | None = None,
        patience: float = PATIENCE,
        output: Any = Any,
    ) -> Mapped[I, Any]:
        """Returns the answers to many inputs, in their order or, if not `ordered`, as they come.

        `concurrency`: the most that are under way. `progress`: a bar; None shows one on a terminal. `total`:
        how many inputs there are, for the bar, if they have no length. `timeout`: seconds for each try.
        `patience`: seconds that an input may be refused because of load or a quota, or find no server, before
        it has failed.
        """
        own, client = self._open(), self._client

        def start(told: Callable[[Ended[I, Any]], None]) -> Workload[I, Any]:
            return client.workload(
                lambda value: client.ask(value, model, parameters, output),
                told,
                concurrency,
                timeout,
                patience,
            )

        if total is None and isinstance(inputs, Sized):
            total = len(inputs)
        return Mapped(inputs, self, own, start, concurrency, ordered=ordered, progress=progress, total=total)

    def close(self) -> None:
        """Closes the connections, and ends the thread. Whoever waits for an answer gets NoContact."""
        with self._lock:
            own, self._own, self._closed = self._own, None, True
        if own is not None and self._process == os.getpid():
            own.call(self._client.close())
            if self._end is not None:
                self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open(self) -> OwnLoop:
        if self._closed:
            raise RuntimeError("the client is closed: make another one")
        if self._own is None or self._process != os.getpid():
            with self._lock:
                if self._own is None or self._process != os.getpid():
                    self._begin()
        assert self._own is not None
        return self._own

    def _begin(self) -> None:
        """Starts the thread; once more in a process that was forked, which has none of its parent's threads."""
        if self._own is not None:
            self._client = self._make()
            if self._end is not None:
                self._end.detach()
        own = self._own = OwnLoop()
        self._process = os.getpid()
        self._end = weakref.finalize(self, own.stop, self._client.close)
