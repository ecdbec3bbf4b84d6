"""The dialect for endpoints of Text Embeddings Inference: tei:// and teis:// targets. `roles/backends.py` makes one
for each worker, and the backend (`http.py`) speaks it.

    /embed      {"inputs": […], …parameters}                     ──►    [[0.1, …], …]
    /predict    {"inputs": [["text"], ["a", "pair"]], …}    ──►    [[{"label": "joy", "score": 0.9}, …], …]

A TEI takes a limited number of inputs in one call (32, unless it was started otherwise), and says so at `/info`. A
larger batch goes in several calls.
"""

from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

import msgspec

from penstock.adapters.backends.dialects.dialect import Get, Sent
from penstock.errors import BatchRejected, UserMistake
from penstock.types import Result

FORM = "tei://host:port, or with the path of /embed or /predict"


class _Info(msgspec.Struct):
    max_client_batch_size: int | None = None
    model_sha: str | None = None
    model_id: str | None = None


_INFO = msgspec.json.Decoder(_Info)
_OUTPUTS = msgspec.json.Decoder(list[msgspec.Raw])
_PARAMETERS = msgspec.json.Decoder(dict[str, msgspec.Raw])


class Tei:
    """Implements `Dialect`."""

    method = "POST"
    takes_parameters = True

    def __init__(self, url: str) -> None:
        """`url`: of the target, with http:// or https://."""
        parts = urlsplit(url)
        if parts.query or parts.fragment:
            raise UserMistake(f"{url!r} says what is not known here: write it as {FORM}")
        path = parts.path.rstrip("/") or "/embed"
        self._base, _, last = path.rpartition("/")
        if last == "rerank":
            raise UserMistake(f"{url!r} takes the texts of one query: /predict beside it takes pairs of any")
        self._in_lists = last == "predict"  # there, a text alone stands in a list of its own
        self.url = f"{parts.scheme}://{parts.netloc}{path}"
        self.health = f"{self._base}/health"
        self.most: int | None = None
        self._version = ""  # of the model, as the endpoint tells it

    async def learn(self, get: Get) -> None:
        try:
            info = _INFO.decode(await get(f"{self._base}/info") or b"{}")
        except (msgspec.DecodeError, UnicodeDecodeError):
            info = _Info()
        self.most = info.max_client_batch_size or None
        self._version = info.model_sha or ""

    def ask(self, inputs: Sequence[bytes], parameters: bytes, batch_id: str) -> Sent:
        said = _PARAMETERS.decode(parameters or b"{}")
        if "inputs" in said:
            raise BatchRejected("the parameter 'inputs' cannot be set for this model", details="inputs")
        if self._in_lists:
            inputs = [b"[%b]" % each if each.startswith(b'"') else each for each in inputs]
        return Sent(msgspec.json.encode({"inputs": msgspec.Raw(b"[%b]" % b",".join(inputs)), **said}))

    def result(self, content: bytes, headers: Mapping[str, str], inputs: Sequence[bytes]) -> Result:
        try:
            if not content.isascii():
                content.decode()  # the decoder does not look at strings inside raw JSON
            outputs = _OUTPUTS.decode(content)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise BatchRejected(f"endpoint's response is not a list: {error}") from None
        if len(outputs) != len(inputs):
            raise BatchRejected(f"endpoint's response: expected {len(inputs)} outputs, found {len(outputs)}")
        return Result([bytes(output) for output in outputs], self._version)

    def pressure(self, content: bytes, headers: Mapping[str, str]) -> float:
        return 0.0
