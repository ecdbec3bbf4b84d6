"""Triton itself, through PyTriton, over HTTP and over gRPC, with two models: one makes texts large, the other takes
two tensors and gives two. Prints where it serves. Runs in an environment of its own (`environments.py`)."""

import signal
import socket
from typing import Any

import numpy
from pytriton.decorators import batch
from pytriton.model_config import ModelConfig, Tensor
from pytriton.triton import Triton, TritonConfig


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@batch  # type: ignore[untyped-decorator]
def shout(text: Any) -> dict[str, Any]:
    return {
        "out": numpy.char.encode(numpy.char.upper(numpy.char.decode(text.astype(bytes), "utf-8")), "utf-8")
    }


@batch  # type: ignore[untyped-decorator]
def weigh(ids: Any, scale: Any) -> dict[str, Any]:
    sums = (ids.sum(axis=1, keepdims=True) * scale).astype(numpy.float64)
    return {"sum": sums, "size": numpy.full((len(ids), 1), ids.shape[1], numpy.int32)}


def main() -> None:
    http, grpc = free_port(), free_port()
    ports = TritonConfig(
        http_address="127.0.0.1",
        grpc_address="127.0.0.1",
        http_port=http,
        grpc_port=grpc,
        metrics_port=free_port(),
    )
    config = ModelConfig(max_batch_size=64)
    text = Tensor(name="text", dtype=bytes, shape=(1,))
    numbers = [
        Tensor(name="ids", dtype=numpy.int64, shape=(-1,)),
        Tensor(name="scale", dtype=numpy.float32, shape=(1,)),
    ]
    sums = [
        Tensor(name="sum", dtype=numpy.float64, shape=(1,)),
        Tensor(name="size", dtype=numpy.int32, shape=(1,)),
    ]
    with Triton(config=ports) as triton:
        out = Tensor(name="out", dtype=bytes, shape=(1,))
        triton.bind(model_name="shout", infer_func=shout, inputs=[text], outputs=[out], config=config)
        triton.bind(model_name="weigh", infer_func=weigh, inputs=numbers, outputs=sums, config=config)
        triton.run()
        print(f"serving 127.0.0.1:{http} 127.0.0.1:{grpc}", flush=True)
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            signal.pause()
        except KeyboardInterrupt:
            pass


if __name__ == "__main__":
    main()
