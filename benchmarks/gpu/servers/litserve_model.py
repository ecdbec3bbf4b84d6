# mypy: disable-error-code="import-not-found, misc"
"""The rival LitServe, around the same function: `python -m benchmarks.gpu.servers.litserve_model PORT`."""

import sys
from typing import Any

from litserve import LitAPI, LitServer

from benchmarks.gpu.function import Function
from benchmarks.gpu.settings import from_environment

WAIT_SECONDS = 0.005  # for a batch to fill


class Served(LitAPI):
    def setup(self, device: str) -> None:
        self.function = Function()

    def decode_request(self, request: dict[str, str]) -> str:
        return request["input"]

    def batch(self, inputs: list[str]) -> list[str]:
        return inputs

    def predict(self, inputs: list[str]) -> list[list[float]]:
        return self.function(inputs)

    def unbatch(self, outputs: list[list[float]]) -> list[list[float]]:
        return outputs

    def encode_response(self, output: list[float]) -> dict[str, Any]:
        return {"output": output}


if __name__ == "__main__":
    settings = from_environment()
    api = Served(max_batch_size=settings.shape.max_batch, batch_timeout=WAIT_SECONDS)
    server = LitServer(api, accelerator="cpu", devices=1, workers_per_device=settings.workers)
    server.run(
        host="127.0.0.1",
        port=int(sys.argv[1]),
        num_api_servers=4,  # one would be the limit long before the GPU is
        generate_client_file=False,
        log_level="warning",
    )
