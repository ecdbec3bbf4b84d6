"""What KServe's own client gets from `/v2` and from gRPC, as one line of JSON. Runs in an environment of its own
(`environments.py`). Arguments: the URL, and the address for gRPC."""

import asyncio
import json
import sys
from typing import Any

import numpy
from kserve import InferenceGRPCClient, InferenceRESTClient, InferInput, InferRequest
from kserve.inference_client import RESTConfig


def given(array: Any, datatype: str, *, binary: bool) -> Any:
    made = InferInput("x", list(array.shape), datatype)
    made.set_data_from_numpy(array, binary_data=binary)
    return InferRequest(model_name="echo", infer_inputs=[made])


async def asked(url: str, address: str) -> dict[str, Any]:
    said: dict[str, Any] = {}
    texts, numbers = numpy.array(["a", "bö"], dtype=numpy.object_), numpy.ones((2, 3), numpy.float32)
    http = InferenceRESTClient(RESTConfig(protocol="v2"))
    said["http"] = [
        await http.is_server_ready(url), await http.is_server_live(url), await http.is_model_ready(url, "echo")
    ]  # fmt: skip
    for binary in (True, False):
        answer = await http.infer(url, given(texts, "BYTES", binary=binary), model_name="echo")
        said[f"texts {binary}"] = answer.outputs[0].as_numpy().tolist()
        answer = await http.infer(url, given(numbers, "FP32", binary=binary), model_name="echo")
        said[f"numbers {binary}"] = answer.outputs[0].as_numpy().tolist()
    try:
        await http.infer(url, given(texts, "BYTES", binary=True), model_name="nobody")
    except Exception as error:
        said["error"] = str(error)
    grpc = InferenceGRPCClient(address)
    said["grpc"] = [
        await grpc.is_server_ready(),
        await grpc.is_server_live(),
        await grpc.is_model_ready("echo"),
    ]
    answer = await grpc.infer(given(numbers, "FP32", binary=True))
    said["grpc numbers"] = answer.outputs[0].as_numpy().tolist()
    return said


print(json.dumps(asyncio.run(asked(*sys.argv[1:]))))
