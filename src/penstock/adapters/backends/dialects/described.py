"""The dialect for endpoints whose JSON is described in the configuration (`http_shape.py`): http:// and https://
targets. The backend (`http.py`) makes it and speaks it, unless the target names an endpoint of another kind."""

from collections.abc import Mapping, Sequence

from penstock.adapters.backends.dialects.dialect import Get, Sent
from penstock.adapters.backends.http_answer import AnswerReader
from penstock.adapters.backends.http_shape import NONE, HttpShape
from penstock.errors import BatchRejected
from penstock.types import Result


class Described:
    """Implements `Dialect`."""

    most: int | None = None

    def __init__(self, shape: HttpShape, *, text: bool) -> None:
        """`text`: outputs must be strings."""
        self._shape = shape
        self._text = text
        self._reader = AnswerReader(shape)
        self.method, self.health = shape.method, shape.health
        self.takes_parameters = shape.takes_parameters

    async def learn(self, get: Get) -> None:
        pass

    def ask(self, inputs: Sequence[bytes], parameters: bytes, batch_id: str) -> Sent:
        if parameters not in NONE and not self.takes_parameters:
            raise BatchRejected("this model takes no parameters: its http.request does not say $parameters")
        return Sent(self._shape.fill(list(inputs), parameters))

    def result(self, content: bytes, headers: Mapping[str, str], inputs: Sequence[bytes]) -> Result:
        outputs, reader = self._reader.outputs(content), self._reader
        if len(outputs) != len(inputs):
            raise BatchRejected(f"{reader.where}: expected {len(inputs)} outputs, found {len(outputs)}")
        if self._text and not all(output.startswith(b'"') for output in outputs):
            raise BatchRejected(f"{reader.where}: expected strings, since the model's output is text")
        version = reader.version(content, headers)
        return Result(outputs, version, pressure=reader.pressure(content, headers))

    def pressure(self, content: bytes, headers: Mapping[str, str]) -> float:
        return self._reader.pressure(content, headers) if self._shape.pressure else 0.0
