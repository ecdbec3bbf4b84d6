"""The bare server that our gRPC is measured against: grpc.aio, which gives every message back as it came. It
runs in a process of its own (`benchmarks/grpc_unary.py`)."""

import asyncio
import sys
from typing import Any

import grpc
import grpc.aio

PATH = "/penstock.v1.Inference/Infer"


async def echo(message: bytes, context: Any) -> bytes:
    return message


class Echo(grpc.GenericRpcHandler):  # type: ignore[type-arg]
    """Every method is the same."""

    def service(self, handler_call_details: Any) -> "grpc.RpcMethodHandler[Any, Any]":
        return grpc.unary_unary_rpc_method_handler(echo)


async def serve(port: int) -> None:
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((Echo(),))
    server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    print("serving", flush=True)
    await server.wait_for_termination()


asyncio.run(serve(int(sys.argv[1])))
