"""Penstock in front of real servers of others: KServe's model server, Triton, and llama.cpp as an OpenAI-compatible
one."""

import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from environments import HERE, python_of

from server import HUNG, PATIENT, running

pytestmark = pytest.mark.timeout(900)  # the environment may have to be made


@contextmanager
def upstream(environment: str, *arguments: str) -> Iterator[list[str]]:
    """Runs `programs/…_server.py` of an environment. Returns the addresses that it prints."""
    command = [str(python_of(environment)), str(HERE / "programs" / f"{environment}_server.py"), *arguments]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        try:
            words = next((line.split() for line in process.stdout if line.startswith("serving ")), [])
            assert words, "it did not start"
            yield words[1:]
        finally:
            process.terminate()  # Triton is a child of its program, which ends it
            try:
                process.wait(HUNG)
            except subprocess.TimeoutExpired:
                process.kill()


# Triton's tensors have a dimension more: a row of them is a list of one.
@pytest.mark.parametrize(
    ("environment", "weighed"),
    [("kserve", {"sum": 3.0, "size": 3}), ("pytriton", {"sum": [3.0], "size": [3]})],
)
@pytest.mark.parametrize("scheme", ["oip+http", "grpc"])
def test_model_servers_get_texts_and_several_tensors(scheme: str, environment: str, weighed: object) -> None:
    with upstream(environment) as (http, grpc):
        place = http if scheme == "oip+http" else grpc
        with (
            running(f"{scheme}://{place}/shout", "--max-batch", "16", config=PATIENT) as server,
            ThreadPoolExecutor(16) as threads,
        ):
            texts = [f"wörd {number}" for number in range(64)]
            answers = list(
                threads.map(lambda text: server.post("/v1/inference", {"input": text}).json(), texts)
            )
            assert [answer["output"] for answer in answers] == [text.upper() for text in texts]
        with running(f"{scheme}://{place}/weigh", "--input", "json", config=PATIENT) as server:
            answer = server.post("/v1/inference", {"input": {"ids": [1, 2, 3], "scale": 0.5}}).json()
            assert answer["output"] == weighed
            wrong = server.post("/v1/inference", {"input": {"ids": [1, 2, 3]}})
            assert (wrong.status, wrong.json()["error"]) == (502, "BACKEND_FAILED")


def test_llama_cpp_embeds_and_tells_its_tokens() -> None:
    with (
        upstream("llama", "embeddings") as (address,),
        running(f"openai://{address}/v1", "--max-batch", "8", config=PATIENT) as server,
        ThreadPoolExecutor(8) as threads,
    ):
        texts = [f"text number {number}" for number in range(16)]
        first = server.post("/v1/inference", {"input": texts[0]}).json()
        answers = list(threads.map(lambda text: server.post("/v1/inference", {"input": text}).json(), texts))
        vectors = [answer["output"] for answer in answers]
        assert len({len(vector) for vector in vectors}) == 1
        # Another batch gives slightly other numbers, but those of the same text.
        near = [sum(a * b for a, b in zip(first["output"], vector, strict=True)) for vector in vectors]
        assert max(near) == near[0]
        assert sum(answer["metadata"]["tokens_used"] for answer in answers) >= 16


def test_llama_cpp_completes_a_list_of_prompts(tmp_path: Path) -> None:
    with (
        upstream("llama", "completions") as (address,),
        running(f"openai://{address}/v1/completions", "--max-batch", "4", config=PATIENT) as server,
        ThreadPoolExecutor(4) as threads,
    ):
        asked = {"parameters": {"max_tokens": 4, "temperature": 0}}
        prompts = ["One, two, three,", "The capital of France is", "a b c d", "1 2 3 4"]
        answers = list(
            threads.map(lambda text: server.post("/v1/inference", {"input": text, **asked}).json(), prompts)
        )
        assert all(isinstance(answer["output"], str) and answer["output"] for answer in answers), answers
        assert all(answer["metadata"]["tokens_used"] > 0 for answer in answers)
