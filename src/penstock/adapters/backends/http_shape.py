"""What a user's own HTTP endpoint takes and gives: `[models.NAME.http]` of the configuration.
`roles/backends.py` makes an `HttpShape` of that section. The backend (`http.py`) goes by it in how the endpoint is
reached, and `dialects/described.py` in what is sent. Pure.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.adapters.backends.http_answer import HEADER
from penstock.errors import UserMistake

_BLANK = re.compile(r"\$(inputs|parameters|count)\b")
# A member of the JSON object that is left out, with one comma, if the batch has no parameters.
_OPTIONAL = r'"(?:[^"\\]|\\.)*"\s*:\s*\$parameters\?'
_LEFT_OUT = re.compile(rf"\s*,\s*{_OPTIONAL}|{_OPTIONAL}\s*,?")
_FARTHEST = 63  # the highest index into a list that a path may name
NONE = (b"", b"{}")  # what a batch without parameters may have as its parameters


@dataclass(frozen=True, slots=True)
class HttpShape:
    """What the endpoint's requests and responses look like; `[models.NAME.http]` in config."""

    method: str = "POST"
    headers: Mapping[str, str] = field(default_factory=dict)  # `env:NAME`, `Bearer env:NAME` name a variable
    request: str = '{"inputs": $inputs, "parameters": $parameters?}'  # may say $count as well
    # Dotted path to the list of outputs; empty: the response is the list. A number in a path counts in a list.
    outputs: str = "outputs"
    item: str = ""  # dotted path inside each element of the list; empty: the element is the output
    version: str = ""  # of the model: a dotted path in the response, or `header:NAME`
    pressure: str = ""  # how full it is: a path or header, in the responses to a batch and to `health`
    health: str = ""  # path to GET when probing; empty: a connection that opens is proof enough
    max_response: int = 64 * 1024 * 1024  # bytes

    def __post_init__(self) -> None:
        if self.method not in ("POST", "PUT", "PATCH"):
            raise UserMistake(f"http.method is {self.method!r}: use POST, PUT or PATCH")
        blanks = _BLANK.findall(self.request)
        if blanks.count("inputs") != 1 or blanks.count("parameters") > 1:
            raise UserMistake("http.request must say $inputs once, and $parameters at most once")
        try:
            # The sample has quotes in it, so that a $name inside a JSON string is found out as well.
            for parameters in (b'{"a": 1}', b""):
                json.loads(self.fill([b'"a"'], parameters))
        except ValueError as error:
            hint = "write $inputs, $parameters and $count without quotes around them"
            raise UserMistake(f"http.request is not JSON once filled in ({error}); {hint}") from None
        for name in ("outputs", "item", "version", "pressure"):
            path = getattr(self, name)
            if path and "" in path.split("."):
                raise UserMistake(f"http.{name} is {path!r}: use names joined by dots, such as result.items")
            if any(part.isdecimal() and int(part) > _FARTHEST for part in path.split(".")):
                raise UserMistake(f"http.{name} is {path!r}: a place in a list is at most {_FARTHEST}")
        for name, example in (("version", "X-Model-Version"), ("pressure", "X-Gpu-Memory")):
            if getattr(self, name) == HEADER:
                raise UserMistake(f"http.{name} names no header: write it as header:{example}")
        for name, value in self.headers.items():
            if not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name) or not value.isprintable():
                raise UserMistake(f"http.headers: {name!r} is not a header that can be sent")
        if self.max_response < 1:
            raise UserMistake("http.max_response must be at least 1 byte")

    @property
    def takes_parameters(self) -> bool:
        """Whether the endpoint is sent parameters."""
        return "parameters" in _BLANK.findall(self.request)

    def fill(self, inputs: list[bytes], parameters: bytes) -> bytes:
        """Returns the body of a request. Inputs and parameters are JSON and go in as they are."""
        none = parameters in NONE
        request = (
            _LEFT_OUT.sub("", self.request) if none else self.request.replace("$parameters?", "$parameters")
        )
        parts = _BLANK.split(request)
        listed = b"[" + b",".join(inputs) + b"]"
        filled = {"inputs": listed, "parameters": parameters or b"{}", "count": b"%d" % len(inputs)}
        return b"".join(filled[part] if i % 2 else part.encode() for i, part in enumerate(parts))
