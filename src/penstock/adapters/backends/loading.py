"""Finding the user's function inside the child process, and saying in one line why it is not there."""

import difflib
import importlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

LONGEST_MESSAGE = 500


class CannotLoad(Exception):
    def __init__(self, message: str, details: str = "") -> None:
        super().__init__(message)
        self.details = details


class Loaded(NamedTuple):
    function: Callable[..., Any]
    pressure: Callable[[], Any] | None  # how full it is, where its module says so


def load(target: str) -> Loaded:
    """The function of `file.py:function` or `module:function`, and the `pressure` beside it."""
    place, _, name = target.rpartition(":")
    try:
        module = import_file(Path(place)) if place.endswith(".py") else import_module(place)
    except BaseException as error:  # whatever it is, also SystemExit: the code at import is the user's
        raise CannotLoad(why_not_imported(place, error), utf8(traceback.format_exc())) from None
    function = getattr(module, name, None)
    if function is None:
        raise CannotLoad(f"{place} has no function {name!r}{suggestion(name, module)}")
    if not callable(function):
        raise CannotLoad(f"{name!r} in {place} is not a function but {type(function).__name__}")
    check_signature(function, f"{name!r} in {place}")
    return Loaded(function, pressure_in(module, place))


def pressure_in(module: ModuleType, place: str) -> Callable[[], Any] | None:
    """What has that name and wants arguments is something else."""
    pressure = getattr(module, "pressure", None)
    if not callable(pressure):
        return None
    try:
        inspect.signature(pressure).bind()
    except (TypeError, ValueError):
        return None
    if inspect.iscoroutinefunction(pressure):
        raise CannotLoad(f"'pressure' in {place} is async: write it as a plain function that answers at once")
    return pressure  # type: ignore[no-any-return]


def import_file(path: Path) -> ModuleType:
    """Import a file the way `python file.py` would see it: with its own directory first on the path."""
    path = path.resolve()
    sys.path.insert(0, str(path.parent))
    # A user's queue.py or json.py must not take the place of the module everyone else means.
    taken = path.stem in sys.modules or path.stem in sys.stdlib_module_names
    name = f"_{path.stem}" if taken else path.stem
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def import_module(name: str) -> ModuleType:
    sys.path.insert(0, str(Path.cwd()))
    return importlib.import_module(name)


def parameters_kind(function: Callable[..., Any]) -> Any:
    """How `function` takes the parameters of its batch (an `inspect` kind), or None if it takes none."""
    try:
        _, *others = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # it takes nothing at all; or it is written in C and does not tell
        return None
    return next((other.kind for other in others if other.name == "parameters"), None)


def check_signature(function: Callable[..., Any], where: str) -> None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return
    kind = parameters_kind(function)
    try:
        if kind is None:
            signature.bind([])
        elif kind is inspect.Parameter.POSITIONAL_ONLY:
            signature.bind([], {})
        else:
            signature.bind([], parameters={})
    except TypeError:
        raise CannotLoad(
            f"{where} must take one list of inputs, and may take `parameters`; it is declared {signature}"
        ) from None


def why_not_imported(place: str, error: BaseException) -> str:
    line = line_in(place, error)
    message = describe(error.__class__, error.msg if isinstance(error, SyntaxError) else error)
    return f"cannot import {place}: {message}" + (f" (line {line})" if line else "")


def line_in(place: str, error: BaseException) -> int | None:
    """Where in the user's own file it went wrong, if it did so there."""
    if place.endswith(".py"):
        path = str(Path(place).resolve())
    else:
        path = getattr(sys.modules.get(place), "__file__", None) or f"/{place.replace('.', '/')}.py"
    if isinstance(error, SyntaxError) and error.filename and error.filename.endswith(path):
        return error.lineno
    lines = [
        line
        for frame, line in traceback.walk_tb(error.__traceback__)
        if frame.f_code.co_filename.endswith(path)
    ]
    return lines[-1] if lines else None


def suggestion(name: str, module: ModuleType) -> str:
    functions = [
        known
        for known, value in vars(module).items()
        if callable(value) and not known.startswith("_") and not isinstance(value, type)
    ]
    near = difflib.get_close_matches(name, functions, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def describe(kind: type[BaseException], words: object) -> str:
    """`ValueError: message`, on one line, fit for a frame and for a log."""
    try:
        text = str(words)
    except Exception:  # an exception that cannot even say what it is
        text = "(its message could not be read)"
    text = " ".join(text.split())
    return utf8(f"{kind.__name__}: {text}"[:LONGEST_MESSAGE] if text else kind.__name__)


def utf8(text: str) -> str:
    """A frame holds UTF-8 only, and Python's text may hold half a surrogate pair."""
    return text.encode("utf-8", "replace").decode()
