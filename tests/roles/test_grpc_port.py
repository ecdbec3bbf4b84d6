"""gRPC where something is not installed: without protobuf one line says what to install; without jh2 it is
served by h2."""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc

from grpc_calls import OPTIONS, infer, stream
from grpc_calls import asked as ask
from server import HUNG

WITHOUT = """
import sys
sys.modules[{missing!r}] = None
from penstock.cli import main
sys.exit(main())
"""


@contextmanager
def serving_without(missing: str, folder: Path) -> Iterator["subprocess.Popen[str]"]:
    """`penstock serve` as if this module were not installed."""
    options = ["serve", "sim:1ms", "--port", "0", "--admin-port", "0", "--grpc-port", "0"]
    command = [sys.executable, "-c", WITHOUT.format(missing=missing), *options]
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.terminate()


def test_without_protobuf_one_line_says_what_to_install(tmp_path: Path) -> None:
    with serving_without("google.protobuf", tmp_path) as process:
        _, said = process.communicate(timeout=HUNG)
    assert process.returncode == 2
    assert said.strip() == "penstock: server.grpc_port needs the grpc extra: pip install 'penstock[grpc]'"


def test_without_jh2_grpc_is_served_all_the_same(tmp_path: Path) -> None:
    with serving_without("jh2", tmp_path) as process:
        assert process.stdout is not None
        found = next(match for line in process.stdout if (match := re.search(r"grpc://(\S+)", line)))
        with grpc.insecure_channel(found[1], OPTIONS) as channel:
            assert infer(channel, text="a").text == "a"
            answers = list(stream(channel)((ask(id=f"r{n}", text="b") for n in range(300)), timeout=HUNG))
        process.terminate()
        process.communicate(timeout=HUNG)
    assert len(answers) == 300
    assert process.returncode == 0
