"""The URL of a request, taken apart into path and query."""

from urllib.parse import unquote_to_bytes

from penstock.errors import Malformed


def split(url: bytes) -> tuple[str, str]:
    """Path and query of a URL. A proxy may send the whole URL, others send it from its path on."""
    if not url.startswith(b"/"):
        _, _, address = url.partition(b"://")
        url = b"/" + address.partition(b"/")[2]
    path, _, query = url.partition(b"?")
    try:
        return unquote_to_bytes(path).decode(), query.decode("ascii")
    except UnicodeDecodeError:
        raise Malformed("the address is not in UTF-8") from None
