"""The dialect for endpoints that speak as OpenAI's do, such as vLLM, infinity, llama.cpp or another Penstock:
openai:// and openais:// targets. `roles/backends.py` makes one for each worker, and the backend (`http.py`) speaks
it.

    /v1/embeddings     {"model", "input": […]}      data[i].embedding is the output
    /v1/completions    {"model", "prompt": […]}     choices[i].text is the output

The elements of an answer go by their `index`. The tokens that a call used are shared out among its inputs by their
length.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec

from penstock.adapters.backends.dialects.dialect import Get, Sent
from penstock.adapters.backends.http_answer import SHOWN
from penstock.errors import BackendUnavailable, BatchRejected, UserMistake
from penstock.output import with_note
from penstock.types import Result

FORM = "openai://host:port/v1, or with /embeddings or /completions, and ?model=NAME if it has several"
OURS = ("model", "input", "prompt", "stream", "n", "best_of", "encoding_format")  # no client may set these


class _Usage(msgspec.Struct):
    total_tokens: int | None = None


class _Element(msgspec.Struct):
    index: int | None = None
    embedding: msgspec.Raw = msgspec.Raw()
    text: msgspec.Raw = msgspec.Raw()
    finish_reason: msgspec.Raw = msgspec.Raw(b"null")


class _Answer(msgspec.Struct):
    data: list[_Element] | None = None
    choices: list[_Element] | None = None
    usage: _Usage | None = None
    model: str | None = None


class _Model(msgspec.Struct):
    id: str


class _Models(msgspec.Struct):
    data: list[_Model]


_ANSWER = msgspec.json.Decoder(_Answer)
_MODELS = msgspec.json.Decoder(_Models)
_PARAMETERS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_NUMBERS = msgspec.json.Decoder(list[float])


class OpenAI:
    """Implements `Dialect`."""

    method = "POST"
    takes_parameters = True
    health = ""
    most: int | None = None

    def __init__(self, url: str, output_kind: str) -> None:
        """`url`: of the target, with http:// or https://. `output_kind`: auto, text or json; with json the output
        of a completion holds its `finish_reason` too."""
        parts = urlsplit(url)
        path = parts.path.rstrip("/") or "/v1"
        base, _, last = path.rpartition("/")
        kind = last if last in ("embeddings", "completions") else "embeddings"
        self._base = base if last == kind else path
        self._completes = kind == "completions"
        self._whole = output_kind == "json"
        given = parse_qs(parts.query, keep_blank_values=True)
        names = given.pop("model", [""])
        if given or len(names) > 1 or parts.fragment:
            raise UserMistake(f"{url!r} says what is not known here: write it as {FORM}")
        self._model = self._wanted = names[0]
        self.url = f"{parts.scheme}://{parts.netloc}{self._base}/{kind}"

    async def learn(self, get: Get) -> None:
        """Finds out the name of the endpoint's only model, unless the target names one."""
        if self._wanted:
            return
        content = await get(f"{self._base}/models")
        try:
            names = [model.id for model in _MODELS.decode(content or b"").data]
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise BackendUnavailable(
                f"the endpoint does not list its models at {self._base}/models: add ?model=NAME to the target"
            ) from None
        if len(names) != 1:
            listed = ", ".join(names)[:SHOWN] or "none"
            raise BackendUnavailable(
                f"the endpoint has these models: {listed}; add ?model=NAME to the target"
            )
        self._model = names[0]

    def ask(self, inputs: Sequence[bytes], parameters: bytes, batch_id: str) -> Sent:
        said: dict[str, Any] = {"model": self._model}
        listed = msgspec.Raw(b"[%b]" % b",".join(inputs))
        if self._completes:
            said["prompt"] = listed
        else:
            said |= {"input": listed, "encoding_format": "float"}
        for name, value in _PARAMETERS.decode(parameters or b"{}").items():
            if name in OURS:
                raise BatchRejected(f"the parameter {name!r} cannot be set for this model", details=name)
            said[name] = value
        return Sent(msgspec.json.encode(said))

    def result(self, content: bytes, headers: Mapping[str, str], inputs: Sequence[bytes]) -> Result:
        try:
            if not content.isascii():
                content.decode()  # the decoder does not look at strings inside raw JSON
            answer = _ANSWER.decode(content)
        except msgspec.ValidationError as error:
            raise BatchRejected(f"endpoint's response is not as OpenAI's: {error}") from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise BatchRejected(f"endpoint's response is not JSON: {error}") from None
        name = "choices" if self._completes else "data"
        elements = _in_order(getattr(answer, name) or [], len(inputs), name)
        outputs = [self._output(element) for element in elements]
        tokens = answer.usage.total_tokens if answer.usage is not None else None
        if tokens is not None and tokens >= 0:
            shares = shared_out(tokens, [len(text) for text in inputs])
            outputs = [with_note(output, share) for output, share in zip(outputs, shares, strict=True)]
        return Result(outputs)

    def pressure(self, content: bytes, headers: Mapping[str, str]) -> float:
        return 0.0

    def _output(self, element: _Element) -> bytes:
        if not self._completes:
            output = bytes(element.embedding)
            if not output.startswith(b"["):
                raise BatchRejected(
                    "endpoint's response at 'data': expected an embedding that is a list of numbers"
                )
            return output
        text = bytes(element.text)
        if not text.startswith(b'"'):
            raise BatchRejected("endpoint's response at 'choices': expected a text")
        if not self._whole:
            return text
        return b'{"text":%b,"finish_reason":%b}' % (text, bytes(element.finish_reason))


def _in_order(elements: list[_Element], count: int, name: str) -> list[_Element]:
    """Returns the elements by their `index`; as they come, if none has any."""
    if len(elements) != count:
        raise BatchRejected(
            f"endpoint's response at {name!r}: expected {count} outputs, found {len(elements)}"
        )
    indices = [element.index for element in elements]
    if all(index is None for index in indices):
        return elements
    ordered: list[_Element | None] = [None] * count
    for element in elements:
        if element.index is None or not 0 <= element.index < count or ordered[element.index] is not None:
            raise BatchRejected(
                f"endpoint's response at {name!r}: expected each 'index' from 0 to {count - 1} once"
            )
        ordered[element.index] = element
    return [element for element in ordered if element is not None]


def shared_out(total: int, weights: Sequence[int]) -> list[int]:
    """Returns whole shares by weight, which are `total` together."""
    whole = sum(weights) or 1
    shares, so_far, given = [], 0, 0
    for weight in weights:
        so_far += weight
        share = total * so_far // whole - given
        given += share
        shares.append(share)
    return shares
