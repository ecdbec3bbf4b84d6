"""The clients of a fault test: a fixed schedule over keep-alive connections, whatever the server does.

Each request goes out when it is due, on an idle connection or a new one. Nothing is sent twice, unless clients are
told to try again where no connection was to be had, or it broke, or they were told to come later.
"""

import asyncio
import gc
import json
import ssl
import time
from collections import defaultdict
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import cast
from urllib.parse import urlsplit

import httptools

from history import AGAIN, NOISE, Ask, History, Record

Where = Callable[[], str | None]

PAUSE = 0.05  # seconds after which a client that could not connect tries again
TICK = 0.02  # how often the generator looks whether it is itself held up
FRESH = 0.5  # seconds a connection may have been idle: a server may close one that has been for long


class Client(asyncio.Protocol):
    """One connection, one request at a time."""

    def __init__(self, clients: "Clients", url: str) -> None:
        self._clients = clients
        self.url = url
        self._parser = httptools.HttpResponseParser(self)
        self._body = b""
        self._id = ""
        self.transport: asyncio.Transport
        self.record: Record | None = None
        self.idle_since = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self._clients.connected.add(self)

    def send(self, record: Record) -> None:
        self.record = record
        record.url = self.url
        self._body = b""
        self._id = ""
        ask = record.ask
        said: dict[str, object] = {"input": ask.input}
        if ask.told:
            said["timeout_ms"] = round(ask.timeout * 1e3)
        api_key = self._clients.keys.get(ask.client or "")
        if ask.client is not None and api_key is None:
            said["client_id"] = ask.client
        body = json.dumps(said).encode()
        key = f"idempotency-key: {ask.input}\r\n" if self._clients.keyed else ""
        proof = f"authorization: Bearer {api_key}\r\n" if api_key else ""
        head = (
            f"POST /v1/inference HTTP/1.1\r\nhost: test\r\nx-request-id: {record.id}\r\n{key}{proof}"
            f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        record.sent = time.monotonic()
        self.transport.write(head.encode() + body)

    def data_received(self, data: bytes) -> None:
        if self.record is None:
            self._clients.history.unasked += 1
        self._parser.feed_data(data)

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() == b"x-request-id":
            self._id = value.decode()
        elif name.lower() == b"idempotency-replayed" and self.record is not None:
            self.record.replayed = value == b"true"

    def on_body(self, part: bytes) -> None:
        self._body += part

    def on_message_complete(self) -> None:
        record, self.record = self.record, None
        if record is None or self._parser.get_status_code() < 200:
            return
        said = json.loads(self._body)
        record.done = time.monotonic()
        record.status = self._parser.get_status_code()
        record.code = said.get("error", "")
        record.message = said.get("message", "")
        record.output = said.get("output")
        record.answered_id = self._id if said["request_id"] == self._id else ""
        self.idle_since = record.done
        if not self._parser.should_keep_alive():
            self.transport.close()
        self._clients.ended(self)
        if record.refused:
            self._clients.failed(record)

    def connection_lost(self, exc: Exception | None) -> None:
        self._clients.connected.discard(self)
        del self._parser  # it holds our methods: break the ring
        record, self.record = self.record, None
        if record is not None:
            record.broken = True
            record.done = time.monotonic()
            self._clients.failed(record)
        self._clients.ended(None)

    def leave(self, record: Record) -> None:
        if self.record is record:
            record.left = True
            record.done = time.monotonic()
            self.record = None
            self.transport.abort()


class Clients:
    def __init__(
        self,
        where: Where,
        schedule: Sequence[Ask],
        seed: int,
        retry: bool = False,
        keyed: bool = False,
        keys: Mapping[str, str] | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._where = where
        self._tls = tls
        self.keys = keys or {}  # API keys of clients who have one
        self._retry = retry
        self.keyed = keyed
        self._loop = asyncio.get_running_loop()
        self._ticked = time.monotonic()
        self._ticker = self._loop.call_later(TICK, self._tick)
        self.connected: set[Client] = set()
        self._idle: defaultdict[str, list[Client]] = defaultdict(list)
        self._sending: set[asyncio.Task[None]] = set()
        self._some_ended = asyncio.Event()
        records = [Record(ask, f"r{number}") for number, ask in enumerate(schedule)]
        self.history = History(seed, records=sorted(records, key=lambda record: record.ask.due))

    async def run(self, faults: Mapping[float, Callable[[], object]]) -> History:
        """The whole schedule; back when every request has ended, or is long overdue."""
        collecting = gc.isenabled()
        gc.disable()  # it would look through 600,000 records for 0.8 s, and whoever is due meanwhile is late
        try:
            return await self._run(faults)
        finally:
            if collecting:
                gc.enable()

    async def _run(self, faults: Mapping[float, Callable[[], object]]) -> History:
        history = self.history
        history.began = time.monotonic()
        for due, inject in faults.items():
            self._loop.call_later(due, inject)
        try:
            for record in list(history.records):
                delay = history.began + record.ask.due - time.monotonic()
                if delay > 0:
                    await asyncio.sleep(delay)
                self._submit(record)
            patience = max((record.ask.timeout for record in history.records), default=0.0) + NOISE + 1.0
            try:
                async with asyncio.timeout(patience):
                    await self._all_ended()
            except TimeoutError:
                pass  # the history tells which
        finally:  # also where the fault failed, so that no connection is left to the next test
            for client in list(self.connected):
                client.transport.abort()
            self._ticker.cancel()
        return history

    def _tick(self) -> None:
        """Note when this process did not get to run: that time is not the server's."""
        now = time.monotonic()
        if now - self._ticked > 2 * TICK:
            self.history.stalls.append((self._ticked, now))
        self._ticked = now
        self._ticker = self._loop.call_later(TICK, self._tick)

    async def _all_ended(self) -> None:
        while self._sending or any(client.record is not None for client in self.connected):
            self._some_ended.clear()
            if self._sending:
                await asyncio.wait(self._sending)
            else:
                await self._some_ended.wait()

    def ended(self, client: Client | None) -> None:
        if client is not None:
            self._idle[client.url].append(client)
        self._some_ended.set()

    def failed(self, record: Record) -> None:
        """Nobody was reached, or nobody could take it: another attempt, as long as the client still waits."""
        waited = time.monotonic() - self.history.began - record.ask.due
        if self._retry and waited < record.ask.timeout:
            again = Record(record.ask, record.id + AGAIN)
            self.history.records.append(again)
            self._start(self._submit_later(again))

    async def _submit_later(self, record: Record) -> None:
        await asyncio.sleep(PAUSE)
        self._submit(record)

    def _submit(self, record: Record) -> None:
        url = self._where()
        if url is None:
            record.unsent = True
            self.failed(record)
            return
        idle = self._idle[url]
        while idle:
            client = idle.pop()
            if not client.transport.is_closing() and time.monotonic() - client.idle_since < FRESH:
                self._send(client, record)
                return
            client.transport.close()
        self._start(self._connect_and_send(record, url))

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = self._loop.create_task(work)
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _connect_and_send(self, record: Record, url: str) -> None:
        host, _, port = urlsplit(url).netloc.rpartition(":")
        try:
            _, client = await self._loop.create_connection(
                lambda: Client(self, url), host, int(port), ssl=self._tls
            )
        except OSError:
            record.unsent = True
            self.failed(record)
            return
        self._send(client, record)

    def _send(self, client: Client, record: Record) -> None:
        client.send(record)
        if record.ask.leaves_after is not None:
            self._loop.call_later(record.ask.leaves_after, client.leave, record)


async def drive(
    where: str | Where,
    schedule: Sequence[Ask],
    seed: int,
    faults: Mapping[float, Callable[[], object]] | None = None,
    *,
    retry: bool = False,
    keyed: bool = False,
    keys: Mapping[str, str] | None = None,
    tls: ssl.SSLContext | None = None,
) -> History:
    """Send the schedule to the server, inject the faults when they are due, tell what became of it all.
    `where`: a URL, or what gives the one for the next request (None: there is none now). `keyed`: each with its own
    Idempotency-Key, the same for all attempts. `keys`: API keys, by client. `tls`: for an https:// URL."""
    find = (lambda: where) if isinstance(where, str) else where
    return await Clients(find, schedule, seed, retry, keyed, keys, tls).run(faults or {})
