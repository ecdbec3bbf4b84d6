"""What people's functions look like: what they return, the parameters they take, classes, and their exceptions."""

import asyncio
import logging
import os
from pathlib import Path
from typing import Any

import pytest
from process_kit import Started, batch, failed, outputs

from penstock.adapters.backends import process
from penstock.adapters.backends.process import ProcessBackend, StartFailed
from penstock.errors import BackendError, BackendOutOfMemory, BatchRejected
from penstock.output import without_note
from penstock.types import Failure, Result

pytestmark = pytest.mark.usefixtures("patient_processes")

MODELS = Path(__file__).with_name("model_functions.py")


def at(function: str, **options: Any) -> Started:
    return Started(function, file=MODELS, **options)


def run(function: str, *inputs: object, parameters: bytes = b"", **options: Any) -> Result:
    """What one batch gives, in a process of its own."""

    async def body() -> Result:
        async with at(function, **options) as backend:
            return await backend.run(batch(*inputs, parameters=parameters))

    return asyncio.run(body())


def values(function: str, *inputs: object, parameters: bytes = b"", **options: Any) -> list[Any]:
    async def body() -> list[Any]:
        async with at(function, **options) as backend:
            return await outputs(backend, *inputs, parameters=parameters)

    return asyncio.run(body())


# ---- outputs -----------------------------------------------------------------------------------------------


def test_whatever_a_function_returns_has_its_form_in_json() -> None:
    expected = {
        "text": "text",
        "number": 7,
        "yes": True,
        "nothing": None,
        "bytes": "AP8=",
        "dataclass": {"label": "cat", "scores": [0.5, 1.0]},
        "named tuple": [1, 2],
        "tuple": [1, "a"],
        "set": [3],
        "decimal": "1.50",
        "uuid": "00000000-0000-0000-0000-000000000001",
        "day": "2026-01-02",
        "deque": [1, 2],
        "ordered": {"b": 1, "a": 2},
        "dict by number": {"1": "one"},
    }
    assert values("plain_things", *expected) == list(expected.values())


def test_no_library_is_imported_that_the_function_has_not_imported() -> None:
    async def body() -> None:
        async with at("libraries") as backend:
            with pytest.raises(BatchRejected, match="returned 0 outputs for 3 inputs"):
                await backend.run(batch("numpy", "torch", "pydantic"))

    asyncio.run(body())


NUMPY = """
import numpy

def rows(inputs):
    return numpy.arange(2 * len(inputs), dtype=numpy.float32).reshape(len(inputs), 2) / 2

def scalars(inputs):
    return numpy.array([len(text) for text in inputs])

def texts(inputs):
    return numpy.array(inputs)

def one_number(inputs):
    return numpy.float32(1.5)

def items(inputs):
    things = [numpy.float16(0.5), numpy.int64(3), numpy.bool_(True), numpy.str_("s"), numpy.longdouble(0.25),
              numpy.array([[1, 2]]), {"vector": numpy.array([1.0]), numpy.str_("k"): numpy.uint8(1)}]
    return things

def one_bad_row(inputs):
    return numpy.array([[1.0, 2.0], [numpy.nan, 1.0], [3.0, 4.0]], dtype=numpy.float32)
"""


@pytest.fixture
def numpy_file(tmp_path: Path) -> Path:
    pytest.importorskip("numpy")
    (tmp_path / "arrays.py").write_text(NUMPY)
    return tmp_path / "arrays.py"


def test_the_rows_of_an_array_are_the_outputs(numpy_file: Path) -> None:
    async def body() -> None:
        async with Started("rows", file=numpy_file) as backend:
            assert await outputs(backend, "a", "b") == [[0.0, 0.5], [1.0, 1.5]]
        async with Started("scalars", file=numpy_file) as backend:
            assert await outputs(backend, "a", "bbb") == [1, 3]
        async with Started("texts", file=numpy_file, output_kind="text") as backend:
            assert await outputs(backend, "a", "bbb") == ["a", "bbb"]
        async with Started("one_number", file=numpy_file) as backend:
            error = await failed(backend, BatchRejected, "a")
            assert error.message.startswith("one_number returned float32, not a list: ")

    asyncio.run(body())


def test_numbers_and_arrays_of_numpy_are_outputs_alone_and_inside_others(numpy_file: Path) -> None:
    async def body() -> None:
        async with Started("items", file=numpy_file) as backend:
            expected = [0.5, 3, True, "s", 0.25, [[1, 2]], {"vector": [1.0], "k": 1}]
            assert await outputs(backend, *"abcdefg") == expected

    asyncio.run(body())


def test_a_row_with_nan_fails_alone(numpy_file: Path) -> None:
    async def body() -> None:
        async with Started("one_bad_row", file=numpy_file) as backend:
            result = await backend.run(batch(*"abc"))
            assert result.outputs == [b"[1.0,2.0]", b"", b"[3.0,4.0]"]
            assert list(result.failures or ()) == [1]

    asyncio.run(body())


def test_tensors_of_torch_are_outputs(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is too large to be a dependency of the tests")
    (tmp_path / "tensors.py").write_text(
        "import torch\n"
        "def rows(inputs): return torch.ones(len(inputs), 2, requires_grad=True, dtype=torch.bfloat16)\n"
        "def items(inputs): return [torch.tensor(1.5), {'ids': torch.tensor([1, 2])}]\n"
    )

    async def body() -> None:
        async with Started("rows", file=tmp_path / "tensors.py") as backend:
            assert await outputs(backend, "a", "b") == [[1.0, 1.0], [1.0, 1.0]]
        async with Started("items", file=tmp_path / "tensors.py") as backend:
            assert await outputs(backend, "a", "b") == [1.5, {"ids": [1, 2]}]

    asyncio.run(body())


@pytest.mark.parametrize("library", ["pydantic", "pydantic.v1"])
def test_pydantic_models_are_outputs(library: str, tmp_path: Path) -> None:
    pytest.importorskip(library)
    (tmp_path / "answers.py").write_text(
        f"from {library} import BaseModel\n"
        "class Answer(BaseModel):\n    label: str\n    score: float\n"
        "def f(inputs):\n    return [Answer(label='cat', score=0.5), [Answer(label='n', score='nan')]]\n"
    )

    async def body() -> None:
        async with Started("f", file=tmp_path / "answers.py") as backend:
            result = await backend.run(batch("a", "b"))
            assert result.outputs == [b'{"label":"cat","score":0.5}', b""]
            assert "NaN" in (result.failures or {})[1].message

    asyncio.run(body())


def test_an_output_that_json_cannot_hold_fails_alone_and_says_what_to_do() -> None:
    unspeakable = "for this input, which JSON cannot say: return None or a finite number in its place"
    strange = (
        "for this input, which JSON cannot hold: return text, numbers, bytes, lists, dicts, arrays, dataclasses or"
        " pydantic models"
    )
    said = {
        "nan": f"returned NaN {unspeakable}",
        "infinity": f"returned infinity {unspeakable}",
        "object": f"returned object {strange}",
        "object inside": f"returned dict that holds complex {strange}",
        "half a character": "returned text for this input that UTF-8 cannot hold: half of a surrogate pair",
        "error": "returned ValueError for this input",
        "raises": "returned Stubborn for this input, which could not be made JSON (RuntimeError)",
        "noted nan": f"returned NaN {unspeakable}",
    }
    details = {"error": "no room for 17", "raises": "not now"}
    inputs = ["fine", *said, "null"]
    result = run("as_told", *inputs)
    assert result.outputs == [b'"fine"', *[b""] * len(said), b'[null,"null"]']
    assert result.failures == {
        place: Failure("BACKEND_FAILED", f"as_told {said[name]}", details.get(name, ""))
        for place, name in enumerate(inputs)
        if name in said
    }


def test_where_the_output_is_set_to_text_anything_else_fails_alone() -> None:
    result = run("as_told", "fine", 7, output_kind="text")
    assert result.outputs == [b'"fine"', b""]
    assert (result.failures or {})[1].message == (
        "as_told returned int for this input, and the model's output is set to text: return str, or set output to"
        " auto"
    )


def test_what_a_function_tells_of_an_output_travels_behind_it() -> None:
    result = run("as_told", "noted", "fine")
    assert [without_note(output) for output in result.outputs] == [
        (b'"noted"', '"tokens_used":3'),
        (b'"fine"', ""),
    ]


# ---- inputs and parameters ---------------------------------------------------------------------------------


def test_an_input_reaches_the_function_as_the_value_that_it_is() -> None:
    given = ["text", 7, 1.5, None, True, [1, {"a": "b"}], {"q": []}]
    assert values("as_told", *given) == given


@pytest.mark.parametrize(
    ("function", "names", "with_some", "with_none"),
    [
        ("by_second", None, {"top_k": 9}, {}),
        ("by_optional_dict", None, {"top_k": 9}, {}),
        ("by_any_keyword", None, {"top_k": 9}, {}),
        ("by_keywords", ["top_k", "sample"], [9, False], [5, False]),
        ("Model.shout", ["twice"], None, "A"),
        ("plain_things", [], None, None),
    ],
)
def test_parameters_reach_a_function_as_its_signature_asks_for_them(
    function: str, names: list[str] | None, with_some: Any, with_none: Any, tmp_path: Path
) -> None:
    async def body() -> None:
        environment = {"CLOSED": str(tmp_path / "closed")}
        async with at(function, environment=environment) as backend:
            assert backend.parameter_names == names
            assert backend.takes_parameters == (names != [])
            if with_some is not None:
                assert await outputs(backend, "a", parameters=b'{"top_k":9}') == [with_some]
            if with_none is not None:
                assert await outputs(backend, "a") == [with_none]

    asyncio.run(body())


@pytest.mark.parametrize(
    ("function", "parameters", "message"),
    [
        ("by_keywords", b'{"topk":9}', "by_keywords takes no parameter 'topk'; it takes top_k, sample"),
        ("by_any_keyword", b'{"inputs":9}', "by_any_keyword takes no parameter 'inputs'"),
    ],
)
def test_parameters_that_a_function_does_not_take_fail_its_requests_and_are_not_tried_again(
    function: str, parameters: bytes, message: str
) -> None:
    result = run(function, "a", "b", parameters=parameters)
    failure = Failure("BACKEND_FAILED", message)
    assert not failure.splittable
    assert result.failures == {0: failure, 1: failure}


def test_parameters_of_each_input_are_a_list_of_dicts() -> None:
    async def body() -> None:
        async with at("by_second", per_item=True) as backend:
            result = await backend.run(batch("a", "b", parameters=b'[{"k":1},{}]'))
            assert result.outputs == [b'[{"k":1},{}]'] * 2
        backend = at("by_keywords", per_item=True).backend
        with pytest.raises(StartFailed, match='"per_item" needs a second argument without a default'):
            await backend.start()

    asyncio.run(body())


# ---- classes -----------------------------------------------------------------------------------------------


def test_a_class_is_made_and_set_up_once_called_with_batches_and_closed_at_the_end(tmp_path: Path) -> None:
    closed = tmp_path / "closed"

    async def body() -> None:
        async with at("Model", environment={"CLOSED": str(closed)}) as backend:
            assert backend.function == "Model"
            assert await outputs(backend, "a") == ["made,set up,called!"]
            assert not closed.exists()
        assert closed.read_text() == "closed"

    asyncio.run(body())


def test_a_class_may_set_up_and_close_on_the_loop_that_it_is_called_on(tmp_path: Path) -> None:
    closed = tmp_path / "closed"

    async def body() -> None:
        async with at("AsyncModel", environment={"CLOSED": str(closed)}) as backend:
            assert await outputs(backend, "a", "b") == ["True", "True"]
        assert closed.read_text() == "closed"

    asyncio.run(body())


@pytest.mark.parametrize(
    ("function", "inputs"),
    [
        ("Warm", [b'"a text"']),
        ("AsyncWarm", [b'"one"', b'{"two":2}']),
        ("WarmByItself", []),
        ("Model", [b"[1,2]"]),  # the class has none, and the file has one
        ("warmup", []),  # it is what is served
        ("WarmedByHand", []),  # its own takes an argument
    ],
)
def test_warmup_makes_inputs_to_warm_up_with(function: str, inputs: list[bytes]) -> None:
    async def body() -> None:
        async with at(function, warms_up=True, environment={"CLOSED": os.devnull}) as backend:
            assert backend.warm_up_inputs == inputs

    asyncio.run(body())


def test_warmup_is_not_called_where_nothing_is_to_be_run() -> None:
    async def body() -> None:
        async with at("Warm") as backend:
            assert backend.warm_up_inputs == []
            assert await outputs(backend, "a") == ["cold"]

    asyncio.run(body())


# ---- memory ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ("torch", BackendOutOfMemory),
        ("old torch", BackendOutOfMemory),
        ("jax", BackendOutOfMemory),
        ("onnx", BackendOutOfMemory),
        ("numpy", BackendOutOfMemory),
        ("wrapped", BackendOutOfMemory),
        ("while handled", BackendOutOfMemory),
        ("CUDA out of memory, says the input", BatchRejected),
        ("another", BatchRejected),
        ("speechless", BatchRejected),
    ],
)
def test_an_error_that_says_that_memory_is_short_is_told_from_others(
    error: str, kind: type[BackendError]
) -> None:
    async def body() -> None:
        async with at("run_out") as backend:
            assert (await failed(backend, kind, error)).message.startswith("run_out raised ")

    asyncio.run(body())


# ---- the end -----------------------------------------------------------------------------------------------


def test_a_close_that_never_ends_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "CLOSE_LIMIT", 0.2)  # else the test would wait for the usual one

    async def body() -> None:
        async with at("NeverCloses", environment={"CLOSED": str(tmp_path / "closed")}) as backend:
            assert await outputs(backend, "a") == ["a"]
        assert backend.pid is None

    asyncio.run(body())


def test_a_method_of_an_object_and_of_a_class_can_be_served(tmp_path: Path) -> None:
    environment = {"CLOSED": str(tmp_path / "closed")}
    assert values("model.shout", "a") == ["A"]
    assert values("model", "a") == [
        "made,called?"
    ]  # its file made it, so it is neither set up nor closed here
    assert not (tmp_path / "closed").exists()
    assert values("Model.shout", "a", parameters=b'{"twice":true}', environment=environment) == ["AA"]
    assert (tmp_path / "closed").exists()


@pytest.mark.parametrize(
    ("source", "path", "message"),
    [
        (
            "class M:\n    def predict(self, inputs): return inputs\n",
            "M",
            "'M' in app.py is a class without `def __call__(self, inputs)`: add one, or name a method:"
            " app.py:M.predict",
        ),
        (
            "class M:\n    def predict(self, inputs): return inputs\n",
            "M.predct",
            "M in app.py has no method 'predct'; did you mean 'predict'?",
        ),
        (
            "class M:\n    def __init__(self, size): pass\n    def __call__(self, inputs): return inputs\n",
            "M",
            "'M' in app.py is made without arguments, and it is declared (size): give each a default",
        ),
        (
            "class M:\n    def __init__(self): raise OSError('no weights')\n    def __call__(self, x): return x\n",
            "M",
            "cannot make M of app.py: OSError: no weights (line 2)",
        ),
        (
            "class M:\n    def setup(self): raise OSError('no GPU')\n    def __call__(self, x): return x\n",
            "M",
            "setup of 'M' in app.py failed: OSError: no GPU (line 2)",
        ),
        (
            "class M:\n    async def setup(self): raise OSError('no GPU')\n    def __call__(self, x): return x\n",
            "M",
            "setup of 'M' in app.py failed: OSError: no GPU (line 2)",
        ),
        (
            "class M:\n    def __call__(self): return []\n",
            "M",
            "'M' in app.py must take one list of inputs, and may take parameters: as a second argument, or by names"
            " that have defaults; it is declared ()",
        ),
    ],
)
def test_a_class_that_cannot_be_served_is_explained_in_one_line(
    source: str, path: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("app.py").write_text(source)

    async def body() -> None:
        backend = ProcessBackend(f"app.py:{path}")
        with pytest.raises(StartFailed) as caught:
            await backend.start()
        assert caught.value.message == message
        assert ("Traceback" in caught.value.details) == ("Error: " in message)

    asyncio.run(body())


# ---- exceptions --------------------------------------------------------------------------------------------


def test_an_exception_is_logged_with_its_words_and_its_place_once_and_never_with_the_input(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def body() -> None:
        async with at("raising") as backend:
            for _ in range(3):
                error = await failed(backend, BatchRejected, "Xyzzy-4711 multiply")
                assert error.message == "raising raised ValueError"
                assert error.details == "cannot multiply 3x4 and 5x6 for Xyzzy-4711 multiply with {}"

    with caplog.at_level(logging.ERROR, "penstock.worker"):
        asyncio.run(body())
    [record] = caplog.records
    said = vars(record)
    assert said["error"] == "ValueError: cannot… 3x4 and 5x6 for … with {}"
    assert said["worker"] == "slot-0"
    lines = said["traceback"].splitlines()
    assert lines[0].startswith(f'  File "{MODELS}", line ')
    assert lines[0].endswith("in raising")
    assert lines[1].strip().startswith("raise ValueError(")
