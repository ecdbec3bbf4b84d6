from pathlib import Path

import pytest

from penstock.errors import UserMistake
from penstock.target import Target, parse_target

SOURCE = """
import torch_that_is_not_installed
from elsewhere import imported as renamed

def batchstring(inputs): return inputs
async def batchjson(inputs): return inputs
def _private(inputs): return inputs
if True:
    def conditional(inputs): return inputs
try:
    from fast import quick
except ImportError:
    quick = batchstring
assigned = annotated = batchstring
class Model:
    def __call__(self, inputs): return inputs
class Helper:
    pass
typed: object = batchstring

raise SystemExit("must never run")
"""


@pytest.fixture(autouse=True)
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "app.py").write_text(SOURCE)
    package = tmp_path / "shop" / "models"
    package.mkdir(parents=True)
    (tmp_path / "shop" / "__init__.py").write_text("raise SystemExit('must never run')")
    (package / "__init__.py").write_text("")
    (package / "embed.py").write_text(SOURCE)
    bare = tmp_path / "bare" / "inner"
    bare.mkdir(parents=True)
    (bare / "leaf.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def mistake(text: str) -> str:
    with pytest.raises(UserMistake) as caught:
        parse_target(text)
    assert "\n" not in caught.value.message
    return caught.value.message


def test_a_file_and_a_function_are_taken_apart() -> None:
    assert parse_target("app.py:batchstring") == Target(
        "function", "app.py:batchstring", file="app.py", function="batchstring"
    )


@pytest.mark.parametrize("name", ["Model", "Model.predict", "assigned.predict", "assigned.a.b"])
def test_a_class_an_object_and_their_methods_are_functions_too(name: str) -> None:
    assert parse_target(f"app.py:{name}").function == name


def test_a_class_without_functions_is_what_is_meant() -> None:
    Path("only.py").write_text("class Helper: pass\nclass Model:\n    def __call__(self, inputs): ...\n")
    assert mistake("only.py") == "which function of only.py? write only.py:Model (it has: Model)"


def test_a_module_and_a_function_are_taken_apart_without_running_its_packages() -> None:
    assert parse_target("shop.models.embed:batchjson") == Target(
        "function", "shop.models.embed:batchjson", module="shop.models.embed", function="batchjson"
    )


@pytest.mark.parametrize(
    "name",
    ["batchjson", "_private", "conditional", "quick", "assigned", "annotated", "typed", "renamed"],
)
def test_whatever_binds_a_name_at_the_top_of_the_file_makes_it_a_function_to_serve(name: str) -> None:
    assert parse_target(f"app.py:{name}").function == name


@pytest.mark.parametrize(
    "text",
    ["app:batchstring", "bare.inner.leaf:batchstring", "json:dumps", "math:sqrt", "sys:exit"],
)
def test_modules_of_every_make_are_located(text: str) -> None:
    assert parse_target(text).module == text.partition(":")[0]


def test_a_path_with_directories_and_a_colon_keeps_them(workplace: Path) -> None:
    folder = workplace / "a:b"
    folder.mkdir()
    (folder / "app.py").write_text(SOURCE)

    assert parse_target("a:b/app.py:batchstring").file == "a:b/app.py"
    assert parse_target(f"{workplace}/app.py:batchstring").file == f"{workplace}/app.py"


def test_a_star_import_may_bring_any_name(workplace: Path) -> None:
    (workplace / "star.py").write_text("from models import *")

    assert parse_target("star.py:anything").function == "anything"


def test_addresses_are_passed_on() -> None:
    target = parse_target("https://gpu-1:9000/batch?x=1")

    assert (target.kind, target.url) == ("http", "https://gpu-1:9000/batch?x=1")


@pytest.mark.parametrize("text", ["grpc://gpu-1:8001/embedder", "grpcs://[::1]:8001/a%20b"])
def test_grpc_addresses_are_passed_on(text: str) -> None:
    assert parse_target(text) == Target("grpc", text)


@pytest.mark.parametrize(
    "text", ["grpc://", "grpc://gpu-1/m", "grpc://gpu-1:8001", "grpc://gpu-1:8001/", "grpcs://gpu-1:8001/m/1"]
)
def test_a_misshapen_grpc_address_is_refused_with_the_right_shape(text: str) -> None:
    assert "://host:port/model" in mistake(text)


def test_a_simulated_gpu_is_passed_on_unread() -> None:
    target = parse_target("sim:a=50ms,b=0.5ms")

    assert (target.kind, target.text) == ("sim", "sim:a=50ms,b=0.5ms")


@pytest.mark.parametrize(
    "text", ["http://", "http:///batch", "http://gpu:port/", "http://gpu one/", "http://[1"]
)
def test_a_misshapen_address_is_refused_with_the_right_shape(text: str) -> None:
    assert "http://host:port/path" in mistake(text)


@pytest.mark.parametrize("text", ["gpu-1:9000/batch", "localhost:9000"])
def test_an_address_without_its_scheme_is_recognised(text: str) -> None:
    assert mistake(text) == f"{text!r} looks like an address; did you mean http://{text}?"


@pytest.mark.parametrize("text", ["", "banana", "two words", ":", "-x:y", "app.py:a b"])
def test_anything_else_is_refused_with_the_forms_there_are(text: str) -> None:
    message = mistake(text)

    for form in ("app.py:function", "package.module:function", "http://", "grpc://", "sim:100ms"):
        assert form in message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ap.py:batchstring", "no such file ap.py; did you mean app.py?"),
        ("app.py:batchstrng", "app.py has no function 'batchstrng'; did you mean 'batchstring'?"),
        (
            "shop.models.embed:batchjsn",
            "shop.models.embed has no function 'batchjsn'; did you mean 'batchjson'?",
        ),
        ("app.py:zzz", "app.py has no function 'zzz'; it has: batchstring, batchjson, conditional, Model"),
        ("ap:batchstring", "no module named 'ap'; did you mean app?"),
        (
            "shop.nothing:f",
            "no module named 'shop.nothing'; is it installed, or in the current directory?",
        ),
        (
            "json.decoder.deeper:f",
            "no module named 'json.decoder.deeper'; is it installed, or in the current directory?",
        ),
        ("math:", "which function of math? write math:function"),
    ],
)
def test_a_slip_is_named_and_put_right(text: str, message: str) -> None:
    assert mistake(text) == message


@pytest.mark.parametrize("text", ["app.py", "app.py:", "app", "app:"])
def test_a_missing_function_lists_those_there_are(text: str) -> None:
    place = text.rstrip(":")

    assert mistake(text) == (
        f"which function of {place}? write {place}:batchstring (it has: batchstring, batchjson, conditional, Model)"
    )


def test_a_file_in_a_missing_folder_says_where_it_was_looked_for(workplace: Path) -> None:
    assert mistake("nowhere/app.py:f") == f"no such file nowhere/app.py; looked in {workplace}/nowhere"


def test_a_file_that_cannot_be_parsed_names_the_line(workplace: Path) -> None:
    (workplace / "broken.py").write_text("x = 1\ndef f(:\n")

    assert mistake("broken.py:f") == "cannot read broken.py: invalid syntax (line 2)"


def test_a_file_of_null_bytes_is_refused_in_one_line(workplace: Path) -> None:
    (workplace / "nulls.py").write_bytes(b"\0\0")

    assert mistake("nulls.py:f").startswith("cannot read nulls.py: ")


def test_a_module_that_computes_its_names_is_trusted(workplace: Path) -> None:
    (workplace / "lazy.py").write_text("def __getattr__(name): return len\n")

    assert parse_target("lazy:anything").function == "anything"
