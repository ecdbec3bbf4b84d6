# mypy: disable-error-code="import-not-found, attr-defined, misc, untyped-decorator"
"""The rival Ray Serve, as `benchmarks.peers` starts it: one replica, `@serve.batch` of up to 64 with a wait of 1
ms, no access log."""

import signal
import sys

import ray
from ray import serve
from starlette.requests import Request


@serve.deployment(num_replicas=1, max_ongoing_requests=1024, logging_config={"enable_access_log": False})
class Echo:
    @serve.batch(max_batch_size=64, batch_wait_timeout_s=0.001)
    async def batchstring(self, inputs: list[str]) -> list[str]:
        return inputs

    async def __call__(self, request: Request) -> dict[str, str]:
        body = await request.json()
        return {"output": await self.batchstring(body["input"])}


if __name__ == "__main__":
    ray.init(include_dashboard=False, configure_logging=False)
    serve.start(http_options={"host": "127.0.0.1", "port": int(sys.argv[1])})
    serve.run(Echo.bind(), route_prefix="/")
    signal.sigwait({signal.SIGTERM, signal.SIGINT})
    ray.shutdown()
