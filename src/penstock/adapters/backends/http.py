"""The backend for all targets that are reached over HTTP. A worker's slot owns one and hands it a batch at a time;
`roles/backends.py` makes it. What is said to the endpoint is a dialect's affair (`dialects/`).

The inputs go out as the bytes they came in, and the outputs come back as the bytes the endpoint wrote: only the
JSON around them is read. What can go wrong, and the error that it becomes:

    429, or 503 that says when to come again                BackendBusy
    no connection, 503                                      BackendUnavailable
    any other 5xx that says "out of memory"                 BackendOutOfMemory
    any other status, not JSON, not the shape, not n        BatchRejected
    cut off before its answer, or in the middle of it       BackendCrashed
    no end to its answer                                    the owner cancels `run`
"""

import asyncio
import io
import os
import ssl
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal, TypeVar

import aiohttp
from yarl import URL

from penstock.adapters.backends.dialects.described import Described
from penstock.adapters.backends.dialects.dialect import Dialect
from penstock.adapters.backends.endpoint_tls import EndpointTls, RenewedContext
from penstock.adapters.backends.from_environment import from_environment
from penstock.adapters.backends.getting_ready import getting_ready, not_in_time
from penstock.adapters.backends.http_answer import SHOWN
from penstock.adapters.backends.http_shape import HttpShape as HttpShape
from penstock.adapters.backends.out_of_memory import says_out_of_memory
from penstock.adapters.backends.trace import note_status, trace_of
from penstock.adapters.backends.wanted_later import refused_for_now, seconds_in
from penstock.errors import (
    BackendCrashed,
    BackendOutOfMemory,
    BackendUnavailable,
    BatchRejected,
    UserMistake,
)
from penstock.types import Batch, Result, Seconds

T = TypeVar("T")

_AT_ONCE = 1024 * 1024  # bytes of a body that are written with one call; more would hold up the loop


class HttpBackend:
    """Implements `ports.Backend`, with one connection to the endpoint and one batch on it at a time.

    The slot that owns the backend limits the time of a batch; the time-outs here are for start and probe.
    """

    def __init__(
        self,
        url: str,
        shape: HttpShape | None = None,
        dialect: Dialect | None = None,
        *,
        output_kind: Literal["auto", "text", "json"] = "auto",
        start_timeout: Seconds = 120.0,
        connect_timeout: Seconds = 2.0,
        probe_timeout: Seconds = 2.0,
        environ: Mapping[str, str] | None = None,
        tls: EndpointTls | None = None,
    ) -> None:
        """`dialect`: what is said to the endpoint; None: what `shape` describes."""
        self._shape = shape or HttpShape()
        self._dialect = dialect or Described(self._shape, text=output_kind == "text")
        self.takes_parameters = self._dialect.takes_parameters
        self._url = _endpoint(url)
        self._tls = _tls(self._url, tls or EndpointTls())
        self._where = f"{self._url.host}:{self._url.port}"
        self._headers = _headers(self._shape, os.environ if environ is None else environ)
        self._start_timeout = start_timeout
        self._timeout = aiohttp.ClientTimeout(total=None, connect=connect_timeout)
        self._probe_timeout = probe_timeout
        self._session: aiohttp.ClientSession | None = None
        self._busy = False  # whether a batch is on its way

    async def start(self) -> None:
        await self.close()
        # Idle connections are closed before the 5 s after which common servers close them themselves: a
        # batch sent into a closing connection is lost.
        connector = aiohttp.TCPConnector(limit=1, keepalive_timeout=4.0)
        self._session = aiohttp.ClientSession(
            connector=connector, timeout=self._timeout, cookie_jar=aiohttp.DummyCookieJar()
        )
        seconds = self._start_timeout
        async with getting_ready(self, seconds, not_in_time(self._where, seconds)):
            await self.probe()
            await self._dialect.learn(self._get)

    async def run(self, batch: Batch) -> Result:
        headers = {"X-Penstock-Batch-Id": str(batch.id), **trace_of(batch)}
        inputs = [request.input for request in batch.requests]
        most = self._dialect.most or len(inputs)
        parts = [inputs[begin : begin + most] for begin in range(0, len(inputs), most)]
        results = [await self._ask(part, batch, headers) for part in parts]
        if len(results) > 1:
            results[-1].outputs = [output for result in results for output in result.outputs]
        return results[-1]

    async def probe(self) -> float:
        return await self._asked(self._get_health() if self._dialect.health else self._connect())

    async def _get(self, path: str) -> bytes | None:
        """Returns what the endpoint has at a path; None if it has nothing there."""
        return await self._asked(self._content_at(path))

    async def _asked(self, question: Coroutine[None, None, T]) -> T:
        """Returns the answer to a question that is no batch."""
        try:
            async with asyncio.timeout(self._probe_timeout):
                return await question
        except TimeoutError:
            raise BackendUnavailable(
                f"{self._where} did not answer the health probe within {self._probe_timeout:g} s"
            ) from None
        except (OSError, aiohttp.ClientError) as error:
            raise BackendUnavailable(f"{self._where} cannot be reached: {_message(error)}") from error

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _get_health(self) -> float:
        async with self._at(self._dialect.health) as response:
            if not 200 <= response.status < 300:
                raise BackendUnavailable(f"{self._where} answered its health probe with {response.status}")
            content = await self._read(response, ()) if self._shape.pressure else b""
            return self._dialect.pressure(content, response.headers)

    async def _content_at(self, path: str) -> bytes | None:
        async with self._at(path) as response:
            return await self._read(response, ()) if response.status == 200 else None

    def _at(self, path: str) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        url = self._url.join(URL(path))
        return self._open().get(url, headers=self._headers, allow_redirects=False, **self._secured())

    async def _connect(self) -> float:
        if self._tls is not None:
            # With TLS 1.3 a client learns only after the handshake whether its certificate was accepted.
            async with self._open().head(self._url, allow_redirects=False, **self._secured()):
                return 0.0  # any answer shows that it is there
        _, writer = await asyncio.open_connection(self._url.host, self._url.port)
        writer.close()
        await writer.wait_closed()
        return 0.0  # a connection does not tell how full the endpoint is

    async def _ask(self, inputs: list[bytes], batch: Batch, headers: Mapping[str, str]) -> Result:
        session = self._open()
        if self._busy:
            raise BatchRejected(f"{self._where} takes one batch at a time")
        body, more = self._dialect.ask(inputs, batch.parameters, str(batch.id))
        at_once = len(body) <= _AT_ONCE
        self._busy = True
        answering = False
        note_status(batch, None)  # a large batch has several calls
        try:
            async with session.request(
                self._dialect.method,
                self._url,
                data=body if at_once else io.BytesIO(body),
                headers={**self._headers, **headers, **more},
                allow_redirects=False,
                **self._secured(),
            ) as response:
                answering = True
                note_status(batch, response.status)
                content = await self._read(response, inputs)
                return self._dialect.result(content, response.headers, inputs)
        except (aiohttp.ClientError, OSError) as error:
            if answering:
                raise BackendCrashed(f"{self._where} broke off its answer: {_message(error)}") from error
            # The connection had closed before the write, and a body that goes in one write has not gone in part.
            unsent = at_once and isinstance(error.__cause__, aiohttp.ClientConnectionResetError)
            if unsent or isinstance(error, aiohttp.ClientConnectorError):
                raise BackendUnavailable(f"{self._where} cannot be reached: {_message(error)}") from error
            # The endpoint had the batch, and may have died of it.
            raise BackendCrashed(f"{self._where} gave no answer: {_message(error)}") from error
        finally:
            self._busy = False

    async def _read(self, response: aiohttp.ClientResponse, inputs: Sequence[bytes]) -> bytes:
        """Returns the body of a good answer, never more than allowed. Any other answer raises an error, and the
        rest of it is not read."""
        if response.status in (429, 503):
            raise refused_for_now(
                f"endpoint answered {response.status}",
                busy=response.status == 429,
                wait=seconds_in(response.headers),
            )
        good = 200 <= response.status < 300
        limit = self._shape.max_response if good else SHOWN * 4
        content = bytearray()
        async for chunk in response.content.iter_any():
            content += chunk
            if len(content) > limit:
                break
        if not good:
            text = content.decode(errors="replace")[:SHOWN].strip()
            too_large = response.status >= 500 and says_out_of_memory(text, inputs)
            kind = BackendOutOfMemory if too_large else BatchRejected
            raise kind(f"endpoint answered {response.status}", details=text)
        if len(content) > limit:
            raise BatchRejected(f"endpoint answered more than the {limit} bytes of http.max_response")
        return bytes(content)

    def _secured(self) -> dict[str, Any]:
        """Returns the TLS arguments for calls that may open a connection. If a certificate has changed, aiohttp
        opens another connection."""
        if self._tls is None:
            return {}
        return {
            "ssl": self._tls.current(),
            "server_hostname": self._tls.settings.server_name or self._url.host,
        }

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            raise BackendUnavailable(f"the connection to {self._where} is closed")
        return self._session


def _endpoint(url: str) -> URL:
    try:
        parsed = URL(url)
    except ValueError:
        parsed = URL()
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise UserMistake(f"{url!r} is not an endpoint: use a URL such as http://gpu-1:9000/batch")
    return parsed


def _tls(url: URL, settings: EndpointTls) -> RenewedContext | None:
    if url.scheme == "https":
        return RenewedContext(settings)
    if settings != EndpointTls():
        raise UserMistake(f"{url} is not encrypted: certificates are for a target that starts with https://")
    return None


def _headers(shape: HttpShape, environ: Mapping[str, str]) -> dict[str, str]:
    headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
    known = {name.lower(): name for name in headers}
    for name, value in shape.headers.items():
        value = from_environment(value, environ, f"http.headers: {name}")
        headers[known.get(name.lower(), name)] = value
    return headers


def _message(error: BaseException) -> str:
    untrusted = getattr(error, "certificate_error", error)
    if isinstance(untrusted, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({untrusted.verify_message}): name its authority with http.ca_file"
    return str(error)[:SHOWN] or type(error).__name__
