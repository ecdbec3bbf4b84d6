"""What the span of a request says of the way that its request came: by OpenTelemetry's conventions for HTTP or for
RPC, or in words of our own for a message or a line. `request_spans.py` writes each span with it. Pure."""

from functools import lru_cache

from penstock.adapters.tracing.otlp import Kind, TextAttribute, Value, attributes, title
from penstock.ports.tracing import ByGrpc, ByHttp, OfMany, Way

SERVER_FAULT = 500  # statuses of HTTP from here on are failures of the server, and not of its client
# Statuses of gRPC that are failures of the server: UNKNOWN, DEADLINE_EXCEEDED, UNIMPLEMENTED, INTERNAL, UNAVAILABLE
# and DATA_LOSS.
SERVER_FAULTS = frozenset((2, 4, 12, 13, 14, 15))
METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH", "QUERY"))
OTHER = "_OTHER"  # in the place of any other method: a client may make up as many as it likes
LONGEST_PATH, LONGEST_METHOD = 512, 32  # characters; a client may send longer ones
KINDS = {"message": Kind.SERVER, "line": Kind.INTERNAL}  # a line is asked by the server itself

_PATH, _METHOD = TextAttribute("url.path"), TextAttribute("http.request.method_original")


def shortened(way: Way) -> Way:
    """Returns the same without the end of what is very long."""
    if isinstance(way, ByHttp) and len(way.path) > LONGEST_PATH:
        return way._replace(path=way.path[:LONGEST_PATH])
    return way


def described(way: Way, code: str, scheme: bytes) -> tuple[bytes, bytes, bool]:
    """Returns name and kind of a span, its attributes, and whether it failed. `code`: of the error; empty if there
    is none. `scheme`: an attribute."""
    match way:
        case ByHttp(method, path, route, status):
            known = method if method in METHODS else OTHER
            about = _by_http(known, route, status, code) + scheme + _PATH(path)
            if known is OTHER:
                about += _METHOD(method[:LONGEST_METHOD])
            named = title(f"{'HTTP' if known is OTHER else method} {route}", Kind.SERVER)
            return named, about, _is_fault(status, code)
        case ByGrpc(service, method, status):
            named = title(f"{service}/{method}", Kind.SERVER)
            return named, _by_grpc(service, method, status, code), status in SERVER_FAULTS
        case OfMany(what, route, status):
            named = title(f"{what} {route}", KINDS[what])
            return named, _of_many(what, route, code), _is_fault(status, code)


def _is_fault(status: int, code: str) -> bool:
    return bool(code) and not 0 < status < SERVER_FAULT


# The functions below write attributes that go together. Few are different, so that most are written once.


@lru_cache(4096)
def _by_http(method: str, route: str, status: int, code: str) -> bytes:
    told: dict[str, Value] = {"http.request.method": method, "http.route": route}
    if status:
        told["http.response.status_code"] = status
    return attributes(told | _error(code))


@lru_cache(4096)
def _by_grpc(service: str, method: str, status: int, code: str) -> bytes:
    told: dict[str, Value] = {
        "rpc.system": "grpc",
        "rpc.service": service,
        "rpc.method": method,
        "rpc.grpc.status_code": status,
    }
    return attributes(told | _error(code))


@lru_cache(4096)
def _of_many(what: str, route: str, code: str) -> bytes:
    told: dict[str, Value] = {"http.route": route}
    if what == "message":
        told["network.protocol.name"] = "websocket"
    return attributes(told | _error(code))


def _error(code: str) -> dict[str, Value]:
    return {"error.type": code} if code else {}
