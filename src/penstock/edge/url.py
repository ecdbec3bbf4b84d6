"""Takes the URL of a request apart into path and query. Both planes ask with each request, to find its route."""

from urllib.parse import unquote_to_bytes

from penstock.errors import Malformed


def split(url: bytes) -> tuple[str, str]:
    """Returns path and query of a URL. A proxy may send the whole URL; other clients send it from its path on."""
    if not url.startswith(b"/"):
        _, _, address = url.partition(b"://")
        url = b"/" + address.partition(b"/")[2]
    path, _, query = url.partition(b"?")
    try:
        return unquote_to_bytes(path).decode(), query.decode("ascii")
    except UnicodeDecodeError:
        raise Malformed("the address is not in UTF-8") from None
