"""Over HTTP: who asks is proved by a key or a token, and what a client says of itself counts for nothing."""

import asyncio
import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from socket import create_connection

import jwt
import pytest
from benchmarks.browser import browsing

from server import HUNG, PATIENT, PENSTOCK, Server, eventually, running
from wire import post, talk

SECRET = "a secret of more than thirty-two characters, for tests"


def penstock(*words: str, folder: Path) -> str:
    done = subprocess.run(
        [str(PENSTOCK), *words], cwd=folder, capture_output=True, text=True, check=False, timeout=HUNG
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def bearer(credential: str) -> dict[str, str]:
    return {"authorization": f"Bearer {credential}"}


def token(tenant: str = "acme", tier: str = "paid", **claims: object) -> str:
    said = {
        "iss": "https://id.example",
        "aud": "penstock",
        "exp": time.time() + 600,
        "tenant": tenant,
        "tier": tier,
    }
    return jwt.encode({**said, **claims}, SECRET, "HS256")


# Types a key, sends the form of inference, and tells the status that the page shows.
SEND = """new Promise(resolve => {
  const look = () => {
    const card = document.querySelector('#infer');
    if (!card) return requestAnimationFrame(look);
    const box = document.querySelector('#api-key');
    box.value = %s;
    box.dispatchEvent(new Event('input'));
    new MutationObserver(() => resolve(card.querySelector('.answer .status').innerText))
      .observe(card.querySelector('.answer'), {childList: true, subtree: true});
    card.querySelector('button[type=submit]').click();
  };
  look();
})"""


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("keys")
    made = {
        tenant: penstock("keys", "create", "--tenant", tenant, "--tier", tier, folder=folder)
        for tenant, tier in (("acme", "enterprise"), ("beta", "free"), ("gone", "paid"), ("known", "paid"))
    }
    return {**made, "folder": str(folder)}


@pytest.fixture(scope="module")
def server(keys: dict[str, str]) -> Iterator[Server]:
    (Path(keys["folder"]) / "secret").write_text(SECRET)
    config = f"""{PATIENT}
[auth]
mode = "keys+jwt"
keys_file = "{keys["folder"]}/penstock-keys.json"
[auth.jwt]
issuer = "https://id.example"
audience = ["penstock"]
algorithms = ["HS256"]
key_file = "{keys["folder"]}/secret"
[models.sim]
target = "sim:1ms"
"""
    with running(config=config) as server:
        yield server


@pytest.mark.parametrize("path", ["/v1/inference", "/api/inference"])
def test_without_a_credential_nothing_is_served(server: Server, path: str) -> None:
    answer = server.post(path, {"input": "a"})
    assert answer.status == 401
    assert answer.json()["error"] == "UNAUTHORIZED"
    assert answer.headers["www-authenticate"] == "Bearer"


def test_a_key_or_a_token_is_served_however_it_is_sent(server: Server, keys: dict[str, str]) -> None:
    spaced = (bearer(keys["acme"] + " "), bearer(keys["acme"] + "\t "), {"x-api-key": keys["acme"] + " "})
    for headers in (bearer(keys["acme"]), {"x-api-key": keys["acme"]}, bearer(token()), *spaced):
        assert server.post("/v1/inference", {"input": "a"}, headers).status == 200
        assert server.post("/api/inference", {"input": "a"}, headers).status == 200


def test_a_wrong_key_and_a_wrong_token_are_401(server: Server, keys: dict[str, str]) -> None:
    wrong = keys["acme"][:-1] + ("a" if keys["acme"][-1] != "a" else "b")
    forged = jwt.encode({"tenant": "acme", "exp": time.time() + 60}, "x" * 40, "HS256")
    for credential in (wrong, forged, token(exp=time.time() - 3600), token(aud="others"), "nonsense"):
        assert server.post("/v1/inference", {"input": "a"}, bearer(credential)).status == 401


def test_a_tier_nobody_knows_is_403(server: Server) -> None:
    answer = server.post("/v1/inference", {"input": "a"}, bearer(token(tier="platinum")))
    assert (answer.status, answer.json()["error"]) == (403, "FORBIDDEN")


def test_a_task_is_its_tenants_alone_whatever_client_id_is_claimed(
    server: Server, keys: dict[str, str]
) -> None:
    prefer = {"prefer": "respond-async", "x-request-id": "acmes"}
    made = server.post(
        "/v1/inference", {"input": "a", "client_id": "beta"}, {**prefer, **bearer(keys["acme"])}
    )
    assert made.status == 202
    for claim in ("", "?client_id=acme"):
        assert server.get(f"/v1/result/acmes{claim}", bearer(keys["beta"])).status == 404
        assert server.call("DELETE", f"/v1/result/acmes{claim}", None, bearer(keys["beta"])).status == 404
    assert server.get("/v1/result/acmes?wait_ms=30000", bearer(keys["acme"])).json()["output"] == "a"
    assert server.get("/v1/result/acmes", bearer(token("acme"))).status == 200
    assert server.get("/v1/result/acmes").status == 401


def test_nobody_can_tell_or_take_the_ids_of_another_tenants_tasks(
    server: Server, keys: dict[str, str]
) -> None:
    prefer = {"prefer": "respond-async", "x-request-id": "order-1"}
    for tenant in ("acme", "beta"):
        made = server.post("/v1/inference", {"input": tenant}, {**prefer, **bearer(keys[tenant])})
        assert made.status == 202
    for tenant in ("acme", "beta"):
        result = server.get("/v1/result/order-1?wait_ms=30000", bearer(keys[tenant]))
        assert result.json()["output"] == tenant
    again = server.post("/v1/inference", {"input": "a"}, {**prefer, **bearer(keys["acme"])})
    assert again.status == 409


def test_the_tier_comes_from_the_credential_and_not_from_the_body(
    server: Server, keys: dict[str, str]
) -> None:
    with_tier = server.post("/v1/inference", {"input": "a", "tier": "enterprise"}, bearer(keys["beta"]))
    assert with_tier.status == 422  # a field nobody knows


def test_a_revoked_key_is_refused_though_the_very_head_was_let_in_before(
    server: Server, keys: dict[str, str]
) -> None:
    headers = {"content-type": "application/json", **bearer(keys["known"])}

    def status(connection: HTTPConnection) -> int:
        connection.request("POST", "/v1/inference", b'{"input": "a"}', headers)
        with connection.getresponse() as response:
            response.read()
            return response.status

    with closing(HTTPConnection(*server.address, timeout=HUNG)) as connection:
        assert [status(connection) for _ in range(3)] == [200, 200, 200]
        penstock("keys", "revoke", keys["known"].split("_")[1], folder=Path(keys["folder"]))
        eventually(lambda: status(connection) == 401)


def test_a_revoked_key_is_refused_while_others_are_served(server: Server, keys: dict[str, str]) -> None:
    assert server.post("/v1/inference", {"input": "a"}, bearer(keys["gone"])).status == 200
    penstock("keys", "revoke", keys["gone"].split("_")[1], folder=Path(keys["folder"]))
    eventually(lambda: server.post("/v1/inference", {"input": "a"}, bearer(keys["gone"])).status == 401)
    assert server.post("/v1/inference", {"input": "a"}, bearer(keys["acme"])).status == 200


def test_the_document_says_that_callers_must_say_who_they_are(server: Server) -> None:
    document = json.loads(server.get("/openapi.json").body)
    assert document["security"] == [{"bearer": []}, {"apiKey": []}]
    operations = [
        path[method]
        for path in document["paths"].values()
        for method in path.keys() & {"get", "post", "delete"}
    ]
    # A probe has no key, and nothing else is open to everybody.
    public = [operation for operation in operations if operation.get("security") == []]
    assert {each["operationId"] for each in public} == {"health", "serverLive", "serverReady"}
    assert server.get("/health").status == server.get("/v2/health/ready").status == 200
    operations = [operation for operation in operations if operation not in public]
    assert {"infer", "models"} <= {operation["operationId"] for operation in operations}
    assert all({"401", "403", "503"} <= operation["responses"].keys() for operation in operations)
    assert server.get("/v1/models").status == 401
    unauthorized = document["components"]["responses"]["Unauthorized"]
    told = {name.lower() for name in server.get("/v1/result/none").headers}
    assert {name.lower() for name in unauthorized["headers"]} <= told


def test_the_page_sends_the_key_that_is_typed_into_it_and_forgets_it_with_its_tab(
    server: Server, keys: dict[str, str]
) -> None:
    async def look() -> None:
        async with browsing(f"{server.url}/docs") as page:
            assert await page.evaluate(SEND % '""') == "401"
            assert await page.evaluate(SEND % json.dumps(keys["acme"])) == "200"
            assert await page.evaluate("sessionStorage.getItem('penstock-key')") == keys["acme"]
            assert await page.evaluate("localStorage.length + document.cookie.length") == 0

    asyncio.run(look())


def test_the_line_to_try_it_has_room_for_a_key(server: Server) -> None:
    (line,) = [line for line in server.banner if "curl" in line]
    assert "curl http" in line
    assert '-H "Authorization: Bearer $KEY" --json' in line


def test_no_secret_is_logged(server: Server, keys: dict[str, str]) -> None:
    logged = server.stderr()
    for secret in (*(keys[name].split("_")[2] for name in ("acme", "beta", "gone")), SECRET):
        assert secret not in logged


def test_a_stranger_is_refused_before_its_body_is_sent_and_one_who_is_known_is_asked_for_it(
    server: Server, keys: dict[str, str]
) -> None:
    wait = "Expect: 100-continue"
    refused = talk(server.address, post(b"", wait, "Authorization: Bearer pk_nobody", length=1000))
    assert refused.statuses == [401]
    assert b"100 Continue" not in refused.data
    assert refused.closed
    with create_connection(server.address, timeout=HUNG) as connection:
        connection.sendall(post(b"", wait, f"Authorization: Bearer {keys['acme']}", length=14))
        assert connection.recv(65536) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(b'{"input": "a"}')
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")
    nowhere = talk(
        server.address, post(b"", f"Authorization: Bearer {keys['acme']}", path="/nowhere", length=10**6)
    )
    assert nowhere.statuses == [404]
