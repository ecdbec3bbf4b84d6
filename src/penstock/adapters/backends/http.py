"""The backend for http:// and https:// targets: an endpoint that takes a batch as JSON, in a shape set in config. A
worker's slot owns one and hands it a batch at a time; `roles/backends.py` makes it.

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
import json
import os
import re
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import aiohttp
from yarl import URL

from penstock.adapters.backends.endpoint_tls import EndpointTls, RenewedContext
from penstock.adapters.backends.from_environment import from_environment
from penstock.adapters.backends.getting_ready import getting_ready, not_in_time
from penstock.adapters.backends.http_answer import HEADER, SHOWN, AnswerReader
from penstock.adapters.backends.out_of_memory import says_out_of_memory
from penstock.adapters.backends.trace import trace_of
from penstock.adapters.backends.wanted_later import refused_for_now, seconds_in
from penstock.errors import (
    BackendCrashed,
    BackendOutOfMemory,
    BackendUnavailable,
    BatchRejected,
    UserMistake,
)
from penstock.types import Batch, Result, Seconds

_BLANK = re.compile(r"\$(inputs|parameters|count)\b")
# A member of the JSON object that is left out, with one comma, if the batch has no parameters.
_OPTIONAL = r'"(?:[^"\\]|\\.)*"\s*:\s*\$parameters\?'
_LEFT_OUT = re.compile(rf"\s*,\s*{_OPTIONAL}|{_OPTIONAL}\s*,?")
_FARTHEST = 63  # the highest index into a list that a path may name
_AT_ONCE = 1024 * 1024  # bytes of a body that are written with one call; more would hold up the loop
_NONE = (b"", b"{}")  # the parameters of a batch without any


@dataclass(frozen=True, slots=True)
class HttpShape:
    """What the endpoint's requests and responses look like; `[models.NAME.http]` in config."""

    method: str = "POST"
    headers: Mapping[str, str] = field(default_factory=dict)  # `env:NAME`, `Bearer env:NAME` name a variable
    request: str = '{"inputs": $inputs, "parameters": $parameters?}'  # may say $count as well
    outputs: str = "outputs"  # dotted path to the list; "" if the response is it; a number counts in a list
    item: str = ""  # dotted path inside each element of the list; "" for the element
    version: str = ""  # of the model: a dotted path in the response, or `header:NAME`
    pressure: str = ""  # how full it is: a path or header, in the responses to a batch and to `health`
    health: str = ""  # path to GET when probing; empty: a connection that opens is proof enough
    max_response: int = 64 * 1024 * 1024  # bytes

    def __post_init__(self) -> None:
        if self.method not in ("POST", "PUT", "PATCH"):
            raise UserMistake(f"http.method is {self.method!r}: use POST, PUT or PATCH")
        blanks = _BLANK.findall(self.request)
        if blanks.count("inputs") != 1 or blanks.count("parameters") > 1:
            raise UserMistake("http.request must say $inputs once, and $parameters at most once")
        try:
            # The sample has quotes in it, so that a $name inside a JSON string is found out as well.
            for parameters in (b'{"a": 1}', b""):
                json.loads(self.fill([b'"a"'], parameters))
        except ValueError as error:
            hint = "write $inputs, $parameters and $count without quotes around them"
            raise UserMistake(f"http.request is not JSON once filled in ({error}); {hint}") from None
        for name in ("outputs", "item", "version", "pressure"):
            path = getattr(self, name)
            if path and "" in path.split("."):
                raise UserMistake(f"http.{name} is {path!r}: use names joined by dots, such as result.items")
            if any(part.isdecimal() and int(part) > _FARTHEST for part in path.split(".")):
                raise UserMistake(f"http.{name} is {path!r}: a place in a list is at most {_FARTHEST}")
        for name, example in (("version", "X-Model-Version"), ("pressure", "X-Gpu-Memory")):
            if getattr(self, name) == HEADER:
                raise UserMistake(f"http.{name} names no header: write it as header:{example}")
        for name, value in self.headers.items():
            if not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name) or not value.isprintable():
                raise UserMistake(f"http.headers: {name!r} is not a header that can be sent")
        if self.max_response < 1:
            raise UserMistake("http.max_response must be at least 1 byte")

    @property
    def takes_parameters(self) -> bool:
        return "parameters" in _BLANK.findall(self.request)

    def fill(self, inputs: list[bytes], parameters: bytes) -> bytes:
        """Returns the body of a request. Inputs and parameters are JSON and go in as they are."""
        none = parameters in _NONE
        request = (
            _LEFT_OUT.sub("", self.request) if none else self.request.replace("$parameters?", "$parameters")
        )
        parts = _BLANK.split(request)
        listed = b"[" + b",".join(inputs) + b"]"
        filled = {"inputs": listed, "parameters": parameters or b"{}", "count": b"%d" % len(inputs)}
        return b"".join(filled[part] if i % 2 else part.encode() for i, part in enumerate(parts))


class HttpBackend:
    """Implements `ports.Backend`, with one connection to the endpoint and one batch on it at a time.

    The slot that owns the backend limits the time of a batch; the time-outs here are for start and probe.
    """

    def __init__(
        self,
        url: str,
        shape: HttpShape | None = None,
        *,
        output_kind: Literal["auto", "text", "json"] = "auto",
        start_timeout: Seconds = 120.0,
        connect_timeout: Seconds = 2.0,
        probe_timeout: Seconds = 2.0,
        environ: Mapping[str, str] | None = None,
        tls: EndpointTls | None = None,
    ) -> None:
        self._shape = shape or HttpShape()
        self.takes_parameters = self._shape.takes_parameters
        self._url = _endpoint(url)
        self._tls = _tls(self._url, tls or EndpointTls())
        self._where = f"{self._url.host}:{self._url.port}"
        self._headers = _headers(self._shape, os.environ if environ is None else environ)
        self._text = output_kind == "text"
        self._start_timeout = start_timeout
        self._timeout = aiohttp.ClientTimeout(total=None, connect=connect_timeout)
        self._probe_timeout = probe_timeout
        self._reader = AnswerReader(self._shape)
        self._session: aiohttp.ClientSession | None = None
        self._busy = False

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

    async def run(self, batch: Batch) -> Result:
        if batch.parameters not in _NONE and not self._shape.takes_parameters:
            raise BatchRejected("this model takes no parameters: its http.request does not say $parameters")
        headers = {"X-Penstock-Batch-Id": str(batch.id), **trace_of(batch)}
        return await self._ask([request.input for request in batch.requests], batch.parameters, headers)

    async def probe(self) -> float:
        try:
            async with asyncio.timeout(self._probe_timeout):
                return await (self._get_health() if self._shape.health else self._connect())
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
        url = self._url.join(URL(self._shape.health))
        async with self._open().get(
            url, headers=self._headers, allow_redirects=False, **self._secured()
        ) as response:
            if not 200 <= response.status < 300:
                raise BackendUnavailable(f"{self._where} answered its health probe with {response.status}")
            content = await self._read(response, ()) if self._shape.pressure else b""
            return self._reader.pressure(content, response.headers)

    async def _connect(self) -> float:
        if self._tls is not None:
            # With TLS 1.3 a client learns only after the handshake whether its certificate was accepted.
            async with self._open().head(self._url, allow_redirects=False, **self._secured()):
                return 0.0  # any answer shows that it is there
        _, writer = await asyncio.open_connection(self._url.host, self._url.port)
        writer.close()
        await writer.wait_closed()
        return 0.0  # a connection does not tell how full the endpoint is

    async def _ask(self, inputs: list[bytes], parameters: bytes, headers: Mapping[str, str]) -> Result:
        session = self._open()
        if self._busy:
            raise BatchRejected(f"{self._where} takes one batch at a time")
        body = self._shape.fill(inputs, parameters)
        at_once = len(body) <= _AT_ONCE
        self._busy = True
        answering = False
        try:
            async with session.request(
                self._shape.method,
                self._url,
                data=body if at_once else io.BytesIO(body),
                headers={**self._headers, **headers},
                allow_redirects=False,
                **self._secured(),
            ) as response:
                answering = True
                content = await self._read(response, inputs)
                return self._result(content, response, len(inputs))
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

    def _result(self, content: bytes, response: aiohttp.ClientResponse, expected: int) -> Result:
        outputs = self._reader.outputs(content)
        if len(outputs) != expected:
            raise BatchRejected(f"{self._reader.where}: expected {expected} outputs, found {len(outputs)}")
        if self._text and not all(output.startswith(b'"') for output in outputs):
            raise BatchRejected(f"{self._reader.where}: expected strings, since the model's output is text")
        reader, headers = self._reader, response.headers
        return Result(outputs, reader.version(content, headers), pressure=reader.pressure(content, headers))

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
