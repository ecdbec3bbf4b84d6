"""Requests of every kind, with a secret of its own in every field of each, and where none of them may be found."""

import json
import random
import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path

from server import Answer
from token_kit import SECRET, jwk, sign
from wire import Address, Heard, talk

MARK = "canary"
ANY = re.compile(rb"canary[0-9a-f]{16}\w*")

PLACES = ("/metrics", "/internal/health", "/internal/workers", "/livez", "/readyz")

# Fails on what ends in "fail", and says its input aloud; answers nobody while there is a file `gate`.
TELLTALE = """
import os, time
def batchstring(inputs):
    while os.path.exists("gate"):
        time.sleep(0.01)
    if any(text.endswith("fail") for text in inputs):
        raise ValueError(f"cannot read {inputs}")
    return inputs
"""


def both_kinds(folder: Path) -> str:
    """Of the configuration: API keys are taken, and tokens that the operator's secret has signed."""
    (folder / "secret").write_bytes(SECRET)
    return f"""
[auth]
mode = "keys+jwt"
keys_file = "{folder}/penstock-keys.json"
[auth.jwt]
issuer = "https://id.test"
audience = ["penstock"]
algorithms = ["HS256"]
key_file = "{folder}/secret"
"""


@dataclass(frozen=True, slots=True)
class Bird:
    request: bytes
    credential: str  # nobody is ever told, not even who sent it
    secret: str  # nobody else is ever told; what stands in a name or an address may be quoted to its sender


class Aviary:
    """`key`: an API key that is good, so that some get further than the check of who asks."""

    def __init__(self, key: str, pick: random.Random) -> None:
        self._key = key
        self._pick = pick
        self._kinds: Sequence[Callable[[str], bytes]] = (
            self._nobody, self._forged, self._named_as_key, self._model, self._path, self._query, self._field,
            self._header, self._not_json, self._parameters, self._client, self._task, self._result, self._failing,
            self._hurried, self._verb, self._garbled, self._tenant,
        )  # fmt: skip

    def one_of_each(self) -> list[Bird]:
        return [self._bird(kind) for kind in self._kinds]

    def some(self, number: int) -> list[Bird]:
        return [self._bird(self._pick.choice(self._kinds)) for _ in range(number)]

    def _bird(self, kind: Callable[[str], bytes]) -> Bird:
        secret = f"{MARK}{self._pick.getrandbits(64):016x}"
        return Bird(kind(secret), f"{secret}_key", secret)

    # ---- on arrival ----------------------------------------------------------------------------------------

    def _nobody(self, secret: str) -> bytes:
        return _post(secret, f"Authorization: Bearer pk_{secret}_key")

    def _forged(self, secret: str) -> bytes:
        token = sign("EdDSA", f"{secret}_key", 1, tenant=f"{secret}_key", jwk=jwk("EdDSA", secret, 1))
        return _post(secret, f"Authorization: Bearer {token.decode()}")

    def _named_as_key(self, secret: str) -> bytes:
        return _post(secret, f"X-API-Key: {secret}_key", f"Cookie: session={secret}_key")

    # ---- inside --------------------------------------------------------------------------------------------

    def _tenant(self, secret: str) -> bytes:
        """One that nobody has seen before, and that is let in."""
        token = sign("HS256", None, at=time.time(), tenant=f"{secret}_tenant", jti=f"{secret}_key")
        return _post(secret, f"Authorization: Bearer {token.decode()}")

    def _model(self, secret: str) -> bytes:
        return self._let_in(secret, model=f"{secret}_model")

    def _path(self, secret: str) -> bytes:
        return self._let_in(secret, path=f"/v1/{secret}_path")

    def _query(self, secret: str) -> bytes:
        return self._let_in(
            secret, path=f"/v1/result/{secret}_task?{secret}_name={secret}_query", method="GET"
        )

    def _field(self, secret: str) -> bytes:
        return self._let_in(secret, body=json.dumps({"input": secret, f"{secret}_field": secret}).encode())

    def _header(self, secret: str) -> bytes:
        return self._let_in(secret, f"X-{secret}_header: {secret}", "Content-Type: text/" + secret)

    def _not_json(self, secret: str) -> bytes:
        return self._let_in(secret, body=f'{{"input": "{secret}", {secret}'.encode())

    def _parameters(self, secret: str) -> bytes:
        return self._let_in(secret, parameters={f"{secret}_name": f"{secret}_parameter"})

    def _client(self, secret: str) -> bytes:
        return self._let_in(secret, client_id=f"{secret}_client")

    def _task(self, secret: str) -> bytes:
        return self._let_in(secret, "Prefer: respond-async")

    def _result(self, secret: str) -> bytes:
        return self._let_in(secret, path=f"/v1/result/{secret}_task", method="DELETE")

    def _failing(self, secret: str) -> bytes:
        return self._let_in(secret, input=f"{secret}_fail")

    def _hurried(self, secret: str) -> bytes:
        return self._let_in(secret, timeout_ms=1)

    def _verb(self, secret: str) -> bytes:
        return self._let_in(secret, method="PATCH")

    def _garbled(self, secret: str) -> bytes:
        return f"POST /v1/inference HTTP/1.1\r\nHost: t\r\n{secret} : x\r\n{secret}\r\n\r\n{secret}".encode()

    def _let_in(
        self,
        secret: str,
        *headers: str,
        path: str = "/v1/inference",
        method: str = "POST",
        body: bytes | None = None,
        **said: object,
    ) -> bytes:
        return _post(secret, f"X-API-Key: {self._key}", *headers, path=path, method=method, body=body, **said)


def _post(
    secret: str,
    *headers: str,
    path: str = "/v1/inference",
    method: str = "POST",
    body: bytes | None = None,
    **said: object,
) -> bytes:
    if body is None:
        body = json.dumps({"input": f"{secret}_input", **said}).encode()
    lines = [
        f"{method} {path} HTTP/1.1", "Host: t", "Connection: close", f"X-Request-Id: {secret}_id",
        f"traceparent: 00-{secret[-16:] * 2}-{secret[-16:]}-01", f"User-Agent: {secret}", *headers,
        f"Content-Length: {len(body)}",
    ]  # fmt: skip
    if not any(header.startswith("Content-Type") for header in headers):
        lines.append("Content-Type: application/json")
    return "\r\n".join([*lines, "", ""]).encode() + body


def told_of_others(bird: Bird, answer: bytes) -> set[bytes]:
    """Secrets in an answer that are not its asker's own to see."""
    found = set(ANY.findall(answer))
    return {each for each in found if each.endswith(b"_key") or not each.startswith(bird.secret.encode())}


def release(birds: list[Bird], *addresses: Address) -> Counter[int]:
    """Sends them all; each may be told what is its own and nothing else."""

    def send(bird: Bird, where: Address) -> Heard:
        return talk(where, bird.request)

    with ThreadPoolExecutor(16) as pool:
        heard = list(pool.map(send, birds, cycle(addresses)))
    for bird, answer in zip(birds, heard, strict=True):
        assert told_of_others(bird, answer.data) == set(), answer.data
    assert all(len(answer.statuses) == 1 for answer in heard)
    return Counter(answer.statuses[0] for answer in heard)


def check_letters(listing: Answer, key: str) -> None:
    """Dead letters hold inputs, for whoever administers the server; a list of them shows ids and tenants only."""
    letters = listing.json()
    assert letters, "some have failed"
    shown = {found.rpartition(b"_")[2] for found in ANY.findall(listing.body)}
    assert shown <= {b"id", b"tenant"}
    assert key.split("_")[2] not in listing.body.decode()
