# mypy: disable-error-code="import-not-found, misc, untyped-decorator"
"""The rival Triton, through PyTriton, as `benchmarks.peers` starts it: the function in this process, dynamic
batches of up to 64, a wait of 1 ms."""

import signal
import socket
import sys
from typing import Any

from pytriton.decorators import batch
from pytriton.model_config import DynamicBatcher, ModelConfig, Tensor
from pytriton.triton import Triton, TritonConfig


@batch
def batchstring(**inputs: Any) -> dict[str, Any]:
    return {"output": inputs["input"]}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


if __name__ == "__main__":
    # PyTriton stops in order, shared memory and all, on Ctrl-C only.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    ports = TritonConfig(
        http_address="127.0.0.1",
        http_port=int(sys.argv[1]),
        grpc_port=free_port(),
        metrics_port=free_port(),
    )
    with Triton(config=ports) as triton:
        triton.bind(
            model_name="echo",
            infer_func=batchstring,
            inputs=[Tensor(name="input", dtype=bytes, shape=(1,))],
            outputs=[Tensor(name="output", dtype=bytes, shape=(1,))],
            config=ModelConfig(max_batch_size=64, batcher=DynamicBatcher(max_queue_delay_microseconds=1000)),
        )
        triton.serve()
