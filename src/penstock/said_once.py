"""Logs an unexpected error with its traceback once, however often it occurs. Used by the loops that read messages
and envelopes of other processes (`cluster/member.py`, `adapters/in_hand.py`): one that cannot be handled must not
stop the rest, nor fill the log."""

import logging

MOST = 1000  # errors that are remembered; if there are more, new ones are not logged


class SaidOnce:
    """`say` logs an error, unless one of its type was raised by the same line of code before."""

    def __init__(self, log: logging.Logger, message: str) -> None:
        self._log, self._message = log, message
        self._said: set[tuple[type[BaseException], str, int]] = set()  # the type, file and line of each error

    def say(self, error: BaseException) -> None:
        which = (type(error), *_line_of(error))
        if which not in self._said and len(self._said) < MOST:
            self._said.add(which)
            self._log.error(self._message, exc_info=error)


def _line_of(error: BaseException) -> tuple[str, int]:
    """The file and the line in which an error was raised."""
    step = error.__traceback__
    if step is None:
        return "", 0
    while step.tb_next is not None:
        step = step.tb_next
    return step.tb_frame.f_code.co_filename, step.tb_lineno
