"""What a function in its own process gives, takes, and says when it cannot be loaded."""

import asyncio
import select
import socket
import time
from pathlib import Path

import msgspec
import pytest
from process_kit import (
    FUNCTIONS,
    Runner,
    Started,
    batch,
    each_loop,
    failed,
    failure,
    outputs,
)

from penstock.adapters.backends.process import BUSY, ProcessBackend, StartFailed
from penstock.errors import BatchRejected

pytestmark = pytest.mark.usefixtures("patient_processes")


@each_loop
@pytest.mark.parametrize(
    ("function", "given", "expected"),
    [
        ("echo", ["a", 'ü \\ " \n', ""], ["a", 'ü \\ " \n', ""]),
        ("as_tuple", ["a", "b"], ["a", "b"]),
        ("async_upper", ["a", "b"], ["A", "B"]),
        ("subclasses", ["a"], ["a"]),
    ],
)
def test_text_goes_in_and_out_in_order(
    run_loop: Runner, function: str, given: list[str], expected: list[str]
) -> None:
    async def body() -> None:
        async with Started(function) as backend:
            assert backend.function == function
            for _ in range(3):
                assert await outputs(backend, *given) == expected

    run_loop(body())


def be_busy_until(answered: bytes, sock: socket.socket) -> None:
    """And a little more. It leaves unread what has come, among it a heartbeat perhaps."""
    ends = time.monotonic() + 60.0
    select.select([sock], [], [], 60.0)
    while answered not in sock.recv(4096, socket.MSG_PEEK):
        assert time.monotonic() < ends, "no answer came"
        time.sleep(0.005)
    time.sleep(10 * BUSY)


def test_an_answer_that_lay_while_the_server_was_busy_tells_how_long() -> None:
    async def body() -> None:
        async with Started("echo") as backend:
            asked = asyncio.create_task(backend.run(batch("a")))
            await asyncio.sleep(0)  # it is sent
            child = backend._child
            assert child is not None
            be_busy_until(b'"a"', child._sock)
            assert (await asked).held_up > BUSY

    asyncio.run(body())


def test_json_goes_in_and_out_in_order() -> None:
    async def body() -> None:
        async with Started("echo", input_kind="json", output_kind="json") as backend:
            given = [{"a": [1, None]}, 2.5, "text", None]
            assert await outputs(backend, *given) == given
        async with Started("doubler", input_kind="json", output_kind="json") as backend:
            assert await outputs(backend, 1, 2) == [2, 4]

    asyncio.run(body())


@pytest.mark.parametrize(
    "function", ["with_parameters", "with_positional_parameters", "with_keyword_parameters"]
)
def test_a_function_that_asks_for_parameters_gets_those_of_its_batch(function: str) -> None:
    async def body() -> None:
        async with Started(function) as backend:
            assert backend.takes_parameters
            assert await outputs(backend, "a", "b", parameters=b'{"suffix":"!"}') == ["a!", "b!"]
            assert await outputs(backend, "a") == ["a-"]

    asyncio.run(body())


def test_a_function_that_does_not_ask_for_parameters_is_not_given_any() -> None:
    async def body() -> None:
        async with Started("echo") as backend:
            assert not backend.takes_parameters
            assert await outputs(backend, "a", parameters=b'{"suffix":"!"}') == ["a"]

    asyncio.run(body())


def test_what_the_function_prints_goes_to_standard_error_and_harms_nothing(
    capfd: pytest.CaptureFixture[str],
) -> None:
    async def body() -> None:
        async with Started("printing") as backend:
            assert await outputs(backend, "loudly") == ["loudly"]

    asyncio.run(body())
    out, err = capfd.readouterr()
    assert out == ""
    assert "printed loudly\n" in err
    assert "written\n" in err


def test_the_function_has_its_environment_an_empty_input_and_the_main_thread() -> None:
    async def body() -> None:
        async with Started("surroundings", environment={"CUDA_VISIBLE_DEVICES": "3"}) as backend:
            assert await outputs(backend, *"abcd") == ["3", "", "True", str(FUNCTIONS)]

    asyncio.run(body())


def test_the_settings_of_the_server_are_not_in_the_environment_of_the_function(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Tokens and passwords can be set there, and a function that prints its environment would print them."""
    for name in ("PENSTOCK_SERVER_ADMIN_TOKEN", "PENSTOCK_LEDGER_URL", "PENSTOCK_AUTH_KEYS_URL", "MY_MODEL"):
        monkeypatch.setenv(name, "s3cret")

    async def body() -> None:
        async with Started("environment", environment={"PENSTOCK_SLOT": "0"}) as backend:
            assert await outputs(backend, "PENSTOCK_", "MY_") == ["PENSTOCK_SLOT", "MY_MODEL"]

    asyncio.run(body())


@each_loop
def test_a_megabyte_for_each_of_64_requests_passes_whole(run_loop: Runner) -> None:
    async def body() -> None:
        values = [chr(65 + n % 26) * (1 << 20) + str(n) for n in range(64)]
        async with Started("echo") as backend:
            assert await outputs(backend, *values) == values
            assert await outputs(backend, "small") == ["small"]

    run_loop(body())


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("one_too_few", "one_too_few returned 2 outputs for 3 inputs"),
        (
            "not_a_list",
            "not_a_list returned str, not a list: return one output for each input, in the same order",
        ),
        (
            "nothing",
            "nothing returned NoneType, not a list: is a `return` missing? return one output for each input, in the"
            " same order",
        ),
        (
            "one_dict",
            "one_dict returned dict, not a list: return one output for each input, in the same order, such as a"
            " list of dicts",
        ),
        (
            "generated",
            "generated returned generator, not a list: return one output for each input, in the same order; list(…)"
            " makes one of an iterator",
        ),
        (
            "named_fields",
            "named_fields returned Point, a tuple of fields: return one output for each input, in the same order",
        ),
    ],
)
def test_an_answer_that_breaks_the_contract_rejects_the_batch_and_says_why(
    function: str, message: str
) -> None:
    async def body() -> None:
        async with Started(function) as backend:
            assert await failure(backend, BatchRejected, "a", "b", "c") == message
            assert await failure(backend, BatchRejected, "a", "b", "c") == message

    asyncio.run(body())


@pytest.mark.parametrize("function", ["raising", "async_raising"])
def test_an_exception_rejects_the_batch_and_its_words_are_only_for_the_one_concerned(function: str) -> None:
    async def body() -> None:
        async with Started(function) as backend:
            for _ in range(2):
                error = await failed(backend, BatchRejected, "a", "b", "c")
                assert (error.message, error.details) == (f"{function} raised ValueError", "no a")

    asyncio.run(body())


UNREADABLE = [b"5", b"1e999", b"7" * 5000, b'"\\ud800"', b"", b"[" * 5000, b'"\xff"']  # as text


@pytest.mark.parametrize("function", ["count_calls", "async_upper"])
def test_an_input_that_cannot_be_read_fails_alone_and_the_function_sees_the_others(function: str) -> None:
    async def body() -> None:
        async with Started(function, input_kind="text") as backend:
            for raw in UNREADABLE:
                asked = batch("a", "", "b")
                asked.requests[1].input = raw
                result = await backend.run(asked)
                assert [bool(output) for output in result.outputs] == [True, False, True]
                assert result.failures is not None
                assert list(result.failures) == [1]
                assert "was not called for this input, which cannot be read" in result.failures[1].message

    asyncio.run(body())


def test_a_function_is_not_called_where_no_input_can_be_read() -> None:
    async def body() -> None:
        async with Started("count_calls", input_kind="text") as backend:
            result = await backend.run(batch(5, 6))
            assert list(result.failures or ()) == [0, 1]
            assert await outputs(backend, "a") == ["1"]

    asyncio.run(body())


def test_where_each_input_has_parameters_of_its_own_they_stay_with_it_if_another_cannot_be_read() -> None:
    async def body() -> None:
        async with Started("paired", per_item=True) as backend:
            asked = batch("a", "", "c", parameters=b'[{"n":1},{"n":2},{"n":3}]')
            asked.requests[1].input = b"1e999"
            result = await backend.run(asked)
            assert [msgspec.json.decode(output or b"null") for output in result.outputs] == [
                ["a", {"n": 1}],
                None,
                ["c", {"n": 3}],
            ]
            assert list(result.failures or ()) == [1]

    asyncio.run(body())


def test_parameters_that_cannot_be_read_fail_the_inputs_for_good() -> None:
    async def body() -> None:
        async with Started("echo") as backend:
            result = await backend.run(batch("a", "b", parameters=b'{"n":1e999}'))
            assert list(result.failures or ()) == [0, 1]
            assert await outputs(backend, "a") == ["a"]

    asyncio.run(body())


def test_after_an_exception_of_any_kind_the_function_serves_on() -> None:
    async def body() -> None:
        async with Started("raising") as backend:
            pid = backend.pid
            error = await failed(backend, BatchRejected, "interrupt")
            assert (error.message, error.details) == ("raising raised KeyboardInterrupt", "")
            error = await failed(backend, BatchRejected, "long")
            assert error.details.startswith("é? é? ")
            assert len(error.details) == 500
            assert await outputs(backend, "fine") == ["fine"]
            assert backend.pid == pid

    asyncio.run(body())


@pytest.mark.parametrize(
    ("source", "function", "message"),
    [
        (
            "import os\n\nimport torhc\n",
            "f",
            "cannot import app.py: ModuleNotFoundError: No module named 'torhc' (line 3)",
        ),
        ("x = 1\ndef f(:\n", "f", "cannot import app.py: SyntaxError: invalid syntax (line 2)"),
        ("def g(): raise OSError('full')\n\ng()\n", "f", "cannot import app.py: OSError: full (line 1)"),
        ("import sys\nsys.exit(3)\n", "f", "cannot import app.py: SystemExit: 3 (line 2)"),
        (
            "def batchstring(x): return x\n",
            "batchstrng",
            "app.py has no function 'batchstrng'; did you mean 'batchstring'?",
        ),
        ("", "f", "app.py has no function 'f'"),
        ("f = 'text'\n", "f", "'f' in app.py is not a function but str"),
        (
            "def f(a, b, c): return a\n",
            "f",
            "'f' in app.py must take one list of inputs, and may take parameters: as a second argument, or by names"
            " that have defaults; it is declared (a, b, c)",
        ),
        ("import os\nos._exit(9)\n", "f", "app.py:f did not start: app.py:f exited with code 9"),
        (
            "def f(x): return x\ndef warmup():\n    return open('sample.txt').read()\n",
            "f",
            "warmup of 'f' in app.py failed: FileNotFoundError: [Errno 2] No such file or directory: 'sample.txt'"
            " (line 3)",
        ),
        (
            "def f(x): return x\ndef warmup(): return {1j}\n",
            "f",
            "warmup of 'f' in app.py failed: TypeError: Encoding objects of type complex is unsupported",
        ),
    ],
)
def test_a_function_that_cannot_be_loaded_is_explained_in_one_line(
    source: str, function: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("app.py").write_text(source)

    async def body() -> None:
        backend = ProcessBackend(f"app.py:{function}", warms_up=True)
        with pytest.raises(StartFailed) as caught:
            await backend.start()
        assert caught.value.message == message
        assert backend.pid is None
        if "cannot import" in message:
            assert "Traceback" in caught.value.details

    asyncio.run(body())


def test_a_module_is_found_from_the_working_directory_and_a_file_may_be_named_like_a_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("shop").mkdir()
    Path("shop/models.py").write_text("from . import helper\ndef f(x): return [helper.mark + i for i in x]\n")
    Path("shop/helper.py").write_text("mark = '>'\n")
    Path("queue.py").write_text(
        "import mark\nimport asyncio.queues\ndef f(x): return [mark.mark + i for i in x]\n"
    )
    Path("mark.py").write_text("mark = '#'\n")

    async def body() -> None:
        for target, expected in (("shop.models:f", ">a"), ("queue.py:f", "#a")):
            backend = ProcessBackend(target)
            await backend.start()
            try:
                assert await outputs(backend, "a") == [expected]
            finally:
                await backend.close()

    asyncio.run(body())


@pytest.mark.parametrize(
    "source",
    [
        "import signal\nsignal.pause()\n",
        "import signal\nclass f:\n    def __init__(self): signal.pause()\n    def __call__(self, x): return x\n",
        "import signal\nclass f:\n    def setup(self): signal.pause()\n    def __call__(self, x): return x\n",
    ],
    ids=["module", "class", "setup"],
)
def test_what_never_finishes_loading_is_given_up(source: str, tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(source)

    async def body() -> None:
        backend = ProcessBackend(f"{tmp_path}/slow.py:f", start_timeout=0.3)  # it never starts
        with pytest.raises(StartFailed, match=r"slow.py:f was not ready within the 0.3 s that start_timeout"):
            await backend.start()
        assert backend.pid is None

    asyncio.run(body())
