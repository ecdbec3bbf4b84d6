"""Plays many settings at once, each in one of several processes. `cli/tune.py` and a benchmark open a `Players` and
hand its method to the search.

The processes are started anew and not forked, so that they have nothing of the terminal's. Each is given the game
once, and then settings, which are small.
"""

import signal
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing import get_context
from typing import Self

from penstock.advice.played import Game, Played, play
from penstock.advice.setting import Setting
from penstock.errors import UserMistake

Progress = Callable[[int, int], None]  # how many settings were played, of how many that are known of

_game: Game | None = None  # in a process that plays: what every setting is tried on


class Players:
    def __init__(self, game: Game, jobs: int, progress: Progress | None = None) -> None:
        """`jobs`: how many processes. If it is 1, this process plays itself."""
        self._play = partial(play, game)
        self._progress = progress
        self._played = self._known = 0  # how many settings were played, and how many are known of
        self._pool = ProcessPoolExecutor(jobs, get_context("spawn"), _begin, (game,)) if jobs > 1 else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def play(self, settings: Sequence[Setting]) -> list[Played]:
        """Returns what came of each, in the order in which they ended."""
        self._known += len(settings)
        self._tell()
        found = []
        if self._pool is None:
            for setting in settings:
                found.append(self._play(setting))
                self._tell(1)
            return found
        try:
            for ended in as_completed([self._pool.submit(_played, setting) for setting in settings]):
                found.append(ended.result())
                self._tell(1)
        except BrokenProcessPool:
            raise UserMistake("a process that simulates was ended from outside: try --jobs 1") from None
        return found

    def _tell(self, more: int = 0) -> None:
        self._played += more
        if self._progress is not None:
            self._progress(self._played, self._known)


def _begin(game: Game) -> None:
    """Make a process ready. Ctrl-C at the terminal reaches all processes, and only the first one should answer."""
    global _game
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _game = game


def _played(setting: Setting) -> Played:
    assert _game is not None
    return play(_game, setting)
