"""Granian's RSGI worker, but for one thing: a handler may return before the response is sent.

Granian's own wrapper answers 500 when a handler's coroutine ends without a response, so that every request that
waits for its batch would hold a task, its coroutines and a future, and waking it would cost a turn of the loop.
Here the coroutine ends once the request is submitted, and the response is sent from where the reply arrives. A
request whose exchange is dropped unanswered still gets a 500: from Granian's channel, which closes.

This mirrors `granian.server.embed.Server._spawn_rsgi_worker`, which is not public: the version is pinned to 2.8,
and the tests of the data plane fail if that changes under us (docs/adr/0002).
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from granian import _futures, _granian

# Granian's types for its own inside are not kept up to date.
_new_scheduler: Callable[..., Any] = _futures._new_cbscheduler
_make_worker: Callable[..., Any] = _granian.RSGIWorker


def spawn_rsgi(
    worker_id: int,
    shutdown: Any,
    app: Any,
    sock: Any,
    runtime_threads: int,
    runtime_blocking_threads: int | None,
    blocking_threads: int,
    blocking_threads_idle_timeout: int,
    backpressure: int,
    task_impl: Any,
    http_mode: Any,
    http1_settings: Any,
    http2_settings: Any,
    websockets: bool,
    static_path: Any,
    log_format: str | None,
    ssl_context: tuple[Any, ...],
    scope_options: dict[str, Any],
) -> Coroutine[Any, Any, None]:
    handle = app.__rsgi__

    def schedule(watcher: Any) -> Any:
        return handle(watcher.scope, watcher.proto)

    async def serve() -> None:
        loop = asyncio.get_running_loop()
        over = loop.create_future()
        shutdown.add_cb(lambda: loop.call_soon_threadsafe(over.set_result, None))
        worker = _make_worker(
            worker_id, sock, None, runtime_threads, runtime_blocking_threads, blocking_threads,
            blocking_threads_idle_timeout, backpressure, http_mode, http1_settings, http2_settings, websockets,
            static_path, *ssl_context, (None, None),
        )  # fmt: skip
        worker.serve_async(_new_scheduler(loop, schedule, impl_asyncio=True), loop, shutdown)
        await over

    return serve()
