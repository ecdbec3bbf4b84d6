"""The errors that a program gets from the client. `answer.py` makes them of what a server says, `connections.py`
and `stream_road.py` of what happens to a connection, `asking.py` when the time is over, and the files of a `map` of
inputs that cannot be sent. Users catch them.

InferenceError         there is no output
├── Refused            nothing was started
│   └── Busy           too much is asked of the server (503), or by you (429): `retry_after` says when to come again
├── Late               the time was over, the server's or yours
├── Failed             the function, the endpoint or the server failed
└── NoContact          no connection, or it broke off
"""


class InferenceError(Exception):
    """There is no output. `code` is the server's (docs/errors.md has them all), or one of the client's own such as
    NO_ANSWER; it is empty where the server gave none."""

    def __init__(
        self,
        message: str,
        *,
        code: str = "",
        status: int = 0,
        request_id: str = "",
        retry_after: float | None = None,
        again: bool = False,
        maybe_run: bool = False,
    ) -> None:
        """`again`: whether another try may go well. `maybe_run`: whether this try may have been executed."""
        super().__init__(message)
        self.message = message
        self.code = code
        self.status = status  # of HTTP; 0 if there was no answer
        self.request_id = request_id
        self.retry_after = retry_after  # seconds
        self.again = again
        self.maybe_run = maybe_run

    def __str__(self) -> str:
        return f"{self.code}: {self.message}" if self.code else self.message


class Refused(InferenceError):
    """The server did not accept the request: nothing was started."""


class Busy(Refused):
    """The server refused because of its load, or because of your quota."""


class Late(InferenceError):
    """There was no answer in time."""


class Failed(InferenceError):
    """The request was accepted, and ended without an output."""


class NoContact(InferenceError):
    """There was no connection, or it broke off before the answer."""
