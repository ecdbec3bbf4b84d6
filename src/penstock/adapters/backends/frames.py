"""What the server and the process of a user's function say to each other, and how it is framed.

Both ends use it: `spawned.py` and `process.py` in the server, and `child.py` in the function's process.

    server  Setup ──▶        Work ──▶              Work ──▶              Look ──▶            Leave ──▶
    child         ◀── Ready       ◀── Done              ◀── Rejected          ◀── Seen       (it ends)
                  ◀── Broken                                                        (◀── Beat, at any time)

Every question that has an answer carries an id, which the answer repeats. A second Work may be sent before the
first is Done: the child reads it meanwhile. A frame is a length (4 bytes, big-endian) and a MessagePack value.
Nothing here does I/O: the server reads from its event loop, the child in a thread that blocks.
"""

from typing import Generic, TypeVar

import msgspec

HEADER = 4  # bytes with the length of a frame
LARGEST = 1 << 30  # bytes of one frame; a length above it can only be garbage
ROOMY = 1 << 18  # bytes; holds a usual batch, so that it is read with one call

LARGE_INPUT = 1 << 14  # bytes: inputs that are larger, on average, are not copied into a frame
# The bytes with which MessagePack begins an empty list, a long list, and bytes. Four bytes of length follow the
# last two.
EMPTY_LIST, LIST, BINARY = 0x90, 0xDD, 0xC6

BEAT_EVERY = 0.5  # seconds from one heartbeat to the next


class Setup(msgspec.Struct, tag=1, array_like=True):
    """Asks the process to load its function. Answered by `Ready` or `Broken`."""

    id: int
    target: str
    input_kind: str
    output_kind: str
    memory_limit: int | None
    per_item: bool = False  # each input has parameters of its own: `Work.parameters` is a list
    warms_up: bool = False  # the user's `warmup` is called, which makes inputs to warm up with


class Work(msgspec.Struct, tag=2, array_like=True):
    """Asks for the outputs of one batch. Answered by `Done` or `Rejected`."""

    id: int
    parameters: bytes
    inputs: list[bytes]


class Ready(msgspec.Struct, tag=3, array_like=True):
    """The function is loaded."""

    id: int
    function: str
    parameters: list[str] | None  # their names; None: it takes any
    closes: bool = False  # the user has a `close`: send `Leave` before the kill
    pid: int = 0
    warm_up: list[bytes] = []  # inputs to warm up with, made by the user's `warmup`


class Broken(msgspec.Struct, tag=4, array_like=True):
    """The function could not be loaded: one line for the operator, and the traceback."""

    id: int
    message: str
    details: str


class Done(msgspec.Struct, tag=5, array_like=True):
    """The outputs of a batch."""

    id: int
    outputs: list[bytes]
    pressure: float = 0.0
    at: float = 0.0  # when it was done, on the monotonic clock, which all processes of a machine share
    failed: list[tuple[int, str, str]] = []  # of inputs: position, message, details


class Rejected(msgspec.Struct, tag=6, array_like=True):
    """The batch failed."""

    id: int
    message: str  # fit for anybody to read
    details: str = ""  # the exception's own words, which may quote an input
    spent: bool = False  # the process's memory is used up: the next batch would fail as well
    # The exception without what it quotes; empty if the log has one that was raised at the same line.
    logged: str = ""
    trace: str = ""  # where the exception was raised
    too_large: bool = False  # the batch did not fit into memory, and the process is well


class Beat(msgspec.Struct, tag=7, array_like=True):
    """A heartbeat: the process is neither frozen nor dead. A thread that never runs the function sends it."""


class Look(msgspec.Struct, tag=8, array_like=True):
    """Asks how full the process is. Answered by the thread that runs the function."""

    id: int


class Seen(msgspec.Struct, tag=9, array_like=True):
    """Says how full the process is."""

    id: int
    pressure: float


class Leave(msgspec.Struct, tag=10, array_like=True):
    """Tells the process to call the user's `close`, and then to end."""


Question = Setup | Work | Look | Leave
Answer = Ready | Broken | Done | Rejected | Seen
M = TypeVar("M")

_encoder = msgspec.msgpack.Encoder()


class BadFrame(Exception):
    """The bytes are not a frame of ours, or the frame is too large."""


def pack(message: Question | Answer | Beat) -> bytearray:
    """Returns the frame of a message. Raises BadFrame if it is too large."""
    frame = bytearray(HEADER)
    _encoder.encode_into(message, frame, HEADER)
    size = len(frame) - HEADER
    if size > LARGEST:
        raise _too_large(size)
    frame[:HEADER] = size.to_bytes(HEADER, "big")
    return frame


def pack_in_pieces(work: Work) -> list[bytes]:
    """Returns in pieces the bytes that `pack` makes of a batch. The inputs are pieces as they are, because large
    ones would otherwise be copied several times. Raises BadFrame."""
    head = _encoder.encode(Work(work.id, work.parameters, []))
    assert head[-1] == EMPTY_LIST  # the inputs are the last field
    pieces = [head[:-1], bytes((LIST,)) + len(work.inputs).to_bytes(4, "big")]
    for each in work.inputs:
        pieces += (bytes((BINARY,)) + len(each).to_bytes(4, "big"), each)
    size = sum(map(len, pieces))
    if size > LARGEST:
        raise _too_large(size)
    return [size.to_bytes(HEADER, "big"), *pieces]


def _too_large(size: int) -> BadFrame:
    return BadFrame(f"a batch of {size} bytes is too large: at most {LARGEST} can be carried at once")


class Inbox(Generic[M]):
    """Puts messages together from the pieces that the socket gives.

    The caller asks for `room`, reads into it, and tells `filled` how many bytes came. Messages hold copies, so the
    room is used again. It grows to the size of a frame as soon as that is known, and shrinks when it is empty.
    """

    def __init__(self, decoder: msgspec.msgpack.Decoder[M]) -> None:
        self._decode = decoder.decode
        self._room = memoryview(bytearray(ROOMY))
        self._end = 0  # how many bytes of the room hold what has come

    def room(self) -> memoryview:
        """Returns where to read the next bytes into."""
        return self._room[self._end :]

    def filled(self, count: int) -> list[M]:
        """Takes the bytes that were read into the room. Returns the messages that are whole now. Raises
        BadFrame."""
        self._end += count
        messages = []
        start = 0
        needed = HEADER
        while self._end - start >= HEADER:
            body = start + HEADER
            size = int.from_bytes(self._room[start:body], "big")
            if size > LARGEST:
                raise BadFrame(f"a frame of {size} bytes is announced")
            needed = HEADER + size
            if self._end - start < needed:
                break
            try:
                messages.append(self._decode(self._room[body : body + size]))
            except msgspec.MsgspecError as error:
                raise BadFrame(str(error)) from None
            start += needed
            needed = HEADER
        self._keep(start, needed)
        return messages

    def _keep(self, start: int, needed: int) -> None:
        """Move the beginning of an unfinished frame to the front of room enough for all of it."""
        if start == self._end and len(self._room) == ROOMY:  # nothing is left, the usual case
            self._end = 0
            return
        rest = self._room[start : self._end]
        size = max(ROOMY, needed)
        if size != len(self._room):
            fresh = memoryview(bytearray(size))
            fresh[: len(rest)] = rest
            self._room = fresh
        elif start:
            self._room[: len(rest)] = bytes(rest)
        self._end = len(rest)
