"""What the edge hands requests to, and asks about requests that are not complete yet: a contract. The data plane
implements it (`doors/data_plane.py`, and what may stand before it), and so does the admin plane
(`server/admin_plane.py`)."""

from typing import Protocol

from penstock.edge.body import Whole
from penstock.edge.caller import Caller
from penstock.edge.fields import Headers
from penstock.edge.heads import Head


class App(Protocol):
    """One plane, as the edge knows it."""

    def handle(self, caller: Caller, method: bytes, url: bytes, headers: Headers, body: Whole) -> None:
        """Take a whole request. One answer must follow, now or later. Never raises."""
        ...

    def handle_ordinary(self, caller: Caller, head: Head, body: bytes) -> None:
        """Take a whole request whose head was ordinary, so that only the fields that matter were read
        (`heads.py`)."""
        ...

    def who(self, method: bytes, url: bytes, headers: Headers) -> str:
        """Returns who sends a body that takes a while, by its head: a tenant, or an empty name where that is not
        known yet. Raises the error with which the request would be refused, whatever its body."""
        ...

    def most_body(self, url: bytes) -> int:
        """Returns how many bytes a body may have at this URL, where that is more than elsewhere; otherwise 0. Such
        a body is handed over in its pieces."""
        ...

    def refuse(self, caller: Caller, exc: Exception, url: bytes, headers: Headers) -> None:
        """Answer bytes that are no valid request, or a request that exceeds a limit. `url` and `headers`: as much
        of them as has been read."""
        ...
