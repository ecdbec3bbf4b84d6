"""`penstock serve --reload`, for development: a function whose file has changed is started anew, and no client
notices. It runs as a loop of the server. `roles/reload.py` makes it and says which models are watched;
`runtime/renewal.py` puts the new processes in their places.

A new process starts first. Once it is ready, it takes the place of the old one between two batches. So for a while
both are there, each with the model in memory. A file that cannot be loaded changes nothing: the old processes go
on, and the log says what is wrong with it.

The files are looked at twice a second. That works on every file system, and a few dozen files cost microseconds.
"""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from penstock.errors import BackendError, UserMistake
from penstock.file_state import FileState, state_of
from penstock.loops import Loops
from penstock.target import located, parse_target

log = logging.getLogger("penstock.reload")

EVERY = 0.5  # seconds
# So many files are looked at for one function. Nobody is just writing a package that is larger.
MOST_FILES = 2000

States = dict[Path, FileState]


@dataclass(frozen=True, slots=True)
class Reloadable:
    """A model whose workers run functions in Python files."""

    name: str
    functions: Sequence[str]  # the targets that name the functions
    renew: Callable[[], Awaitable[None]]  # starts their processes anew; raises BackendError


class Reloader:
    """Implements `ports.process.Companion`."""

    def __init__(self, models: Sequence[Reloadable]) -> None:
        self._watched = [_Watched(model) for model in models]
        if not self._watched:
            raise UserMistake("--reload is for functions in Python files: nothing else is served here")
        # Python would use old bytecode for a file that is written twice in one second, so it writes none.
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"

    async def open(self, loops: Loops) -> None:
        loops.keep("the reloader", self.run)

    async def close(self) -> None:
        """Does nothing: the processes belong to their slots."""

    async def run(self) -> None:
        while True:
            await asyncio.sleep(EVERY)
            for each in self._watched:
                if changed := each.look():
                    await each.renew(changed)


class _Watched:
    """One model, and the files of its functions."""

    def __init__(self, model: Reloadable) -> None:
        self._model = model
        self._files = [_file_of(word) for word in model.functions]
        self._seen = self._states()

    def look(self) -> str:
        """Returns the name of a file that has changed since the last look; empty if none has."""
        now = self._states()
        changed = sorted(path for path, _ in now.items() ^ self._seen.items())
        self._seen = now
        return changed[0].name if changed else ""

    async def renew(self, changed: str) -> None:
        """Starts the functions anew. `changed`: the name of the file, for the log."""
        try:
            for word in self._model.functions:
                parse_target(word)  # finds a mistake in the target without starting a process
            await self._model.renew()
        except (UserMistake, BackendError) as error:
            log.error("%s changed and is not used: %s; the old one goes on", changed, error.message)
            log.debug("%s", error.details)
        else:
            log.info("%s changed: %s runs it now", changed, self._model.name)

    def _states(self) -> States:
        states: States = {}
        for file in self._files:
            for path in islice(_sources(file), MOST_FILES):
                state = state_of(path)
                if state is not None:  # otherwise an editor is about to put the new one in its place
                    states[path] = state
        return states


def _file_of(word: str) -> Path:
    target = parse_target(word)
    if target.file:
        return Path(target.file).resolve()
    spec = located(target.module)
    if spec is None or not spec.origin or not spec.origin.endswith(".py"):
        raise UserMistake(f"--reload: {target.module} is not a Python file that could be watched")
    return Path(spec.origin)


def _sources(file: Path) -> Iterator[Path]:
    """Yields the function's file, the modules beside it, and those in packages below: all that it can import from
    its folder."""
    folder = file.parent
    while (folder / "__init__.py").exists():
        folder = folder.parent
    yield file
    folders = [folder]
    while folders:
        try:
            entries = sorted(folders.pop().iterdir())
        except OSError:  # the folder has just been moved away
            continue
        for entry in entries:
            if entry.suffix == ".py" and entry != file:
                yield entry
            elif (entry / "__init__.py").exists():
                folders.append(entry)
