"""The dialect for endpoints of the Open Inference Protocol v2 over HTTP, such as Triton, KServe or another
Penstock: oip+http:// and oip+https:// targets. `roles/backends.py` makes one for each worker, and the backend
(`http.py`) speaks it.

The model says which tensors it takes. Tensors go and come in binary if the server says that it can read it, and
in JSON otherwise.
"""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec

from penstock.adapters.backends.dialects.dialect import Get, Sent
from penstock.adapters.backends.oip.columns import BYTES, Column, Tensor, can_be_sent, columns_of
from penstock.adapters.backends.oip.rows import DEEPEST, Given, OutputKind, outputs_of
from penstock.errors import BackendUnavailable, BatchRejected, UserMistake
from penstock.types import Result

FORM = "oip+http://host:port/model, with ?version=VERSION or &output=TENSOR if it needs them"
BINARY = "binary_tensor_data"  # the name of the extension by which tensors go in binary
LENGTH = "Inference-Header-Content-Length"  # says how many bytes of JSON come before the binary values


class _Described(msgspec.Struct):
    name: str
    datatype: str
    shape: list[int]


class _Metadata(msgspec.Struct):
    inputs: list[_Described]


class _Server(msgspec.Struct):
    extensions: list[str] = []


class _Output(msgspec.Struct):
    name: str
    datatype: str
    shape: list[int]
    data: list[Any] | None = None
    parameters: dict[str, Any] | None = None


class _Answer(msgspec.Struct):
    outputs: list[_Output]
    id: str | None = None
    model_version: str | None = None


_METADATA = msgspec.json.Decoder(_Metadata)
_SERVER = msgspec.json.Decoder(_Server)
_ANSWER = msgspec.json.Decoder(_Answer)
_PARAMETERS = msgspec.json.Decoder(dict[str, Any])


class OpenInference:
    """Implements `Dialect`."""

    method = "POST"
    takes_parameters = True
    most: int | None = None

    def __init__(self, url: str, output_kind: OutputKind, *, text: bool) -> None:
        """`url`: of the target, with http:// or https://. `text`: whether clients may send nothing but texts."""
        parts = urlsplit(url)
        given = parse_qs(parts.query, keep_blank_values=True)
        version, output = given.pop("version", [""]), given.pop("output", [""])
        if given or len(version) > 1 or len(output) > 1 or parts.fragment:
            raise UserMistake(f"{url!r} says what is not known here: write it as {FORM}")
        self._model = f"/v2/models/{parts.path.strip('/')}" + (
            f"/versions/{version[0]}" if version[0] else ""
        )
        self._output = output[0]
        self._kind, self._text = output_kind, text
        self.url = f"{parts.scheme}://{parts.netloc}{self._model}/infer"
        self.health = f"{self._model}/ready"
        self._tensors: list[Tensor] = []  # what the model takes
        self._binary = False  # whether the server can read tensors in binary

    async def learn(self, get: Get) -> None:
        self._binary = BINARY in await self._extensions(get)
        try:
            found = _METADATA.decode(await get(self._model) or b"").inputs
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise BackendUnavailable(f"the endpoint does not describe its model at {self._model}") from None
        self._tensors = [Tensor(each.name, each.datatype, tuple(each.shape[1:])) for each in found]
        self._check(found)

    async def _extensions(self, get: Get) -> list[str]:
        try:
            return _SERVER.decode(await get("/v2") or b"{}").extensions
        except (msgspec.DecodeError, UnicodeDecodeError):
            return []

    def _check(self, found: list[_Described]) -> None:
        described = ", ".join(f"{each.name!r} {each.datatype} {each.shape}" for each in found) or "none"
        if not found or not all(each.shape for each in found) or not all(map(can_be_sent, self._tensors)):
            raise BackendUnavailable(f"the model describes these inputs, which cannot be sent: {described}")
        if self._text and not (len(found) == 1 and self._tensors[0].is_texts):
            raise BackendUnavailable(f'the model takes more than one text ({described}): set input = "json"')

    def ask(self, inputs: Sequence[bytes], parameters: bytes, batch_id: str) -> Sent:
        columns = columns_of(self._tensors, inputs)
        said: dict[str, Any] = {"id": batch_id, "inputs": [_described(column) for column in columns]}
        given = _PARAMETERS.decode(parameters or b"{}")
        for name, value in given.items():
            if not isinstance(value, bool | int | float | str):
                raise BatchRejected(
                    "a parameter cannot be sent: this model takes texts, numbers, true and false",
                    details=f"it is {name!r}",
                )
        if self._output:
            said["outputs"] = [{"name": self._output}]
            if self._binary:
                said["outputs"][0]["parameters"] = {"binary_data": True}
        if self._binary:
            given["binary_data_output"] = True
        if given:
            said["parameters"] = given
        if not self._binary:
            for column, each in zip(columns, said["inputs"], strict=True):
                is_text = column.datatype == BYTES
                each["data"] = [value.decode() for value in column.values] if is_text else column.values
            return Sent(msgspec.json.encode(said))
        raws = [column.raw() for column in columns]
        for raw, each in zip(raws, said["inputs"], strict=True):
            each["parameters"] = {"binary_data_size": len(raw)}
        head = msgspec.json.encode(said)
        headers = {"Content-Type": "application/octet-stream", LENGTH: str(len(head))}
        return Sent(b"".join((head, *raws)), headers)

    def result(self, content: bytes, headers: Mapping[str, str], inputs: Sequence[bytes]) -> Result:
        length = headers.get(LENGTH, "")
        end = int(length) if length.isascii() and length.isdecimal() and len(length) < 12 else len(content)
        try:
            answer = _ANSWER.decode(content[:end])
        except msgspec.ValidationError as error:
            raise BatchRejected(f"endpoint's response is not one of the protocol: {error}") from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise BatchRejected(f"endpoint's response is not JSON: {error}") from None
        tensors, at = [], end
        for output in answer.outputs:
            raw, at = _raw(output, content, at)
            tensors.append(_given(output, raw))
        outputs = outputs_of(tensors, self._output, len(inputs), self._kind, several=True)
        return Result(outputs, answer.model_version or "")

    def pressure(self, content: bytes, headers: Mapping[str, str]) -> float:
        return 0.0


def _described(column: Column) -> dict[str, Any]:
    return {"name": column.name, "datatype": column.datatype, "shape": column.shape}


def _raw(output: _Output, content: bytes, at: int) -> tuple[bytes | None, int]:
    """Returns the binary values of an output, which begin at `at`, and where they end; None if they are in JSON."""
    size = (output.parameters or {}).get("binary_data_size")
    if size is None:
        return None, at
    if type(size) is not int or size < 0 or at + size > len(content):
        raise BatchRejected(f"output {output.name!r}: its binary values are not all there")
    return content[at : at + size], at + size


def _given(output: _Output, raw: bytes | None) -> Given:
    """Returns an output with its values one after the other, however they are nested."""
    values = output.data
    if raw is None and values is not None:
        for _ in range(DEEPEST):
            if not any(type(each) is list for each in values):
                break
            values = list(chain.from_iterable(each if type(each) is list else [each] for each in values))
        kind = str if output.datatype == BYTES else (bool, int, float)
        if not all(isinstance(each, kind) for each in values):
            raise BatchRejected(f"output {output.name!r}: a value is not one of {output.datatype}")
        if output.datatype == BYTES:
            values = [each.encode(errors="replace") for each in values]
    return Given(output.name, output.datatype, output.shape, None if raw is not None else values, raw)
