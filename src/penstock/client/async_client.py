"""`AsyncClient`: asks a server from a program that runs in an event loop. `Client` (`sync_client.py`) is the
same for all others, and runs one of these in a loop of its own. `penstock map` asks by it too (`cli/map.py`)."""

import asyncio
import os
import secrets
import ssl
from collections.abc import AsyncIterable, Callable, Iterable, Mapping, Sized
from importlib import import_module
from itertools import count
from pathlib import Path
from random import random
from typing import Any, Literal, Self, TypeVar, overload

from penstock import __version__
from penstock.client.address import inference_path, server_at, tls_context
from penstock.client.answer import Answer
from penstock.client.asking import Asking
from penstock.client.async_map import AsyncMapped
from penstock.client.body import Body, head_of
from penstock.client.connections import Connections
from penstock.client.course import Ended, NotDone
from penstock.client.errors import InferenceError
from penstock.client.retries import Budget, Retries
from penstock.client.road import HttpRoad, Road
from penstock.client.workload import Terms, Workload

I = TypeVar("I")  # noqa: E741 - the type of the inputs
T = TypeVar("T")

USUAL = "http://127.0.0.1:8000"
KEY_VARIABLE = "PENSTOCK_API_KEY"
Transport = Literal["http", "websocket"]
PATIENCE = 300.0  # seconds for which an input of a map may be refused, or find no server


class AsyncClient:
    """Asks one server. Any number of tasks of one event loop may use it at once."""

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
        the server's certificate and the client's own; or `tls` for all of that. `transport`: `websocket` sends
        all over one connection, or a few."""
        server = server_at(url)
        if tls is None and server.tls:
            tls = tls_context(ca_file, certificate)
        self._host, self._port = server.host, server.port
        self._tls = tls if server.tls else None
        self._most = connections
        self.retries = retries or Retries()
        self._budget = Budget(self.retries)
        self._model, self._client_id, self._timeout = model, client_id, timeout
        key = os.environ.get(KEY_VARIABLE) if key is None else key
        fields = {"User-Agent": f"penstock-client/{__version__}", **(headers or {})}
        if key:
            fields["Authorization"] = f"Bearer {key.strip()}"
        path = inference_path(server)
        self._head = head_of(path, server.authority, fields)
        self._fields = fields
        self._base = path.removesuffix("/inference")
        self._authority = server.authority
        self._transport = transport
        if transport == "websocket":
            import_module("penstock.client.stream_road")  # raises UserMistake now if the library is missing
        self._road: Road | None = None
        self._closed = False
        self._prefix, self._numbers = secrets.token_hex(8), count(1)

    @overload
    async def infer(
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
    async def infer(
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
    async def infer(
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
        road = self._open()
        asking = self.ask(input, model, parameters, output)
        asking.key = idempotency_key or (self.new_key() if once and self.retries.attempts > 1 else None)
        timeout = self._timeout if timeout is None else timeout
        now = road.loop.time
        end = None if timeout is None else now() + timeout
        self._budget.sent()
        tries = 0
        while True:
            try:
                return await asking.once(road, None if end is None else end - now())
            except InferenceError as error:
                tries += 1
                left = None if end is None else end - now()
                wait = self.retries.wait(error, tries, left, random())
                if wait is None or not self._budget.take():
                    raise
                if asking.key is None and error.maybe_run:
                    asking.key = self.new_key()
            await asyncio.sleep(wait)

    @overload
    def map(
        self,
        inputs: Iterable[I] | AsyncIterable[I],
        *,
        concurrency: int = 256,
        ordered: bool = True,
        progress: bool | None = None,
        total: int | None = None,
        model: str | None = None,
        parameters: Mapping[str, Any] | None = None,
        timeout: float | None = None,
        patience: float = PATIENCE,
    ) -> AsyncMapped[I, Any]: ...
    @overload
    def map(
        self,
        inputs: Iterable[I] | AsyncIterable[I],
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
    ) -> AsyncMapped[I, T]: ...
    def map(
        self,
        inputs: Iterable[I] | AsyncIterable[I],
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
    ) -> AsyncMapped[I, Any]:
        """Returns the answers to many inputs, in their order or, if not `ordered`, as they come.

        `concurrency`: the most that are under way. `progress`: a bar; None shows one on a terminal. `total`:
        how many inputs there are, for the bar, if they have no length. `timeout`: seconds for each try.
        `patience`: seconds that an input may be refused because of load or a quota, or find no server, before
        it has failed.
        """

        return self.map_asks(
            inputs,
            lambda value: self.ask(value, model, parameters, output),
            concurrency=concurrency,
            ordered=ordered,
            progress=progress,
            total=total,
            timeout=timeout,
            patience=patience,
        )

    def map_asks(
        self,
        inputs: Iterable[I] | AsyncIterable[I],
        ask: Callable[[I], Asking[T]],
        *,
        concurrency: int,
        ordered: bool,
        progress: bool | None,
        total: int | None,
        timeout: float | None,
        patience: float,
        on_failure: Callable[[NotDone[I]], None] | None = None,
    ) -> AsyncMapped[I, T]:
        """Does what `map` does, for inputs that may name a model and parameters of their own: `ask` makes the
        request of each. `on_failure`: called with each failure; with it none is kept. `file_job.py` calls this."""

        def start(told: Callable[[Ended[I, T]], None]) -> Workload[I, T]:
            return self.workload(ask, told, concurrency, timeout, patience)

        if total is None and isinstance(inputs, Sized):
            total = len(inputs)
        return AsyncMapped(
            inputs,
            start,
            concurrency,
            ordered=ordered,
            progress=progress,
            total=total,
            on_failure=on_failure,
        )

    def workload(
        self,
        ask: Callable[[I], Asking[T]],
        told: Callable[[Ended[I, T]], None],
        concurrency: int,
        timeout: float | None,
        patience: float,
    ) -> Workload[I, T]:
        """Returns what a map pushes its inputs into. `ask` makes the request of an input; `told` is called with the
        end of each. `map_asks` and `Client.map` call this."""
        road = self._open()
        timeout = self._timeout if timeout is None else timeout
        terms = Terms(min(concurrency, self._most), timeout, patience, self.retries, self.new_key)
        return Workload(road, terms, ask, told)

    def new_key(self) -> str:
        """Returns an Idempotency-Key that no other request has."""
        return f"{self._prefix}-{next(self._numbers)}"

    async def close(self) -> None:
        """Ends all connections. The client cannot be used any more."""
        self._closed = True
        if self._road is not None:
            await self._road.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def ask(
        self, value: object, model: str | None, parameters: Mapping[str, Any] | None, kind: Any
    ) -> Asking[Any]:
        """Returns the request that an input becomes. `kind`: the type that its output must have."""
        return Asking(Body(value, model or self._model, parameters or None, self._client_id), kind)

    def _open(self) -> Road:
        loop = asyncio.get_running_loop()
        if self._closed:
            raise RuntimeError("the client is closed: make another one")
        if self._road is None:
            self._road = self._make_road(loop)
        elif self._road.loop is not loop:
            raise RuntimeError(
                "an AsyncClient belongs to the event loop that used it first: make one for each loop"
            )
        return self._road

    def _make_road(self, loop: asyncio.AbstractEventLoop) -> Road:
        if self._transport == "websocket":
            from penstock.client.stream_road import StreamRoad

            url = f"{'wss' if self._tls else 'ws'}://{self._authority}{self._base}/stream"
            return StreamRoad(self._host, self._port, self._tls, url, self._fields, loop)
        connections = Connections(self._host, self._port, self._tls, self._most, loop)
        return HttpRoad(connections, self._head, f"{self._base}/result/")
