"""`penstock serve grpc://…`, as its users see it: a real endpoint here, a real server beside it."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest
from command_line import penstock, said
from up_kit import up

from certificates import AuthorityInFolder
from grpc_kit import Service, hang, refusing, response_to, serving
from own_ports import free_ports
from penstock.config import Model, load
from penstock.errors import UserMistake
from penstock.roles.backends import backend_maker
from server import Server, eventually, running

PATIENT = '[timeouts]\nqueue = "60s"\nprocessing = "60s"\nrequest = "60s"\n'


async def shout(request: Any, _: Any) -> Any:
    """Answers in capitals; refuses a batch with `bad` in it, and never answers one with `hang` in it."""
    texts = list(request.inputs[0].contents.bytes_contents)
    if b"bad" in texts:
        return await refusing(grpc.StatusCode.INVALID_ARGUMENT, "this text is bad")(request, _)
    if b"hang" in texts:
        return await hang(request, _)
    return response_to(request, [text.upper() for text in texts])


def with_endpoint(service: Service, use: Callable[[str], None], **settings: Any) -> None:
    """The endpoint runs in this process, and what uses it in a thread."""

    async def body() -> None:
        async with serving(service, **settings) as url:
            await asyncio.to_thread(use, url)

    asyncio.run(body())


def ask(server: Server, text: object, **more: object) -> tuple[int, Any]:
    answer = server.post("/v1/inference", {"input": text, **more})
    return answer.status, answer.json()


def check_log(server: Server) -> None:
    """Every line is JSON: the library says nothing of its own."""
    for line in server.log_lines():
        json.loads(line)


def test_each_of_many_askers_gets_the_answer_to_their_own_question() -> None:
    def use(url: str) -> None:
        with running(url, "--workers", "2", "--max-batch", "8") as server:
            with ThreadPoolExecutor(16) as pool:
                answers = list(pool.map(lambda n: ask(server, f"text {n}"), range(100)))
            assert [(status, said["output"]) for status, said in answers] == [
                (200, f"TEXT {n}") for n in range(100)
            ]
            assert {said["model"] for _, said in answers} == {"m"}
            assert {said["metadata"]["model_version"] for _, said in answers} == {"7"}
            check_log(server)

    with_endpoint(Service(shout), use)


def test_a_bad_input_fails_alone_and_a_hanging_one_is_cut_at_the_processing_time_out() -> None:
    def use(url: str) -> None:
        with running(url, "--policy", "window", "--max-wait", "200ms", config=PATIENT) as server:
            with ThreadPoolExecutor(8) as pool:
                texts = ["a", "b", "bad", "c", "d"]
                answers = dict(zip(texts, pool.map(lambda text: ask(server, text), texts), strict=True))
            assert answers["bad"][0] == 502
            assert "endpoint answered INVALID_ARGUMENT" in answers["bad"][1]["message"]
            assert [answers[text][0] for text in "abcd"] == [200] * 4
            check_log(server)
        with running(url, "--processing-timeout", "1s", "--request-timeout", "2s") as server:
            assert ask(server, "hang")[0] == 504
            eventually(lambda: ask(server, "fine")[0] == 200)
            check_log(server)

    with_endpoint(Service(shout), use)


def test_an_endpoint_that_takes_nothing_for_a_while_is_served_again_when_it_does() -> None:
    service = Service()

    def use(url: str) -> None:
        with running(url, "--request-timeout", "1s") as server:
            for code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED):
                service.infer = refusing(code, "too busy")
                status, told = ask(server, "a")
                assert status in (502, 503, 504), told
                service.infer = shout
                eventually(lambda: ask(server, "a")[0] == 200)
            check_log(server)

    with_endpoint(service, use)


def test_an_endpoint_that_is_not_there_yet_is_waited_for_and_one_that_left_comes_back() -> None:
    async def body() -> None:
        port = free_ports(1)
        with running(f"grpc://127.0.0.1:{port}/m", "--request-timeout", "1s") as server:
            for _ in range(2):
                assert (await asyncio.to_thread(ask, server, "a"))[0] in (502, 503, 504)
                async with serving(Service(shout), port=port):
                    good = lambda: ask(server, "a")[0] == 200  # noqa: E731 - a word for it
                    await asyncio.to_thread(eventually, good)
            check_log(server)

    asyncio.run(body())


def test_a_wrong_number_of_outputs_is_nobodys_answer() -> None:
    async def wrong(request: Any, _: Any) -> Any:
        few = b"few" in request.inputs[0].contents.bytes_contents
        return response_to(request, [] if few else [b"one", b"two"])

    def use(url: str) -> None:
        with running(url) as server:
            for text in ("few", "many"):
                status, told = ask(server, text)
                assert status == 502
                assert "expected 1 outputs" in told["message"]

    with_endpoint(Service(wrong), use)


def test_embeddings_come_back_as_json_and_parameters_go_along() -> None:
    async def embed(request: Any, _: Any) -> Any:
        scale = request.parameters["scale"].double_param
        sizes = [float(len(text)) for text in request.inputs[0].contents.bytes_contents]
        numbers = [number for size in sizes for number in (size, size * scale)]
        return response_to(request, numbers, datatype="FP32", contents="fp32_contents", shape=[len(sizes), 2])

    def use(url: str) -> None:
        with running(url, "--output", "json") as server:
            status, told = ask(server, "four", parameters={"scale": 0.5})
            assert (status, told["output"]) == (200, [4.0, 2.0])
            status, told = ask(server, "four", parameters={"scale": [1]})
            assert status == 422
            assert "the parameter 'scale' cannot be sent" in told["message"]

    with_endpoint(Service(embed), use)


def test_an_endpoint_that_wants_our_certificate_is_served_by_a_file_beside_a_function(tmp_path: Path) -> None:
    """The function's processes are started by one that has gRPC's threads in it."""
    authority = AuthorityInFolder(tmp_path)
    pair, ours = authority.sign("127.0.0.1"), authority.sign("penstock")
    credentials = grpc.ssl_server_credentials(
        [pair.read()], authority.file.read_bytes(), require_client_auth=True
    )
    function = tmp_path / "app.py"
    function.write_text("def batchstring(inputs):\n    return [text[::-1] for text in inputs]\n")

    def use(url: str) -> None:
        config = f"""
            [models.remote]
            target = "{url}"
            [models.remote.grpc]
            ca_file = "{authority.file}"
            client_certificate = "{ours.certificate}"
            client_key = "{ours.key}"
            [models.local]
            target = "{function}:batchstring"
            workers = 2
        """
        with running(config=config) as server:
            assert ask(server, "abc", model="remote")[1]["output"] == "ABC"
            assert ask(server, "abc", model="local")[1]["output"] == "cba"
            check_log(server)

    with_endpoint(Service(shout), use, credentials=credentials)


def test_a_worker_over_redis_serves_an_endpoint_as_well() -> None:
    def use(url: str) -> None:
        with up(url) as running:
            answer = running.ask("gateway-1", "POST", "/v1/inference", b'{"input": "abc"}')
            assert (answer.status, answer.json()["output"]) == (200, "ABC")
            body = b'{"input": "abc", "parameters": {"k": {}}}'
            assert running.ask("gateway-1", "POST", "/v1/inference", body).status == 422

    with_endpoint(Service(shout), use)


# Mistakes


@pytest.mark.parametrize(
    ("target", "settings", "told"),
    [
        ("grpc://gpu-1/m", "", "write it as grpc://host:port/model"),
        ("grpc://gpu-1:8001", "", "write it as grpc://host:port/model"),
        ("grpcs://gpu-1:8001/m", "grpc.ca_file = 'nowhere.pem'", "grpc.ca_file nowhere.pem: No such file"),
        ("grpc://gpu-1:8001/m", "grpc.server_name = 'gpu'", "write grpcs:// to use them"),
        (
            "grpc://gpu-1:8001/m",
            "parameters = 'per_item'",
            "must be shared: a call to such an endpoint has one set",
        ),
        ("grpc://gpu-1:8001/m", "grpc.shape = '[n,2]'", "models.m.grpc.shape must be one of"),
    ],
)
def test_a_mistake_in_the_settings_is_one_clear_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, settings: str, told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("penstock.toml").write_text(f"[models.m]\ntarget = '{target}'\n{settings}\n")
    with pytest.raises(UserMistake) as caught:
        backend_maker("m", load(Path("penstock.toml"), {}, {}).models["m"])(0)
    assert told in caught.value.message


def test_a_missing_file_is_told_before_anything_is_started(tmp_path: Path) -> None:
    config = "[models.m]\ntarget = 'grpcs://gpu-1:8001/m'\ngrpc.ca_file = 'nowhere.pem'\n"
    (tmp_path / "penstock.toml").write_text(config)
    ended = penstock("serve", "--port", "0", "--admin-port", "0", directory=tmp_path)
    assert ended.returncode == 2, ended.stderr
    (line,) = said(ended.stderr)
    assert "grpc.ca_file nowhere.pem: No such file" in line


def test_without_the_extra_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("penstock.adapters.backends.")]:
        if "grpc" in name or "oip" in name:
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "grpc", None)
    with pytest.raises(UserMistake, match=r"pip install 'penstock\[grpc\]'"):
        backend_maker("m", Model(target="grpc://gpu-1:8001/m"))


def test_nothing_of_grpc_is_loaded_where_it_is_not_used() -> None:
    code = """if True:
        import sys
        from penstock.config import Model, load
        from penstock.roles.backends import backend_maker
        backend_maker("m", Model(target="sim:1ms"))
        sys.exit("grpc" in sys.modules or "google.protobuf" in sys.modules)
    """
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
