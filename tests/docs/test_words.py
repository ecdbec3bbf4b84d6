"""What the source says of itself: every module has a docstring, and every file that is named there exists."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "penstock"
MODULES = [
    file for room in (SOURCE, ROOT / "benchmarks", ROOT / "tools") for file in sorted(room.rglob("*.py"))
]
# Files of users, which some comments speak of.
THEIRS = {"app.py", "file.py", "json.py", "queue.py", "cli/tune.py", "tune.py", "cluster/autoscaler.py"}

_FILE = re.compile(r"(?<![\w.:/-])([\w/-]+\.(?:py|md))\b")


def named_files(module: Path) -> Iterator[str]:
    text = module.read_text()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _FILE.findall(ast.get_docstring(node) or "")
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield from _FILE.findall(token.string)


def exists(name: str, beside: Path) -> bool:
    folders = [SOURCE, *(folder for folder in beside.parents if folder.is_relative_to(ROOT))]
    return name in THEIRS or any((folder / name).is_file() for folder in folders)


def test_every_module_says_what_it_is_for() -> None:
    silent = [file for file in MODULES if not ast.get_docstring(ast.parse(file.read_text()))]
    assert not silent


def test_every_file_that_the_source_names_exists() -> None:
    missing = [
        f"{module.relative_to(ROOT)}: {name}"
        for module in MODULES
        for name in named_files(module)
        if not exists(name, module)
    ]
    assert not missing
