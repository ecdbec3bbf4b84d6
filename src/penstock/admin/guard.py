"""Keeps web pages out of an admin plane without a token; programs of this machine may use it. The admin plane
(`server/admin_plane.py`) asks about each request before it is handled.

A page from elsewhere can make a browser send requests here. It can even read the answers, if the name of its server
is made to lead to 127.0.0.1 (DNS rebinding). But it cannot choose the `Host` and the `Origin` that the browser
sends, and a form cannot send a header of its own.
"""

from collections.abc import Collection, Mapping

from penstock.errors import Forbidden

OWN_NAMES = ("localhost", "127.0.0.1", "[::1]")
HEADER = b"x-penstock"  # every change must have it, with any value
READING = (b"GET", b"HEAD")


class Guard:
    """Checks the heads of requests to one admin plane."""

    def __init__(self, host: str, names: Collection[str] = (), token: str = "") -> None:
        """`host`: the address that the admin plane is bound to. `names`: other names that lead to it."""
        bound = f"[{host}]" if ":" in host else host
        self._names = {name.lower() for name in (*OWN_NAMES, bound, *names)}
        self._token = bool(token)

    def check(self, method: bytes, headers: Mapping[bytes, bytes]) -> None:
        """Raises Forbidden if a web page may have sent the request. With a token, less is checked, because no web
        page knows it."""
        host, origin = headers.get(b"host"), headers.get(b"origin")
        if not self._token and host is not None and _name(host) not in self._names:
            raise Forbidden(
                f"the admin plane is not known as {_shown(host)}: ask for localhost or 127.0.0.1, or add the name"
                " to server.admin_hosts"
            )
        if origin is not None and origin.partition(b"://")[2] != host:
            raise Forbidden(f"web pages of {_shown(origin)} may not use the admin plane")
        if not self._token and method not in READING and HEADER not in headers:
            raise Forbidden("a change needs the header X-Penstock: 1, which no web form can send")


def _name(host: bytes) -> str:
    """Returns the host without its port, in lower case."""
    name, colon, port = host.decode("latin-1").lower().rpartition(":")
    return name if colon and port.isdecimal() else host.decode("latin-1").lower()


def _shown(said: bytes) -> str:
    return repr(said[:100].decode("ascii", "replace"))
