"""One request of the client: what is sent, what is tried again, and what the caller gets."""

import asyncio
import json
import socket

import pytest
from scripted_server import Said, Told, bad, good, in_loop, scripted

from penstock.client import (
    AsyncClient,
    Busy,
    Failed,
    InferenceError,
    Late,
    NoContact,
    Refused,
    Retries,
)
from penstock.errors import UserMistake

QUICK = Retries(first_wait=0.001)
NO_TIME_LIMIT = 60.0  # seconds: the bound of a failure


def nowhere() -> str:
    """A URL at which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}"


@in_loop
async def test_it_says_who_asks_what_of_which_model() -> None:
    async with (
        scripted() as server,
        AsyncClient(server.url, key="pk_1", model="m", client_id="acme", headers={"X-Team": "a"}) as client,
    ):
        answer = await client.infer({"text": "hé"}, parameters={"top_k": 5})
        [said] = server.said
        assert said.line == "POST /v1/inference HTTP/1.1"
        assert said.fields["authorization"] == "Bearer pk_1"
        assert said.fields["x-team"] == "a"
        assert said.fields["content-type"] == "application/json"
        assert said.json() == {
            "input": {"text": "hé"}, "model": "m", "parameters": {"top_k": 5}, "client_id": "acme",
        }  # fmt: skip
        assert answer.output == {"text": "hé"}
        assert (answer.request_id, answer.model, answer.metadata.batch_size) == ("r", "m", 3)


@in_loop
async def test_the_key_is_taken_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_API_KEY", "pk_env")
    async with scripted() as server:
        async with AsyncClient(server.url) as client:
            await client.infer("x")
        async with AsyncClient(server.url, key="") as client:
            await client.infer("x")
        assert server.said[0].fields["authorization"] == "Bearer pk_env"
        assert "authorization" not in server.said[1].fields


@pytest.mark.parametrize(
    ("suffix", "path"),
    [
        ("", "/v1/inference"),
        ("/", "/v1/inference"),
        ("/v1", "/v1/inference"),
        ("/gpu", "/gpu/v1/inference"),
        ("/gpu/v1/inference", "/gpu/v1/inference"),
    ],
)
@in_loop
async def test_a_url_may_end_where_it_likes(suffix: str, path: str) -> None:
    async with scripted() as server, AsyncClient(server.url + suffix) as client:
        await client.infer("x")
        assert server.said[0].line == f"POST {path} HTTP/1.1"


@in_loop
async def test_one_connection_serves_one_request_after_the_other() -> None:
    async with scripted() as server, AsyncClient(server.url) as client:
        for _ in range(5):
            await client.infer("x")
        assert server.connections == 1


@in_loop
async def test_no_more_connections_are_opened_than_allowed_and_all_are_answered() -> None:
    async with scripted() as server, AsyncClient(server.url, connections=3) as client:
        answers = await asyncio.gather(*(client.infer(number) for number in range(50)))
        assert [answer.output for answer in answers] == list(range(50))
        assert server.connections <= 3


@in_loop
async def test_an_output_has_the_type_that_was_asked_for() -> None:
    async with scripted(lambda said, number: good([0.5, 1])) as server, AsyncClient(server.url) as client:
        assert (await client.infer("x", output=list[float])).output == [0.5, 1.0]
        with pytest.raises(Failed, match="not what was asked for"):
            await client.infer("x", output=str)


@in_loop
async def test_bytes_go_as_they_are_and_come_back_as_bytes() -> None:
    async with scripted(lambda said, number: good("AP8=", output_encoding="base64")) as server:
        async with AsyncClient(server.url) as client:
            assert (await client.infer(b"\x00\xff")).output == b"\x00\xff"
            assert (await client.infer({"image": b"\x00\xff"})).output == b"\x00\xff"
        for said in server.said:
            assert said.fields["content-type"] == said.fields["accept"] == "application/msgpack"
            assert b"\x00\xff" in said.body


@in_loop
async def test_arrays_go_as_lists() -> None:
    numpy = pytest.importorskip("numpy")
    async with scripted() as server, AsyncClient(server.url) as client:
        assert (await client.infer(numpy.array([[1, 2], [3, 4]]))).output == [[1, 2], [3, 4]]


@in_loop
async def test_a_refusal_is_waited_for_and_tried_again_with_the_same_key() -> None:
    def script(said: Said, number: int) -> Told:
        return [bad(503, "SERVICE_OVERLOADED", 5.0), bad(429, "QUOTA_EXCEEDED", 5.0), good("at last")][number]

    async with scripted(script) as server, AsyncClient(server.url) as client:
        assert (await client.infer("x")).output == "at last"
        keys = {said.fields["idempotency-key"] for said in server.said}
        assert (len(server.said), len(keys)) == (3, 1)


@in_loop
async def test_each_request_has_a_key_of_its_own() -> None:
    async with scripted() as server, AsyncClient(server.url) as client, AsyncClient(server.url) as other:
        for each in (client, client, other):
            await each.infer("x")
        assert len({said.fields["idempotency-key"] for said in server.said}) == 3


@in_loop
async def test_without_once_only_a_retry_that_may_run_again_has_a_key() -> None:
    def script(said: Said, number: int) -> Told:
        return [bad(503, "SERVICE_OVERLOADED", 1.0), Told(hang_up=True), good("x")][number]

    async with scripted(script) as server, AsyncClient(server.url, retries=QUICK) as client:
        await client.infer("x", once=False)
        assert ["idempotency-key" in said.fields for said in server.said] == [False, False, True]


@in_loop
async def test_a_key_of_the_callers_is_sent_as_it_is() -> None:
    async with scripted() as server, AsyncClient(server.url) as client:
        await client.infer("x", idempotency_key="order-17")
        assert server.said[0].fields["idempotency-key"] == "order-17"


@in_loop
async def test_a_connection_that_breaks_off_is_tried_again() -> None:
    def script(said: Said, number: int) -> Told:
        return Told(hang_up=True) if number < 2 else good("x")

    async with scripted(script) as server, AsyncClient(server.url, retries=QUICK) as client:
        assert (await client.infer("x")).output == "x"
        assert len({said.fields["idempotency-key"] for said in server.said}) == 1


@in_loop
async def test_a_server_that_closes_idle_connections_is_no_trouble() -> None:
    def script(said: Said, number: int) -> Told:
        return Told(body=good("x").body, close=True)

    async with scripted(script) as server, AsyncClient(server.url, retries=QUICK) as client:
        for _ in range(4):
            assert (await client.infer("x")).output == "x"


@in_loop
async def test_what_the_function_refused_is_not_tried_again() -> None:
    async with (
        scripted(lambda said, number: bad(502, "BACKEND_FAILED")) as server,
        AsyncClient(server.url) as client,
    ):
        with pytest.raises(Failed) as failed:
            await client.infer("x")
        assert len(server.said) == 1
        error = failed.value
        assert (error.code, error.status, error.request_id) == ("BACKEND_FAILED", 502, "r-1")
        assert str(error) == "BACKEND_FAILED: it was not to be"


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (422, "UNACCEPTABLE", Refused),
        (401, "UNAUTHORIZED", Refused),
        (429, "QUOTA_EXCEEDED", Busy),
        (503, "SERVICE_DRAINING", Busy),
        (504, "DEADLINE_EXCEEDED", Late),
        (504, "BACKEND_TIMEOUT", Failed),
        (500, "INTERNAL", Failed),
        (418, "A_CODE_OF_LATER", Refused),
    ],
)
@in_loop
async def test_each_error_is_of_a_kind_to_decide_by(
    status: int, code: str, kind: type[InferenceError]
) -> None:
    never = Retries(attempts=1)
    async with (
        scripted(lambda said, number: bad(status, code, 40.0)) as server,
        AsyncClient(server.url, retries=never) as client,
    ):
        with pytest.raises(InferenceError) as raised:
            await client.infer("x")
        assert type(raised.value) is kind
        assert raised.value.retry_after == 0.04


@pytest.mark.parametrize("status", [502, 503, 504])
@in_loop
async def test_what_something_in_front_of_the_server_answers_is_tried_again(status: int) -> None:
    def script(said: Said, number: int) -> Told:
        return (
            good("x") if number else Told(status, b"<html>no healthy upstream</html>", {"retry-after": "0"})
        )

    async with scripted(script) as server, AsyncClient(server.url) as client:
        assert (await client.infer("x")).output == "x"


@in_loop
async def test_retry_after_is_read_from_the_head_too() -> None:
    values = [("3", 3.0), ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0), ("soon", None)]
    async with (
        scripted(lambda said, number: Told(503, b"", {"Retry-After": values[number][0]})) as server,
        AsyncClient(server.url, retries=Retries(attempts=1)) as client,
    ):
        for _, seconds in values:
            with pytest.raises(Busy) as busy:
                await client.infer("x")
            assert busy.value.retry_after == seconds


@in_loop
async def test_a_refusal_that_outlasts_the_deadline_is_told_at_once() -> None:
    async with (
        scripted(lambda said, number: bad(503, "SERVICE_OVERLOADED", 3_600_000.0)) as server,
        AsyncClient(server.url) as client,
    ):
        with pytest.raises(Busy):
            await client.infer("x", timeout=NO_TIME_LIMIT)
        assert len(server.said) == 1


@in_loop
async def test_each_try_tells_the_server_how_much_time_is_left() -> None:
    def script(said: Said, number: int) -> Told:
        return good("x") if number else bad(503, "SERVICE_OVERLOADED", 20.0)

    async with scripted(script) as server, AsyncClient(server.url, timeout=NO_TIME_LIMIT) as client:
        await client.infer("x")
        first, second = (said.json()["timeout_ms"] for said in server.said)
        assert NO_TIME_LIMIT * 1000 >= first >= second + 20


@in_loop
async def test_a_server_that_says_nothing_is_not_waited_for_beyond_the_deadline() -> None:
    never = asyncio.Event()
    async with (
        scripted(lambda said, number: Told(until=never)) as server,
        AsyncClient(server.url) as client,
    ):
        with pytest.raises(Late) as late:
            await client.infer("x", timeout=0.05)
        assert late.value.maybe_run
        assert (late.value.code, late.value.status) == ("NO_ANSWER", 0)


@in_loop
async def test_retries_end_when_the_budget_is_spent() -> None:
    rules = Retries(attempts=100, first_wait=0.0, budget=0.0, reserve=3.0)
    async with (
        scripted(lambda said, number: bad(503, "SERVICE_OVERLOADED", 0.0)) as server,
        AsyncClient(server.url, retries=rules) as client,
    ):
        for _ in range(5):
            with pytest.raises(Busy):
                await client.infer("x")
        assert len(server.said) == 5 + 3


@in_loop
async def test_nobody_there_is_told_so_after_the_last_try() -> None:
    async with AsyncClient(nowhere(), retries=QUICK) as client:
        with pytest.raises(NoContact, match=r"no connection to 127\.0\.0\.1:\d+") as lost:
            await client.infer("x")
        assert not lost.value.maybe_run


@in_loop
async def test_a_caller_that_is_cancelled_leaves_the_client_fit_for_others() -> None:
    never = asyncio.Event()
    async with (
        scripted(lambda said, number: Told(until=never)) as server,
        AsyncClient(server.url, connections=1) as client,
    ):
        asking = asyncio.create_task(client.infer("x"))
        await server.arrived.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        server.script = lambda said, number: good("the next")
        assert (await client.infer("y")).output == "the next"


@in_loop
async def test_a_server_that_makes_tasks_is_asked_for_the_result() -> None:
    task = {"task_id": "t", "timestamp": "2026-01-01T00:00:00Z"}

    def script(said: Said, number: int) -> Told:
        told = [
            Told(202, json.dumps(task | {"status": "PENDING"}).encode()),
            Told(200, json.dumps(task | {"status": "PROCESSING"}).encode()),
            Told(200, json.dumps(task | {"status": "SUCCESS", "output": [1, 2]}).encode()),
        ]
        return told[number]

    async with scripted(script) as server, AsyncClient(server.url, key="k", client_id="acme") as client:
        answer = await client.infer("x", output=list[int])
        assert (answer.output, answer.request_id) == ([1, 2], "t")
        assert server.said[1].line == "GET /v1/result/t?wait_ms=20000&client_id=acme HTTP/1.1"
        assert server.said[1].fields["authorization"] == "Bearer k"


@in_loop
async def test_a_task_that_failed_is_a_failure() -> None:
    def script(said: Said, number: int) -> Told:
        task = {"task_id": "t", "status": "FAILED", "error": {"error": "BACKEND_CRASHED", "message": "gone"}}
        return Told(200 if number else 202, json.dumps(task).encode())

    async with scripted(script) as server, AsyncClient(server.url) as client:
        with pytest.raises(Failed, match="BACKEND_CRASHED: gone"):
            await client.infer("x")


@in_loop
async def test_an_input_that_cannot_be_sent_says_what_can() -> None:
    async with scripted() as server, AsyncClient(server.url) as client:
        with pytest.raises(TypeError, match="make a text, list, dict or bytes of it"):
            await client.infer(object())


@in_loop
async def test_a_closed_client_says_so() -> None:
    async with scripted() as server:
        client = AsyncClient(server.url)
        await client.close()
        with pytest.raises(RuntimeError, match="make another one"):
            await client.infer("x")


@pytest.mark.parametrize("url", ["ftp://a", "http://", "http://a:port", "http://a b"])
def test_what_is_no_address_is_explained(url: str) -> None:
    with pytest.raises(UserMistake, match=r"try http://127\.0\.0\.1:8000"):
        AsyncClient(url)


def test_a_key_that_is_no_header_is_refused() -> None:
    with pytest.raises(ValueError, match="only ASCII can"):
        AsyncClient(key="pk_\nX")
