# mypy: disable-error-code="import-not-found, misc"
"""The rival Mosec, around the same function: `python -m benchmarks.gpu.servers.mosec_model --port PORT --capacity
NUMBER`."""

from typing import Any

from mosec import Server, Worker

from benchmarks.gpu.function import Function
from benchmarks.gpu.settings import from_environment

WAIT_MS = 5  # for a batch to fill


class Served(Worker):
    def __init__(self) -> None:
        super().__init__()
        self.function = Function()

    def forward(self, data: list[dict[str, str]]) -> list[dict[str, Any]]:
        return [{"output": output} for output in self.function([item["input"] for item in data])]


if __name__ == "__main__":
    settings = from_environment()
    server = Server()
    server.append_worker(
        Served, num=settings.workers, max_batch_size=settings.shape.max_batch, max_wait_time=WAIT_MS
    )
    server.run()
