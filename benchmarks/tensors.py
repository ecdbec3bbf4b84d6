"""Images of 600 KB a second through the Open Inference Protocol: as binary tensors over HTTP and over gRPC, and
as JSON, in the same run. `python -m benchmarks.tensors`; it needs h2load (Debian: nghttp2-client).

An image is 448 × 448 × 3 numbers of UINT8. The function looks at one of them. The load is h2load's, in a closed
loop; the ways take turns, round by round, at one server.
"""

import argparse
import json
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from benchmarks import machine
from benchmarks.grpc_unary import Round, h2load
from benchmarks.serving import free_port, serving
from benchmarks.table import markdown_table
from penstock.errors import UserMistake
from penstock.protos.messages import message

SHAPE = [1, 448, 448, 3]
SIZE = 448 * 448 * 3
FUNCTION = "def corner(images):\n    return [int(image[0, 0, 0]) for image in images]\n"
HTTP, GRPC = "/v2/models/corner/infer", "/inference.GRPCInferenceService/ModelInfer"
BINARY, BY_GRPC, SPELT = "binary, HTTP", "binary, gRPC", "JSON"


def bodies() -> dict[str, tuple[str, bytes, list[str]]]:
    """By its name, each way's path, body and header fields."""
    values = bytes(index % 256 for index in range(SIZE))
    tensor = {"name": "image", "shape": SHAPE, "datatype": "UINT8"}
    head = json.dumps({"inputs": [{**tensor, "parameters": {"binary_data_size": SIZE}}]}).encode()
    spelt = json.dumps({"inputs": [{**tensor, "data": list(values)}]}, separators=(",", ":")).encode()
    asked = message("inference.ModelInferRequest")(model_name="corner", raw_input_contents=[values])
    asked.inputs.add(**tensor)
    content = asked.SerializeToString()
    return {
        BINARY: (HTTP, head + values, [f"inference-header-content-length: {len(head)}"]),
        BY_GRPC: (
            GRPC,
            b"\0" + len(content).to_bytes(4, "big") + content,
            ["content-type: application/grpc", "te: trailers"],
        ),
        SPELT: (HTTP, spelt, ["content-type: application/json"]),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tensors", description=__doc__)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--connections", type=int, default=4)
    options = parser.parse_args(arguments)
    if shutil.which("h2load") is None:
        raise UserMistake("this needs h2load: apt-get install nghttp2-client")
    print(machine.describe())
    rounds: dict[str, list[Round]] = {name: [] for name in (BINARY, BY_GRPC, SPELT)}
    with tempfile.TemporaryDirectory() as folder:
        function = Path(folder, "corner.py")
        function.write_text(FUNCTION)
        port = free_port()
        flags = ("--max-batch", "8", "--grpc-port", str(port))
        settings = {"PENSTOCK_LIMITS_MAX_BODY": "8MiB"}
        with serving(f"{function}:corner", *flags, settings=settings) as server:
            for _ in range(options.rounds):
                for name, (path, body, fields) in bodies().items():
                    file = Path(folder, "body")
                    file.write_bytes(body)
                    over_http = name != BY_GRPC
                    url = f"{server.url if over_http else f'http://127.0.0.1:{port}'}{path}"
                    load = ["-c", str(options.connections), *(["--h1"] if over_http else ["-m", "1"])]
                    rounds[name].append(h2load(url, file, fields, server.pid, options.seconds, load, 50))
    rows = [
        [
            name,
            f"{median(each.per_second for each in done):,.0f}/s",
            " ".join(f"{each.per_second:,.0f}" for each in done),
            f"{median(each.microseconds for each in done) / 1e3:.1f} ms",
            str(sum(each.failed for each in done)),
        ]
        for name, done in rounds.items()
    ]
    print(markdown_table(["images of 600 KB", "median", "rounds", "processor time", "failed"], rows))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
