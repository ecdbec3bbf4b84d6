"""`penstock top` in a real terminal, and printed once."""

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from penstock.top.terminal import BEGIN, END, ENTER, LEAVE
from server import HUNG, PATIENT, PENSTOCK, Server, running

MODELS = f"""{PATIENT}
[models.embed]
target = "sim:1ms"
workers = 2
[models.rank]
target = "sim:1ms"
"""
STYLE = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running(config=MODELS) as server:
        for _ in range(3):
            assert server.post("/v1/inference", {"input": "x", "model": "embed"}).status == 200
        yield server


class Shown:
    """A terminal with `penstock top` in it."""

    def __init__(self, terminal: int, process: "subprocess.Popen[bytes]") -> None:
        self.terminal, self.process = terminal, process
        self.said = ""

    def resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def press(self, keys: str) -> None:
        os.write(self.terminal, keys.encode())

    @property
    def lines(self) -> list[str]:
        """The last frame that has come in full."""
        frames = [frame for frame in self.said.split(BEGIN)[1:] if END in frame]
        last = frames[-1].partition(END)[0].replace("\r", "") if frames else ""
        return STYLE.sub("", last).split("\n")

    def shows(self, text: str) -> None:
        """Returns once this is on the screen."""
        self._read(lambda: any(text in line for line in self.lines))

    def hides(self, text: str) -> None:
        """Returns once this is no longer on the screen."""
        self._read(lambda: not any(text in line for line in self.lines))

    def ends(self) -> int:
        self._read(lambda: self.process.poll() is not None and LEAVE in self.said)
        return self.process.wait(HUNG)

    def _read(self, holds: object) -> None:
        end = time.monotonic() + HUNG
        assert callable(holds)
        while not holds():
            assert time.monotonic() < end, self.lines
            if select.select([self.terminal], [], [], 0.1)[0]:
                self.said += os.read(self.terminal, 65536).decode()


def _as_a_terminal_starts_it() -> None:
    """The terminal is its own, and Ctrl-C is heard: a shell starts what it runs in the background with Ctrl-C
    ignored, and these tests may have been started so."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextmanager
def top(server: Server, columns: int = 80, rows: int = 24) -> Iterator[Shown]:
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    before = termios.tcgetattr(its)
    with subprocess.Popen(
        [str(PENSTOCK), "top", "--admin", server.admin_url, "--every", "200ms"], stdin=its, stdout=its,
        stderr=its, start_new_session=True, env={**os.environ, "TERM": "xterm"},
        preexec_fn=_as_a_terminal_starts_it,
    ) as process:  # fmt: skip
        try:
            yield Shown(ours, process)
            assert termios.tcgetattr(its) == before  # the echo of keys, above all
        finally:
            process.kill()
            os.close(its)
    os.close(ours)


def test_lists_and_rows_are_looked_at_with_keys_and_q_leaves(server: Server) -> None:
    with top(server) as shown:
        shown.shows("All is well")
        assert shown.said.startswith(ENTER)
        assert len(shown.lines) == 24
        assert {len(line) for line in shown.lines} == {80}
        shown.shows("[models 2]")
        shown.press("w")
        shown.shows("[workers 3]")
        shown.shows("> embed/0")
        shown.press("\x1b[B")
        shown.shows("> embed/1")
        shown.press("\r")
        shown.hides("rank/0")
        shown.shows("status     healthy")
        shown.press("\x1b")
        shown.shows("rank/0")
        shown.press("t")
        shown.shows("[tiers 3]")
        shown.press("?")
        shown.shows("KEYS")
        shown.press("q")
        assert shown.ends() == 0


def test_it_follows_the_size_of_the_terminal_and_ctrl_c_leaves(server: Server) -> None:
    with top(server) as shown:
        shown.shows("All is well")
        shown.resize(120, 40)
        shown._read(lambda: (len(shown.lines), {len(line) for line in shown.lines}) == (40, {120}))
        shown.press("\x03")
        assert shown.ends() == 0


def test_a_signal_leaves_the_terminal_as_it_was(server: Server) -> None:
    with top(server) as shown:
        shown.shows("All is well")
        shown.process.send_signal(signal.SIGTERM)
        assert shown.ends() == 0


def test_a_server_that_ends_is_said() -> None:
    with running(config=MODELS) as server, top(server) as shown:
        shown.shows("All is well")
        assert server.stop() == 0
        shown.shows("No answer")
        shown.press("q")
        assert shown.ends() == 0


def printed(*words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [str(PENSTOCK), "top", *words], capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
    )


def test_once_prints_all_lists_and_as_json_the_overview(server: Server) -> None:
    done = printed("--once", "--admin", server.admin_url)
    assert done.returncode == 0
    for wanted in ("All is well", "MODELS", "TIERS", "WORKERS", "embed/1"):
        assert wanted in done.stdout
    assert "\x1b" not in done.stdout
    overview = json.loads(printed("--once", "--json", "--admin", server.admin_url).stdout)
    assert overview["models"][0]["outcomes"] == {"SUCCESS": 3}
    assert overview.keys() == server.admin("/internal/overview").json().keys()


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (("--json",), "say --once --json"),
        (("--every", "0s", "--once"), "--every takes 0.2 s to 60 s"),
        (("--every", "5"), "--every"),
        ((), "needs a terminal"),
    ],
)
def test_a_mistake_says_what_to_do(words: tuple[str, ...], wanted: str) -> None:
    done = printed(*words)
    assert done.returncode == 2
    assert wanted in done.stderr
    assert "Traceback" not in done.stderr
