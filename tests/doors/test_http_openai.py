"""`/v1/embeddings`, `/v1/completions` and `/v1/models`, asked by OpenAI's own client."""

import asyncio
import base64
import json
import struct
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import openai
import pytest

from penstock.adapters.api_keys.file import KeysFile
from penstock.auth.keys import make_key
from server import HELD, PATIENT, Server, eventually, held, running

APP = """
from penstock import Output

def embed(inputs, **options):
    if "bad" in inputs:
        raise ValueError("a bad text")
    return [Output([float(len(each)), 0.1, *map(float, options.values())], tokens_used=3) for each in inputs]

def upper(inputs):
    return [text.upper() for text in inputs]

def told(inputs, **options):
    return [{"text": f"{text} {sorted(options.items())}", "finish_reason": "length"} for text in inputs]
"""
CONFIG = """
[limits]
max_asks = 8
[retries]
attempts = 1
[models.embed]
target = "{app}:embed"
max_batch = 4
default = true
respond = "async"  # which holds for the native door alone
[models.upper]
target = "{app}:upper"
input = "text"
[models.told]
target = "{app}:told"
"""
NEAR = pytest.approx


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("openai") / "app.py"
    file.write_text(APP)
    return file


@pytest.fixture(scope="module")
def server(app: Path) -> Iterator[Server]:
    with running(config=PATIENT + CONFIG.format(app=app)) as server:
        yield server


def client_of(server: Server, key: str = "any", retries: int = 0) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key=key, max_retries=retries)


class Counting:
    """Counts the requests of a client, and has it sleep without waiting: how long it wanted to is noted."""

    def __init__(self, server: Server, key: str = "any") -> None:
        self.answers: list[Any] = []
        self.slept: list[float] = []
        self.client = client_of(server, key, retries=2).with_options(
            http_client=openai.DefaultHttpxClient(event_hooks={"response": [self.answers.append]})
        )

    @property
    def told(self) -> list[float]:
        """The seconds after which each answer but the last said that it may be tried again."""
        return [int(answer.headers["retry-after-ms"]) / 1e3 for answer in self.answers[:-1]]


@contextmanager
def counting(server: Server, key: str = "any") -> Iterator[Counting]:
    counted = Counting(server, key)
    with counted.client, pytest.MonkeyPatch.context() as patched:
        patched.setattr(
            "openai._base_client.time", SimpleNamespace(sleep=counted.slept.append, time=time.time)
        )
        yield counted


def error_of(error: openai.APIStatusError) -> dict[str, Any]:
    """What its answer holds under `error`."""
    said: dict[str, Any] = error.response.json()
    assert set(said) == {"error"}
    assert set(said["error"]) == {"message", "type", "param", "code"}
    return dict(said["error"])


@pytest.mark.parametrize("encoding", [openai.omit, "float"])
def test_its_client_gets_an_embedding_for_each_text_in_their_order(server: Server, encoding: Any) -> None:
    with client_of(server) as client:
        made = client.embeddings.create(input=["a", "bb", "größer"], model="embed", encoding_format=encoding)
    assert [each.index for each in made.data] == [0, 1, 2]
    assert [each.embedding for each in made.data] == [NEAR([n, 0.1]) for n in (1.0, 2.0, 6.0)]
    assert (made.model, made.object, made.usage.total_tokens) == ("embed", "list", 9)


def test_what_it_does_by_default_works(server: Server) -> None:
    """It asks for base64 then, and reads float32."""
    with client_of(server) as client:
        made = client.embeddings.create(input="hello", model="embed")
    assert made.data[0].embedding == [5.0, struct.unpack("<f", struct.pack("<f", 0.1))[0]]


def test_its_client_for_asyncio_works_too(server: Server) -> None:
    async def body() -> list[int]:
        async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="any", max_retries=0) as client:
            several = [client.embeddings.create(input=["x"] * n, model="embed") for n in (1, 2, 3)]
            return [len(made.data) for made in await asyncio.gather(*several)]

    assert asyncio.run(body()) == [1, 2, 3]


@pytest.mark.parametrize("given", ["a", ["a"]])
def test_base64_is_little_endian_float32_and_float_is_the_output_as_it_is(server: Server, given: Any) -> None:
    said = {"input": given, "encoding_format": "base64"}
    [packed] = server.post("/v1/embeddings", said).json()["data"]
    assert base64.b64decode(packed["embedding"]) == struct.pack("<2f", 1.0, 0.1)
    answer = server.post("/v1/embeddings", {"input": given})
    assert answer.json()["data"][0]["embedding"] == [1.0, 0.1]
    assert answer.headers["x-request-id"]


def test_tokens_reach_a_model_that_takes_them_as_lists(server: Server) -> None:
    with client_of(server) as client:
        one = client.embeddings.create(input=[101, 102, 103], model="embed")
        several = client.embeddings.create(input=[[101], [101, 102]], model="embed")
        with pytest.raises(openai.BadRequestError) as refused:
            client.completions.create(prompt=[101], model="upper")
    assert [each.embedding[0] for each in one.data] == [3.0]
    assert [each.embedding[0] for each in several.data] == [1.0, 2.0]
    assert error_of(refused.value)["param"] == "prompt"


def test_more_inputs_than_fit_into_a_batch_are_split_and_joined(server: Server) -> None:
    before = server.metric("penstock_batched_requests_total", model="embed")
    with client_of(server) as client:
        made = client.embeddings.create(input=["x" * n for n in range(1, 9)], model="embed")
    assert [each.embedding[0] for each in made.data] == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]
    assert server.metric("penstock_batched_requests_total", model="embed") == before + 8


def test_dimensions_reach_the_model_and_what_says_nothing_is_passed_over(server: Server) -> None:
    with client_of(server) as client:
        made = client.embeddings.create(
            input="a", model="embed", dimensions=7, user="somebody",
            extra_body={"service_tier": "priority", "priority": 0},
        )  # fmt: skip
    assert made.data[0].embedding[2] == 7.0


def test_its_client_gets_a_completion_for_each_prompt(server: Server) -> None:
    with client_of(server) as client:
        one = client.completions.create(prompt="hello", model="upper", temperature=1, n=1, stream=False)
        several = client.completions.create(prompt=["a", "b"], model="told", max_tokens=5, stop=["."])
    assert [(each.text, each.finish_reason) for each in one.choices] == [("HELLO", "stop")]
    told = "[('max_tokens', 5), ('stop', ['.'])]"
    assert [(each.index, each.text) for each in several.choices] == [(0, f"a {told}"), (1, f"b {told}")]
    assert several.choices[0].finish_reason == "length"
    assert (one.object, one.model, one.id.startswith("cmpl-")) == ("text_completion", "upper", True)


def test_its_client_finds_the_models(server: Server) -> None:
    with client_of(server) as client:
        models = {model.id: model for model in client.models.list()}
        assert sorted(models) == ["embed", "told", "upper"]
        assert 0 < models["embed"].created <= time.time()
        assert client.models.retrieve("upper").id == "upper"
        with pytest.raises(openai.NotFoundError) as refused:
            client.models.retrieve("gpt-4")
    assert error_of(refused.value)["code"] == "model_not_found"


@pytest.mark.parametrize(
    ("body", "status", "code", "parameter"),
    [
        ({"input": [], "model": "embed"}, 400, "no_input", None),
        ({"input": ["a"] * 9, "model": "embed"}, 413, "too_large", None),
        ({"input": ["a", 5], "model": "embed"}, 400, "invalid_value", "input"),
        ({"input": {"a": 1}, "model": "embed"}, 400, "invalid_value", "input"),
        ({"input": [-1], "model": "embed"}, 400, "invalid_value", "input"),
        ({"input": "a", "model": "gpt-4"}, 404, "model_not_found", "model"),
        ({"input": "a", "encoding_format": "hex"}, 400, "invalid_value", "encoding_format"),
        ({"input": "a", "dimensions": 0}, 400, "invalid_value", "dimensions"),
        ({"input": "a", "user": ""}, 400, "invalid_value", "user"),
        ({"input": "a", "colour": "red"}, 400, "invalid_value", "colour"),
        ({"model": "embed"}, 400, "invalid_value", "input"),
        ({"input": "a", "model": "upper"}, 400, "invalid_value", None),
    ],
)
def test_what_cannot_be_embedded_is_refused_in_the_shape_that_its_client_reads(
    server: Server, body: object, status: int, code: str, parameter: str | None
) -> None:
    with client_of(server) as client, pytest.raises(openai.APIStatusError) as refused:
        client.post("/embeddings", body=body, cast_to=object)
    said = error_of(refused.value)
    assert (refused.value.status_code, said["type"]) == (status, "invalid_request_error")
    assert (said["code"], said["param"]) == (code, parameter)


@pytest.mark.parametrize("more", [{"stream": True}, {"n": 2}, {"best_of": 2}, {"max_tokens": 1.5}])
def test_a_completion_that_is_not_made_here_is_refused_and_the_field_is_named(
    server: Server, more: dict[str, Any]
) -> None:
    answer = server.post("/v1/completions", {"prompt": "a", "model": "told", **more})
    assert answer.status == 400
    assert answer.json()["error"]["param"] == next(iter(more))


def test_what_is_not_the_fault_of_its_client_has_the_same_shape(server: Server) -> None:
    answer = server.post("/v1/embeddings", {"input": ["a", "bad"], "model": "embed"})
    assert (answer.status, answer.json()["error"]["type"]) == (502, "server_error")
    answer = server.get("/v1/embeddings")
    assert (answer.status, answer.headers["allow"]) == (405, "POST")
    assert answer.json()["error"]["code"] == "method_not_allowed"


def test_its_client_tries_again_where_that_helps_and_only_there(tmp_path: Path) -> None:
    """A full queue is worth another try; a deadline that has passed is not, since it would only be work again."""
    config = f"""
[timeouts]
queue = "300ms"
[models.batch]
target = "{held(tmp_path)}"
max_batch = 1
[limits]
max_queue = 1
"""
    with (
        ThreadPoolExecutor(1) as pool,
        running(config=config) as server,
        client_of(server, retries=2) as client,
    ):
        first = pool.submit(server.post, "/v1/inference", {"input": "0", "timeout_ms": 60_000})
        eventually(lambda: server.admin("/internal/workers").json()[0]["in_flight"] == 1)
        full = server.post("/v1/embeddings", {"input": ["a", "b", "c"]})
        assert (full.status, full.json()["error"]["type"]) == (503, "server_error")
        assert int(full.headers["retry-after-ms"]) >= 1
        assert "x-should-retry" not in full.headers
        with counting(server) as counted, pytest.raises(openai.InternalServerError) as refused:
            counted.client.embeddings.create(input=["a", "b", "c"], model="batch")
        assert [answer.status_code for answer in counted.answers] == [503, 503, 503]
        assert counted.slept == counted.told
        assert error_of(refused.value)["code"] == "server_overloaded"
        with pytest.raises(openai.InternalServerError) as late:
            client.embeddings.create(input="late", model="batch")
        assert (late.value.status_code, late.value.response.headers["x-should-retry"]) == (504, "false")
        assert server.metric("penstock_requests_total", model="batch", outcome="DEADLINE_EXCEEDED") == 1
        server.open()
        assert first.result().status == 200


def test_a_text_with_an_idempotency_key_is_embedded_once(server: Server) -> None:
    before = server.metric("penstock_batched_requests_total", model="embed")
    with client_of(server) as client:
        first, again = (
            client.embeddings.with_raw_response.create(
                input="once", model="embed", extra_headers={"idempotency-key": "text-1"}
            )
            for _ in range(2)
        )
    assert again.headers["idempotency-replayed"] == "true"
    assert again.parse().data == first.parse().data
    assert server.metric("penstock_batched_requests_total", model="embed") == before + 1


def test_its_client_does_not_try_again_with_a_key_that_was_used_for_another_text(server: Server) -> None:
    with counting(server) as counted:
        headers = {"idempotency-key": "text-2"}
        counted.client.embeddings.create(input="one", model="embed", extra_headers=headers)
        with pytest.raises(openai.ConflictError) as conflict:
            counted.client.embeddings.create(input="another", model="embed", extra_headers=headers)
        assert [answer.status_code for answer in counted.answers] == [200, 409]
        assert counted.slept == []
    assert conflict.value.response.headers["x-should-retry"] == "false"


def test_several_texts_with_an_idempotency_key_are_refused(server: Server) -> None:
    with client_of(server) as client, pytest.raises(openai.BadRequestError) as refused:
        client.embeddings.create(
            input=["a", "b"], model="embed", extra_headers={"idempotency-key": "texts-1"}
        )
    assert "an Idempotency-Key names one" in error_of(refused.value)["message"]


def test_texts_of_several_clients_share_a_batch_with_requests_at_other_doors(tmp_path: Path) -> None:
    """Each embedding is the size of the batch that it came in."""
    app = tmp_path / "app.py"
    app.write_text(HELD.replace("return inputs", "return [[float(len(inputs))] for _ in inputs]"))
    with running(f"{app}:batch", config=PATIENT) as server, ThreadPoolExecutor(4) as pool:
        first = pool.submit(server.post, "/v1/inference", {"input": "first"})
        eventually(lambda: server.admin("/internal/workers").json()[0]["in_flight"] == 1)
        with client_of(server) as one, client_of(server) as other:
            calls = [
                pool.submit(one.embeddings.create, input=["a", "b"], model="batch"),
                pool.submit(other.embeddings.create, input="c", model="batch"),
            ]
            native = pool.submit(server.post, "/v1/inference", {"input": "d"})
            eventually(lambda: server.health()["waiting_clients"] == 5)
            server.open()
            sizes = [each.embedding for call in calls for each in call.result().data]
        assert sizes == [[4.0]] * 3
        assert native.result().json()["output"] == [4.0]
        assert first.result().status == 200


def test_the_tier_is_the_one_of_the_key_whatever_the_body_says(tmp_path: Path) -> None:
    key, record = make_key("acme", "free", time.time())
    asyncio.run(KeysFile(tmp_path / "keys.json").add(record))
    config = f"""{PATIENT}
[auth]
mode = "keys"
keys_file = "{tmp_path}/keys.json"
[tiers]
default = "free"
[tiers.levels.paid]
rank = 0
[tiers.levels.free]
rank = 1
requests_per_minute = 2
"""
    with running("sim:1ms", config=config) as server:
        more = {"extra_body": {"service_tier": "paid", "priority": 0, "user": "vip"}}
        with client_of(server, key) as client:
            made = [
                client.completions.create(prompt="a", model="sim", **more)  # type: ignore[call-overload]
                for _ in range(2)
            ]
            assert [each.choices[0].text for each in made] == ["a", "a"]
            with pytest.raises(openai.RateLimitError) as over:
                client.completions.create(prompt="a", model="sim", **more)  # type: ignore[call-overload]
        assert error_of(over.value)["code"] == "rate_limit_exceeded"
        assert over.value.response.headers["ratelimit-limit"] == "2"
        with counting(server, key) as counted, pytest.raises(openai.RateLimitError):
            counted.client.completions.create(prompt="a", model="sim")
        assert [answer.status_code for answer in counted.answers] == [429, 429, 429]
        assert counted.slept == counted.told
        with client_of(server, "unknown") as client, pytest.raises(openai.AuthenticationError) as stranger:
            client.embeddings.create(input="a", model="sim")
        assert error_of(stranger.value)["code"] == "invalid_api_key"


def test_doors_that_are_switched_off_are_not_there() -> None:
    config = f"{PATIENT}[doors]\nopenai = false\ntei = false\n"
    with running("sim:1ms", config=config) as server:
        for path in ("/v1/embeddings", "/v1/completions", "/embed"):
            assert server.post(path, {"input": "a", "prompt": "a", "inputs": "a"}).status == 404
        assert server.get("/v1/models/sim").status == 404
        assert server.get("/v1/models").status == 200
        described = json.dumps(server.get("/openapi.json").json()["paths"])
        assert "/v1/embeddings" not in described
        assert "/embed" not in described
