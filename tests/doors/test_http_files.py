"""`/v1/files` and `/v1/batches`, asked by OpenAI's own client: files of lines, and what becomes of them."""

import asyncio
import json
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import openai
import pytest
from openai.types import Batch
from up_kit import up

from penstock.adapters.api_keys.file import KeysFile
from penstock.auth.keys import make_key
from server import HUNG, PATIENT, Server, eventually, held, running

APP = """
import os, time

def embed(inputs):
    time.sleep(0.01)
    with open("ran", "a") as ran:
        ran.writelines(f"{each}\\n" for each in inputs)
    if "bad" in inputs:
        raise ValueError("a bad text")
    return [[float(len(each)), 0.5] for each in inputs]

def upper(inputs):
    return [text.upper() for text in inputs]
"""
WAITING = """
import os, time

def embed(inputs):
    while "wait" in inputs and not os.path.exists(os.path.join(os.path.dirname(__file__), "go")):
        time.sleep(0.01)
    return [[float(len(each)), 0.5] for each in inputs]
"""
CONFIG = """
[retries]
attempts = 1
[files]
directory = "files"
max_file = "4MB"
max_lines = 1000
max_batches = 5
[models.embed]
target = "{app}:embed"
default = true
[models.upper]
target = "{app}:upper"
"""
OVER = ("completed", "failed", "expired", "cancelled")


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("files") / "app.py"
    file.write_text(APP)
    return file


@pytest.fixture(scope="module")
def server(app: Path) -> Iterator[Server]:
    with running(config=PATIENT + CONFIG.format(app=app)) as server:
        yield server


@pytest.fixture
def client(server: Server) -> Iterator[openai.OpenAI]:
    with client_of(server) as client:
        yield client


def client_of(server: Server, key: str = "any") -> openai.OpenAI:
    return client_at(server.url, key)


def client_at(url: str, key: str = "any") -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0)


def line(custom_id: str, text: object, url: str = "/v1/embeddings", **more: object) -> bytes:
    field = "prompt" if url == "/v1/completions" else "input"
    body = {"model": "embed", field: text, **more}
    return json.dumps({"custom_id": custom_id, "method": "POST", "url": url, "body": body}).encode()


def made(
    client: openai.OpenAI, lines: Sequence[bytes], endpoint: str = "/v1/embeddings", **more: Any
) -> Batch:
    file = client.files.create(file=("in.jsonl", b"\n".join(lines)), purpose="batch")
    chosen: Any = endpoint
    return client.batches.create(input_file_id=file.id, endpoint=chosen, completion_window="24h", **more)


def over(client: openai.OpenAI, batch: Batch) -> Batch:
    eventually(lambda: client.batches.retrieve(batch.id).status in OVER)
    return client.batches.retrieve(batch.id)


def read(client: openai.OpenAI, file_id: str | None) -> list[dict[str, Any]]:
    assert file_id is not None
    return [json.loads(each) for each in client.files.content(file_id).text.splitlines()]


def refused(call: Callable[[], object]) -> tuple[int, str]:
    """The status and code of what is refused."""
    with pytest.raises(openai.APIStatusError) as caught:
        call()
    said = caught.value.response.json()
    assert set(said["error"]) == {"message", "type", "param", "code"}
    return caught.value.status_code, said["error"]["code"]


def test_a_file_is_there_until_it_is_deleted(client: openai.OpenAI) -> None:
    file = client.files.create(file=("a name.jsonl", b"line\n" * 3), purpose="batch")
    assert (file.object, file.bytes, file.filename, file.purpose) == ("file", 15, "a name.jsonl", "batch")
    assert client.files.retrieve(file.id) == file
    assert file in client.files.list(purpose="batch").data
    assert client.files.list(purpose="batch_output", limit=1).data == []
    assert client.files.content(file.id).content == b"line\n" * 3
    assert client.files.delete(file.id).deleted
    assert refused(lambda: client.files.retrieve(file.id)) == (404, "not_found")
    assert refused(lambda: client.files.content(file.id)) == (404, "not_found")


def test_a_list_comes_in_pages(client: openai.OpenAI) -> None:
    names = {client.files.create(file=(f"{n}.jsonl", b"x"), purpose="batch").id for n in range(3)}
    first = client.files.list(limit=2, order="asc")
    assert (len(first.data), first.has_more) == (2, True)
    assert names <= {
        file.id for file in client.files.list(limit=2)
    }  # the client asks for the pages that follow
    assert refused(lambda: client.files.list(limit=0)) == (400, "invalid_value")
    assert refused(lambda: client.files.list(after="file-none")) == (400, "invalid_value")
    for name in names:
        client.files.delete(name)


def test_each_line_is_answered_once_and_mistakes_go_to_a_file_of_their_own(client: openai.OpenAI) -> None:
    lines = [line(f"id {n}", f"text {n}") for n in range(40)]
    lines += [line("several", ["a", "bbb"]), line("bad one", "bad"), line("unknown", "x", dimensions="many")]
    batch = made(client, lines, metadata={"for": "a test"})
    assert (batch.object, batch.endpoint, batch.metadata) == ("batch", "/v1/embeddings", {"for": "a test"})
    ended = over(client, batch)
    assert ended.status == "completed"
    assert ended.request_counts is not None
    assert ended.request_counts.model_dump() == {"total": 43, "completed": 41, "failed": 2}
    good, wrong = read(client, ended.output_file_id), read(client, ended.error_file_id)
    assert sorted(each["custom_id"] for each in good) == sorted([f"id {n}" for n in range(40)] + ["several"])
    answers = {each["custom_id"]: each["response"] for each in good}
    assert answers["id 7"]["status_code"] == 200
    assert answers["id 7"]["body"]["data"] == [{"object": "embedding", "index": 0, "embedding": [6.0, 0.5]}]
    assert [each["embedding"][0] for each in answers["several"]["body"]["data"]] == [1.0, 3.0]
    statuses = {each["custom_id"]: each["response"]["status_code"] for each in wrong}
    assert statuses == {"bad one": 502, "unknown": 400}
    assert wrong[0]["response"]["body"]["error"]["message"]
    assert ended.in_progress_at is not None
    assert ended.completed_at is not None
    assert client.files.retrieve(ended.output_file_id or "").purpose == "batch_output"
    assert client.batches.list(limit=1).data[0].id == batch.id


@pytest.mark.parametrize(
    ("endpoint", "text", "found"),
    [
        ("/v1/completions", "a text", lambda body: body["choices"][0]["text"]),
        ("/v1/inference", "a text", lambda body: body["output"]),
    ],
)
def test_lines_go_through_other_doors_too(
    client: openai.OpenAI, endpoint: str, text: str, found: Callable[[Any], str]
) -> None:
    ended = over(client, made(client, [line("a", text, endpoint, model="upper")], endpoint))
    [answer] = read(client, ended.output_file_id)
    assert found(answer["response"]["body"]) == "A TEXT"


def test_a_file_that_is_wrong_is_not_run_at_all(client: openai.OpenAI, server: Server) -> None:
    lines = [
        line("twice", "not run"),
        b"not JSON",
        line("twice", "not run"),
        line("elsewhere", "not run", "/v1/completions"),
        b'{"custom_id": "", "method": "POST", "url": "/v1/embeddings", "body": {}}',
        b'{"custom_id": "get", "method": "GET", "url": "/v1/embeddings", "body": {}}',
        b'{"custom_id": "list", "method": "POST", "url": "/v1/embeddings", "body": []}',
    ]
    ended = over(client, made(client, lines))
    assert ended.status == "failed"
    assert ended.errors is not None
    assert [(each.line, each.code) for each in ended.errors.data or ()] == [
        (2, "invalid_json_line"), (3, "duplicate_custom_id"), (4, "mismatched_url"), (5, "invalid_custom_id"),
        (6, "invalid_method"), (7, "invalid_body"),
    ]  # fmt: skip
    assert "not run" not in (server.directory / "ran").read_text()
    empty = over(client, made(client, [b"", b" "]))
    assert empty.errors is not None
    assert [each.code for each in empty.errors.data or ()] == ["empty_file"]
    long = over(client, made(client, [line(f"{n}", "x") for n in range(1001)]))
    assert long.errors is not None
    assert [each.code for each in long.errors.data or ()] == ["too_many_lines"]


def test_what_cannot_be_is_refused(client: openai.OpenAI, server: Server) -> None:
    create: Any = client.batches.create
    file = client.files.create(file=("in.jsonl", b"x"), purpose="batch")
    said = {"input_file_id": file.id, "endpoint": "/v1/embeddings", "completion_window": "24h"}
    assert refused(lambda: create(**{**said, "endpoint": "/v1/responses"})) == (400, "invalid_value")
    assert refused(lambda: create(**{**said, "completion_window": "1h"})) == (400, "invalid_value")
    assert refused(lambda: create(**said, metadata={"long": "x" * 513})) == (400, "invalid_value")
    assert refused(lambda: create(**said, metadata=dict.fromkeys(map(str, range(17)), "x"))) == (
        400,
        "invalid_value",
    )
    assert refused(lambda: create(**{**said, "input_file_id": "file-none"})) == (404, "not_found")
    assert refused(lambda: client.batches.retrieve("batch_none")) == (404, "not_found")
    assert refused(lambda: client.batches.cancel("batch_none")) == (404, "not_found")
    assert refused(lambda: client.files.create(file=b"x", purpose="vision")) == (400, "invalid_value")
    ended = over(client, made(client, [line("a", "x")]))
    assert refused(lambda: client.batches.cancel(ended.id)) == (409, "conflict")
    of_output = {**said, "input_file_id": ended.output_file_id}
    assert refused(lambda: create(**of_output)) == (400, "invalid_value")
    assert server.post("/v1/files", {"purpose": "batch"}).status == 415
    assert server.call("POST", "/v1/batches", b"x" * 40_000).status == 413


def test_large_files_come_and_go_and_larger_ones_are_refused(client: openai.OpenAI, server: Server) -> None:
    whole = os.urandom(3 * 2**20)
    file = client.files.create(file=("large.jsonl", whole), purpose="batch")
    assert client.files.content(file.id).content == whole
    client.files.delete(file.id)
    assert refused(lambda: client.files.create(file=b"x" * (5 * 2**20), purpose="batch")) == (
        413,
        "too_large",
    )
    assert server.post("/v1/inference", b"x" * (2 * 2**20)).status == 413, "elsewhere the usual limit holds"


def test_a_batch_that_is_cancelled_keeps_what_it_has(tmp_path: Path) -> None:
    config = PATIENT + f'[files]\ndirectory = "files"\n[models.m]\ntarget = "{held(tmp_path)}"\n'
    with running(config=config) as server, client_of(server) as client:
        lines = [
            json.dumps(
                {"custom_id": str(n), "method": "POST", "url": "/v1/inference", "body": {"input": f"{n}"}}
            ).encode()
            for n in range(30)
        ]
        batch = made(client, lines, "/v1/inference")
        eventually(lambda: server.health()["waiting_clients"] > 0)
        assert refused(lambda: client.files.delete(batch.input_file_id)) == (409, "conflict")
        assert client.batches.cancel(batch.id).status in ("cancelling", "cancelled")
        ended = over(client, batch)
        assert ended.status == "cancelled"
        assert ended.request_counts is not None
        assert ended.request_counts.completed == 0
        assert (ended.output_file_id, ended.error_file_id) == (None, None)
        eventually(lambda: server.health()["waiting_clients"] == 0)
        client.files.delete(batch.input_file_id)
        server.open()


def test_a_batch_whose_time_is_over_says_which_lines_were_not_run(tmp_path: Path) -> None:
    config = (
        PATIENT + f'[files]\ndirectory = "files"\nwindow = "1s"\n[models.m]\ntarget = "{held(tmp_path)}"\n'
    )
    with running(config=config) as server, client_of(server) as client:
        body = {"input": "x"}
        lines = [
            json.dumps({"custom_id": f"{n}", "method": "POST", "url": "/v1/inference", "body": body}).encode()
            for n in range(20)
        ]
        batch = made(client, lines, "/v1/inference")
        time.sleep(2.0)
        server.open()
        ended = over(client, batch)
        assert ended.status == "expired"
        done = read(client, ended.output_file_id)
        late = read(client, ended.error_file_id)
        assert sorted(int(each["custom_id"]) for each in done + late) == list(range(20))
        assert {each["error"]["code"] for each in late} == {"batch_expired"}


def test_a_batch_goes_on_where_it_was_after_its_server_was_killed(app: Path, tmp_path: Path) -> None:
    config = PATIENT + CONFIG.format(app=app) + "\n[limits]\ntenant_share = 1.0\n"
    config = config.replace('directory = "files"', f'directory = "{tmp_path}/kept"')
    with running(config=config) as server, client_of(server) as client:
        batch = made(client, [line(f"{n}", f"text {n}") for n in range(600)])
        eventually(lambda: completed(client, batch) > 50)
        server.process.send_signal(signal.SIGKILL)
        server.process.wait(HUNG)
    with running(config=config) as server, client_of(server) as client:
        assert client.batches.retrieve(batch.id).status == "in_progress"
        ended = over(client, batch)
        assert ended.request_counts is not None
        assert ended.request_counts.model_dump() == {"total": 600, "completed": 600, "failed": 0}
        assert ended.error_file_id is None
        answered = [int(each["custom_id"]) for each in read(client, ended.output_file_id)]
        assert sorted(answered) == list(range(600)), "each once"
        again = set((server.directory / "ran").read_text().split("\n"))
        assert len(again) < 600, "what was answered before is not run again"
    modes = {path.stat().st_mode & 0o777 for path in (tmp_path / "kept").rglob("*")}
    assert modes == {0o600, 0o700}


def test_a_batch_over_redis_goes_on_after_its_gateway_was_killed(tmp_path: Path) -> None:
    """One line in the middle waits, so the batch is not over before."""
    (tmp_path / "app.py").write_text(WAITING)
    (tmp_path / "penstock.toml").write_text(f"{PATIENT}[limits]\ntenant_share = 1.0\n")
    app, settings, kept = f"{tmp_path}/app.py:embed", f"{tmp_path}/penstock.toml", tmp_path / "kept"
    with up(app, "--max-batch", "4", "--config", settings, "--files", str(kept)) as it:
        with client_at(it.ports["gateway-1"]) as client:
            texts = [*(f"text {n}" for n in range(60)), "wait", *(f"text {n}" for n in range(60, 120))]
            batch = made(client, [line(f"{n}", text) for n, text in enumerate(texts)])
            eventually(lambda: completed(client, batch) >= 20)
            it.part("gateway-1").kill()
        (tmp_path / "go").touch()
        with client_at(it.ports["gateway-1"]) as client:
            eventually(lambda: is_reachable(client))
            ended = over(client, batch)
            assert ended.request_counts is not None
            assert ended.request_counts.model_dump() == {"total": 121, "completed": 121, "failed": 0}
            assert ended.error_file_id is None
            answered = [int(each["custom_id"]) for each in read(client, ended.output_file_id)]
            assert sorted(answered) == list(range(121)), "each once"


def completed(client: openai.OpenAI, batch: Batch) -> int:
    counts = client.batches.retrieve(batch.id).request_counts
    return 0 if counts is None else counts.completed


def is_reachable(client: openai.OpenAI) -> bool:
    try:
        client.models.list()
    except openai.APIConnectionError:
        return False
    return True


def test_only_the_tenant_that_made_it_sees_it(app: Path, tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    keys = {}
    for tenant in ("acme", "other"):
        keys[tenant], record = make_key(tenant, "paid", time.time())
        asyncio.run(KeysFile(path).add(record))
    config = PATIENT + CONFIG.format(app=app) + f'[auth]\nmode = "keys"\nkeys_file = "{path}"\n'
    with (
        running(config=config) as server,
        client_of(server, keys["acme"]) as acme,
        client_of(server, keys["other"]) as other,
    ):
        batch = made(acme, [line(f"{n}", f"text {n}") for n in range(5)])
        file = batch.input_file_id
        for hidden in (
            lambda: other.files.retrieve(file),
            lambda: other.files.content(file),
            lambda: other.files.delete(file),
            lambda: other.batches.retrieve(batch.id),
            lambda: other.batches.cancel(batch.id),
            lambda: made_of(other, file),
        ):
            assert refused(hidden) == (404, "not_found")
        ended = over(acme, batch)
        assert len(read(acme, ended.output_file_id)) == 5
        assert refused(lambda: other.files.content(ended.output_file_id or "")) == (404, "not_found")
        assert other.files.list().data == []
        assert other.batches.list().data == []
        with client_of(server, "pk_nobody") as nobody:
            assert refused(nobody.files.list)[0] == 401
            assert refused(lambda: nobody.files.create(file=b"x" * 2**21, purpose="batch"))[0] == 401
        assert server.metric("penstock_requests_total", model="embed", outcome="SUCCESS") == 5


def made_of(client: openai.OpenAI, file_id: str) -> Batch:
    return client.batches.create(input_file_id=file_id, endpoint="/v1/embeddings", completion_window="24h")


def test_the_number_of_batches_and_files_is_bounded(tmp_path: Path) -> None:
    config = (
        PATIENT
        + '[files]\ndirectory = "files"\nmax_batches = 2\nmax_files = 4\nmax_bytes = "100KB"\n'
        + f'[limits]\ntenant_share = 1.0\n[models.m]\ntarget = "{held(tmp_path)}"\n'
    )
    with running(config=config) as server, client_of(server) as client:
        text = json.dumps(
            {"custom_id": "a", "method": "POST", "url": "/v1/inference", "body": {"input": "x"}}
        ).encode()
        for _ in range(2):
            made(client, [text], "/v1/inference")
        file = client.files.create(file=b"x", purpose="batch")
        create: Any = client.batches.create
        refusal = refused(
            lambda: create(input_file_id=file.id, endpoint="/v1/inference", completion_window="24h")
        )
        assert refusal == (503, "server_overloaded")
        assert refused(lambda: client.files.create(file=b"x" * 99_999, purpose="batch"))[0] == 503
        client.files.create(file=b"x", purpose="batch")
        assert refused(lambda: client.files.create(file=b"x", purpose="batch"))[0] == 503
        server.open()


def test_there_are_no_such_doors_without_a_directory() -> None:
    with running("sim:1ms") as server:
        assert server.get("/v1/files").status == 404
        assert "/v1/files" not in server.get("/openapi.json").json()["paths"]


def test_another_process_does_not_take_the_directory(server: Server) -> None:
    directory = server.directory / "files"
    with (
        pytest.raises(AssertionError, match="ended with code"),
        running("sim:1ms", "--files", str(directory)),
    ):
        raise AssertionError("it serves")
