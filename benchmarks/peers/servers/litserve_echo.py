# mypy: disable-error-code="import-not-found, misc"
"""The rival LitServe, as `benchmarks.peers` starts it: one worker process, batches of up to 64, a wait of 1 ms."""

import sys

from litserve import LitAPI, LitServer


class Echo(LitAPI):
    def setup(self, device: str) -> None:
        """There is no model to load."""

    def decode_request(self, request: dict[str, str]) -> str:
        return request["input"]

    def batch(self, inputs: list[str]) -> list[str]:
        return inputs

    def predict(self, inputs: list[str]) -> list[str]:
        return inputs

    def unbatch(self, outputs: list[str]) -> list[str]:
        return outputs

    def encode_response(self, output: str) -> dict[str, str]:
        return {"output": output}


if __name__ == "__main__":
    server = LitServer(Echo(max_batch_size=64, batch_timeout=0.001), accelerator="cpu", devices=1)
    server.run(host="127.0.0.1", port=int(sys.argv[1]), generate_client_file=False, log_level="warning")
