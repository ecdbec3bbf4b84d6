"""Loads the user's function, and says in one line why that fails. The function's process calls it once, when it
starts (`child.py`); no other process imports user code.

    app.py:function           a function
    app.py:Model              a class: one object is made here, and called with each batch
    app.py:Model.predict      the same, and the method that is called
    app.py:model.predict      a method of an object that the file makes itself

If the object is made here, its `setup()` is called before the first batch and its `close()` at the end. Its
`warmup()`, or a function of this name beside the function, makes inputs to warm up with.
"""

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

from penstock.adapters.backends.foreign_text import named, utf8


class CannotLoad(Exception):
    """The function cannot be loaded. The message is one line for the operator; `details` is the traceback."""

    def __init__(self, message: str, details: str = "") -> None:
        super().__init__(message)
        self.details = details


class Loaded(NamedTuple):
    """A user's function, and the hooks that were found beside it."""

    function: Callable[..., Any]
    name: str
    where: str  # path and source, as messages show them
    pressure: Callable[[], Any] | None = None  # the user's own measure of how full the function is
    setup: Callable[[], Any] | None = None  # to be called before the first batch
    close: Callable[[], Any] | None = None  # to be called after the last
    warm_up: Callable[[], Any] | None = None  # makes inputs to warm up with, after `setup`


def load(target: str) -> Loaded:
    """Loads the function that `target` names, and the hooks beside it. Its source is app.py or package.module."""
    source, _, path = target.rpartition(":")
    try:
        module = import_file(Path(source)) if source.endswith(".py") else import_module(source)
    except BaseException as error:  # whatever it is, also SystemExit: the code at import is the user's
        raise CannotLoad(why_not(f"cannot import {source}", source, error), trace_of(error)) from None
    function, made = follow(module, path, source)
    if not callable(function):
        raise CannotLoad(f"{path!r} in {source} is not a function but {type(function).__name__}")
    name = getattr(function, "__name__", type(function).__name__)
    setup, close = (getattr(made, hook, None) for hook in ("setup", "close"))
    where, pressure = f"{path!r} in {source}", pressure_in(module, source)
    return Loaded(function, name, where, pressure, setup, close, warm_up_of(made, module, function))


def warm_up_of(made: Any, module: ModuleType, function: Any) -> Callable[[], Any] | None:
    """Returns the object's `warmup`, or the module's, if it needs no arguments and is not the function itself."""
    found = getattr(made, "warmup", None) or getattr(module, "warmup", None)
    return found if found != function and callable(found) and needs_no_arguments(found) else None


def follow(module: ModuleType, path: str, source: str) -> tuple[Any, Any]:
    """Returns what the dotted path leads to, and the object that was made for it, if any."""
    here: Any = module
    made: Any = None
    for name in path.split("."):
        if isinstance(here, type) and inspect.isfunction(inspect.getattr_static(here, name, None)):
            here = made = make(here, source)
        try:
            here = getattr(here, name)
        except AttributeError:
            if here is module:
                raise CannotLoad(f"{source} has no function {name!r}{suggestion(name, here)}") from None
            kind = here.__name__ if isinstance(here, type) else type(here).__name__
            raise CannotLoad(f"{kind} in {source} has no method {name!r}{suggestion(name, here)}") from None
    if isinstance(here, type):
        check_callable(here, path, source)
        here = made = make(here, source)
    return here, made


def check_callable(kind: type, path: str, source: str) -> None:
    """Checks a class before an object of it is made, which may take long."""
    if any("__call__" in vars(each) for each in kind.__mro__):
        return
    methods = [
        name
        for name, value in vars(kind).items()
        if inspect.isfunction(value) and not name.startswith("_") and name not in ("setup", "close", "warmup")
    ]
    hint = f", or name a method: {source}:{path}.{methods[0]}" if methods else ""
    raise CannotLoad(f"{path!r} in {source} is a class without `def __call__(self, inputs)`: add one{hint}")


def make(kind: type, source: str) -> Any:
    """Returns an object of the user's class. Raises CannotLoad."""
    try:
        inspect.signature(kind).bind()
    except TypeError:
        declared = inspect.signature(kind)
        raise CannotLoad(
            f"{kind.__name__!r} in {source} is made without arguments, and it is declared {declared}:"
            " give each a default"
        ) from None
    except ValueError:
        pass  # a class written in C does not tell its signature
    try:
        return kind()
    except BaseException as error:
        raise CannotLoad(
            why_not(f"cannot make {kind.__name__} of {source}", source, error), trace_of(error)
        ) from None


def trace_of(error: BaseException) -> str:
    """Returns the traceback of an error, fit for a frame."""
    return utf8("".join(traceback.format_exception(error)))


def pressure_in(module: ModuleType, source: str) -> Callable[[], Any] | None:
    """Returns the module's function `pressure`, if it has one that needs no arguments."""
    pressure = getattr(module, "pressure", None)
    if not callable(pressure) or not needs_no_arguments(pressure):
        return None
    if inspect.iscoroutinefunction(pressure):
        raise CannotLoad(
            f"'pressure' in {source} is async: write it as a plain function that answers at once"
        )
    found: Callable[[], Any] = pressure
    return found


def needs_no_arguments(function: Callable[..., Any]) -> bool:
    """Returns whether a function can be called without arguments."""
    try:
        inspect.signature(function).bind()
    except (TypeError, ValueError):
        return False
    return True


def import_file(path: Path) -> ModuleType:
    """Import a file the way `python file.py` would see it: with its own directory first on the path."""
    path = path.resolve()
    sys.path.insert(0, str(path.parent))
    # A user's queue.py or json.py must not take the place of the library's module of that name.
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
    """Import a module that is installed, or lies in the working directory."""
    sys.path.insert(0, str(Path.cwd()))
    return importlib.import_module(name)


def why_not(what: str, source: str, error: BaseException) -> str:
    """Returns the line for the operator. `what`: what could not be done. `source`: the user's file or module."""
    line = line_in(source, error)
    message = named(error.__class__, error.msg if isinstance(error, SyntaxError) else error)
    return f"{what}: {message}" + (f" (line {line})" if line else "")


def line_in(source: str, error: BaseException) -> int | None:
    """Returns the line of the user's own file in which the error came up, if it came up there."""
    if source.endswith(".py"):
        path = str(Path(source).resolve())
    else:
        path = getattr(sys.modules.get(source), "__file__", None) or f"/{source.replace('.', '/')}.py"
    if isinstance(error, SyntaxError) and error.filename and error.filename.endswith(path):
        return error.lineno
    lines = [
        line
        for frame, line in traceback.walk_tb(error.__traceback__)
        if frame.f_code.co_filename.endswith(path)
    ]
    return lines[-1] if lines else None


def suggestion(name: str, owner: object) -> str:
    """Returns the end of a message that names what the user may have meant; empty if nothing is alike."""
    known = [
        known for known in dir(owner) if not known.startswith("_") and callable(getattr(owner, known, None))
    ]
    near = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""
