"""Reads a Redis URL: redis://, rediss:// (TLS), redis+cluster:// and rediss+cluster:// (several hosts).
`connect.py` asks when a `Store` is made. Nothing connects here; only whether the files of certificates exist is
looked up."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from penstock.errors import UserMistake

# By scheme: whether the connection is encrypted, and whether it is to a cluster.
_SCHEMES = {"redis": (False, False), "rediss": (True, False), "redis+cluster": (False, True)}
_SCHEMES["rediss+cluster"] = (True, True)
_FILES = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")
_OPTIONS = (*_FILES, "ssl_cert_reqs", "ssl_check_hostname", "ssl_ca_data", "ssl_ciphers")
_EXAMPLE = "redis://user:password@host:6379/0 or redis+cluster://host:6379,host:6380"


@dataclass(frozen=True, slots=True)
class Address:
    """Where Redis is, and with which options to connect."""

    nodes: tuple[tuple[str, int], ...]
    clustered: bool
    shown: str  # the address as logs and messages may show it, without the password
    options: dict[str, Any] = field(repr=False)  # as redis-py's clients take them


def parse_address(url: str) -> Address:
    """Reads a URL. Raises UserMistake that says what is wrong with it; the message never quotes a password."""
    try:
        parts = urlsplit(url)
    except ValueError:
        raise UserMistake(f"The Redis URL cannot be read. Write it like {_EXAMPLE}.") from None
    if parts.scheme not in _SCHEMES:
        raise UserMistake(
            f"A Redis URL starts with redis://, rediss:// or redis+cluster://, like {_EXAMPLE}."
        )
    encrypted, clustered = _SCHEMES[parts.scheme]
    account, _, hosts = parts.netloc.rpartition("@")
    nodes = tuple(_node(host) for host in hosts.split(",")) if hosts else ()
    if not nodes or (len(nodes) > 1 and not clustered):
        raise UserMistake(f"A Redis URL names one host, or with redis+cluster:// several, like {_EXAMPLE}.")
    shown = f"{parts.scheme}://{','.join(f'{host}:{port}' for host, port in nodes)}"
    options = _options(parts.query, encrypted, shown)
    username, _, password = account.partition(":")
    options |= {"username": unquote(username) or None, "password": unquote(password) or None}
    database = _database(parts.path, shown)
    if clustered and database:
        raise UserMistake(f"A Redis cluster has database 0 only: leave /{database} out of {shown}.")
    if not clustered:
        options["db"] = database
    return Address(nodes, clustered, shown, options)


def _node(text: str) -> tuple[str, int]:
    host, separator, port = text.rpartition(":")
    if not separator or port.endswith("]"):  # there is no port, or an IPv6 address in brackets without one
        host, port = text, "6379"
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise UserMistake(f"'{text}' in the Redis URL is not a host and a port, like host:6379.")
    return host, int(port)


def _database(path: str, shown: str) -> int:
    text = path.strip("/")
    if text and not text.isdigit():
        raise UserMistake(f"The database in the Redis URL is a number, like {shown}/0, not '{text}'.")
    return int(text or 0)


def _options(query: str, encrypted: bool, shown: str) -> dict[str, Any]:
    options: dict[str, Any] = {"ssl": True} if encrypted else {}
    for name, values in parse_qs(query).items():
        if name not in _OPTIONS:
            raise UserMistake(f"{shown} does not take '{name}'; known are {', '.join(_OPTIONS)}.")
        if not encrypted:
            raise UserMistake(f"'{name}' is for TLS: start the Redis URL with rediss://.")
        if name in _FILES and not Path(values[0]).is_file():
            raise UserMistake(f"There is no file {values[0]}, which the Redis URL names as {name}.")
        options[name] = values[0]
    if "ssl_check_hostname" in options:
        options["ssl_check_hostname"] = options["ssl_check_hostname"].lower() in ("true", "yes", "1")
    if options.get("ssl_cert_reqs", "required") not in ("required", "optional", "none"):
        raise UserMistake("ssl_cert_reqs in the Redis URL is required, optional or none.")
    if options.get("ssl_cert_reqs") == "none":
        # A host name can only be checked on a certificate that is checked.
        options["ssl_check_hostname"] = False
    return options
