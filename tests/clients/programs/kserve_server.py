"""KServe's own model server, over HTTP and over gRPC, with two models: one makes texts large, the other takes two
tensors and gives two. Prints where it serves. Runs in an environment of its own (`environments.py`)."""

import socket
from typing import Any

import numpy
from kserve import InferOutput, InferResponse, Model, ModelServer


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def tensor(name: str, datatype: str, shape: list[int]) -> dict[str, Any]:
    return {"name": name, "datatype": datatype, "shape": shape}


class Shout(Model):  # type: ignore[misc]
    async def get_input_types(self) -> list[dict[str, Any]]:
        return [tensor("text", "BYTES", [-1])]

    async def get_output_types(self) -> list[dict[str, Any]]:
        return [tensor("out", "BYTES", [-1])]

    async def predict(self, payload: Any, headers: Any = None, response_headers: Any = None) -> Any:
        elements = payload.inputs[0].as_numpy().reshape(-1)
        texts = [each.decode() if isinstance(each, bytes) else each for each in elements]
        made = InferOutput("out", [len(texts)], "BYTES", data=[text.upper() for text in texts])
        return InferResponse(payload.id or "", self.name, [made])


class Weigh(Model):  # type: ignore[misc]
    async def get_input_types(self) -> list[dict[str, Any]]:
        return [tensor("ids", "INT64", [-1, -1]), tensor("scale", "FP32", [-1, 1])]

    async def get_output_types(self) -> list[dict[str, Any]]:
        return [tensor("sum", "FP64", [-1]), tensor("size", "INT32", [-1])]

    async def predict(self, payload: Any, headers: Any = None, response_headers: Any = None) -> Any:
        given = {each.name: each.as_numpy() for each in payload.inputs}
        sums = (given["ids"].sum(axis=1) * given["scale"].reshape(-1)).astype("<f8")
        sizes = numpy.full(len(sums), given["ids"].shape[1], dtype="<i4")
        made = []
        for name, datatype, values in (("sum", "FP64", sums), ("size", "INT32", sizes)):
            output = InferOutput(name, list(values.shape), datatype)
            output.set_data_from_numpy(values)
            made.append(output)
        return InferResponse(payload.id or "", self.name, made)


def main() -> None:
    models: list[Any] = [Shout("shout"), Weigh("weigh")]
    for model in models:
        model.ready = True
    http, grpc = free_port(), free_port()
    print(f"serving 127.0.0.1:{http} 127.0.0.1:{grpc}", flush=True)
    ModelServer(http_port=http, grpc_port=grpc, workers=1, enable_docs_url=False).start(models)


if __name__ == "__main__":
    main()
