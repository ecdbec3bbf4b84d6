"""The limit, as `benchmarks.peers` starts it: Granian's RSGI interface inside uvloop, one runtime thread, answering
what it was sent.

Nothing decides, nothing batches, no other process is asked: whatever stands on Granian can only be slower.
"""

import sys
from typing import Any

import uvloop
from granian.server.embed import Server

# Granian serves as many connections at once as its backlog is long; the load has more than the default 128.
CONNECTIONS = 4096


async def echo(_scope: Any, protocol: Any) -> None:
    body = await protocol()
    protocol.response_bytes(200, [("content-type", "application/json")], body)


async def main(port: int) -> None:
    server = Server(
        echo,
        address="127.0.0.1",
        port=port,
        runtime_threads=1,
        backlog=CONNECTIONS,
        backpressure=CONNECTIONS,
        log_enabled=False,
    )
    await server.serve()


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1])))
