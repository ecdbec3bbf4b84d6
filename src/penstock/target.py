"""Reads a target, the one word that says what a model runs: a function, an HTTP or gRPC endpoint, or a simulated
GPU. `roles/backends.py` asks this before it chooses a backend, and `--reload` to find a function's file.

All that can be known of a function without running its code is checked here, so that a typo gives an error at once
and in one line. User code is never imported: files are parsed, modules are only located.
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

Kind = Literal["function", "http", "openai", "tei", "grpc", "oip", "sim"]

FORMS = (
    "a target is app.py:function, app.py:Class, package.module:function, http://host:port/path,"
    " openai://host:port/v1, tei://host:port, grpc://host:port/model, oip+http://host:port/model or sim:100ms (for"
    " example: penstock serve examples/hello.py:batchstring)"
)
# What the schemes of URLs mean: the kind of endpoint, the scheme that it is reached by, and how to write an
# address.
SCHEMES: dict[str, tuple[Kind, str, str]] = {
    "http": ("http", "http", "http://host:port/path"),
    "https": ("http", "https", "https://host:port/path"),
    "openai": ("openai", "http", "openai://host:port/v1"),
    "openais": ("openai", "https", "openais://host:port/v1"),
    "tei": ("tei", "http", "tei://host:port"),
    "teis": ("tei", "https", "teis://host:port"),
    "grpc": ("grpc", "grpc", "grpc://host:port/model"),
    "grpcs": ("grpc", "grpcs", "grpcs://host:port/model"),
    "oip+http": ("oip", "http", "oip+http://host:port/model"),
    "oip+https": ("oip", "https", "oip+https://host:port/model"),
}


@dataclass(frozen=True, slots=True)
class Target:
    """A target, taken apart."""

    kind: Kind
    text: str  # the target as it was written
    file: str = ""  # the file of a function; empty if that is in a module
    module: str = ""  # the module of a function; empty if that is in a file
    function: str = ""

    @property
    def url(self) -> str:
        """The address of an endpoint, with the scheme that it is reached by."""
        scheme, _, rest = self.text.partition("://")
        return f"{SCHEMES[scheme][1]}://{rest}"


def parse_target(text: str) -> Target:
    """Takes a target apart, and checks it. Raises UserMistake."""
    scheme = text.partition("://")[0]
    if scheme in SCHEMES and "://" in text:
        kind, _, form = SCHEMES[scheme]
        check_url(text, form, with_model=kind in ("grpc", "oip"))
        return Target(kind, text)
    if text.startswith("sim:"):
        return Target("sim", text)
    if "://" in text:
        raise UserMistake(f"{text!r}: no target begins with {scheme}://; {FORMS}")
    if re.match(r"[\w.-]+:\d+(/|$)", text):
        raise UserMistake(f"{text!r} looks like an address; did you mean http://{text}?")
    source, colon, function = text.rpartition(":")
    if not colon:
        source, function = text, ""
    if source.endswith(".py"):
        check_function(source, function, names_in(existing_file(source), source))
        return Target("function", text, file=source, function=function)
    if all(part.isidentifier() for part in source.split(".")) and (colon or located(source)):
        check_module(source, function)
        return Target("function", text, module=source, function=function)
    raise UserMistake(f"cannot tell what {text!r} is; {FORMS}")


def check_url(url: str, form: str, *, with_model: bool) -> None:
    """Raises UserMistake for an address that cannot be right. `form`: how such an address is written.
    `with_model`: its path is the name of a model, and it names a port."""
    if with_model:
        fits = bool(
            re.fullmatch(r"[a-z+]+://([\w.-]+|\[[0-9A-Fa-f:.]+\]):\d{1,5}/[^/?#\s]+(\?[^#\s]+)?", url)
        )
        fits = fits and ("?" not in url or url.startswith("oip+"))
    else:
        try:
            parts = urlsplit(url)
            fits = bool(parts.hostname) and parts.port != 0 and not any(map(str.isspace, url))
        except ValueError:
            fits = False
    if not fits:
        raise UserMistake(f"{url!r} is not an address; write it as {form}")


def existing_file(source: str) -> Path:
    """Returns the file. Raises UserMistake if there is none."""
    path = Path(source)
    if path.is_file():
        return path
    folder = path.parent
    known = sorted(other.name for other in folder.glob("*.py")) if folder.is_dir() else []
    near = difflib.get_close_matches(path.name, known, n=1)
    if near:
        raise UserMistake(f"no such file {source}; did you mean {folder / near[0]}?")
    raise UserMistake(f"no such file {source}; looked in {folder.resolve()}")


def check_module(module: str, function: str) -> None:
    """Raises UserMistake if there is no such module, or no such function in it."""
    spec = located(module)
    if spec is None:
        known = [path.stem for path in sorted(Path().glob("*.py"))]
        near = difflib.get_close_matches(module, known, n=1)
        hint = f"did you mean {near[0]}?" if near else "is it installed, or in the current directory?"
        raise UserMistake(f"no module named {module!r}; {hint}")
    file = Path(spec.origin) if spec.origin and spec.origin.endswith(".py") else None
    check_function(module, function, names_in(file, module) if file else None)


def located(module: str) -> ModuleSpec | None:
    """The spec of a module, or None. It is found package by package, without importing any of them."""
    importlib.invalidate_caches()  # a file may be newer than Python's cache of its directory
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
        except KeyError:  # a namespace package inside another is only known once it is imported
            return ModuleSpec(module, None)
    return spec


def installed(module: str) -> ModuleSpec | None:
    """The spec of a module that is not found on the path: built-in, or installed as editable."""
    try:
        return importlib.util.find_spec(module)
    except ValueError:  # some modules, such as __main__, have no spec
        return None


@dataclass(slots=True)
class Names:
    """What a source file defines at its top level."""

    functions: list[str]
    others: list[str]  # all other names
    classes: list[str]  # the names among `others` that are classes with `__call__`
    open_ended: bool  # whether more names may appear when it runs: a star import, a module `__getattr__`


def check_function(source: str, function: str, names: Names | None) -> None:
    """Raises UserMistake if there is no such function. `names` is None for a module without a source file, of which
    nothing can be checked."""
    if not function:
        known = names.functions + names.classes if names is not None else []
        if not known:
            raise UserMistake(f"which function of {source}? write {source}:function")
        raise UserMistake(
            f"which function of {source}? write {source}:{known[0]} (it has: {', '.join(known[:8])})"
        )
    function, *inside = function.split(".")  # inside: a method of a class or of an object
    if not all(part.isidentifier() for part in (function, *inside)):
        raise UserMistake(f"{'.'.join((function, *inside))!r} is not the name of a function; {FORMS}")
    if names is None or names.open_ended or function in names.functions or function in names.others:
        return
    near = difflib.get_close_matches(function, names.functions + names.others, n=1)
    if near:
        raise UserMistake(f"{source} has no function {function!r}; did you mean {near[0]!r}?")
    listed = ", ".join((names.functions + names.classes)[:8]) or "no functions"
    raise UserMistake(f"{source} has no function {function!r}; it has: {listed}")


def names_in(file: Path, source: str) -> Names:
    """Returns what a source file defines. Raises UserMistake if it cannot be read."""
    try:
        tree = ast.parse(file.read_bytes())
    except OSError as error:
        raise UserMistake(f"cannot read {source}: {error.strerror}") from None
    except SyntaxError as error:
        raise UserMistake(f"cannot read {source}: {error.msg} (line {error.lineno})") from None
    except ValueError as error:  # such as null bytes
        raise UserMistake(f"cannot read {source}: {error}") from None
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
    """Whether the class itself defines `__call__`."""
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
    """The names that a statement assigns to."""
    return [
        node.id
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    ]
