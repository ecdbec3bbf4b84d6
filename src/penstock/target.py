"""What to serve: a function, an HTTP or gRPC endpoint or a simulated GPU, read from one word.

Everything that can be known of a function without running its code is checked here, so that a typo is
answered at once and in one line. User code is never imported: files are parsed, modules only located.
"""

import ast
import difflib
import importlib
import importlib.util
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from penstock.errors import UserMistake

FORMS = (
    "a target is app.py:function, app.py:Class, package.module:function, http://host:port/path,"
    " grpc://host:port/model or sim:100ms (for example: penstock serve examples/hello.py:batchstring)"
)


@dataclass(frozen=True, slots=True)
class Target:
    kind: Literal["function", "http", "grpc", "sim"]
    text: str  # as it was written
    file: str = ""  # of a function, one of these two
    module: str = ""
    function: str = ""

    @property
    def url(self) -> str:
        return self.text

    @property
    def spec(self) -> str:
        """What follows `sim:`."""
        return self.text.removeprefix("sim:")


def parse_target(text: str) -> Target:
    if text.startswith(("http://", "https://")):
        check_url(text)
        return Target("http", text)
    if text.startswith(("grpc://", "grpcs://")):
        check_grpc_url(text)
        return Target("grpc", text)
    if text.startswith("sim:"):
        return Target("sim", text)
    if re.match(r"[\w.-]+:\d+(/|$)", text):
        raise UserMistake(f"{text!r} looks like an address; did you mean http://{text}?")
    place, colon, function = text.rpartition(":")
    if not colon:
        place, function = text, ""
    if place.endswith(".py"):
        check_function(place, function, names_in(existing_file(place), place))
        return Target("function", text, file=place, function=function)
    if all(part.isidentifier() for part in place.split(".")) and (colon or located(place)):
        check_module(place, function)
        return Target("function", text, module=place, function=function)
    raise UserMistake(f"cannot tell what {text!r} is; {FORMS}")


def check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        fits = bool(parts.hostname) and parts.port != 0 and not any(map(str.isspace, url))
    except ValueError:
        fits = False
    if not fits:
        raise UserMistake(f"{url!r} is not an address; write it as http://host:port/path")


def check_grpc_url(url: str) -> None:
    if not re.fullmatch(r"grpcs?://([\w.-]+|\[[0-9A-Fa-f:.]+\]):\d{1,5}/[^/?#\s]+", url):
        raise UserMistake(f"{url!r} is not an address; write it as grpc://host:port/model")


def existing_file(place: str) -> Path:
    path = Path(place)
    if path.is_file():
        return path
    folder = path.parent
    known = sorted(other.name for other in folder.glob("*.py")) if folder.is_dir() else []
    near = difflib.get_close_matches(path.name, known, n=1)
    if near:
        raise UserMistake(f"no such file {place}; did you mean {folder / near[0]}?")
    raise UserMistake(f"no such file {place}; looked in {folder.resolve()}")


def check_module(module: str, function: str) -> None:
    spec = located(module)
    if spec is None:
        known = [path.stem for path in sorted(Path().glob("*.py"))]
        near = difflib.get_close_matches(module, known, n=1)
        hint = f"did you mean {near[0]}?" if near else "is it installed, or in the current directory?"
        raise UserMistake(f"no module named {module!r}; {hint}")
    source = Path(spec.origin) if spec.origin and spec.origin.endswith(".py") else None
    check_function(module, function, names_in(source, module) if source else None)


def located(module: str) -> ModuleSpec | None:
    """The module's spec, found from package to package without importing any of them."""
    importlib.invalidate_caches()  # a file may be younger than the last look into its directory
    top, *rest = module.split(".")
    # The current directory comes first, as it does where the function runs.
    spec = PathFinder.find_spec(top, [str(Path.cwd()), *sys.path]) or installed(top)
    name = top
    for part in rest:
        if spec is None or spec.submodule_search_locations is None:
            return None
        name = f"{name}.{part}"
        try:
            spec = PathFinder.find_spec(name, list(spec.submodule_search_locations))
        except KeyError:  # a folder without __init__.py inside another cannot be seen into unless imported
            return ModuleSpec(module, None)
    return spec


def installed(module: str) -> ModuleSpec | None:
    """What finders other than the path's know: built-in modules, editable installs."""
    try:
        return importlib.util.find_spec(module)
    except ValueError:  # some modules, such as __main__, do not tell
        return None


@dataclass(slots=True)
class Names:
    """What a source file defines at its top level."""

    functions: list[str]
    others: list[str]
    classes: list[str]  # of the others, those that can be called
    open_ended: bool  # more may appear when it runs: a star import, a module `__getattr__`


def check_function(place: str, function: str, names: Names | None) -> None:
    """`names` is None for a module without a source to look into: it tells when it is loaded."""
    if not function:
        known = names.functions + names.classes if names is not None else []
        if not known:
            raise UserMistake(f"which function of {place}? write {place}:function")
        raise UserMistake(
            f"which function of {place}? write {place}:{known[0]} (it has: {', '.join(known[:8])})"
        )
    function, *inside = function.split(".")  # of a class or an object, a method
    if not all(part.isidentifier() for part in (function, *inside)):
        raise UserMistake(f"{'.'.join((function, *inside))!r} is not the name of a function; {FORMS}")
    if names is None or names.open_ended or function in names.functions or function in names.others:
        return
    near = difflib.get_close_matches(function, names.functions + names.others, n=1)
    if near:
        raise UserMistake(f"{place} has no function {function!r}; did you mean {near[0]!r}?")
    listed = ", ".join((names.functions + names.classes)[:8]) or "no functions"
    raise UserMistake(f"{place} has no function {function!r}; it has: {listed}")


def names_in(source: Path, place: str) -> Names:
    try:
        tree = ast.parse(source.read_bytes())
    except OSError as error:
        raise UserMistake(f"cannot read {place}: {error.strerror}") from None
    except SyntaxError as error:
        raise UserMistake(f"cannot read {place}: {error.msg} (line {error.lineno})") from None
    except ValueError as error:  # such as null bytes
        raise UserMistake(f"cannot read {place}: {error}") from None
    names = Names([], [], [], False)
    for statement in top_level(tree.body):
        match statement:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                names.open_ended |= name == "__getattr__"
                if not name.startswith("_"):
                    names.functions.append(name)
                else:
                    names.others.append(name)
            case ast.ClassDef(name=name):
                names.others.append(name)
                names.classes += [name] if callable_class(statement) else []
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                names.open_ended |= any(alias.name == "*" for alias in aliases)
                names.others += [alias.asname or alias.name.partition(".")[0] for alias in aliases]
            case ast.Assign() | ast.AnnAssign() | ast.AugAssign():
                names.others += stored(statement)
    return names


def callable_class(statement: ast.ClassDef) -> bool:
    return any(
        isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) and each.name == "__call__"
        for each in statement.body
    )


def top_level(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a module, also those inside `if`, `try`, `with` and loops, which bind there too."""
    for statement in body:
        yield statement
        if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            for field in ("body", "orelse", "finalbody"):
                yield from top_level(getattr(statement, field, []))
            for handler in getattr(statement, "handlers", []):
                yield from top_level(handler.body)


def stored(statement: ast.stmt) -> list[str]:
    return [
        node.id
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    ]
