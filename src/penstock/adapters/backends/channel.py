"""The socket between a function's process and the server, and the end of that process. The process of a function
(`child.py`) has one `Channel`."""

import contextlib
import os
import socket
import sys
import threading
import time
from typing import NoReturn

import msgspec

from penstock.adapters.backends.frames import (
    BEAT_EVERY,
    Beat,
    Inbox,
    Question,
    pack,
)


class Channel:
    """The socket to the server. Calls block. The lock keeps a heartbeat from going into the middle of an answer."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._inbox: Inbox[Question] = Inbox(msgspec.msgpack.Decoder(Question))
        self._lock = threading.Lock()

    def receive(self) -> list[Question]:
        """Wait for the next question. Returns it, and the one after it if both came together."""
        while True:
            count = self.sock.recv_into(self._inbox.room())
            if not count:
                leave(0)
            if messages := self._inbox.filled(count):
                return messages

    def send(self, frame: bytes | bytearray) -> None:
        """Sends a frame whole. If the server is gone, the process ends."""
        try:
            with self._lock:
                self.sock.sendall(frame)
        except (BrokenPipeError, ConnectionResetError):
            leave(0)

    def beat(self) -> None:
        frame = pack(Beat())
        while True:
            self.send(frame)
            time.sleep(BEAT_EVERY)


def leave(code: int) -> NoReturn:
    """Ends the process now. Neither a thread of the user's nor a library that hangs may keep it alive."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)
