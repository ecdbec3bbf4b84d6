"""Images of 600 KB a second through the Open Inference Protocol: as binary tensors over HTTP and over gRPC, and
as JSON, in the same run. `python -m benchmarks.tensors`; it needs h2load (Debian: nghttp2-client).

An image is 448 × 448 × 3 numbers of UINT8. The function looks at one of them. The load is h2load's, in a closed
loop; the ways take turns, round by round, at one server.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from benchmarks.figure import Check, Figure, Say, at_least_one, conduct, options
from benchmarks.grpc_unary import Round, h2load, need_h2load, table_of
from benchmarks.serving import free_port, serving
from penstock.protos.messages import message

NAME = "tensors"
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


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = options(NAME, __doc__, seconds=5, rounds=3)
    parser.add_argument("--connections", type=at_least_one, default=4)
    return parser.parse_args(argv)


def measure(given: argparse.Namespace, say: Say) -> Figure:
    need_h2load()
    rounds: dict[str, list[Round]] = {name: [] for name in (BINARY, BY_GRPC, SPELT)}
    with tempfile.TemporaryDirectory() as folder:
        function = Path(folder, "corner.py")
        function.write_text(FUNCTION)
        port = free_port()
        flags = ("--max-batch", "8", "--grpc-port", str(port))
        settings = {"PENSTOCK_LIMITS_MAX_BODY": "8MiB"}
        with serving(f"{function}:corner", *flags, settings=settings) as server:
            for _ in range(given.rounds):
                for name, (path, body, fields) in bodies().items():
                    file = Path(folder, "body")
                    file.write_bytes(body)
                    over_http = name != BY_GRPC
                    url = f"{server.url if over_http else f'http://127.0.0.1:{port}'}{path}"
                    load = [f"-c{given.connections}", *(["--h1"] if over_http else ["-m1"])]
                    rounds[name].append(h2load(url, file, fields, server.pid, given.seconds, load, 50))
                    say(f"  {name}: {rounds[name][-1].per_second:,.1f}/s")
    rates = {name: median(each.per_second for each in done) for name, done in rounds.items()}
    spent = {name: median(each.microseconds for each in done) for name, done in rounds.items()}
    return Figure(
        title="Images of 600 KB as tensors",
        method=(
            f"448 × 448 × 3 numbers of UINT8 through the Open Inference Protocol, h2load with {given.connections} "
            f"connections, {given.seconds:g} s; medians of {given.rounds} interleaved rounds at one server. "
            "Processor time is the server's. Large bodies of JSON are read in a quarter of the server's time at "
            "most, whatever waits."
        ),
        tables=[table_of("way", rounds)],
        checks=[
            Check("binary over HTTP", rates[BINARY] / rates[SPELT], 2.0, "× JSON", at_least=True),
            Check("binary over gRPC", rates[BY_GRPC] / rates[SPELT], 2.0, "× JSON", at_least=True),
            Check("processor time of JSON", spent[SPELT] / spent[BINARY], 2.0, "× binary", at_least=True),
        ],
        data={"rounds": {name: [each._asdict() for each in done] for name, done in rounds.items()}},
    )


def main(argv: Sequence[str]) -> int:
    return conduct(NAME, arguments(argv), measure, argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
