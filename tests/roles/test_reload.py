"""`penstock serve --reload`: a changed file is taken without a lost request, and one with a slip is not."""

import threading
from pathlib import Path

from command_line import Typed, typed

from penstock.server.reload import _sources
from server import PATIENT, Server, eventually, running

__all__ = ["typed"]

APP = "from words import GREETING\n\n\ndef greet(inputs):\n    return [f'{GREETING}, {each}' for each in inputs]\n"


class Asking:
    """Somebody who asks all the time; keeps every answer."""

    def __init__(self, server: Server) -> None:
        self.answers: list[tuple[int, str]] = []
        self._server = server
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._ask)

    def _ask(self) -> None:
        while not self._over.is_set():
            answer = self._server.post("/v1/inference", {"input": "Ada"})
            self.answers.append((answer.status, answer.json().get("output", "")))

    def __enter__(self) -> "Asking":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def hears(self, words: str) -> None:
        eventually(lambda: (200, words) in self.answers[-1:])


def test_a_changed_file_is_taken_and_nobody_is_refused(tmp_path: Path) -> None:
    """What it imports from beside it counts too. A slip in it is told, and the old one goes on until it is mended.

    PATIENT: a process that starts beside others on a full machine may take longer than a request waits."""
    app, words = tmp_path / "app.py", tmp_path / "words.py"
    app.write_text(APP)
    words.write_text("GREETING = 'Hello'\n")
    with (
        running(f"{app}:greet", "--reload", "--workers", "2", config=PATIENT) as server,
        Asking(server) as asking,
    ):
        asking.hears("Hello, Ada")
        words.write_text("GREETING = 'Howdy'\n")
        asking.hears("Howdy, Ada")
        app.write_text(APP + "def (\n")
        eventually(lambda: "app.py changed and is not used: cannot read" in server.stderr())
        app.write_text("import none_such\n" + APP)
        eventually(lambda: "No module named 'none_such' (line 1); the old one goes on" in server.stderr())
        asking.hears("Howdy, Ada")
        app.write_text(APP.replace("{each}", "{each}!"))
        asking.hears("Howdy, Ada!")
        assert {status for status, _ in asking.answers} == {200}
        assert all(row["restarts"] == 0 for row in server.admin("/internal/workers").json())


def test_without_a_function_there_is_nothing_to_reload(typed: Typed) -> None:
    code, _, errors = typed("serve", "sim:1ms", "--reload", "--port", "0", "--admin-port", "0")
    assert code == 2
    assert "--reload is for functions in Python files" in errors


def test_the_files_of_a_function_are_those_it_can_import_from_where_it_is(tmp_path: Path) -> None:
    for name in (
        "pkg/__init__.py",
        "pkg/app.py",
        "pkg/inner/__init__.py",
        "pkg/inner/a.py",
        "b.py",
        "other/c.py",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    found = {str(path.relative_to(tmp_path)) for path in _sources(tmp_path / "pkg" / "app.py")}
    assert found == {"pkg/__init__.py", "pkg/app.py", "pkg/inner/__init__.py", "pkg/inner/a.py", "b.py"}
