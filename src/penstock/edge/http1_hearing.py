"""Reads from a connection's socket, past its transport, when the connection has its turn. The base class of
`http1.Connection`; `reads.py` calls `hear`.

First words, large bodies, and what a refused client still sends are read so: the transport would take up to 256 KB
of each at once. The rest of a body whose length is known goes straight to where it is kept, since the parser would
have nothing to say about it.
"""

import os
from collections import deque

import httptools

from penstock.edge.bounds import MOST_THROWN_AWAY, State
from penstock.edge.http1_reading import Reading

MOST_READ = 256 * 1024  # bytes that a transport may read at once


class Hearing(Reading):
    __slots__ = ()

    def hear(self, most: int) -> int:
        """Read some of what has come, past the transport. Returns how many bytes it was."""
        transport = self._transport
        # The descriptor of a transport that is closing may be another client's already.
        if transport is None or transport.is_closing() or self._later or self._paused:
            return 0
        if self._watched < 0:  # with TLS only the transport can read
            self.go_on()
            return MOST_READ
        try:
            came = self._hear_more(most)
        except BlockingIOError:
            self._edge.reads.wait(self, self._watched)
            return 0
        except OSError:  # the transport is about to find out
            came = 0
        # Otherwise it waits for something already.
        if (self._later is None or not came) and not self._paused and not transport.is_closing():
            self._later = None
            transport.resume_reading()
        return came

    def _hear_more(self, most: int) -> int:
        """Zero: nothing more will come."""
        if self._parser is not None and self._part == State.BODY and self._length:
            return self._hear_body(most)
        data = os.read(self._watched, most)
        if data:
            self._later = None
            self.data_received(data)
            if self.state == State.LINGERING:
                self._later = deque()  # the transport does not read
                if self._size <= MOST_THROWN_AWAY:
                    self._await_more()
        return len(data)

    def _hear_body(self, most: int) -> int:
        """Read a body whose length is known straight to where it is kept. The parser, which would have nothing to
        say about it, is left behind, and a new one takes what follows."""
        edge = self._edge
        if self._chunks is None:
            self._chunks = self._new_body()
        came = self._chunks.read(
            self._watched, min(most, self._length - self._size), crowded=edge.held.crowded
        )
        self._size += came
        if self._most:
            self._note_stride(came)
        if came and self._size == self._length:
            self._later = None
            self.on_message_complete()
            if self._parser is not None:
                self._parser = httptools.HttpRequestParser(self)
        elif came:
            self._weigh()
            if self._parser is not None:
                edge.reads.wait(self, self._watched)
        return came

    def data_received(self, data: bytes) -> None:
        raise NotImplementedError
