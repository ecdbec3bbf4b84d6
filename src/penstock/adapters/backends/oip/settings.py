"""The settings of a gRPC endpoint, and its URL taken apart. `roles/backends.py` makes the settings of the
configuration, and the backend (`backends/grpc.py`) takes its URL apart itself. To make settings reads the files of
certificates."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import unquote

from penstock.adapters.backends.oip.credentials import Certificates
from penstock.errors import UserMistake

_URL = re.compile(r"(grpcs?)://((?:[\w.-]+|\[[0-9A-Fa-f:.]+\]):\d{1,5})/([^/?#\s]+)")
_KEY = re.compile(r"(?!grpc-)[0-9a-z_.-]+(?<!-bin)")


@dataclass(frozen=True, slots=True)
class GrpcSettings:
    """What `[models.NAME.grpc]` in the configuration says. Raises UserMistake if a part of it is wrong."""

    input_name: str = ""  # of the one BYTES tensor that holds the inputs; empty: the model's only one
    output_name: str = ""  # of the tensor that holds the outputs; empty: the only one in the response
    shape: Literal["auto", "[n]", "[n,1]"] = "auto"  # of the inputs; auto: as the model describes itself
    version: str = ""  # of the model to ask for; empty: the server's choice
    headers: Mapping[str, str] = field(default_factory=dict)  # `env:NAME`, `Bearer env:NAME` name a variable
    ca_file: str = ""  # this file and the next two are those of `credentials.Certificates`
    client_certificate: str = ""
    client_key: str = ""
    server_name: str = ""  # the name in the endpoint's certificate; empty: the host
    max_response: int = 64 * 1024 * 1024  # bytes

    def __post_init__(self) -> None:
        for name, value in self.headers.items():
            if not _KEY.fullmatch(name.lower()) or not (value.isascii() and value.isprintable()):
                raise UserMistake(f"grpc.headers: {name!r} is not a header that can be sent")
        if self.max_response < 1:
            raise UserMistake("grpc.max_response must be at least 1 byte")
        self.certificates.check()

    @property
    def certificates(self) -> Certificates:
        return Certificates(self.ca_file, self.client_certificate, self.client_key)


@dataclass(frozen=True, slots=True)
class GrpcTarget:
    """`grpc://host:port/model`, or `grpcs://` with TLS."""

    authority: str  # host:port
    model: str
    tls: bool

    @classmethod
    def parse(cls, url: str) -> "GrpcTarget":
        """Takes a URL apart. Raises UserMistake."""
        match = _URL.fullmatch(url)
        if match is None:
            raise UserMistake(f"{url!r} is not an endpoint: write it as grpc://host:port/model")
        scheme, authority, model = match.groups()
        return cls(authority, unquote(model), scheme == "grpcs")
