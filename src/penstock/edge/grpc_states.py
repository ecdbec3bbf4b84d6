"""How a stream of messages of gRPC stands, and for how long it may stand so. A part of `grpc_stream.GrpcStream`, as
its base class.

    HEAD (who asks?) ──► QUIET ◄──► BUSY          BODY: a message has come in part
                           │          │           SENDING: the client does not read
                           └──────────┴──► CLOSED

These are the states of a WebSocket, with their time limits. A client that is quiet is pinged. A call *lasts* if its
answer is messages without an end, as that to `Watch` of the health service. Between two of them its stream is
quiet, for as long as its client answers the pings.
"""

from typing import TYPE_CHECKING, cast

from penstock.edge.bounds import State, not_introduced, quiet_for_long
from penstock.edge.grpc_call import GrpcCall
from penstock.edge.held import STRANGERS
from penstock.edge.http2_stream import Stream
from penstock.errors import BodyTooSlow, Draining, HeadTooSlow, Malformed, Overloaded

if TYPE_CHECKING:
    from penstock.edge.grpc import GrpcConnection
    from penstock.edge.http2 import Http2Connection

MOST_IN_FLIGHT = 256  # messages of one stream that have no answer, or whose answer is not sent
MOST_OF_A_STRANGER = 1  # the same, where keys are asked for and it is not known yet who asks
MOST_LASTING = 8  # calls of one connection that last


class StreamOfMessages(Stream):
    """What `grpc_stream.GrpcStream` knows of a method with several messages."""

    __slots__ = (
        "_calls", "_in_line", "_lasting", "_over", "_owed", "_pinged", "_quiet_since", "_read", "_said", "_sending",
        "_several", "_took", "_wasted",
    )  # fmt: skip

    def __init__(self, connection: "Http2Connection", number: int, complete: bool) -> None:
        super().__init__(connection, number, complete)
        self._several = False  # whether the method takes or gives several messages
        self._lasting: GrpcCall | None = None  # the call that lasts

    def _expect_messages(self) -> None:
        """Get ready for several messages."""
        self._several = True
        self._calls: dict[GrpcCall, None] = {}
        self._said: list[bytes] = []  # answers that wait to be sent
        self._read = bytearray()  # what has come and is no message yet
        self._owed = 0  # bytes by which the window of the stream is not open again
        self._over = self._edge.closing  # no further message is taken
        self._sending = False
        self._in_line = False  # whether more messages have come than one turn takes
        self._wasted = 0  # messages of this turn that were refused
        self._took = False  # whether a message has come in full since the state was looked at
        self._pinged = False  # since the stream is quiet
        self._quiet_since = 0.0

    def _end_well(self) -> None:
        """End the call with the status that all is well."""
        raise NotImplementedError

    def now(self) -> float:
        return self._edge.clock()

    @property
    def _is_stranger(self) -> bool:
        """Whether clients must say who they are, and it is not known yet."""
        return self._edge.keys and self.holder == STRANGERS

    @property
    def _is_full(self) -> bool:
        most = MOST_OF_A_STRANGER if self._is_stranger else MOST_IN_FLIGHT
        return len(self._calls) + len(self._said) >= most

    # ---- states ---------------------------------------------------------------------------------------------

    def _look(self) -> None:
        """End the stream if there is nothing left to do, else set its state. One that lasts for as long as this
        process or a backend takes has no time limit."""
        if self.state == State.CLOSED:
            return
        busy = bool(self._calls or self._said or self.unsent or self._in_line)
        if not busy and self._over:
            self.refuse(_draining())
        elif not busy and self.complete and self._read:
            self.refuse(Malformed("the stream ends in the middle of a message"))
        elif not busy and self.complete:
            self._end_well()
        elif self.waiting is None:  # else it is SENDING
            self._set_state(busy)

    def _set_state(self, busy: bool) -> None:
        if self._read and not (self.complete or self._over or self._is_full or self._in_line):
            state = State.BODY
        elif self._lasting is not None and len(self._calls) == 1 and not (self._said or self.unsent):
            state = State.QUIET
        elif busy:
            state = State.BUSY
        else:
            state = State.HEAD if self._is_stranger else State.QUIET
        if state != self.state:
            self.state, self.since = state, self._edge.tick
            if state == State.QUIET:
                self._pinged, self._quiet_since = False, self.now()
        elif self._took and state == State.BODY:  # another message than before
            self.since = self._edge.tick
        self._took = False

    def out_of_time(self) -> None:
        limits = self._edge.limits
        if self.state == State.HEAD:
            self.refuse(HeadTooSlow(not_introduced(limits.head_seconds)))
        elif self.state != State.QUIET:
            super().out_of_time()
        elif self._lasting is None and self.now() - self._quiet_since >= limits.quiet_seconds:
            self.refuse(BodyTooSlow(quiet_for_long(limits.quiet_seconds)))
        else:
            self._ask_for_a_sign()

    def _ask_for_a_sign(self) -> None:
        """Ping the client; one that has not answered the last ping is gone."""
        connection = cast("GrpcConnection", self._connection)
        if self._pinged and connection.heard_at < self.since:
            connection.abort()
            return
        self._pinged, self.since = True, self._edge.tick
        connection.ping()

    # ---- a call that lasts ---------------------------------------------------------------------------------

    @property
    def lasts(self) -> bool:
        return self._lasting is not None

    def let_last(self, call: GrpcCall) -> bool:
        """Let a call last. Returns False if its client has left. Raises PenstockError."""
        if call not in self._calls:
            return False
        if self._over:
            raise _draining()
        if self._lasting is not None:
            raise Malformed("the call must have one message")
        if cast("GrpcConnection", self._connection).lasting >= MOST_LASTING:
            raise Overloaded(f"{MOST_LASTING} calls that last are open on this connection", retry_after=1.0)
        self._lasting = call
        self._look()
        return True

    def _end_lasting(self) -> None:
        """Tell whoever answers the call that lasts to end it. It may say a last word."""
        call, self._lasting = self._lasting, None
        if call is not None:
            leaving, call.leaving = call.leaving, None
            if leaving is not None:
                leaving.left()

    def over_with(self, call: GrpcCall) -> None:
        """Note that nothing more is said in answer to a call that lasts."""
        if self._lasting is call:
            self._lasting = None
        if self._calls.pop(call, self) is None:
            self._look()


def _draining() -> Draining:
    return Draining("this server is shutting down", retry_after=1.0)
