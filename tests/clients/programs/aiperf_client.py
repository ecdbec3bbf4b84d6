"""What NVIDIA's aiperf measures at the doors for OpenAI's clients, as one line of JSON. Runs in an environment of
its own (`environments.py`). Arguments: the URL, and a folder for what it writes.

It wants a tokenizer, and takes one from a folder: here one whose tokens are bytes, so that nothing is fetched.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

QUIET = ("--ui-type", "none", "--no-server-metrics", "--no-gpu-telemetry")
LOAD = ("--request-count", "20", "--concurrency", "4", "--isl", "20")


def write_tokenizer(folder: Path) -> None:
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE({letter: number for number, letter in enumerate(letters)}, []))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    PreTrainedTokenizerFast(tokenizer_object=made, model_max_length=8192).save_pretrained(folder)


def measured(url: str, folder: Path, kind: str, model: str, *more: str) -> dict[str, Any]:
    results = folder / kind
    command = [
        sys.executable,
        "-m",
        "aiperf",
        "profile",
        "--endpoint-type",
        kind,
        "--model",
        model,
        "--url",
        url,
    ]
    command += ["--tokenizer", str(folder / "tokenizer"), "--output-artifact-dir", str(results)]
    # Where this is set, it takes the folder for a name that it has not got.
    settings = {name: value for name, value in os.environ.items() if name != "HF_HUB_OFFLINE"}
    ran = subprocess.run(
        [*command, *LOAD, *QUIET, *more], capture_output=True, text=True, check=False, env=settings
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    report = json.loads((results / "profile_export_aiperf.json").read_text())
    return {
        "answered": report["request_count"]["avg"],
        "errors": report["error_summary"],
        "read": report["input_sequence_length"]["avg"],
        "written": report.get("output_sequence_length", {}).get("avg"),
        "counted": report.get("total_usage_completion_tokens", {}).get("avg"),
    }


def main(url: str, folder: Path) -> dict[str, Any]:
    write_tokenizer(folder / "tokenizer")
    return {
        "embeddings": measured(url, folder, "embeddings", "embed"),
        "completions": measured(url, folder, "completions", "complete", "--osl", "6"),
    }


print(json.dumps(main(sys.argv[1], Path(sys.argv[2]))))
