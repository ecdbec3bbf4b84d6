"""What a PostgreSQL with `ssl = on` does on the wire, in front of one that was built without TLS.

A client asks whether TLS is spoken, is told yes, shakes hands, and then talks to the real server.
"""

import asyncio
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager

SSL_REQUEST = bytes.fromhex("0000000804d2162f")


@contextmanager
def encrypted_front(port: int, tls: ssl.SSLContext) -> Iterator[int]:
    """The port of a front for the server on this machine's `port`."""
    loop = asyncio.new_event_loop()
    server = loop.run_until_complete(asyncio.start_server(_Front(port, tls).serve, "127.0.0.1", 0))
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        asyncio.run_coroutine_threadsafe(_close(server), loop).result(60)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _close(server: asyncio.Server) -> None:
    server.close()
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()
        await asyncio.wait([task])
    for _ in range(5):
        await asyncio.sleep(0)  # connections that were cut hear of it in the next turns


class _Front:
    def __init__(self, port: int, tls: ssl.SSLContext) -> None:
        self._port = port
        self._tls = tls

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        behind = None
        try:
            if await reader.readexactly(len(SSL_REQUEST)) != SSL_REQUEST:
                return  # it would talk in the clear
            writer.write(b"S")
            await writer.start_tls(self._tls)
            read_behind, behind = await asyncio.open_connection("127.0.0.1", self._port)
            await asyncio.gather(_pass_on(reader, behind), _pass_on(read_behind, writer))
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # gone, or not let in
        finally:
            for end in (writer, behind):
                if end is not None:
                    end.transport.abort()


async def _pass_on(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while data := await source.read(65536):
        target.write(data)
        await target.drain()
    raise ConnectionResetError
